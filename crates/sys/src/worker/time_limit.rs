//! A limit on the time of a wait: SIGALRM breaks it.

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal};

use crate::cancel;
use crate::error::Failure;

/// Time from one signal to the next once the time is over: one that comes before the wait has begun breaks no wait.
const AGAIN: Duration = Duration::from_millis(100);

static PASSED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    PASSED.store(true, Ordering::Relaxed);
}

/// A limit under way; dropping it lifts it. A process has one at a time.
#[derive(Debug)]
pub struct TimeLimit;

impl TimeLimit {
    /// How often a wait is broken in this time, once the limit has passed.
    pub const fn signals_in(time: Duration) -> u128 {
        time.as_millis() / AGAIN.as_millis()
    }

    /// Takes SIGALRM, without which a limit would end this process.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel refuses the handler.
    pub fn prepare() -> Result<(), Failure> {
        cancel::handle(Signal::SIGALRM, SigHandler::Handler(note))
    }

    /// Starts a limit: from then on, waits are broken again and again (`EINTR`).
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel refuses the timer.
    #[inline(always)]
    pub fn start(limit: Duration) -> Result<Self, Failure> {
        PASSED.store(false, Ordering::Relaxed);
        set(AGAIN, limit)
            .map(|()| Self)
            .map_err(|error| Failure::system("setitimer", error))
    }

    /// Whether the last limit started has passed.
    pub fn passed() -> bool {
        PASSED.load(Ordering::Relaxed)
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        // It takes no time that the kernel would refuse.
        let _ = set(Duration::ZERO, Duration::ZERO);
    }
}

/// Sets the timer: the first signal after `first`, or none if that is zero.
#[inline(always)]
fn set(again: Duration, first: Duration) -> io::Result<()> {
    let timer = libc::itimerval {
        it_interval: timeval(again),
        it_value: timeval(first),
    };
    // SAFETY: the value lives during the call.
    match unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn timeval(time: Duration) -> libc::timeval {
    libc::timeval {
        tv_sec: time.as_secs() as libc::time_t,
        tv_usec: time.subsec_micros().into(),
    }
}
