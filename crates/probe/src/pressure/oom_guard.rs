//! A process that keeps a group of version 1 from the OOM killer while swap has room.
//!
//! A machine has kswapd, which reclaims before memory is full; a group has not. Its members reclaim for themselves, and
//! where all pages are used again between two looks of the kernel, as the competitor's are, it gives up although there
//! is swap (seen on Linux 6.18 within seconds). So the OOM killer is switched off in the group: who finds no memory
//! sleeps, and this process raises the limit by [`STEP_BYTES`] for a moment, which wakes it, and takes it back, which
//! reclaims; the competitor is stopped for that long. Where that does not help, memory and swap are full indeed, and
//! the OOM killer gets its way.
//!
//! Source: sections 3 and 10 of `Documentation/admin-guide/cgroup-v1/memory.rst`; `mem_cgroup_resize_max` in
//! mm/memcontrol-v1.c.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::kills::OomScoreAdj;
use oscope_sys::affinity;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::meminfo_field;
use oscope_sys::shared_memory::Shared;
use oscope_sys::worker::Child;

/// How much more a group may have for a moment.
const STEP_BYTES: u64 = 2 << 20;
/// How long the step may fail to be taken back before memory is held to be full: members that reclaim for themselves
/// can be in its way for a second.
const LONGEST: Duration = Duration::from_secs(10);
/// The same, where swap is full.
const LONGEST_WITHOUT_SWAP: Duration = Duration::from_millis(500);
/// How long a step lasts.
const PAUSE: Duration = Duration::from_millis(2);
/// Milliseconds after which it is looked at unasked whether somebody sleeps: of several that go to sleep at once, the
/// kernel reports one.
const LOOK_MS: u16 = 100;

/// The process. It ends with this one, or when dropped, and is reaped.
#[derive(Debug)]
pub struct OomGuard {
    child: Child,
    limits: Limits,
    /// Why the kernel may kill it for want of memory of the whole machine, if it may.
    exposed: Option<String>,
}

impl OomGuard {
    /// Start a process on `cpus` that keeps the group at `path`, whose limit is `limit` bytes, from need. Until
    /// [`OomGuard::arm`] it has nothing to do.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel reports nothing of want of memory, or no child can be made.
    pub fn fork(path: &Path, limit: u64, cpus: &[usize]) -> Result<Self, Failure> {
        let limits = Limits {
            control: path.join("memory.oom_control"),
            limit: path.join("memory.limit_in_bytes"),
            members: path.join("cgroup.procs"),
            bytes: limit,
            competitor: Shared::zeroed()?,
        };
        let event = limits.watch(path).map_err(|error| {
            Failure::unavailable_system(
                &format!("{} does not report a lack of memory", path.display()),
                error,
                "run as root, on a kernel with CONFIG_MEMCG_V1",
            )
        })?;
        let child = Child::fork(|| {
            // It ends where it can no longer relieve: nobody may be left asleep.
            let _ = limits.keep(event);
            let _ = limits.let_kill();
        })?;
        affinity::place(child.process(), cpus)?;
        // Of its group's it is none. That it has ended is noticed in any case.
        let exposed = OomScoreAdj::Never.mark(child.process()).err();
        Ok(Self {
            child,
            limits,
            exposed: exposed.map(|failure| {
                format!("pressure: the kernel may kill what raises the limit, if the whole machine runs out of \
                    memory: {failure}")
            }),
        })
    }

    /// Notes for the record: what it did.
    pub fn note(&self) -> Option<&String> {
        self.exposed.as_ref()
    }

    /// Switch the OOM killer off, with the limit as it was at first: it is on again, and the limit a step too high,
    /// after memory and swap were full.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn arm(&self) -> Result<(), Failure> {
        let Limits {
            control,
            limit,
            bytes,
            ..
        } = &self.limits;
        let write = |path: &Path, text: &str| {
            fs::write(path, text).map_err(|error| {
                Failure::system(&format!("writing {text} to {}", path.display()), error)
            })
        };
        write(limit, &bytes.to_string())?;
        write(control, "1")
    }

    /// Have this member stopped while memory is taken back.
    pub fn stop_at_times(&self, competitor: Pid) {
        let number = competitor.as_raw();
        self.limits.competitor.store(number, Ordering::Relaxed);
    }

    /// Its number.
    pub fn process(&self) -> Pid {
        self.child.process()
    }
}

/// The files of a group that report its lack of memory, and relieve it.
#[derive(Debug)]
struct Limits {
    /// Shows whether a process sleeps, and switches the OOM killer off (1) or on (0).
    control: PathBuf,
    limit: PathBuf,
    members: PathBuf,
    bytes: u64,
    /// The competitor's number, 0 before there was one.
    competitor: Shared<AtomicI32>,
}

impl Limits {
    /// An eventfd(2) that the kernel signals when a process goes to sleep in the group at `path`.
    fn watch(&self, path: &Path) -> io::Result<File> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?;
        let event = File::from(OwnedFd::from(event));
        let control = File::open(&self.control)?;
        let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
        fs::write(path.join("cgroup.event_control"), line)?;
        Ok(event)
    }

    /// Wait for want of memory and relieve it; where that is in vain, let the kernel kill.
    fn keep(&self, mut event: File) -> io::Result<()> {
        loop {
            let polled = poll(
                &mut [PollFd::new(event.as_fd(), PollFlags::POLLIN)],
                PollTimeout::from(LOOK_MS),
            );
            match polled {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => event.read_exact(&mut [0; size_of::<u64>()])?,
                Err(error) => return Err(error.into()),
            }
            if self.somebody_sleeps()? && self.relieve().is_err() {
                self.let_kill()?;
            }
        }
    }

    fn somebody_sleeps(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.control)?.contains("under_oom 1"))
    }

    fn let_kill(&self) -> io::Result<()> {
        fs::write(&self.control, "0")
    }

    /// Go on until nobody sleeps and the limit is as it was.
    fn relieve(&self) -> io::Result<()> {
        let mut succeeded = Instant::now();
        loop {
            fs::write(&self.limit, (self.bytes + STEP_BYTES).to_string())?;
            // Who was woken has to get a CPU, and its page.
            std::thread::sleep(PAUSE);
            if self.take_back()?.is_ok() {
                if !self.somebody_sleeps()? {
                    return Ok(());
                }
                succeeded = Instant::now();
            }
            let patience = match swap_is_full()? {
                true => LONGEST_WITHOUT_SWAP,
                false => LONGEST,
            };
            if succeeded.elapsed() >= patience {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
    }

    /// Set the limit as it was, which reclaims, while the competitor stands still. The inner error: the kernel finds
    /// too little to reclaim.
    fn take_back(&self) -> io::Result<io::Result<()>> {
        let number = self.competitor.load(Ordering::Relaxed);
        // A member of the group is no stranger that was given the number of one that ended.
        let members = fs::read_to_string(&self.members)?;
        let stopped = members
            .lines()
            .any(|member| member == number.to_string())
            .then(|| Pid::from_raw(number));
        stopped.map_or(Ok(()), |process| kill(process, Signal::SIGSTOP))?;
        let answer = fs::write(&self.limit, self.bytes.to_string());
        stopped.map_or(Ok(()), |process| kill(process, Signal::SIGCONT))?;
        Ok(answer)
    }
}

fn swap_is_full() -> io::Result<bool> {
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let free = meminfo_field(&meminfo, "SwapFree").unwrap_or(0);
    Ok(free < STEP_BYTES)
}
