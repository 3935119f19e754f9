//! A process that cleans up after its parent, however that ends.

use nix::unistd::{Pid, setpgid};

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
    /// sees its end. It is a process group of its own, so that a kill of the parent's leaves it; other signals do to it
    /// what they do to the parent.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a limit forbids one more process; `Failure::Failed` where no pipe can be made.
    pub fn fork(clean_up: impl FnOnce()) -> Result<Self, Failure> {
        let (end, life) = notify_pipe()?;
        let mut life = Some(life);
        let child = Child::fork_independent(|| {
            // Also here: the parent may be killed before it does it.
            let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
            drop(life.take());
            for standard in 0..=2 {
                // SAFETY: nothing in this process uses them any more.
                unsafe { libc::close(standard) };
            }
            if end.wait() == Notice::Closed {
                clean_up();
            }
        })?;
        // At worst it has ended already.
        let _ = setpgid(child.process(), child.process());
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::pause;

    use super::*;
    use crate::testing::pipe;

    #[test]
    fn it_cleans_up_also_where_the_group_of_its_parent_is_killed() {
        let (mut seen, into) = pipe();
        let parent = Child::fork(|| {
            setpgid(Pid::from_raw(0), Pid::from_raw(0)).expect("a group of its own");
            let write = |text: &[u8]| (&into).write_all(text).expect("somebody reads");
            let _cleanup = CleanupProcess::fork(|| write(b"cleaned")).expect("a process");
            write(b"ready");
            loop {
                pause();
            }
        })
        .expect("a process");
        drop(into);
        let mut text = [0; 12];
        seen.read_exact(&mut text[..5]).expect("it is ready");
        killpg(parent.process(), Signal::SIGKILL).expect("it lives");
        seen.read_exact(&mut text[5..]).expect("it is cleaned up");
        assert_eq!(&text, b"readycleaned");
    }
}
