//! Whether anybody else has a file open, by a lease: the kernel grants a write lease only to who alone has the file
//! open (fcntl(2), `check_conflicting_open` in fs/locks.c).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

/// How long after a kill somebody else may have a copy open who has ended.
const LET_GO: Duration = Duration::from_secs(5);

/// fcntl(2) command, `include/uapi/asm-generic/fcntl.h`; the libc crate lacks it.
const F_SETSIG: i32 = 10;

/// That nobody else has a file open. Who opens it, or cuts it by name, waits until this is dropped.
pub struct Lease<'a>(&'a File);

impl<'a> Lease<'a> {
    /// Of an open file that is ours.
    ///
    /// # Errors
    /// `EAGAIN`: somebody else has it open, mappings included. Else why there is none: the file system has none, or the
    /// file is another's.
    pub fn take(file: &'a File) -> Result<Self, Errno> {
        // Who opens it meanwhile has the kernel send a signal; this one is ignored, SIGIO would kill.
        // SAFETY: fcntl with an integer argument touches no memory of ours.
        unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) };
        // SAFETY: as above.
        let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
        Errno::result(taken).map(|_| Self(file))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // SAFETY: fcntl with an integer argument touches no memory of ours.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

/// Whether this is the only open description of its file, mappings included. Where there are no leases it counts as
/// such: what a mapping changes later is seen by the store at the next open, by the copy's times.
pub fn alone(file: &File) -> bool {
    !matches!(Lease::take(file), Err(Errno::EAGAIN))
}

/// The same, waited for: after a kill the kernel lets go of a copy a moment after the program that had it open has
/// ended.
pub fn alone_soon(file: &File) -> bool {
    alone_within(file, LET_GO)
}

/// The same, within a limit.
pub fn alone_within(file: &File, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while !alone(file) {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(limit / 50);
    }
    true
}
