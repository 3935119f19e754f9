//! The two sides of a transfer, call by call.
//!
//! What makes a call is inlined by force: where the kernel spoils the predictions of returns on its way (srso.rst of
//! its admin guide), each function that was entered before a system call and left after it costs 20 to 50 ns more.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;

use crate::workloads::ipc::channel::{Receiver, Sender};
use crate::workloads::ipc::pattern;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::mapping::{Mapping, Pages};

/// Bytes that are compared at either end of what a call gave.
const END: usize = 8;
/// Milliseconds after which a wait for a channel that refuses both sides looks for a signal.
const LOOK_MS: u16 = 100;

/// How much of the data is compared at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// The first and the last bytes of what each call gave.
    Ends,
    /// Every byte.
    Every,
    /// Nothing; bytes are counted.
    None,
}

/// What is to be transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Bytes.
    pub total: u64,
    /// How they are checked.
    pub check: Check,
}

/// What one side did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Bytes sent or received.
    pub bytes: u64,
    /// Calls made, refused ones among them.
    pub calls: u64,
    /// Calls that transferred fewer bytes than asked.
    pub short: u64,
    /// Calls that were refused, since the channel was full or empty.
    pub refusals: u64,
}

/// What one call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Moved,
    Refused,
}

impl Tally {
    /// Count one call that asked for so many bytes.
    #[inline]
    fn count(&mut self, asked: usize, answer: Result<usize, Errno>) -> Result<Step, Errno> {
        self.calls += 1;
        match answer {
            Ok(count) => {
                self.bytes += count as u64;
                self.short += u64::from(count < asked);
                Ok(Step::Moved)
            }
            Err(Errno::EAGAIN) => {
                self.refusals += 1;
                Ok(Step::Refused)
            }
            Err(Errno::EINTR) if !cancel::requested() => Ok(Step::Moved),
            Err(error) => Err(error),
        }
    }
}

/// The shape of what is sent.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Bytes of a block.
    block: usize,
    /// Most bytes that one call sends.
    message: usize,
    /// Blocks that lie in a row in memory, each at a page: a channel may refer to all but one.
    slots: usize,
    /// Bytes from the start of one block in memory to that of the next.
    stride: usize,
}

/// The sending side.
pub struct Source {
    /// Gone once it has hung up.
    sender: Option<Sender>,
    shape: Shape,
    memory: Mapping,
}

/// How far a side that sends has come. It is a value of the loop's own, so that it stays in registers: what lies in
/// memory is pushed out of the caches by the data.
#[derive(Debug, Clone, Copy, Default)]
struct Sending {
    /// The number of the block under way, the slot it lies in, and the bytes of it that were sent.
    number: u64,
    slot: usize,
    within: usize,
    tally: Tally,
}

impl Source {
    /// So many blocks in memory, filled, to be sent through `sender`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn new(sender: Sender, block: usize, slots: usize) -> Result<Self, Failure> {
        let shape = Shape {
            block,
            message: block,
            slots,
            stride: match slots {
                1 => block,
                _ => block.next_multiple_of(4096),
            },
        };
        let bytes = (shape.stride * shape.slots) as u64;
        let mut memory = Mapping::new(bytes, Pages::Base)?;
        for slot in memory.as_mut_slice().chunks_mut(shape.stride) {
            pattern::fill(&mut slot[..shape.block]);
        }
        Ok(Self {
            sender: Some(sender),
            shape,
            memory,
        })
    }

    /// The first block in memory.
    pub fn block(&mut self) -> &mut [u8] {
        &mut self.memory.as_mut_slice()[..self.shape.block]
    }

    /// Send at most so many bytes a call.
    pub fn limit_calls(&mut self, message: usize) {
        self.shape.message = message;
    }

    /// Send all of `job`, waiting for room; what was done, and the error that ended it before its time. It has hung up
    /// then.
    pub fn send(&mut self, job: Job) -> (Tally, Option<Errno>) {
        let mut sending = Sending::default();
        while sending.tally.bytes < job.total {
            let step = self.step(&mut sending, job);
            let stop = if cancel::requested() {
                Some(Errno::EINTR)
            } else {
                step.err()
            };
            if stop.is_some() {
                self.sender = None;
                return (sending.tally, stop);
            }
        }
        (sending.tally, None)
    }

    /// One call.
    #[inline(always)]
    fn step(&mut self, sending: &mut Sending, job: Job) -> Result<Step, Errno> {
        let start = sending.slot * self.shape.stride;
        let block = &mut self.memory.as_mut_slice()[start..start + self.shape.block];
        if sending.within == 0 && job.check != Check::None {
            pattern::stamp(block, sending.number);
        }
        let left = job.total - sending.tally.bytes;
        let asked = (block.len() - sending.within).min(self.shape.message);
        let asked = asked.min(usize::try_from(left).unwrap_or(usize::MAX));
        let sender = self.sender.as_mut().ok_or(Errno::EPIPE)?;
        let answer = sender.send(&block[sending.within..sending.within + asked]);
        sending.within += answer.unwrap_or(0);
        if sending.within == block.len() {
            sending.within = 0;
            sending.number += 1;
            sending.slot += 1;
            if sending.slot == self.shape.slots {
                sending.slot = 0;
            }
        }
        sending.tally.count(asked, answer)
    }
}

