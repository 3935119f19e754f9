//! SIGINT, SIGTERM and SIGHUP as bytes in a pipe. The handlers, unlike blocked signals, are not inherited by ssh.

use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::pipe2;

/// Where the handler writes; below zero before `watch`.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Have each of the signals write a byte into a pipe, whose reading end is returned. To be called once, before any
/// thread is made.
pub fn watch() -> io::Result<OwnedFd> {
    let (reading, writing) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    // It stays open for the process's life: a handler may run at any time.
    PIPE.store(writing.into_raw_fd(), Ordering::SeqCst);
    let action = SigAction::new(
        SigHandler::Handler(remember),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: `remember` calls only write(2), which is async-signal-safe, and touches one atomic.
        let before = unsafe { sigaction(signal, &action) }?;
        if before.handler() == SigHandler::SigIgn {
            // As nohup wants it.
            // SAFETY: it is what was there before.
            unsafe { sigaction(signal, &before) }?;
        }
    }
    Ok(reading)
}

/// Take what was written; how many signals came since the last call.
pub fn taken(reading: &OwnedFd) -> usize {
    let mut bytes = [0; 16];
    nix::unistd::read(reading, &mut bytes).unwrap_or(0)
}

extern "C" fn remember(_signal: libc::c_int) {
    let pipe = PIPE.load(Ordering::SeqCst);
    // SAFETY: as above, and errno, which write(2) may set, is restored: the code that was interrupted may be about to
    // read it.
    unsafe {
        let errno = *libc::__errno_location();
        // A full pipe has enough bytes in it to be heard.
        libc::write(pipe, [0_u8].as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// Wait until a signal came (true), or the other end of `pipe` is closed (false).
pub fn wait(reading: &OwnedFd, pipe: Option<&OwnedFd>) -> bool {
    let mut watched = vec![PollFd::new(reading.as_fd(), PollFlags::POLLIN)];
    // poll(2) always reports errors.
    watched.extend(pipe.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::empty())));
    loop {
        let ready = poll(&mut watched, PollTimeout::NONE).is_ok();
        let mut happened = watched.iter().map(|one| one.any() != Some(false));
        if ready && happened.next() == Some(true) {
            return true;
        }
        if ready && happened.next() == Some(true) {
            return false;
        }
    }
}
