//! A pipe by which one process notifies another: a byte is a notice, its end is that the notifier has gone, which the
//! kernel sees to after a kill.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::{pipe2, read, write};

use crate::error::Failure;

/// The end that notifies. Dropping the last copy of it, in every process, closes the pipe.
#[derive(Debug)]
pub struct Notifier(OwnedFd);

/// The end that is notified.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// What a [`Listener`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A notice.
    Given,
    /// There will be no more.
    Closed,
}

/// Makes a pipe for notices. No program that is executed inherits it.
///
/// # Errors
/// `Failure::Failed` where there are too many open files.
pub fn notify_pipe() -> Result<(Listener, Notifier), Failure> {
    let (listener, notifier) =
        pipe2(OFlag::O_CLOEXEC).map_err(|error| Failure::system("making a pipe", error))?;
    Ok((Listener(listener), Notifier(notifier)))
}

impl Notifier {
    /// Gives one notice.
    ///
    /// # Errors
    /// `EPIPE` if nobody listens any more.
    pub fn notify(&self) -> Result<(), Errno> {
        write(&self.0, &[0]).map(drop)
    }
}

impl Listener {
    /// Waits for a notice, whatever signals come. Allocates nothing.
    pub fn wait(&self) -> Notice {
        loop {
            match read(&self.0, &mut [0]) {
                Ok(1) => return Notice::Given,
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => return Notice::Closed,
            }
        }
    }

    /// Sleeps for this time, or until the pipe is closed. Returns whether it is.
    pub fn is_closed_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut ends = [PollFd::new(self.as_fd(), PollFlags::empty())];
            match ppoll(&mut ends, Some(TimeSpec::from_duration(left)), None) {
                Ok(0) => return false,
                Err(Errno::EINTR) => {}
                // Hung up; an error, which the kernel has none of here, would not end it.
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Whether the pipe is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed_within(Duration::ZERO)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_when_what_holds_it_is_closed() {
        let (listener, notifier) = notify_pipe().expect("there can be a pipe");
        assert!(!listener.is_closed());
        assert!(!listener.is_closed_within(Duration::from_micros(50)));
        drop(notifier);
        assert!(listener.is_closed());
        assert!(listener.is_closed_within(Duration::from_secs(3600)));
    }

    #[test]
    fn every_notice_is_heard_and_then_the_end() {
        let (listener, notifier) = notify_pipe().expect("there can be a pipe");
        assert_eq!((notifier.notify(), notifier.notify()), (Ok(()), Ok(())));
        drop(notifier);
        let heard = [listener.wait(), listener.wait(), listener.wait()];
        assert_eq!(heard, [Notice::Given, Notice::Given, Notice::Closed]);
    }
}
