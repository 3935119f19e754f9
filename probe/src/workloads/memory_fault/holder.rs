//! A child that does nothing but hold the memory it was given by fork.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::Failure;

/// The child. It ends with this process, or when dropped, and is reaped.
#[derive(Debug)]
pub struct Holder {
    process: Pid,
    reaped: bool,
}

impl Holder {
    /// Fork. From now on a write to any private page of this process copies it.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel makes no child.
    pub fn fork() -> Result<Self, Failure> {
        let parent = std::process::id();
        // SAFETY: the child calls async-signal-safe functions only, and ends by a signal or `_exit`.
        let process = unsafe { libc::fork() };
        match process {
            0 => hold(parent),
            1.. => Ok(Self {
                process: Pid::from_raw(process),
                reaped: false,
            }),
            _ => Err(Failure::unavailable(
                format!(
                    "the kernel makes no child: {}",
                    std::io::Error::last_os_error()
                ),
                "ask for less size, raise ulimit -u or the control group's pids.max, or as root: sysctl vm.overcommit_memory=1",
            )),
        }
    }

    /// Make sure that the child still holds its memory: a page that it gave up would have been written to without being copied.
    ///
    /// # Errors
    /// `Failure::Failed` that says how it ended.
    pub fn check(&mut self) -> Result<(), Failure> {
        let status = waitpid(self.process, Some(WaitPidFlag::WNOHANG))
            .map_err(|error| Failure::system("looking after the child", error))?;
        if status == WaitStatus::StillAlive {
            return Ok(());
        }
        self.reaped = true;
        Err(Failure::failed(format!(
            "the child that held the memory ended early: {status:?}"
        )))
    }
}

#[cfg(test)]
impl Holder {
    /// The child's number.
    pub fn process(&self) -> Pid {
        self.process
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // It has not been reaped, so its number is not another's.
        let _ = kill(self.process, Signal::SIGKILL);
        while waitpid(self.process, None) == Err(Errno::EINTR) {}
    }
}

/// In the child: wait for the end.
fn hold(parent: u32) -> ! {
    // SAFETY: these calls are async-signal-safe system calls without pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have ended before it was asked for.
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
        loop {
            libc::pause();
        }
    }
}
