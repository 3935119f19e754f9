//! What comes in over a connection: frames, and raw bytes between them.

use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Instant;

use super::pace::NamesFrame;
use super::{Link, counted, cut, seal};
use crate::names::{LONGEST, shown};
use crate::stop::Stop;
use crate::wire::{self, Frame, HEAD};

impl Link {
    /// Receive raw bytes past what is here already, which must be nothing: at least one.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn receive(&mut self, into: &mut [u8]) -> Result<usize, Stop> {
        loop {
            self.calls += 1;
            let since = Instant::now();
            let answer = receive_some(&self.stream, into);
            if let Some(got) = self.came(since, answer)? {
                return Ok(got);
            }
        }
    }

    /// Receive raw bytes to an address: at least one, or `None` if no page is to be had there.
    ///
    /// # Safety
    /// `into` must be mapped for `most` bytes, though pages may be missing, and nobody may hold references to them.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub unsafe fn receive_at(&mut self, into: *mut u8, most: usize) -> Result<Option<usize>, Stop> {
        loop {
            self.calls += 1;
            let since = Instant::now();
            // SAFETY: the caller vouches for the address; a missing page is `EFAULT`.
            let got = unsafe { libc::recv(self.socket(), into.cast(), most, 0) };
            let answer = counted(got);
            if matches!(&answer, Err(error) if error.raw_os_error() == Some(libc::EFAULT)) {
                return Ok(None);
            }
            if let Some(got) = self.came(since, answer)? {
                return Ok(Some(got));
            }
        }
    }

    /// The next frame; frames that only say that the peer is alive are passed over.
    ///
    /// # Errors
    /// [`Stop`]: the peer refused, is gone, sent no frame, or nothing for the stall limit.
    pub fn next(&mut self) -> Result<Frame<'_>, Stop> {
        let range = self.frame()?;
        self.decoded(range)
    }

    /// The next frame, which [`Self::next`] gives again.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn peek(&mut self) -> Result<Frame<'_>, Stop> {
        let range = self.frame()?;
        self.start = range.start;
        self.decoded(range)
    }

    /// Receive and take the next frame that says something.
    pub(super) fn frame(&mut self) -> Result<Range<usize>, Stop> {
        loop {
            let Some(range) = self.buffered()? else {
                let have = self.end - self.start;
                let want = match have < HEAD {
                    true => HEAD,
                    false => self.announced()?,
                };
                self.fill(want, false)?;
                continue;
            };
            if self.names_frame(range.clone())? != NamesFrame::Working {
                return Ok(range);
            }
        }
    }

    /// What a frame that is here whole says, unless it is a refusal.
    fn names_frame(&mut self, range: Range<usize>) -> Result<NamesFrame, Stop> {
        let length = range.len();
        let frame_kind = match self.decoded(range)? {
            Frame::Refusal {
                file,
                reason,
                remedy,
                useless,
            } => return Err(refused(file, reason, remedy, useless)),
            frame => NamesFrame::by(&frame),
        };
        self.named(frame_kind, length);
        Ok(frame_kind)
    }

    pub(super) fn announced(&self) -> Result<usize, Stop> {
        let mut head = [0; HEAD];
        head.copy_from_slice(&self.input[self.start..self.start + HEAD]);
        wire::whole_length(head).map_err(|_| self.damaged())
    }

    /// Take a frame that is here whole.
    pub(super) fn buffered(&mut self) -> Result<Option<Range<usize>>, Stop> {
        let have = self.end - self.start;
        if have < HEAD {
            return Ok(None);
        }
        let length = self.announced()?;
        if have < length {
            return Ok(None);
        }
        let range = self.start..self.start + length;
        self.start = range.end;
        Ok(Some(range))
    }

    pub(super) fn decoded(&self, range: Range<usize>) -> Result<Frame<'_>, Stop> {
        wire::decode(&self.input[range]).map_err(|_| self.damaged())
    }

    /// Look, without waiting, whether the receiver has refused meanwhile; once all is sent, its receipt comes by
    /// [`Self::next`].
    ///
    /// # Errors
    /// [`Stop`]: the receiver refused, with its reason; it closed the connection; what it sent is damaged.
    pub fn aside(&mut self) -> Result<(), Stop> {
        self.calls += 1;
        let answer = match self.seal.is_some() {
            true => self.more_records(libc::MSG_DONTWAIT),
            false => {
                let space = &mut self.input[self.end..];
                let got = receive_with(&self.stream, space, libc::MSG_DONTWAIT);
                self.end += *got.as_ref().unwrap_or(&0);
                got.map(|count| count > 0)
            }
        };
        match answer {
            Ok(true) => {}
            Ok(false) => return Err(self.closed()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return self.failed(&error),
        }
        while let Some(range) = self.buffered()? {
            match self.decoded(range)? {
                Frame::Working => self.going.excuse(),
                Frame::Refusal {
                    file,
                    reason,
                    remedy,
                    useless,
                } => return Err(refused(file, reason, remedy, useless)),
                _ => return Err(self.damaged()),
            }
            self.progress();
        }
        self.compact();
        Ok(())
    }

    /// Whether a small file of so many bytes is likely here already, with its frames.
    pub fn holds(&self, count: usize) -> bool {
        self.end - self.start > count + 2 * HEAD
    }

    /// Raw bytes that are here already, at most so many.
    pub fn here(&mut self, most: usize) -> &[u8] {
        let from = self.start;
        self.start += most.min(self.end - from);
        &self.input[from..self.start]
    }

    /// A file's raw bytes, at most half of what can be received ahead, and the digest that the frame behind them gives.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn whole_and_end(&mut self, count: usize) -> Result<(&[u8], &[u8]), Stop> {
        let end = loop {
            // The frame is taken only when it is here whole, with the bytes before it: making room moves what was
            // taken.
            self.fill(count + HEAD, true)?;
            self.start += count;
            let announced = self.announced();
            self.start -= count;
            let length = announced?;
            self.fill(count + length, true)?;
            let from = self.start + count;
            let frame = from..from + length;
            let frame_kind = self.names_frame(frame.clone())?;
            if frame_kind != NamesFrame::Working {
                break frame;
            }
            // Nothing of it stays between: there may be any number of them.
            self.input.copy_within(frame.end..self.end, frame.start);
            self.end -= frame.len();
        };
        let raw = self.start..end.start;
        self.start = end.end;
        match self.decoded(end)? {
            Frame::End(digest) => Ok((&self.input[raw], digest)),
            _ => Err(self.damaged()),
        }
    }

    /// Receive until so many bytes are here. Unless they are announced, the peer may have to read a file before it
    /// begins with them.
    pub(super) fn fill(&mut self, count: usize, announced: bool) -> Result<(), Stop> {
        while self.end - self.start < count {
            let here = self.end - self.start;
            let since = Instant::now();
            match self.more(count - here) {
                Ok(true) => self.progress(),
                Ok(false) => return Err(self.closed()),
                Err(error) => self.failed(&error)?,
            }
            let got = self.end - self.start - here;
            self.heard(since, got, announced || here > 0)?;
        }
        Ok(())
    }

    /// One call of `recv`, for at least one byte, and no more than missing if lean: `false` at the end.
    pub(super) fn more(&mut self, missing: usize) -> io::Result<bool> {
        self.compact();
        if self.seal.is_some() {
            self.calls += 1;
            return self.more_records(0);
        }
        let room = self.input.len() - self.end;
        let most = if self.lean { missing.min(room) } else { room };
        let got = receive_some(&self.stream, &mut self.input[self.end..self.end + most]);
        self.calls += 1;
        self.end += *got.as_ref().unwrap_or(&0);
        got.map(|count| count > 0)
    }

    /// Open the records that are here; if there is none, after one call of `recv`. `false` at the end of the
    /// connection. A record that is not here whole gives nothing yet.
    fn more_records(&mut self, flags: i32) -> io::Result<bool> {
        let Some(seal) = &mut self.seal else {
            return Ok(false);
        };
        if self.input.len() - self.end < seal::LONGEST {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let before = self.end;
        let mut received = false;
        loop {
            while let Some(count) = seal.open(&mut self.input[self.end..])? {
                self.end += count;
            }
            if received || self.end > before {
                return Ok(true);
            }
            let count = receive_with(&self.stream, seal.space(), flags)?;
            if count == 0 {
                return Ok(false);
            }
            seal.received(count);
            received = true;
        }
    }

    /// Bytes of contents of a keyed connection: those that are here, or the next; at most so many, and at least one.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn opened(&mut self, most: usize) -> Result<&[u8], Stop> {
        self.fill(1, true)?;
        Ok(self.here(most))
    }

    /// The last so many bytes that [`Self::opened`] gave; none of a plain connection.
    pub fn moved(&self, count: usize) -> &[u8] {
        match self.is_sealed() {
            true => &self.input[self.start - count..self.start],
            false => &[],
        }
    }

    /// Make room behind what is here.
    pub(super) fn compact(&mut self) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.start > self.input.len() / 4 {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }
}

/// One call of `recv`.
pub(super) fn receive_some(stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    receive_with(stream, into, 0)
}

fn receive_with(stream: &TcpStream, into: &mut [u8], flags: i32) -> io::Result<usize> {
    let socket = stream.as_raw_fd();
    // SAFETY: the pointer and length are those of a live, exclusively borrowed slice.
    let got = unsafe { libc::recv(socket, into.as_mut_ptr().cast(), into.len(), flags) };
    counted(got)
}

/// The peer sent the reason why it stops.
pub(super) fn refused(file: &[u8], reason: &str, remedy: &str, useless: bool) -> Stop {
    let reason = shown(cut(reason).as_bytes());
    let mut stop = match &file[..file.len().min(LONGEST)] {
        b"" => Stop::silent(format!("the other side stopped: {reason}")),
        file => Stop::silent(format!("{}: the other side stopped: {reason}", shown(file))),
    };
    stop.useless = useless;
    match remedy {
        "" => stop,
        _ => stop.with_remedy(&shown(cut(remedy).as_bytes())),
    }
}
