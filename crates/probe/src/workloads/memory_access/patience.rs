//! Calls that the kernel may refuse for a moment, while memory is full.
//!
//! In a group without OOM killer only a page fault in user mode waits for memory (`mem_cgroup_oom`,
//! mm/memcontrol-v1.c). A system call that needs some, or that copies to or from a page that is swapped out, gives up:
//! with ENOMEM or EFAULT, and madvise(2) with EAGAIN.

use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;

use oscope_sys::error::Failure;

/// How often a call is tried, and the time between two tries.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Do what may fail while memory is full: try again for a second, if that is why it failed.
///
/// # Errors
/// `Failure::Failed` with `ENOMEM`, `EFAULT` or `EAGAIN` of the last try where memory stayed full; any other failure of
/// `call` at once.
pub fn retry<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 1..TRIES {
        match call() {
            Err(failure) if is_want_of_memory(&failure) => sleep(PAUSE),
            other => return other,
        }
    }
    call().map_err(|failure| match is_want_of_memory(&failure) {
        true => failure.followed_by(&format!(
            ", also after {TRIES} tries: under pressure the kernel finds no memory for it; give more limit or swap_size"
        )),
        false => failure,
    })
}

/// Whether the kernel found no memory for a call that may succeed later; what this machine cannot do stays so.
pub fn is_want_of_memory(failure: &Failure) -> bool {
    let Failure::Failed { errno, .. } = failure else {
        return false;
    };
    matches!(errno, Some(Errno::ENOMEM | Errno::EFAULT | Errno::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_memory_is_tried_again_and_what_cannot_be_is_not() {
        let mut tries = 0;
        let answer = retry(|| {
            tries += 1;
            match tries {
                3 => Ok(tries),
                _ => Err(Failure::system("a call", Errno::EAGAIN)),
            }
        });
        assert_eq!(answer, Ok(3));
        let mut tries = 0;
        let answer = retry::<()>(|| {
            tries += 1;
            Err(Failure::unavailable("there is none", "get one").because_of(Errno::ENOMEM))
        });
        assert!(matches!(answer, Err(Failure::Unavailable { .. })) && tries == 1);
        let answer = retry::<()>(|| Err(Failure::system("a call", Errno::ENOMEM)));
        assert!(
            answer
                .expect_err("it never works")
                .to_string()
                .contains("pressure")
        );
    }
    #[test]
    fn what_fails_for_another_reason_is_not_tried_again() {
        for failure in [
            Failure::system("a call", Errno::EINVAL),
            Failure::failed("out of memory"),
        ] {
            let mut tries = 0;
            let answer = retry::<()>(|| {
                tries += 1;
                Err(failure.clone())
            });
            assert_eq!((answer, tries), (Err(failure), 1));
        }
    }
}
