//! The pipe to `ssh`: one writer at a time, each within his own limit.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::process::ChildStdin;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::locked;
use crate::remote::request_error::RequestError;

#[derive(Default)]
struct Turn {
    /// Someone writes.
    taken: bool,
    /// Nobody writes any more.
    shut: bool,
    /// A part of a packet was written, and no more.
    broken: bool,
}

/// The pipe to `ssh`, and the lock of its writers.
pub struct WriteLock {
    pipe: ChildStdin,
    turn: Mutex<Turn>,
    free: Condvar,
}

impl WriteLock {
    /// Over a pipe that does not block.
    pub fn new(pipe: ChildStdin) -> Self {
        Self {
            pipe,
            turn: Mutex::default(),
            free: Condvar::new(),
        }
    }

    /// No more is sent: wakes all that wait.
    pub fn shut(&self) {
        locked(&self.turn).shut = true;
        self.free.notify_all();
    }

    /// Whether a part of a packet was sent without its rest.
    pub fn broken(&self) -> bool {
        locked(&self.turn).broken
    }

    /// Write all, in one's turn.
    ///
    /// # Errors
    /// `Unsent`: the session has ended, nothing was written. `Late`: not within the limit. `Lost`: the pipe is closed.
    pub fn send(&self, bytes: &[u8], deadline: Instant) -> Result<(), RequestError> {
        let mut turn = locked(&self.turn);
        while turn.taken && !turn.shut {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RequestError::Late);
            }
            let waited = self.free.wait_timeout(turn, left);
            turn = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if turn.shut {
            return Err(RequestError::Unsent);
        }
        turn.taken = true;
        drop(turn);
        let (written, result) = self.write(bytes, deadline);
        let mut turn = locked(&self.turn);
        turn.taken = false;
        turn.broken |= result.is_err() && written > 0;
        drop(turn);
        self.free.notify_one();
        result
    }

    /// Write: how many bytes were taken, and whether all were.
    fn write(&self, bytes: &[u8], deadline: Instant) -> (usize, Result<(), RequestError>) {
        let mut written = 0;
        while written < bytes.len() {
            let step = match (&self.pipe).write(&bytes[written..]) {
                Ok(count) => {
                    written += count;
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(deadline),
                Err(_) => Err(RequestError::Lost),
            };
            if step.is_err() {
                return (written, step);
            }
        }
        (written, Ok(()))
    }

    /// Wait until the pipe takes more, or its reader is gone.
    fn wait(&self, deadline: Instant) -> Result<(), RequestError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RequestError::Late);
        }
        let wait = PollTimeout::try_from(left.as_millis().max(1)).unwrap_or(PollTimeout::MAX);
        let mut pipe = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut pipe, wait) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(_) => Err(RequestError::Lost),
        }
    }
}
