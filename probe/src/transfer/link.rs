//! The connection: frames and raw bytes, in large calls, never waiting for ever.

mod incoming;
mod pace;

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::names::LONGEST;
use super::stop::Stop;
use super::wire::{self, FRAME, Frame, NAME, PREAMBLE};
use crate::cancel;
use crate::error::words;
use incoming::{receive_some, refused};
use pace::{Of, Pace};

/// Bytes that are received ahead at most; a small file and its frames fit.
const INPUT: usize = 512 << 10;

/// Bytes that wait to be sent together.
pub const OUTPUT: usize = 256 << 10;

/// How long a call on the socket waits before it is looked whether the transfer is to end.
const SLICE: Duration = Duration::from_millis(250);

/// How long a sender that is interrupted has to end its segment.
const GRACE: Duration = Duration::from_secs(1);

/// How long a receiver that refused takes what the sender still sends, so that the refusal is not lost to a reset; at most its stall.
const DRAIN: Duration = Duration::from_secs(5);

/// The beginning of a reason: with the others it fits a frame, and a line.
fn cut(text: &str) -> String {
    text.chars().take(500).collect()
}

/// What a system call that moves bytes answered: how many, or the error that it left.
pub fn counted(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// A connection to a peer.
pub struct Link {
    stream: TcpStream,
    peer: String,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    stall: Duration,
    moved: Instant,
    sent_alive: Instant,
    cancelled: Option<Instant>,
    names: Option<Pace>,
    coming: Pace,
    going: Pace,
    /// Receive no more ahead than is asked for: the bytes that follow are to be moved another way.
    pub lean: bool,
    /// System calls made for the transfer so far; one that waited in vain and was repeated counts once.
    pub calls: u64,
}

impl Link {
    /// A link over a connected socket, which gives up after `stall` without progress, and a peer that moves less than `least` bytes a second.
    ///
    /// # Errors
    /// The socket takes no time limits.
    pub fn new(stream: TcpStream, stall: Duration, least: u64) -> Result<Self, Stop> {
        let broken = |error: io::Error| Stop::silent(format!("the connection: {}", words(&error)));
        let slice = stall.clamp(Duration::from_millis(1), SLICE);
        stream.set_nonblocking(false).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(slice)).map_err(broken)?;
        stream.set_write_timeout(Some(slice)).map_err(broken)?;
        let peer = stream.peer_addr().map_err(broken)?.to_string();
        Ok(Self {
            stream,
            peer,
            input: vec![0; INPUT].into_boxed_slice(),
            start: 0,
            end: 0,
            output: Vec::with_capacity(OUTPUT + FRAME),
            stall,
            moved: Instant::now(),
            sent_alive: Instant::now(),
            cancelled: None,
            names: None,
            coming: Pace::new(Of::Contents, "sends", least),
            going: Pace::new(Of::Contents, "takes what is sent", least),
            lean: false,
            calls: 0,
        })
    }

    /// The socket's number, for calls made elsewhere.
    pub fn socket(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Bytes were moved: the time without progress begins anew.
    pub fn progress(&mut self) {
        self.moved = Instant::now();
    }

    /// Judge what a call on the socket answered: `Ok` to try again.
    ///
    /// # Errors
    /// The transfer is to end, the peer is gone, or nothing moved for too long.
    pub fn failed(&mut self, error: &io::Error) -> Result<(), Stop> {
        if cancel::requested() {
            return Err(Stop::here("interrupted"));
        }
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                if error.raw_os_error() != Some(libc::ETIMEDOUT) =>
            {
                match self.moved.elapsed() < self.stall {
                    true => Ok(()),
                    false => Err(self.stalled(self.stall)),
                }
            }
            _ => Err(self.gone(&words(error))),
        }
    }

    /// As [`Self::failed`], for a call that sends: looks also whether the receiver has refused meanwhile.
    ///
    /// # Errors
    /// It has, or as for [`Self::failed`].
    pub fn again(&mut self, error: &io::Error) -> Result<(), Stop> {
        match self.cancelled {
            _ if !cancel::requested() => self.failed(error)?,
            // A moment to end the segment under way, so that the reason can be sent to the peer.
            None => self.cancelled = Some(Instant::now()),
            Some(since) if since.elapsed() < GRACE => {}
            Some(_) => return Err(Stop::silent("interrupted")),
        }
        self.aside()
    }

    /// The peer closed the connection too early.
    pub fn closed(&mut self) -> Stop {
        self.gone("it closed the connection")
    }

    fn stalled(&self, limit: Duration) -> Stop {
        Stop::here(format!(
            "no progress for {} s with {}",
            limit.as_secs_f64(),
            self.peer
        ))
    }

    /// The connection broke: a refusal that the peer sent before it is the better reason.
    fn gone(&mut self, how: &str) -> Stop {
        let since = Instant::now();
        while since.elapsed() < SLICE * 4 {
            match self.more(1) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            while let Ok(Some(range)) = self.buffered() {
                match self.decoded(range) {
                    Ok(Frame::Refusal {
                        file,
                        reason,
                        remedy,
                        useless,
                    }) => return refused(file, reason, remedy, useless),
                    Ok(_) => {}
                    Err(stop) => return stop,
                }
            }
        }
        Stop::silent(format!("{} is gone: {how}", self.peer))
            .remedy("send again: what arrived is kept")
    }

    /// Say the first words, to be sent with what follows.
    pub fn greet(&mut self) {
        self.output.extend_from_slice(PREAMBLE);
    }

    /// Hear the peer's first words within `limit`.
    ///
    /// # Errors
    /// The peer speaks something else, another version, or nothing.
    pub fn greeted(&mut self, limit: Duration) -> Result<(), Stop> {
        let stranger = format!("no Oscope transfer speaks on {}", self.peer);
        let stall = self.stall;
        self.stall = stall.min(limit);
        self.progress();
        let since = Instant::now();
        let heard = self.fill(PREAMBLE.len(), false);
        let silent = self.start == self.end && since.elapsed() >= self.stall;
        let waited = std::mem::replace(&mut self.stall, stall);
        if cancel::requested() {
            return Err(Stop::here("interrupted"));
        }
        if silent {
            let message = format!(
                "{} is connected and said nothing within {} s",
                self.peer,
                waited.as_secs_f64()
            );
            return Err(Stop::silent(message).remedy(
                "a receiver may be busy with another transfer: send again when it is done",
            ));
        }
        let said = &self.input[self.start..self.end];
        let common = said.len().min(NAME);
        if said[..common] != PREAMBLE[..common] || heard.is_err() {
            return Err(Stop::silent(stranger)
                .remedy("check the address and that `oscope transfer receive` runs there"));
        }
        if said[NAME..PREAMBLE.len()] != PREAMBLE[NAME..] {
            let message = format!("{} speaks another version of Oscope transfer", self.peer);
            return Err(Stop::silent(message).remedy("use the same Oscope on both sides"));
        }
        self.start += PREAMBLE.len();
        Ok(())
    }

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
    /// The peer is gone, refuses, or takes nothing for too long.
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
        while !bytes.is_empty() {
            match self.send_some(bytes, flags)? {
                Some(count) => bytes = &bytes[count..],
                None => continue,
            }
        }
        Ok(())
    }

    /// One call of `send`: how many bytes were taken, `None` to try again.
    fn send_some(&mut self, bytes: &[u8], flags: i32) -> Result<Option<usize>, Stop> {
        self.calls += 1;
        let since = Instant::now();
        // SAFETY: the pointer and length are those of a live slice; the socket is open as long as `self`.
        let sent = unsafe {
            libc::send(
                self.socket(),
                bytes.as_ptr().cast(),
                bytes.len(),
                flags | libc::MSG_NOSIGNAL,
            )
        };
        self.taken(since, counted(sent))
    }

    /// The peer broke the protocol, or something on the way did.
    pub fn damaged(&self) -> Stop {
        Stop::here("what arrived is damaged, or not of this protocol").remedy("send again")
    }

    /// Send the peer a sign of life, at most once a second; a peer that takes nothing is not waited for.
    ///
    /// # Errors
    /// The transfer is to end, or the peer is gone.
    pub fn alive(&mut self) -> Result<(), Stop> {
        if cancel::requested() {
            return Err(Stop::here("interrupted"));
        }
        if self.sent_alive.elapsed() >= Duration::from_secs(1) {
            self.sent_alive = Instant::now();
            let before = self.output.len();
            wire::encode(&Frame::Working, &mut self.output);
            self.calls += 1;
            match self.offer(libc::MSG_DONTWAIT) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    self.output.truncate(before);
                }
                Err(error) => self.failed(&error)?,
            }
        }
        Ok(())
    }

    /// One call of `send` with what waits.
    fn offer(&self, flags: i32) -> io::Result<usize> {
        // SAFETY: the pointer and length are those of a live vector; the socket is open as long as `self`.
        let sent = unsafe {
            libc::send(
                self.socket(),
                self.output.as_ptr().cast(),
                self.output.len(),
                flags | libc::MSG_NOSIGNAL,
            )
        };
        counted(sent)
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
        let output = std::mem::take(&mut self.output);
        let since = Instant::now();
        let limit = DRAIN.min(self.stall);
        let mut rest = &output[..];
        while !rest.is_empty() && since.elapsed() < limit {
            // SAFETY: the pointer and length are those of a live slice.
            let sent = unsafe {
                libc::send(
                    self.socket(),
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(sent) {
                Ok(count) => rest = &rest[count..],
                Err(_) => match io::Error::last_os_error().kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    _ => return,
                },
            }
        }
        if self.stream.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        while since.elapsed() < limit {
            match receive_some(&self.stream, &mut self.input) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => return,
            }
        }
    }
}
