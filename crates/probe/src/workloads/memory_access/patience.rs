//! Calls that the kernel may refuse for a moment, while memory is full.
//!
//! In a group without OOM killer only a page fault in user mode waits for memory (`mem_cgroup_oom`, mm/memcontrol-v1.c). A system call that needs some, or
//! that copies to or from a page that is swapped out, gives up: with ENOMEM or EFAULT, and madvise(2) with EAGAIN.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use oscope_sys::error::Failure;

/// How often a call is tried, and the time between two tries.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Do what may fail while memory is full: try again for a second.
///
/// # Errors
/// That of the last try if it failed; at once where this machine cannot.
pub fn patiently<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 1..TRIES {
        match call() {
            Err(Failure::Failed { .. }) => sleep(PAUSE),
            other => return other,
        }
    }
    call().map_err(|failure| match failure {
        Failure::Failed { message } => Failure::failed(format!(
            "{message}, also after {TRIES} tries: under pressure the kernel finds no memory for it; give more limit or swap_size"
        )),
        other => other,
    })
}

/// Whether the kernel found no memory for a call.
pub fn is_want_of_memory(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOMEM | libc::EFAULT | libc::EAGAIN)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_and_what_cannot_be_is_not() {
        let mut tries = 0;
        let answer = patiently(|| {
            tries += 1;
            match tries {
                3 => Ok(tries),
                _ => Err(Failure::failed("no memory")),
            }
        });
        assert_eq!(answer, Ok(3));
        let mut tries = 0;
        let answer = patiently::<()>(|| {
            tries += 1;
            Err(Failure::unavailable("there is none", "get one"))
        });
        assert!(matches!(answer, Err(Failure::Unavailable { .. })) && tries == 1);
        let answer = patiently::<()>(|| Err(Failure::failed("no memory")));
        assert!(
            answer
                .expect_err("it never works")
                .to_string()
                .contains("pressure")
        );
    }
}