/// The receiving side.
pub struct Sink {
    receiver: Receiver,
    block: usize,
    memory: Mapping,
    /// Offset of the first byte that was not what it must be.
    pub wrong: Option<u64>,
}

impl Sink {
    /// A buffer as large as a block, for what comes out of `receiver`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn new(receiver: Receiver, block: usize) -> Result<Self, Failure> {
        let memory = Mapping::new(block as u64, Pages::Base)?;
        memory.touch();
        Ok(Self {
            receiver,
            block,
            memory,
            wrong: None,
        })
    }

    /// Receive all of `job`, waiting for data.
    ///
    /// # Errors
    /// `Failure::Failed` if the other side went before its time, the kernel refused, or a signal came.
    pub fn receive(&mut self, job: Job) -> Result<Tally, Failure> {
        self.wrong = None;
        let mut tally = Tally::default();
        while tally.bytes < job.total {
            let step = self.step(&mut tally, job);
            if step.is_err() || cancel::requested() {
                let error = step.err().unwrap_or(Errno::EINTR);
                return Err(tally.stopped("receiving", error, job));
            }
        }
        Ok(tally)
    }

    /// One call. `EPIPE`: the other side has gone.
    #[inline(always)]
    fn step(&mut self, tally: &mut Tally, job: Job) -> Result<Step, Errno> {
        let left = job.total - tally.bytes;
        let asked = self.block.min(usize::try_from(left).unwrap_or(usize::MAX));
        let into = &mut self.memory.as_mut_slice()[..asked];
        let answer = self.receiver.receive(into);
        match answer {
            Ok(0) => return Err(Errno::EPIPE),
            Ok(count) if job.check != Check::None && self.wrong.is_none() => {
                self.wrong = wrong(job.check, self.block, tally.bytes, &into[..count]);
            }
            _ => {}
        }
        tally.count(asked, answer)
    }
}

impl Tally {
    /// Why a transfer ended before its time.
    pub fn stopped(self, doing: &str, error: Errno, job: Job) -> Failure {
        let why = match error {
            Errno::EPIPE | Errno::ECONNRESET => "the other side has gone",
            Errno::EINTR => "interrupted by a signal",
            other => other.desc(),
        };
        Failure::failed(format!(
            "{doing}: {why} after {} of {} B",
            self.bytes, job.total
        ))
        .because_of(error)
    }
}

/// The offset of the first byte, among those to be checked, that is wrong.
#[inline]
fn wrong(check: Check, block: usize, offset: u64, data: &[u8]) -> Option<u64> {
    let end = data.len().saturating_sub(END);
    match check {
        Check::None => None,
        Check::Every => pattern::first_wrong(block, offset, data),
        Check::Ends => pattern::first_wrong(block, offset, &data[..data.len().min(END)])
            .or_else(|| pattern::first_wrong(block, offset + end as u64, &data[end..])),
    }
}

/// Send and receive all of `job` by one thread: as much as the channel takes, then what is there, in turn. What either
/// side did.
///
/// # Errors
/// `Failure::Failed` if the kernel refused, or a signal came.
pub fn alone(source: &mut Source, sink: &mut Sink, job: Job) -> Result<(Tally, Tally), Failure> {
    sink.wrong = None;
    let (mut sending, mut received) = (Sending::default(), Tally::default());
    while received.bytes < job.total {
        let sent = match sending.tally.bytes < job.total {
            true => source.step(&mut sending, job),
            false => Ok(Step::Refused),
        };
        let sent = sent.map_err(|error| sending.tally.stopped("sending", error, job))?;
        let taken = sink.step(&mut received, job);
        let taken = taken.map_err(|error| received.stopped("receiving", error, job))?;
        if cancel::requested() {
            return Err(received.stopped("receiving", Errno::EINTR, job));
        }
        if (sent, taken) == (Step::Refused, Step::Refused) {
            let unsent = sending.tally.bytes < job.total;
            wait_for_either(source.sender.as_ref().filter(|_| unsent), sink);
        }
    }
    Ok((sending.tally, received))
}

/// Wait until bytes on their way have arrived, or there is room at `sender` for those still to be sent.
#[cold]
fn wait_for_either(sender: Option<&Sender>, sink: &Sink) {
    let out = sender.and_then(Sender::descriptor);
    let into = sink.receiver.descriptor();
    let mut ends: Vec<_> = into
        .map(|end| PollFd::new(end, PollFlags::POLLIN))
        .into_iter()
        .chain(out.map(|end| PollFd::new(end, PollFlags::POLLOUT)))
        .collect();
    // A failure of the wait makes it a busy one; the calls that follow report what is wrong.
    let _ = poll(&mut ends, PollTimeout::from(LOOK_MS));
}
