//! Measuring in a process made for one repetition: its page tables, its caches of memory and its counts begin anew, and
//! end with it.
//!
//! The child measures with its own copy of the region, so that marks, clock and work are of one process, and hands over
//! what it found by shared memory. The parent sleeps meanwhile; on the same CPU it is awake ten times a second for some
//! microseconds.

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use crate::region::Region;
use oscope_sys::error::Failure;
use oscope_sys::serialized_error::SerializedError;
use oscope_sys::worker::{self, Answer, Child};

/// Do `work` in a forked process that measures with its own copy of `region`, and take over what it measured. What
/// `work` changes in memory is the child's own. The calling process has one thread. Meanwhile the parent asks `watch`
/// now and then whether going on has a meaning.
///
/// # Errors
/// What `work` or `watch` gave; `Failure::Unavailable` where no process can be made; `Failure::Failed` that says how
/// the child died, or after a signal, with which the child ends at once.
pub fn in_fresh_process<T: Copy + Send + 'static>(
    region: &mut Region,
    watch: impl FnMut() -> Result<(), Failure>,
    work: impl FnOnce(&mut Region) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let answer = Answer::new()?;
    let mut child = Child::fork(|| {
        let given = work(region).map_err(|failure| SerializedError::of(&failure));
        answer.put((region.measured(), given));
    })?;
    let (measured, given) = answer.wait(&mut child, watch, describe_exit)?;
    region.take_over(measured);
    given.map_err(|error| error.failure())
}

/// How a measured process died, in words.
pub fn describe_exit(status: WaitStatus) -> String {
    match status {
        WaitStatus::Signaled(_, Signal::SIGKILL, _) => {
            "the measured process was killed by SIGKILL: by the kernel for want of memory (see dmesg), or by \
             somebody; ask for less memory, or give more"
                .to_owned()
        }
        WaitStatus::Signaled(_, Signal::SIGBUS, _) => {
            "the measured process was killed by SIGBUS: a page of the mapped file could not be had; look for room on \
             its file system and for errors in dmesg"
                .to_owned()
        }
        other => format!(
            "{}, before it had answered",
            worker::describe_exit("the measured process", other)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nix::sys::signal::kill;
    use nix::unistd::getpid;

    use super::*;
    use crate::clock::{Clock, RequestedClock};
    use oscope_sys::serialized_error::LONGEST_TEXT;

    fn unwatched() -> Result<(), Failure> {
        Ok(())
    }

    fn with(act: impl FnOnce(&mut Region)) {
        let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
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
                    errno: None,
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
