//! Where senders with a key come in. Those that have not proved yet that they have it wait here beside each other, few
//! and not for long, so that nobody who only connects, or repeats what another sender said, keeps a sender out.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};
use snow::StatelessTransportState;

use super::handshake::{self, CONFIRMATION, OPENING, OTHER_KEY, SEALED};
use super::key::Key;
use super::wire::{NAME, PREAMBLE};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Connections that wait at most. For one more, one is closed of those that repeat an opening, else the oldest of those
/// that have said the least; never one that has proved its key.
const MOST: usize = 64;

/// Openings that are remembered, so that who repeats one is known.
const REMEMBERED: usize = 1024;

/// How long a sender has for the handshake.
const LIMIT: Duration = Duration::from_secs(10);

/// How long one wait for the network lasts.
const SLICE_MS: u16 = 250;

/// A connection whose sender has proved that it has the key.
pub struct Arrival {
    /// The connection, its confirmation taken.
    pub stream: TcpStream,
    /// Its keys.
    pub keys: StatelessTransportState,
    /// Where it comes from.
    pub peer: SocketAddr,
}

/// A connection that has not.
struct Guest {
    stream: TcpStream,
    peer: SocketAddr,
    since: Instant,
    said: [u8; OPENING],
    have: usize,
    keys: Option<StatelessTransportState>,
    /// Somebody has said its opening before: one of the two repeats it.
    repeats: bool,
}

/// What has become of one.
enum Fate {
    Waits,
    /// It has the key, and is kept until its turn comes.
    Proved,
    /// It is closed; for people, why, if it said anything.
    Closed(Option<String>),
}

/// The connections that wait, those that came first before the others.
pub struct Entrance<'a> {
    listener: &'a TcpListener,
    key: &'a Key,
    waiting: VecDeque<Guest>,
    /// Senders that have the key, and wait for the transfer before theirs.
    proved: VecDeque<Arrival>,
    /// The openings that were answered last.
    answered: VecDeque<[u8; OPENING]>,
    /// Whether a transfer went on since those who wait were heard last.
    was_away: bool,
}

impl<'a> Entrance<'a> {
    /// Of a listener that does not block.
    pub fn new(listener: &'a TcpListener, key: &'a Key) -> Self {
        Self {
            listener,
            key,
            waiting: VecDeque::new(),
            proved: VecDeque::new(),
            answered: VecDeque::new(),
            was_away: false,
        }
    }

    /// Wait for the next sender that has the key; `None` if the probe is asked to stop. `refused` hears a line about
    /// each that has not.
    ///
    /// # Errors
    /// `Failure::Failed` with the errno of accept(2), such as `EMFILE`.
    pub fn next(&mut self, refused: &dyn Fn(&str)) -> Option<Result<Arrival, Failure>> {
        if std::mem::take(&mut self.was_away) {
            for guest in &mut self.waiting {
                guest.since = Instant::now();
            }
        }
        loop {
            if cancel::requested() {
                return None;
            }
            // Before anybody is closed for another: who has said what proves its key keeps its place.
            self.hear(refused);
            let accepted = self.accept();
            self.hear(refused);
            if let Some(arrival) = self.proved.pop_front() {
                self.was_away = true;
                return Some(Ok(arrival));
            }
            // Only now: those who wait have the descriptors that may be missing, and give them back when their time is
            // over.
            if let Err(error) = accepted {
                // No reason for a busy loop.
                std::thread::sleep(Duration::from_millis(100));
                return Some(Err(Failure::system("accepting a connection", &error)));
            }
            self.sleep();
        }
    }

    /// Hear all who wait, once.
    fn hear(&mut self, refused: &dyn Fn(&str)) {
        let mut at = 0;
        while at < self.waiting.len() {
            match self.waiting[at].hear(self.key, &mut self.answered) {
                Fate::Waits => at += 1,
                Fate::Closed(why) => {
                    self.waiting.remove(at);
                    why.iter().for_each(|why| refused(why));
                }
                Fate::Proved => {
                    let arrival = self.waiting.remove(at).and_then(Guest::arrive);
                    self.proved.extend(arrival);
                }
            }
        }
    }

    /// Close one of those that wait. Of what repeats an opening, or says nothing, there may be any number; who else has
    /// been answered will have proved its key in a moment.
    fn make_room(&mut self) {
        let first = |is: fn(&Guest) -> bool| self.waiting.iter().position(is);
        let least = first(|guest| guest.repeats).or_else(|| first(|guest| guest.keys.is_none()));
        self.waiting.remove(least.unwrap_or(0));
    }

