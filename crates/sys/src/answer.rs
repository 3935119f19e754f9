//! One answer of a forked child, by memory that it shares with its parent.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::wait::WaitStatus;

use crate::cancel;
use crate::error::Failure;
use crate::futex;
use crate::process::Child;
use crate::shared_memory::Shared;

/// Time after which the parent looks again whether the child lives, or a signal came between its last look and its sleep.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// States of a [`Slot`]; memory is all zeros at first.
const EMPTY: u32 = 0;
const WRITING: u32 = 1;
const DONE: u32 = 2;

struct Slot<T> {
    state: AtomicU32,
    answer: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: one side writes the answer before the state is DONE, and it is only read after that, which Release and Acquire hand over.
unsafe impl<T: Send> Sync for Slot<T> {}

/// Where a child leaves what it found. To be made before the fork.
pub struct Answer<T>(Shared<Slot<T>>);

impl<T: Copy + Send> Answer<T> {
    /// A place without an answer.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn new() -> Result<Self, Failure> {
        // SAFETY: an atomic may be 0, and memory that may be uninitialised may be zeros.
        unsafe { Shared::zeroed() }.map(Self)
    }

    /// In the child: leave the answer, and wake the parent. Only the first one counts.
    pub fn put(&self, answer: T) {
        let state = &self.0.state;
        let first = state.compare_exchange(EMPTY, WRITING, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err() {
            return;
        }
        // SAFETY: who changes EMPTY to WRITING is one, and nobody reads before DONE.
        unsafe { (*self.0.answer.get()).write(answer) };
        state.store(DONE, Ordering::Release);
        futex::wake(state);
    }

    /// The answer, if it is there.
    pub fn get(&self) -> Option<T> {
        let done = self.0.state.load(Ordering::Acquire) == DONE;
        // SAFETY: it is written, and will not be written again.
        done.then(|| unsafe { (*self.0.answer.get()).assume_init() })
    }

    /// Sleep until `child` has answered; `watch` is asked now and then whether going on has a meaning, and `describe` how a child died.
    ///
    /// # Errors
    /// What `watch` gave; `Failure::Failed` with what `describe` says if the child ended without an answer, or after a signal.
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
            let state = &self.0.state;
            match state.load(Ordering::Acquire) {
                DONE => {}
                other => drop(futex::wait(state, other, POLL_INTERVAL)),
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
