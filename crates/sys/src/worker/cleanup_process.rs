//! A process that cleans up after its parent, however that ends.

use super::child::Child;
use super::notify::{Notice, Notifier, notify_pipe};
use crate::error::Failure;

/// A child that does its work once its parent has died. Dropping the value has it go without.
#[derive(Debug)]
pub struct CleanupProcess {
    child: Child,
    life: Notifier,
}

impl CleanupProcess {
    /// Forks a process that waits for the end of this one, and then does `clean_up`, by async-signal-safe calls only
    /// (signal-safety(7)) where this process has several threads. It has no standard streams: who reads from the parent
    /// sees its end. Signals do to it what they do to the parent.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a limit forbids one more process; `Failure::Failed` where no pipe can be made.
    pub fn fork(clean_up: impl FnOnce()) -> Result<Self, Failure> {
        let (end, life) = notify_pipe()?;
        let mut life = Some(life);
        let child = Child::fork_independent(|| {
            drop(life.take());
            for standard in 0..=2 {
                // SAFETY: nothing in this process uses them any more.
                unsafe { libc::close(standard) };
            }
            if end.wait() == Notice::Closed {
                clean_up();
            }
        })?;
        let life = life.ok_or_else(|| Failure::failed("the pipe was closed by the parent"))?;
        Ok(Self { child, life })
    }

    /// The number of the process.
    pub fn process(&self) -> nix::unistd::Pid {
        self.child.process()
    }
}

impl Drop for CleanupProcess {
    fn drop(&mut self) {
        // One that was killed cannot be asked, and has ended.
        let _ = self.life.notify();
        // Not killed in the midst of it: it may be cleaning up for another reason than the parent's end.
        let _ = self.child.wait();
    }
}
