//! Measuring in a process made for one repetition: its page tables, its caches of memory and its counts begin anew, and end with it.
//!
//! The child measures with its own copy of the region, so that marks, clock and work are of one process, and hands over what it found
//! by shared memory. The parent sleeps meanwhile; on the same CPU it is awake ten times a second for some microseconds.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use crate::region::{Measured, Region};
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::futex;
use oscope_sys::process::{self, Child};
use oscope_sys::shared_memory::Shared;

/// Time after which the parent looks again whether the child lives, or a signal came between its last look and its sleep.
pub const NAP: Duration = Duration::from_millis(100);
/// Most bytes of a text that a child hands over.
const LONGEST_TEXT: usize = 1000;

/// Where the child leaves what it found.
struct SharedSlot<T> {
    /// 0 until the answer is there.
    done: AtomicU32,
    answer: UnsafeCell<MaybeUninit<(Measured, Result<T, SerializedError>)>>,
}

// SAFETY: the child touches the answer before `done`, the parent after it; that is handed over by Release and Acquire.
unsafe impl<T: Send> Sync for SharedSlot<T> {}

/// A failure without pointers into the memory of one process.
#[derive(Clone, Copy)]
pub struct SerializedError {
    kind: Kind,
    errno: Option<Errno>,
    /// The field of a request, the remedy of what is unavailable.
    aside: Option<Text>,
    message: Text,
}

#[derive(Clone, Copy)]
enum Kind {
    Unavailable,
    Failed,
    Request,
}

/// A text without pointers into the memory of one process; cut at 1000 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    bytes: [u8; LONGEST_TEXT],
    length: usize,
}

impl Text {
    /// What is kept of a text.
    pub fn of(text: &str) -> Self {
        let length = text.floor_char_boundary_at(LONGEST_TEXT);
        let mut bytes = [0; LONGEST_TEXT];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { bytes, length }
    }

    /// The text again.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.length]).into_owned()
    }
}

/// `str::floor_char_boundary`, which is not stable yet.
trait Boundary {
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        (0..=most.min(self.len()))
            .rev()
            .find(|&place| self.is_char_boundary(place))
            .unwrap_or(0)
    }
}

impl SerializedError {
    /// Of a failure; texts are cut at 1000 bytes.
    pub fn of(failure: &Failure) -> Self {
        let (kind, aside, message) = match failure {
            Failure::Unavailable { message, remedy } => {
                (Kind::Unavailable, remedy.as_ref(), message)
            }
            Failure::Failed { message, .. } => (Kind::Failed, None, message),
            Failure::Request { field, message } => (Kind::Request, Some(field), message),
        };
        Self {
            kind,
            errno: failure.errno(),
            aside: aside.map(|text| Text::of(text)),
            message: Text::of(message),
        }
    }

    /// The failure again.
    pub fn failure(&self) -> Failure {
        let message = self.message.text();
        let aside = self.aside.map(|text| text.text());
        match self.kind {
            Kind::Unavailable => Failure::Unavailable {
                message,
                remedy: aside,
            },
            Kind::Failed => Failure::Failed {
                message,
                errno: self.errno,
            },
            Kind::Request => Failure::Request {
                field: aside.unwrap_or_default(),
                message,
            },
        }
    }
}

/// Do `work` in a forked process that measures with its own copy of `region`, and take over what it measured. What `work` changes in memory
/// is the child's own. The calling process has one thread. Meanwhile the parent asks `watch` now and then whether going on has a meaning.
///
/// # Errors
/// What `work` or `watch` gave; `Failure::Unavailable` where no process can be made; `Failure::Failed` that says how the child died, or after a
/// signal, with which the child ends at once.
pub fn in_fresh_process<T: Copy + Send + 'static>(
    region: &mut Region,
    watch: impl FnMut() -> Result<(), Failure>,
    work: impl FnOnce(&mut Region) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: an atomic may be 0, and memory that may be uninitialised may be zeros.
    let board: Shared<SharedSlot<T>> = unsafe { Shared::zeroed() }?;
    let mut child = Child::fork(|| {
        let given = work(region).map_err(|failure| SerializedError::of(&failure));
        // SAFETY: the parent leaves the answer alone until the child has ended it.
        unsafe { (*board.answer.get()).write((region.measured(), given)) };
        board.done.store(1, Ordering::Release);
        futex::wake(&board.done);
    })?;
    wait_for(&mut child, &board.done, watch)?;
    // SAFETY: the child has written the answer, and does not touch it again.
    let (measured, given) = unsafe { (*board.answer.get()).assume_init() };
    region.take_over(measured);
    given.map_err(|error| error.failure())
}

/// Sleep until the child has answered.
fn wait_for(
    child: &mut Child,
    done: &AtomicU32,
    mut watch: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        // Looked at before the answer: a child that ended has answered before, or never will.
        let ended = child.ended()?;
        if done.load(Ordering::Acquire) == 1 {
            return Ok(());
        }
        if cancel::requested() {
            return Err(Failure::failed("interrupted by a signal"));
        }
        if let Some(status) = ended {
            return Err(Failure::failed(describe_exit(status)));
        }
        watch()?;
        let _ = futex::wait(done, 0, NAP);
    }
}

