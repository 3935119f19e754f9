//! What goes out over a connection: frames and raw bytes, on a keyed one in records.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::incoming::receive_some;
use super::{Link, OUTPUT, counted, cut};
use crate::names::LONGEST;
use crate::stop::Stop;
use crate::wire::{self, Frame};
use oscope_sys::cancel;

/// How long a receiver that refused takes what the sender still sends, so that the refusal is not lost to a reset; at
/// most its stall.
const DRAIN: Duration = Duration::from_secs(5);

impl Link {
    /// Have a frame sent, now or with what follows.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn put(&mut self, frame: &Frame) -> Result<(), Stop> {
        wire::encode(frame, &mut self.output);
        match self.output.len() < OUTPUT {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// What waits to be sent, to be added to.
    pub fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Send what waits.
    ///
    /// # Errors
    /// [`Stop`]: the peer is gone, refuses, or takes nothing for the stall limit.
    pub fn flush(&mut self) -> Result<(), Stop> {
        self.flush_with(0)
    }

    /// Send what waits, which raw bytes follow.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn flush_before_more(&mut self) -> Result<(), Stop> {
        self.flush_with(libc::MSG_MORE)
    }

    fn flush_with(&mut self, flags: i32) -> Result<(), Stop> {
        let output = std::mem::take(&mut self.output);
        let sent = self.send(&output, flags);
        self.output = output;
        self.output.clear();
        sent
    }

    /// Send bytes past what waits, which must be nothing.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn send(&mut self, mut bytes: &[u8], flags: i32) -> Result<(), Stop> {
        if self.seal.is_none() {
            while !bytes.is_empty() {
                self.calls += 1;
                let since = Instant::now();
                let answer = send_some(self.socket(), bytes, flags);
                bytes = &bytes[self.taken(since, answer)?.unwrap_or(0)..];
            }
            return Ok(());
        }
        // The records of one batch are still in the second-level cache when they are sent.
        for batch in bytes.chunks(OUTPUT) {
            if let Some(seal) = &mut self.seal {
                seal.seal(batch);
            }
            self.send_records(flags)?;
        }
        Ok(())
    }

    /// Send all records that wait.
    fn send_records(&mut self, flags: i32) -> Result<(), Stop> {
        loop {
            let socket = self.socket();
            let Some(seal) = self.seal.as_ref().filter(|seal| !seal.waiting().is_empty()) else {
                return Ok(());
            };
            let since = Instant::now();
            let answer = send_some(socket, seal.waiting(), flags);
            self.calls += 1;
            let count = self.taken(since, answer)?.unwrap_or(0);
            if let Some(seal) = &mut self.seal {
                seal.sent(count);
            }
        }
    }

    /// The peer broke the protocol, or something on the way did.
    pub fn damaged(&self) -> Stop {
        Stop::here("what arrived is damaged, or not of this protocol").with_remedy("send again")
    }

    /// Send the peer a sign of life, at most once a second; a peer that takes nothing is not waited for.
    ///
    /// # Errors
    /// [`Stop`]: a signal asked to stop, or the peer is gone.
    pub fn alive(&mut self) -> Result<(), Stop> {
        if cancel::requested() {
            return Err(Stop::here("interrupted"));
        }
        if self.sent_alive.elapsed() >= Duration::from_secs(1) {
            self.sent_alive = Instant::now();
            self.calls += 1;
            let offered = match self.seal.is_some() {
                true => self.offer_records(),
                false => self.offer(),
            };
            match offered {
                Err(error) if !passes(&error) => self.failed(&error)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Offer what waits and a sign of life, without waiting.
    fn offer(&mut self) -> io::Result<()> {
        let before = self.output.len();
        wire::encode(&Frame::Working, &mut self.output);
        match send_some(self.socket(), &self.output, libc::MSG_DONTWAIT) {
            Ok(count) => {
                self.output.drain(..count);
                Ok(())
            }
            Err(error) => {
                self.output.truncate(before);
                Err(error)
            }
        }
    }

    /// As [`Self::offer`], in records; where some wait already, they are the sign.
    fn offer_records(&mut self) -> io::Result<()> {
        let socket = self.socket();
        let Some(seal) = &mut self.seal else {
            return Ok(());
        };
        if seal.waiting().is_empty() {
            wire::encode(&Frame::Working, &mut self.output);
            seal.seal(&self.output);
            self.output.clear();
        }
        let count = send_some(socket, seal.waiting(), libc::MSG_DONTWAIT)?;
        seal.sent(count);
        Ok(())
    }

    /// Send the peer the reason why this side stops, as well as that still goes, and take what it has sent meanwhile.
    pub fn refuse(&mut self, file: &[u8], reason: &str, remedy: &str, useless: bool) {
        let refusal = Frame::Refusal {
            file: &file[..file.len().min(LONGEST)],
            reason: &cut(reason),
            remedy: &cut(remedy),
            useless,
        };
        wire::encode(&refusal, &mut self.output);
        let mut output = std::mem::take(&mut self.output);
        if let Some(seal) = &mut self.seal {
            seal.seal(&output);
            output = seal.waiting().to_vec();
        }
        let since = Instant::now();
        let limit = DRAIN.min(self.stall);
        let mut rest = &output[..];
        while !rest.is_empty() && since.elapsed() < limit {
            match send_some(self.socket(), rest, 0) {
                Ok(count) => rest = &rest[count..],
                Err(error) if passes(&error) => {}
                Err(_) => return,
            }
        }
        if self.stream.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        while since.elapsed() < limit {
            match receive_some(&self.stream, &mut self.input) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if passes(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// One call of `send`.
fn send_some(socket: RawFd, bytes: &[u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice; a closed socket is an error.
    let sent = unsafe {
        libc::send(
            socket,
            bytes.as_ptr().cast(),
            bytes.len(),
            flags | libc::MSG_NOSIGNAL,
        )
    };
    counted(sent)
}

/// The call waited in vain, and may be made again.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
