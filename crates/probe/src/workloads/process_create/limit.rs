//! A limit on the life of a child: SIGALRM breaks the wait for one that hangs.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::alarm;

use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// A child that lives for longer hangs.
const LONGEST_LIFE_S: u32 = 60;

static PASSED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    PASSED.store(true, Ordering::Relaxed);
}

/// Take SIGALRM, without which a limit would end this process.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses the handler.
pub fn take() -> Result<(), Failure> {
    cancel::handle(Signal::SIGALRM, SigHandler::Handler(note))
}

/// Whether the last limit started has passed.
pub fn passed() -> bool {
    PASSED.load(Ordering::Relaxed)
}

/// Forget a limit that has passed, before another is set by a timer.
pub fn forget() {
    PASSED.store(false, Ordering::Relaxed);
}

/// A limit under way; dropping it lifts it.
pub struct Limit;

impl Limit {
    /// A minute from now.
    pub fn start() -> Self {
        Self::of(LONGEST_LIFE_S)
    }

    fn of(seconds: u32) -> Self {
        forget();
        alarm::set(seconds);
        Self
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        alarm::cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::super::ways::{End, wait_for};
    use super::*;

    /// In a process of its own, since SIGALRM may come to any thread.
    #[test]
    fn a_child_that_hangs_is_ended() {
        take().expect("SIGALRM can be taken");
        // SAFETY: the child and its own child call async-signal-safe functions only, and leave by `_exit` or a signal.
        let waiter = unsafe { libc::fork() };
        if waiter == 0 {
            // SAFETY: as above.
            let hanging = unsafe { libc::fork() };
            if hanging == 0 {
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            let _limit = Limit::of(1);
            let ended = matches!(wait_for(hanging), Ok(End::Signal(libc::SIGKILL)));
            // SAFETY: ends the process without handlers.
            unsafe { libc::_exit(i32::from(!ended)) }
        }
        assert_eq!(wait_for(waiter).expect("it is a child"), End::Exit(0));
    }
}
