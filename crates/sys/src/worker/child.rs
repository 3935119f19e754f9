//! A forked process: how it lives and ends, and how that is noticed.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

use super::refused;
use crate::cancel;
use crate::diagnostics;
use crate::error::Failure;

/// A forked process. Dropping it kills it, if it still lives, and reaps it.
#[derive(Debug)]
pub struct Child {
    process: Pid,
    /// How it ended, once that is known: it is reaped then.
    ended: Option<WaitStatus>,
}

impl Child {
    /// Fork a child that lives `life`, ends with the thread that made it, and leaves without running what this process
    /// would run at its end. The calling process has one thread.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a limit forbids one more process.
    pub fn fork(life: impl FnOnce()) -> Result<Self, Failure> {
        let parent = getpid();
        Self::fork_independent(|| {
            if depend_on(parent).is_ok() {
                life();
            }
        })
    }

    /// As [`Child::fork`], but the child lives on when this thread ends, and keeps the handlers of signals.
    pub(super) fn fork_independent(life: impl FnOnce()) -> Result<Self, Failure> {
        // Ignored, as it may have been inherited, it would have the kernel reap the child unseen (waitpid(2)).
        cancel::handle(Signal::SIGCHLD, SigHandler::SigDfl)?;
        // SAFETY: the probe has one thread when it forks. The C library keeps the child's memory allocator whole in any
        // case; the child uses nothing else that another thread could hold, and leaves by `_exit`.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => Ok(Self {
                process: child,
                ended: None,
            }),
            Ok(ForkResult::Child) => {
                let lived = catch_unwind(AssertUnwindSafe(life));
                // SAFETY: `_exit` ends the process at once; it runs no handler and flushes no buffer of the parent's.
                unsafe { libc::_exit(i32::from(lived.is_err())) }
            }
            Err(error) => Err(refused("process", &error.into())),
        }
    }

    /// Its number, which is no other's while this lives and it has not been found to have ended.
    pub fn process(&self) -> Pid {
        self.process
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn ended(&mut self) -> Result<Option<WaitStatus>, Failure> {
        if self.ended.is_none() {
            match waitpid(self.process, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
                Ok(status) => self.ended = Some(status),
                Err(error) => {
                    let doing = format!("waiting for the process {}", self.process);
                    return Err(Failure::system(&doing, error));
                }
            }
        }
        Ok(self.ended)
    }

    /// Waits until it has ended by itself, whatever signals come.
    pub(super) fn wait(&mut self) -> nix::Result<()> {
        if self.ended.is_none() {
            self.ended = Some(reap(self.process)?);
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        // It has not been reaped, so its number is not another's.
        let ended = kill(self.process, Signal::SIGKILL).and_then(|()| self.wait());
        if let Err(error) = ended {
            diagnostics::warn(format_args!(
                "cannot end the process {}: {error}",
                self.process
            ));
        }
    }
}

/// How a process ended, in words; `who` is what it is called.
pub fn describe_exit(who: &str, status: WaitStatus) -> String {
    match status {
        WaitStatus::Signaled(_, signal, _) => format!("{who} was killed by {signal}"),
        WaitStatus::Exited(_, code) => format!("{who} ended with status {code}"),
        other => format!("{who} ended: {other:?}"),
    }
}

/// Waits for the end of a child, whatever signals come.
fn reap(process: Pid) -> nix::Result<WaitStatus> {
    loop {
        match waitpid(process, None) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Whether a child of this process has ended. It stays to be reaped.
pub fn is_dead(process: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(
        waitid(Id::Pid(process), flags),
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
    )
}

/// In the child: end with the parent, and by every signal that would end a process; this one has nothing to clean up.
///
/// # Errors
/// `Failure::Failed` if the parent has ended already, or the kernel refuses.
fn depend_on(parent: Pid) -> Result<(), Failure> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| Failure::system("asking for a signal at the parent's end", error))?;
    for signal in cancel::SIGNALS {
        cancel::handle(signal, SigHandler::SigDfl)?;
    }
    // The parent may have ended before the signal was asked for.
    if getppid() != parent {
        return Err(Failure::failed("the parent has ended"));
    }
    Ok(())
}

/// A descriptor that becomes readable at a process's end (pidfd_open(2), Linux 5.3). The process is this one or a child
/// not waited for: the number of another may be reused before the call.
pub fn pidfd(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let descriptor = Errno::result(answer)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
