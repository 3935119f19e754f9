//! A process that keeps a group of version 1 from the OOM killer while swap has room.
//!
//! A machine has kswapd, which reclaims before memory is full; a group has not. Its members reclaim for themselves, and where all pages were used a moment
//! ago, as the competitor's were, the kernel gives up although there is swap (seen on Linux 6.18 within seconds). So the OOM killer is switched off in the group:
//! who finds no memory sleeps, and this process raises the limit by [`STEP_BYTES`] for a moment, which wakes it, and takes it back, which reclaims.
//! Where that does not help, memory and swap are full indeed, and the OOM killer gets its way.
//!
//! Source: sections 3 and 10 of `Documentation/admin-guide/cgroup-v1/memory.rst`; `mem_cgroup_resize_max` in mm/memcontrol-v1.c.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Failure, words};
use crate::workloads::ipc::being::{depend_on, reap, refused};

/// How much more a group may have for a moment.
const STEP_BYTES: u64 = 2 << 20;
/// Failures running to take the step back before memory is held to be full.
const TRIES: u32 = 200;
/// How long a step lasts.
const PAUSE: Duration = Duration::from_millis(2);

/// The process. It ends with this one, or when dropped, and is reaped.
#[derive(Debug)]
pub struct Keeper(Pid);

impl Keeper {
    /// Switch the OOM killer off in the group at `path`, whose limit is `limit` bytes, and keep it from need.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel tells nothing of want of memory, or no child can be made.
    pub fn fork(path: &Path, limit: u64) -> Result<Self, Failure> {
        let watch = Watch::open(path, limit).map_err(|error| {
            Failure::unavailable(
                format!(
                    "{} does not tell want of memory: {}",
                    path.display(),
                    words(&error)
                ),
                "run as root, on a kernel with CONFIG_MEMCG_V1",
            )
        })?;
        let parent = nix::unistd::getpid();
        // SAFETY: the child has one thread, and ends by a signal or `_exit`.
        let process = match unsafe { libc::fork() } {
            0 => {
                if depend_on(parent).is_ok() {
                    let _ = watch.keep();
                }
                // SAFETY: it ends this process, which must not unwind into the copy of its parent's frames.
                unsafe { libc::_exit(1) }
            }
            number @ 1.. => Pid::from_raw(number),
            _ => return Err(refused("process", &io::Error::last_os_error())),
        };
        let keeper = Self(process);
        // Only now, that somebody wakes those who sleep.
        fs::write(path.join(CONTROL), "1")
            .map_err(|error| Failure::failed(format!("{CONTROL}: {}", words(&error))))?;
        Ok(keeper)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It has not been reaped, so its number is not another's.
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = reap(self.0);
    }
}

/// Tells whether somebody sleeps, and switches the OOM killer off (1) or on (0).
const CONTROL: &str = "memory.oom_control";

/// What is told of a group's want of memory.
struct Watch {
    event: File,
    control: PathBuf,
    limit: PathBuf,
    bytes: u64,
}

impl Watch {
    fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        // SAFETY: the call takes two numbers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else has it.
        let event = unsafe { File::from_raw_fd(event) };
        let control = path.join(CONTROL);
        let told = File::open(&control)?;
        let line = format!("{} {}", event.as_raw_fd(), told.as_raw_fd());
        fs::write(path.join("cgroup.event_control"), line)?;
        Ok(Self {
            event,
            control,
            limit: path.join("memory.limit_in_bytes"),
            bytes,
        })
    }

    /// Wait for want of memory and relieve it, until that is in vain.
    fn keep(mut self) -> io::Result<()> {
        loop {
            self.event.read_exact(&mut [0; size_of::<u64>()])?;
            if self.relieve().is_err() {
                fs::write(&self.control, "0")?;
            }
        }
    }

    /// Go on until nobody sleeps and the limit is as it was.
    fn relieve(&self) -> io::Result<()> {
        let mut in_vain = 0;
        while in_vain < TRIES {
            fs::write(&self.limit, (self.bytes + STEP_BYTES).to_string())?;
            // Who was woken has to get a CPU, and its page.
            std::thread::sleep(PAUSE);
            in_vain = match fs::write(&self.limit, self.bytes.to_string()) {
                Ok(()) if !fs::read_to_string(&self.control)?.contains("under_oom 1") => {
                    return Ok(());
                }
                Ok(()) => 0,
                Err(_) => in_vain + 1,
            };
        }
        Err(io::ErrorKind::OutOfMemory.into())
    }
}
