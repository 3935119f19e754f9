//! A process that another one waits for.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use oscope_sys::worker::pidfd;

/// A process, held so that its number cannot become another's.
pub struct Process(OwnedFd);

impl Process {
    /// The process of this number; None where there is none.
    pub fn open(pid: u32) -> Option<Self> {
        pidfd(pid).ok().map(Self)
    }

    /// Wait for the end, after which all that it had locked is free; at most this long.
    pub fn ended_within(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut watched = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            if poll(&mut watched, left) != Err(Errno::EINTR) {
                return;
            }
        }
    }
}
