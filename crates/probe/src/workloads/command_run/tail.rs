//! The end of what a program writes on standard error: read as it comes, so that it never waits for a reader; only the
//! last part is kept.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::worker::POLL_INTERVAL;

/// Bytes kept.
const KEPT: usize = 4096;
/// Lines shown, and the letters of them.
const SHOWN_LINES: usize = 3;
const SHOWN_LETTERS: usize = 300;
/// Pieces read at most to empty the pipe: of one that is written to all the time, more than it holds.
const MOST_PIECES: usize = 32;
/// Size asked for the pipe, so that a program that writes much seldom waits (F_SETPIPE_SZ, fcntl(2)); what the kernel
/// gives is good enough.
const PIPE_BYTES: i32 = 1 << 20;

/// The reading end of a pipe whose writing end is a program's standard error.
pub struct Tail {
    reader: std::fs::File,
    writer: Option<OwnedFd>,
    last: Vec<u8>,
    ended: bool,
}

impl Tail {
    /// An empty one.
    ///
    /// # Errors
    /// `Failure::Failed` if no pipe can be made.
    pub fn new() -> Result<Self, Failure> {
        let failed = |error| Failure::system("making a pipe", error);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        let _ = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(failed)?;
        Ok(Self {
            reader: reader.into(),
            writer: Some(writer),
            last: Vec::new(),
            ended: false,
        })
    }

    /// The end to write to, for a process that is about to be made.
    pub fn writer(&self) -> RawFd {
        self.writer.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Read until there is something to read from `bell`, or its writers are gone: true; false where neither is so for
    /// a while or until `latest`, or a signal comes.
    pub fn follow(&mut self, bell: BorrowedFd, latest: Instant) -> bool {
        // From here on the writers are other processes.
        self.writer = None;
        loop {
            let other = if self.ended {
                bell
            } else {
                self.reader.as_fd()
            };
            let mut files = [bell, other].map(|file| PollFd::new(file, PollFlags::POLLIN));
            let ready = poll(&mut files, nap()).is_ok_and(|ready| ready > 0);
            let [rung, written] = files.map(|file| ready && file.any().unwrap_or(false));
            if written && !self.ended {
                self.read();
            }
            // Of a program that writes all the time the wait is never interrupted.
            if !ready || rung || cancel::requested() || Instant::now() >= latest {
                return rung;
            }
        }
    }

    /// Take what is there, and keep the end of it; false where there was nothing.
    fn read(&mut self) -> bool {
        let mut piece = [0; 16 * KEPT];
        match self.reader.read(&mut piece) {
            Ok(0) => {
                self.ended = true;
                false
            }
            Ok(length) => {
                self.last.extend_from_slice(&piece[..length]);
                let surplus = self.last.len().saturating_sub(KEPT);
                self.last.drain(..surplus);
                true
            }
            Err(_) => false,
        }
    }

    /// The last lines of what came since this was last asked, in one.
    pub fn lines(&mut self) -> String {
        for _ in 0..MOST_PIECES {
            if self.ended || !self.read() {
                break;
            }
        }
        let last = std::mem::take(&mut self.last);
        shown(&String::from_utf8_lossy(&last))
    }
}

fn nap() -> PollTimeout {
    PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO)
}

/// The last lines of a text in one, without what would move a terminal's cursor.
fn shown(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" | ");
    let plain: String = last
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let surplus = plain.chars().count().saturating_sub(SHOWN_LETTERS);
    plain.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_in_one() {
        assert_eq!(shown(""), "");
        assert_eq!(shown("one\n\n two \nthree\nfour\n"), "two | three | four");
        assert_eq!(shown("a\x1b[31mb\tc"), "a [31mb c");
        assert_eq!(shown(&"ä".repeat(1000)).chars().count(), SHOWN_LETTERS);
    }
}
