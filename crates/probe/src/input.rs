//! Reading request lines so that a signal always ends the wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::time::TimeSpec;

use oscope_sys::cancel;

/// A longer line is no request.
const LONGEST_LINE: usize = 1 << 20;

/// How to wait for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Asleep.
    Asleep,
    /// Busily: where time jumps while the processor is idle, a sleeper finds that any time has passed.
    Busily,
}

/// Lines from a file descriptor.
pub struct Lines<'a> {
    source: BorrowedFd<'a>,
    wait: Wait,
    pending: Vec<u8>,
    ended: bool,
}

impl<'a> Lines<'a> {
    /// Read lines from `source`, such as standard input.
    pub fn new(source: &'a impl AsFd, wait: Wait) -> Self {
        Self {
            source: source.as_fd(),
            wait,
            pending: Vec::new(),
            ended: false,
        }
    }

    /// The next line without its end, or `None` at the end of input or once the probe is to stop.
    ///
    /// # Errors
    /// The errno of poll(2) or read(2); `io::ErrorKind::InvalidData` for a line of more than 1 MiB.
    pub fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if cancel::requested() {
                return Ok(None);
            }
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                return Ok(Some(line));
            }
            if self.ended {
                let last = std::mem::take(&mut self.pending);
                return Ok((!last.is_empty()).then_some(last));
            }
            if self.pending.len() > LONGEST_LINE {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a request line is longer than 1 MiB",
                ));
            }
            if wait_readable(self.source, self.wait)? {
                self.read_more()?;
            }
        }
    }

    /// The same lines, after what another reader of the source had read of it but not used.
    pub fn after(mut self, unused: Vec<u8>) -> Self {
        self.pending = unused;
        self
    }

    /// What was read and not used; nothing of it is given again.
    pub fn take_unused(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Wait busily from now on.
    pub fn wait_busily(&mut self) {
        self.wait = Wait::Busily;
    }

    /// Wait until there is input; false at its end or once the probe is to stop.
    ///
    /// # Errors
    /// The errno of poll(2) or read(2).
    pub fn wait(&mut self) -> io::Result<bool> {
        while self.pending.is_empty() {
            if cancel::requested() || self.ended {
                return Ok(false);
            }
            if wait_readable(self.source, self.wait)? {
                self.read_more()?;
            }
        }
        Ok(true)
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        match nix::unistd::read(self.source, &mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Wait for input; false if a signal came instead.
///
/// The signals are let through only while `ppoll` sleeps: one that came after the flag was looked at, but before the
/// sleep, would otherwise be waited upon for ever.
fn wait_readable(source: BorrowedFd, wait: Wait) -> io::Result<bool> {
    let ours: SigSet = cancel::SIGNALS.into_iter().collect();
    let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let mut polled = [PollFd::new(source, PollFlags::POLLIN)];
    let outcome = if cancel::requested() {
        Err(Errno::EINTR)
    } else {
        let timeout = (wait == Wait::Busily).then_some(TimeSpec::new(0, 0));
        ppoll(&mut polled, timeout, Some(before))
    };
    before.thread_set_mask()?;
    match outcome {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscope_sys::testing::pipe;
    use std::io::Write;

    fn lines_of(input: &[u8], wait: Wait) -> io::Result<Vec<Vec<u8>>> {
        let (reader, mut writer) = pipe();
        writer.write_all(input)?;
        drop(writer);
        let mut lines = Lines::new(&reader, wait);
        std::iter::from_fn(|| lines.next_line().transpose()).collect()
    }

    #[test]
    fn lines_are_split_and_the_last_needs_no_end() {
        for wait in [Wait::Asleep, Wait::Busily] {
            let lines = lines_of(b"one\n\ntwo\nthree", wait).unwrap();
            assert_eq!(lines, [&b"one"[..], b"", b"two", b"three"]);
            assert!(lines_of(b"", wait).unwrap().is_empty());
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let (reader, mut writer) = pipe();
        let feeder = std::thread::spawn(move || {
            // The reader gives up before the end; the rest cannot be written then.
            let _ = writer.write_all(&vec![b'x'; 2 * LONGEST_LINE]);
        });
        assert!(Lines::new(&reader, Wait::Asleep).next_line().is_err());
        drop(reader);
        feeder.join().unwrap();
    }
}
