//! SIGINT, SIGTERM and SIGHUP as bytes in a pipe. The handlers, unlike blocked signals, are not inherited by ssh.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::fcntl::OFlag;
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
    let mut watched = [
        libc::pollfd {
            fd: reading.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        },
        // poll(2) skips descriptors below zero, and always reports errors.
        libc::pollfd {
            fd: pipe.map_or(-1, AsRawFd::as_raw_fd),
            events: 0,
            revents: 0,
        },
    ];
    loop {
        // SAFETY: the array is valid for two entries, for the whole call.
        let ready = unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) };
        if ready > 0 && watched[0].revents != 0 {
            return true;
        }
        if ready > 0 && watched[1].revents != 0 {
            return false;
        }
    }
}
