//! Sleeping on a word of memory until another thread or process wakes (futex(2)).

use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use nix::errno::Errno;

/// Sleep for as long as `word` holds `value`, until somebody wakes, for at most `longest`; also awakes for no reason.
///
/// # Errors
/// `EAGAIN` if the word held something else, `ETIMEDOUT`, and `EINTR` after a signal.
#[inline]
pub fn wait(word: &AtomicU32, value: u32, longest: Duration) -> Result<(), Errno> {
    let timeout = libc::timespec {
        tv_sec: longest.as_secs() as libc::time_t,
        tv_nsec: longest.subsec_nanos().into(),
    };
    // SAFETY: the word and the timeout live during the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const timeout,
            null::<u32>(),
            0,
        )
    };
    Errno::result(answer).map(drop)
}

/// Wake one who sleeps on `word`.
#[inline]
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word lives during the call. It cannot fail on a word that is mapped and aligned.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
