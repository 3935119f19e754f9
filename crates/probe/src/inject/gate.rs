//! The children wait at this gate, and see by it that the injection is over: it is the reading end of a pipe that nobody ever writes to.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::pipe2;

use oscope_sys::error::Failure;

/// It opens when what holds it is closed, which the kernel does for a process that is killed.
#[derive(Debug)]
pub struct Gate(OwnedFd);

impl Gate {
    /// A gate, and what holds it.
    ///
    /// # Errors
    /// `Failure::Failed` where there are too many open files.
    pub fn new() -> Result<(Self, OwnedFd), Failure> {
        let (gate, hold) =
            pipe2(OFlag::O_CLOEXEC).map_err(|error| Failure::system("making a pipe", error))?;
        Ok((Self(gate), hold))
    }

    /// Whether it is over.
    pub fn is_open(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Sleep for this time, or until it is over; whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut ends = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
            match ppoll(&mut ends, Some(TimeSpec::from_duration(left)), None) {
                Ok(0) => return false,
                Err(Errno::EINTR) => {}
                // Hung up; an error, which the kernel has none of here, would not end it.
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_when_what_holds_it_is_closed() {
        let (gate, hold) = Gate::new().expect("there can be a pipe");
        assert!(!gate.is_open());
        assert!(!gate.wait(Duration::from_micros(50)));
        drop(hold);
        assert!(gate.is_open());
        assert!(gate.wait(Duration::from_secs(3600)));
    }
}
