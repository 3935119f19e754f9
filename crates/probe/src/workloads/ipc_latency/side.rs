//! One side of a ping-pong.

use std::ops::Range;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::recorder::Recorder;
use crate::workloads::ipc::channel::Duplex;
use crate::workloads::ipc::pattern;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Bytes of a message that hold its number.
const NUMBER: usize = 8;

/// Round trips to be made, and the number of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Job {
    /// The number of the first message.
    pub first: u64,
    /// How many.
    pub rounds: u64,
}

impl Job {
    fn all(self) -> Range<u64> {
        self.first..self.first + self.rounds
    }
}

/// The number of the message that opens a round trip. A message that came back as it went would not be the answer.
fn question(round: u64) -> u64 {
    2 * round
}

/// The number of the message that ends it.
fn answer(round: u64) -> u64 {
    2 * round + 1
}

/// What a side received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Whole messages.
    pub messages: u64,
    /// Those of them that were not what was sent.
    pub wrong: u64,
}

/// A side: its end of the channel, and a message each way.
pub struct Side {
    /// Gone once this side has hung up.
    duplex: Option<Duplex>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Side {
    /// A side with messages of `size` bytes.
    pub fn new(duplex: Duplex, size: usize) -> Self {
        let mut outgoing = vec![0; size];
        pattern::fill(&mut outgoing);
        Self {
            duplex: Some(duplex),
            outgoing,
            incoming: vec![0; size],
        }
    }

    /// Look from now on, while waiting, whether the other side's process lives.
    pub fn watch(&mut self, process: Option<Pid>) {
        if let Some(duplex) = &mut self.duplex {
            duplex.sender.watch(process);
            duplex.receiver.watch(process);
        }
    }

    /// Send each message and wait for its answer, entering the time of every round trip.
    ///
    /// # Errors
    /// `Failure::Failed` if the other side has gone, or a signal came.
    pub fn ask(&mut self, job: Job, recorder: &mut Recorder) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        recorder.begin();
        for round in job.all() {
            self.send(question(round))
                .and_then(|()| self.receive(answer(round), &mut tally))
                .map_err(|error| broken(round - job.first, error))?;
            recorder.enter()?;
            if cancel::requested() {
                return Err(broken(round - job.first, Errno::EINTR));
            }
        }
        Ok(tally)
    }

    /// Wait for each message and answer it. What is given up is hung up, and seen by the messages that lack.
    pub fn answer(&mut self, job: Job) -> Tally {
        let mut tally = Tally::default();
        for round in job.all() {
            let answered = self
                .receive(question(round), &mut tally)
                .and_then(|()| self.send(answer(round)));
            if answered.is_err() {
                self.duplex = None;
                return tally;
            }
        }
        let last = job.all().last().map(question);
        let broken = last.is_some_and(|number| self.first_wrong(number).is_some());
        tally.wrong = tally.wrong.max(u64::from(broken));
        tally
    }

    /// The place of the first byte of the last answer to `job` that is wrong; to be asked once `ask` is through.
    pub fn wrong_answer(&self, job: Job) -> Option<u64> {
        self.first_wrong(answer(job.all().last()?))
    }

    /// The place of the first byte of what was received last that is not that of the message of this number.
    fn first_wrong(&self, number: u64) -> Option<u64> {
        let size = self.incoming.len();
        let begin = number * size as u64;
        pattern::first_wrong(size, begin, &self.incoming).map(|place| place - begin)
    }

    /// Send the message of this number, whole.
    // By force, as in `ipc_throughput::transfer`.
    #[inline(always)]
    fn send(&mut self, number: u64) -> Result<(), Errno> {
        pattern::stamp(&mut self.outgoing, number);
        let duplex = self.duplex.as_mut().ok_or(Errno::EPIPE)?;
        let mut sent = 0;
        while sent < self.outgoing.len() {
            sent += uninterrupted(duplex.sender.send(&self.outgoing[sent..]))?;
        }
        Ok(())
    }

    /// Receive a message, whole, which must be that of this number.
    #[inline(always)]
    fn receive(&mut self, number: u64, tally: &mut Tally) -> Result<(), Errno> {
        let duplex = self.duplex.as_mut().ok_or(Errno::EPIPE)?;
        let mut received = 0;
        while received < self.incoming.len() {
            match duplex.receiver.receive(&mut self.incoming[received..]) {
                Ok(0) => return Err(Errno::EPIPE),
                answer => received += uninterrupted(answer)?,
            }
        }
        tally.messages += 1;
        let length = self.incoming.len().min(NUMBER);
        tally.wrong += u64::from(self.incoming[..length] != number.to_le_bytes()[..length]);
        Ok(())
    }
}

/// Bytes moved by a call; none by one that a signal without meaning broke off.
fn uninterrupted(answer: Result<usize, Errno>) -> Result<usize, Errno> {
    match answer {
        Err(Errno::EINTR) if !cancel::requested() => Ok(0),
        other => other,
    }
}

fn broken(round: u64, error: Errno) -> Failure {
    match error {
        Errno::EPIPE | Errno::ECONNRESET => {
            Failure::failed(format!("the other side hung up after {round} round trips"))
        }
        Errno::EINTR => Failure::failed("interrupted by a signal"),
        error => Failure::system(&format!("round trip {round}"), error),
    }
}

#[cfg(test)]
impl Side {
    /// Tip a bit of what was received last.
    pub fn tip(&mut self, place: usize) {
        self.incoming[place] ^= 1;
    }
}
