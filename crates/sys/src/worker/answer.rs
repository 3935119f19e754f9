//! One answer of a forked child, by memory that it shares with its parent.

use std::sync::atomic::Ordering;

use nix::sys::wait::WaitStatus;

use super::POLL_INTERVAL;
use super::child::Child;
use super::slot::{FULL, Slot};
use crate::cancel;
use crate::error::Failure;
use crate::futex;
use crate::shared_memory::Shared;

/// Where a child leaves what it found. To be made before the fork.
pub struct Answer<T>(Shared<Slot<T>>);

impl<T: Copy + Send> Answer<T> {
    /// A place without an answer.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn new() -> Result<Self, Failure> {
        Shared::zeroed().map(Self)
    }

    /// In the child: leave the answer, and wake the parent. Only the first one counts.
    pub fn put(&self, answer: T) {
        self.0.put(answer);
        self.0.wake();
    }

    /// The answer, if it is there.
    pub fn get(&self) -> Option<T> {
        self.0.get()
    }

    /// Sleep until `child` has answered; `watch` is asked now and then whether going on has a meaning, and `describe`
    /// how a child died.
    ///
    /// # Errors
    /// What `watch` gave; `Failure::Failed` with what `describe` says if the child ended without an answer, or after a
    /// signal.
    pub fn wait(
        &self,
        child: &mut Child,
        mut watch: impl FnMut() -> Result<(), Failure>,
        describe: impl Fn(WaitStatus) -> String,
    ) -> Result<T, Failure> {
        loop {
            // Looked at before the answer: a child that ended has answered before, or never will.
            let ended = child.ended()?;
            if let Some(answer) = self.get() {
                return Ok(answer);
            }
            if cancel::requested() {
                return Err(Failure::failed("interrupted by a signal"));
            }
            if let Some(status) = ended {
                return Err(Failure::failed(describe(status)));
            }
            watch()?;
            match self.0.state().load(Ordering::Acquire) {
                FULL => {}
                other => drop(futex::wait(self.0.state(), other, POLL_INTERVAL)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: WaitStatus) -> String {
        format!("{status:?}")
    }

    #[test]
    fn the_first_answer_of_a_child_comes_to_its_parent() {
        let answer = Answer::new().expect("a page of memory");
        let mut child = Child::fork(|| {
            answer.put([7_u64; 100]);
            answer.put([8; 100]);
        })
        .expect("a process");
        assert_eq!(answer.wait(&mut child, || Ok(()), ended), Ok([7; 100]));
        assert_eq!(answer.get(), Some([7; 100]));
    }

    #[test]
    fn a_child_that_ends_without_an_answer_is_no_wait_for_ever() {
        let answer = Answer::<u64>::new().expect("a page of memory");
        let mut child = Child::fork(|| ()).expect("a process");
        let failure = answer.wait(&mut child, || Ok(()), ended);
        let failure = failure.expect_err("there is no answer").to_string();
        assert!(failure.starts_with("Exited("), "{failure}");
    }

    #[test]
    fn who_watches_ends_the_wait() {
        let answer = Answer::<u64>::new().expect("a page of memory");
        let mut child = Child::fork(|| {
            loop {
                std::thread::sleep(POLL_INTERVAL);
            }
        })
        .expect("a process");
        let refused = || Err(Failure::failed("no more"));
        assert_eq!(
            answer.wait(&mut child, refused, ended),
            Err(Failure::failed("no more"))
        );
    }
}