/// How a measured process died, in words.
pub fn describe_exit(status: WaitStatus) -> String {
    match status {
        WaitStatus::Signaled(_, Signal::SIGKILL, _) => {
            "the measured process was killed by SIGKILL: by the kernel for want of memory (see dmesg), or by somebody; ask for less memory, or give more"
                .to_owned()
        }
        WaitStatus::Signaled(_, Signal::SIGBUS, _) => {
            "the measured process was killed by SIGBUS: a page of the mapped file could not be had; look for room on its file system and for errors in dmesg"
                .to_owned()
        }
        other => format!(
            "{}, before it had answered",
            process::describe_exit("the measured process", other)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nix::sys::signal::kill;
    use nix::unistd::getpid;

    use super::*;
    use crate::clock::{Clock, Wanted};

    fn unwatched() -> Result<(), Failure> {
        Ok(())
    }

    fn with(act: impl FnOnce(&mut Region)) {
        let clock = Clock::open(Wanted::Monotonic).expect("there is a clock");
        act(&mut Region::new(&clock));
    }

    fn ends(process: i32) -> bool {
        !Path::new(&format!("/proc/{process}")).exists()
    }

    #[test]
    fn the_child_measures_and_is_gone_afterwards() {
        with(|region| {
            let own = getpid().as_raw();
            let mut changed = 1;
            let (process, answer) = in_fresh_process(region, unwatched, |region| {
                region.measure(|| changed += 1);
                Ok((getpid().as_raw(), changed))
            })
            .expect("it works");
            assert_ne!(process, own);
            assert!(ends(process), "it was not reaped");
            assert_eq!((answer, changed), (2, 1), "memory is the child's own");
            assert!(region.raw().is_ok(), "the readings are taken over");
        });
    }

    #[test]
    fn what_was_not_measured_once_is_no_measurement_here_either() {
        with(|region| {
            in_fresh_process(region, unwatched, |_| Ok(())).expect("it works");
            assert!(region.raw().is_err());
        });
        with(|region| {
            let twice = in_fresh_process(region, unwatched, |region| {
                region.measure(|| ());
                region.measure(|| ());
                Ok(())
            });
            assert!(twice.is_ok() && region.raw().is_err());
        });
    }

    #[test]
    fn failures_come_back_as_they_were_and_long_ones_are_cut_at_a_letter() {
        with(|region| {
            for failure in [
                Failure::failed("it broke"),
                Failure::unavailable("there is none", "get one"),
                Failure::Unavailable {
                    message: "there is none".to_owned(),
                    remedy: None,
                },
                Failure::request("size", "must be more"),
            ] {
                let answer = in_fresh_process::<u8>(region, unwatched, |_| Err(failure.clone()));
                assert_eq!(answer, Err(failure));
            }
            let long = "ä".repeat(LONGEST_TEXT);
            let answer = in_fresh_process::<u8>(region, unwatched, |_| {
                Err(Failure::failed(format!("x{long}")))
            });
            let message = answer.expect_err("it failed").to_string();
            assert!(message.len() == LONGEST_TEXT - 1 && message.ends_with('ä'));
        });
    }

    #[test]
    fn how_a_child_died_is_reported() {
        for (signal, word) in [
            (Signal::SIGKILL, "want of memory"),
            (Signal::SIGBUS, "mapped file"),
            (Signal::SIGSEGV, "SIGSEGV"),
        ] {
            with(|region| {
                let answer = in_fresh_process::<u8>(region, unwatched, |_| {
                    // The handler of the test program would be of no use to the child.
                    // SAFETY: the default action needs no function.
                    unsafe { libc::signal(signal as libc::c_int, libc::SIG_DFL) };
                    kill(getpid(), signal).expect("it lives");
                    Ok(1)
                });
                let message = answer.expect_err("it died").to_string();
                assert!(message.contains(word), "{message}");
            });
        }
        with(|region| {
            let answer = in_fresh_process::<u8>(region, unwatched, |_| {
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(3) }
            });
            assert!(
                answer
                    .expect_err("it ended")
                    .to_string()
                    .contains("status 3")
            );
        });
    }

    #[test]
    fn a_child_is_given_up_where_the_watch_says_so() {
        with(|region| {
            let mut looks = 0;
            let watch = || {
                looks += 1;
                match looks {
                    1 => Ok(()),
                    _ => Err(Failure::failed("it has no meaning")),
                }
            };
            let answer = in_fresh_process::<u8>(region, watch, |_| {
                loop {
                    nix::unistd::pause();
                }
            });
            assert_eq!(answer, Err(Failure::failed("it has no meaning")));
        });
    }

    #[test]
    fn a_child_that_is_given_up_is_gone() {
        let child = Child::fork(|| {
            loop {
                nix::unistd::pause();
            }
        })
        .expect("a process can be made");
        let process = child.process();
        drop(child);
        assert!(ends(process.as_raw()));
    }
}
