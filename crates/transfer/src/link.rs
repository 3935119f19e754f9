//! The connection: frames and raw bytes, in large calls, never waiting for ever.

mod incoming;
mod outgoing;
mod pace;
mod seal;

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::handshake::SEALED;
use super::stop::Stop;
use super::wire::{FRAME, Frame, NAME, PREAMBLE};
use incoming::refused;
use oscope_sys::cancel;
use oscope_sys::error::errno_message;
use pace::{Of, Pace};
use seal::Seal;
use snow::StatelessTransportState;

/// Bytes that are received ahead at most; a small file and its frames fit.
const INPUT: usize = 512 << 10;

/// The same of a keyed connection: what one call receives, opened.
const OPENED: usize = 1 << 20;
const _: () = assert!(OPENED > seal::COMING);

/// Bytes that wait to be sent together.
pub const OUTPUT: usize = 256 << 10;

/// How long a call on the socket waits before it is looked whether the transfer is to end.
const SLICE: Duration = Duration::from_millis(250);

/// How long a sender that is interrupted has to end its segment.
const GRACE: Duration = Duration::from_secs(1);

/// The beginning of a reason: with the others it fits a frame, and a line.
pub fn cut(text: &str) -> String {
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
    seal: Option<Box<Seal>>,
    /// Receive no more ahead than is asked for: the bytes that follow are to be moved another way.
    pub lean: bool,
    /// What arrived of a file is resumed by a later transfer.
    pub resumes: bool,
    /// System calls made for the transfer so far; one that waited in vain and was repeated counts once.
    pub calls: u64,
}

impl Link {
    /// A link over a connected socket, which gives up after `stall` without progress, and a peer that moves less than
    /// `least` bytes a second.
    ///
    /// # Errors
    /// A silent [`Stop`] with the errno of setsockopt(2) in words: the socket takes no time limits.
    pub fn new(stream: TcpStream, stall: Duration, least: u64) -> Result<Self, Stop> {
        let broken =
            |error: io::Error| Stop::silent(format!("the connection: {}", errno_message(&error)));
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
            seal: None,
            lean: false,
            resumes: false,
            calls: 0,
        })
    }

    /// As a receiver: from now on everything is encrypted and authenticated. The sender's confirmation has been heard,
    /// and what it begins with.
    pub fn seal_after_confirmation(&mut self, keys: StatelessTransportState) {
        self.seal_with(Seal::new(keys, 1));
        self.input[..PREAMBLE.len()].copy_from_slice(PREAMBLE);
        self.end = PREAMBLE.len();
    }

    /// As a sender: from now on everything is encrypted and authenticated.
    pub fn seal(&mut self, keys: StatelessTransportState) {
        self.seal_with(Seal::new(keys, 0));
    }

    /// Nothing was received as a plain connection yet.
    fn seal_with(&mut self, seal: Seal) {
        self.seal = Some(Box::new(seal));
        self.input = vec![0; OPENED].into_boxed_slice();
    }

    /// Whether contents have to pass through memory, to be encrypted.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
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
    /// [`Stop`]: a signal asked to stop, the peer is gone, or nothing moved for the stall limit.
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
            // A record that is not the peer's next: damaged, or somebody else's.
            io::ErrorKind::InvalidData => Err(self.damaged()),
            _ => Err(self.gone(&errno_message(error))),
        }
    }

    /// As [`Self::failed`], for a call that sends: looks also whether the receiver has refused meanwhile.
    ///
    /// # Errors
    /// It has, or as for [`Self::failed`].
    pub fn again(&mut self, error: &io::Error) -> Result<(), Stop> {
        match cancel::requested() {
            true => self.grace()?,
            false => self.failed(error)?,
        }
        self.aside()
    }

    /// Once a signal has asked to stop: a moment to end the segment under way, so that the reason can be sent to the
    /// peer.
    fn grace(&mut self) -> Result<(), Stop> {
        let since = *self.cancelled.get_or_insert_with(Instant::now);
        match since.elapsed() < GRACE {
            true => Ok(()),
            false => Err(Stop::silent("interrupted")),
        }
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
        let remedy = match self.resumes {
            true => "send again, to resume where the receiver could keep what arrived",
            false => "send again",
        };
        Stop::silent(format!("{} is gone: {how}", self.peer)).with_remedy(remedy)
    }

    /// Say the first words, to be sent with what follows.
    pub fn greet(&mut self) {
        self.output.extend_from_slice(PREAMBLE);
    }

    /// Hear the peer's first words within `limit`. `keyed`: what it is that the peer has a key, and what helps.
    ///
    /// # Errors
    /// A silent [`Stop`]: the peer speaks something else, another version, or nothing within the limit. One that is
    /// sent to the peer: a signal asked to stop.
    pub fn greeted(&mut self, limit: Duration, keyed: (&str, &str)) -> Result<(), Stop> {
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
            return Err(Stop::silent(message).with_remedy(
                "a receiver may be busy with another transfer: send again when it is done",
            ));
        }
        let said = &self.input[self.start..self.end];
        let common = said.len().min(NAME);
        if said[..common] != PREAMBLE[..common] || heard.is_err() {
            return Err(Stop::silent(stranger)
                .with_remedy("check the address and that `oscope transfer receive` runs there"));
        }
        if said[..PREAMBLE.len()] == SEALED[..] {
            let (how, remedy) = keyed;
            return Err(Stop::silent(format!("{} {how}", self.peer)).with_remedy(remedy));
        }
        if said[NAME..PREAMBLE.len()] != PREAMBLE[NAME..] {
            let message = format!("{} speaks another version of Oscope transfer", self.peer);
            return Err(Stop::silent(message).with_remedy("use the same Oscope on both sides"));
        }
        self.start += PREAMBLE.len();
        Ok(())
    }
}