    /// Take in who has connected.
    fn accept(&mut self) -> io::Result<()> {
        // At most so many a time: who is here already is heard between. Who has the key takes a place, too, until it is
        // served.
        for _ in self.proved.len()..MOST {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.waiting.len() + self.proved.len() >= MOST {
                        self.make_room();
                    }
                    self.waiting.push_back(Guest {
                        stream,
                        peer,
                        since: Instant::now(),
                        said: [0; OPENING],
                        have: 0,
                        keys: None,
                        repeats: false,
                    });
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    // It vanished before it was accepted, or a signal came.
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Wait until somebody says something or connects, or a moment.
    fn sleep(&self) {
        let guests = self.waiting.iter().map(|guest| guest.stream.as_fd());
        let mut wanted: Vec<PollFd> = guests
            .chain([self.listener.as_fd()])
            .map(|socket| PollFd::new(socket, PollFlags::POLLIN))
            .collect();
        // Whatever woke it, the caller looks again.
        let _ = poll(&mut wanted, SLICE_MS);
    }
}

impl Guest {
    /// Take what it has said, and answer it.
    fn hear(&mut self, key: &Key, answered: &mut VecDeque<[u8; OPENING]>) -> Fate {
        loop {
            let want = if self.keys.is_some() {
                CONFIRMATION
            } else {
                OPENING
            };
            match self.stream.read(&mut self.said[self.have..want]) {
                Ok(0) => return Fate::Closed(self.silent("closed the connection")),
                Ok(got) => self.have += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return match self.since.elapsed() < LIMIT {
                        true => Fate::Waits,
                        false => Fate::Closed(self.silent("did not end its handshake in time")),
                    };
                }
                Err(error) => {
                    return Fate::Closed(self.silent(&oscope_sys::error::errno_message(&error)));
                }
            }
            let preamble = self.have.min(SEALED.len());
            if self.keys.is_none() && self.said[..preamble] != SEALED[..preamble] {
                if preamble < SEALED.len() && self.said[..preamble] == PREAMBLE[..preamble] {
                    continue;
                }
                return Fate::Closed(Some(self.stranger()));
            }
            if self.have < want {
                continue;
            }
            if let Some(keys) = &self.keys {
                return match is_confirmed(keys, &self.said[..CONFIRMATION]) {
                    true => Fate::Proved,
                    false => Fate::Closed(Some(format!(
                        "{} is refused: it repeats what another sender said",
                        self.peer
                    ))),
                };
            }
            let opening = self.said;
            if let Err(why) = self.answer(key) {
                return Fate::Closed(why);
            }
            // It is refused only for want of room: the sender itself may be the later one.
            self.repeats = answered.contains(&opening);
            if !self.repeats {
                answered.truncate(REMEMBERED - 1);
                answered.push_front(opening);
            }
        }
    }

    /// Answer its opening: the handshake's second message. The error is a line about one that has gone, if any.
    fn answer(&mut self, key: &Key) -> Result<(), Option<String>> {
        match handshake::answer(key, &self.said) {
            Ok(Some((reply, keys))) => {
                // It fits the empty socket, or nobody is there to read it.
                if self.stream.write_all(&reply).is_err() {
                    return Err(self.silent("takes no answer"));
                }
                self.keys = Some(keys);
                self.have = 0;
                self.since = Instant::now();
                Ok(())
            }
            Ok(None) => {
                self.say(OTHER_KEY);
                Err(Some(format!(
                    "{} is refused: its key is not this receiver's",
                    self.peer
                )))
            }
            Err(error) => Err(Some(error.to_string())),
        }
    }

    /// It speaks the plain protocol, of this or an older version, or another one altogether.
    fn stranger(&mut self) -> String {
        let peer = self.peer;
        match self.have >= NAME && self.said[..NAME] == PREAMBLE[..NAME] {
            true => {
                // A sender without a key learns by this that the receiver has one. An older one takes it for another
                // version, and stops as well.
                self.say(SEALED);
                match self.said[..PREAMBLE.len()] == PREAMBLE[..] {
                    true => format!("{peer} is refused: it sends without a key"),
                    false => format!(
                        "{peer} is refused: it speaks another version of Oscope transfer: use the same Oscope there"
                    ),
                }
            }
            false => format!("{peer} is refused: it speaks something else than Oscope transfer"),
        }
    }

    fn say(&mut self, words: &[u8]) {
        // Who does not take them learns only that the connection is closed.
        let _ = self.stream.write_all(words);
    }

    /// A line about one that has gone, unless it said nothing.
    fn silent(&self, how: &str) -> Option<String> {
        (self.have > 0 || self.keys.is_some()).then(|| format!("{} is refused: {how}", self.peer))
    }

    fn arrive(self) -> Option<Arrival> {
        Some(Arrival {
            stream: self.stream,
            keys: self.keys?,
            peer: self.peer,
        })
    }
}

/// Whether the sender's first record is of this connection: only who has its keys can make it.
fn is_confirmed(keys: &StatelessTransportState, record: &[u8]) -> bool {
    let mut heard = [0; CONFIRMATION];
    let (length, message) = record.split_at(2);
    usize::from(u16::from_le_bytes([length[0], length[1]])) == message.len()
        && matches!(keys.read_message(0, message, &mut heard), Ok(count) if heard[..count] == PREAMBLE[..])
}

#[cfg(test)]
mod tests;
