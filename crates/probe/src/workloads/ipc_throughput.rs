//! `ipc.throughput`: how fast bytes go from one side to the other, within a thread, between threads, between processes.

mod figures;
mod limits;
mod transfer;
pub mod verb;

use clap::ValueEnum;
use nix::errno::Errno;
use nix::unistd::Pid;
use serde::Deserialize;

use super::ipc::channel::{self, Plan, Sender, Waiting};
use super::ipc::measured_peer::{Kind as Other, MeasuredPeer};
use super::ipc::placement::{Placement, Seats};
use super::ipc::usage::Usage;
use crate::description::{Describe, Description};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use figures::Figures;
use oscope_sys::error::Failure;
use transfer::{Check, Job, Sink, Source, Tally, alone};

/// Bytes of the trial transfer of which every byte is compared, unless two blocks are more.
const TRIAL_BYTES: u64 = 16 << 20;

/// Parameters of `ipc.throughput`.
#[derive(Debug, Clone, Copy, Deserialize, Describe)]
pub struct Parameters {
    /// pipe; local: a pair of stream sockets, seqpacket: of message sockets (AF_UNIX); tcp: over 127.0.0.1, with
    /// TCP_NODELAY; shm: a ring of 1 MiB in shared memory, copied in and out, with a futex; vmsplice: a pipe that
    /// refers to the sender's pages.
    #[parameter(choice("pipe"))]
    channel: channel::Kind,
    /// 1thread: one thread sends and receives in turn; 2thread: another thread sends; 2proc: another process does.
    #[parameter(choice("1thread"))]
    mode: Mode,
    /// Length of a block, and of the buffer on either side: what a call asks to send or receive at most.
    #[parameter(bytes(128 << 10, 1..=1 << 30))]
    buffer: u64,
    /// What is transferred in a repetition; the last block is short where it is no multiple of buffer.
    #[parameter(bytes(16 << 20, 1..=1 << 40))]
    total: u64,
    /// buffer: SO_SNDBUF and SO_RCVBUF of sockets are set to the length of a block; without effect on other channels.
    #[parameter(choice("default"))]
    sockbuf: SocketBuffer,
    /// free: both sides may use every CPU allowed to the probe; same: both are kept on one; other: each on one of its
    /// own.
    #[parameter(choice("free"))]
    placement: Placement,
    /// ends: the receiver compares the first and last 8 bytes of what each call gave with what must be there, and one
    /// transfer (16 MiB or two blocks at most) is compared byte by byte beforehand; every: all bytes, within the clock;
    /// none: bytes are counted only.
    #[parameter(choice("ends"))]
    check: Check,
}

/// Who sends and who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
enum Mode {
    /// One thread does both, in turn.
    #[serde(rename = "1thread")]
    #[value(name = "1thread")]
    OneThread,
    /// The calling thread receives, another sends.
    #[serde(rename = "2thread")]
    #[value(name = "2thread")]
    TwoThreads,
    /// The calling process receives, another sends.
    #[serde(rename = "2proc")]
    #[value(name = "2proc")]
    TwoProcesses,
}

/// Sizes of the socket buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SocketBuffer {
    /// The kernel's.
    Default,
    /// That of a block.
    Buffer,
}

/// What is done before the first transfer, beside making the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preparation {
    /// The channel's capacity is measured, and a trial transfer is compared byte by byte.
    Trial,
    /// Nothing: the calls of a transfer are the only ones.
    None,
}

/// Who sends, and how it went the last time. Errors of the kernel travel as such.
type Sent = (Tally, Option<Errno>);

/// Who sends to the calling thread.
enum Sides {
    /// The thread itself.
    One(Box<Source>, Sink),
    /// Another thread or process.
    Two(MeasuredPeer<Sink, Job, Sent>),
}

/// The prepared workload.
pub struct IpcThroughput {
    sides: Sides,
    job: Job,
    capacity: Option<u64>,
    notes: Vec<String>,
    _seats: Seats,
}

impl Workload for IpcThroughput {
    type Parameters = Parameters;

    fn describe() -> Description {
        figures::description()
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        Self::connect(parameters, context, Preparation::Trial, |_| ())
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let figures = self.transfer(self.job, region)?;
        let time_s = region.clock().nanoseconds(region.corrected()?) / 1e9;
        Ok(Work {
            metrics: figures.metrics(time_s)?,
            done: figures.received.bytes,
            wanted: self.job.total,
            notes: self.notes.clone(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        match self.sink().and_then(|sink| sink.wrong) {
            None => Ok(()),
            Some(offset) => Err(Failure::failed(format!(
                "the byte at offset {offset} of the stream is not the one that was sent"
            ))),
        }
    }
}

impl IpcThroughput {
    /// Make both sides and the channel between them; `change` may spoil what will be sent.
    fn connect(
        parameters: Parameters,
        context: &Context,
        preparation: Preparation,
        change: impl FnOnce(&mut Source),
    ) -> Result<Self, Failure> {
        let block = usize::try_from(parameters.buffer).map_err(|_| {
            Failure::request("buffer", "does not fit into this machine's addresses")
        })?;
        let seats = placement(&parameters).assign_cpus(context)?;
        let plan = plan(&parameters, block, seats.crowded);
        let mut notes = remarks(&parameters);
        let (sender, mut receiver) = channel::one_way(plan)?;
        notes.extend(granted(plan, &sender, &receiver)?);
        let slots = slots(block, &sender)?;
        let mut source = Source::new(sender, block, slots)?;
        let message = limits::message(plan, source.block())?;
        if message < block {
            notes.push(format!(
                "a message holds at most {message} B here: each block of {block} B is sent as {} messages",
                block.div_ceil(message)
            ));
        }
        source.limit_calls(message);
        let mut capacity = None;
        if preparation == Preparation::Trial {
            capacity = limits::capacity(plan, &source.block()[..message])?;
            notes.extend(capacity.is_none().then(|| {
                "capacity: the channel was not full after a second of small pieces".to_owned()
            }));
        }
        change(&mut source);
        // Made last, so that a forked sender has no copy of it.
        let sink = |process| {
            receiver.watch(process);
            Sink::new(receiver, block)
        };
        let sides = match parameters.mode {
            Mode::OneThread => Sides::One(Box::new(source), sink(None)?),
            Mode::TwoThreads => Sides::Two(spawn_peer(Other::Thread, &seats, sink, source)?),
            Mode::TwoProcesses => Sides::Two(spawn_peer(Other::Process, &seats, sink, source)?),
        };
        let mut prepared = Self {
            sides,
            job: Job {
                total: parameters.total,
                check: parameters.check,
            },
            capacity,
            notes,
            _seats: seats,
        };
        if preparation == Preparation::Trial {
            prepared.try_out(block as u64, context)?;
        }
        Ok(prepared)
    }

    /// The receiving side; `None` after a transfer that was given up.
    fn sink(&mut self) -> Option<&mut Sink> {
        match &mut self.sides {
            Sides::One(_, sink) => Some(sink),
            Sides::Two(peer) => peer.end(),
        }
    }

    /// Compare every byte of a transfer once, outside the clock, where repetitions look at the ends only.
    fn try_out(&mut self, block: u64, context: &Context) -> Result<(), Failure> {
        if self.job.check != Check::Ends {
            return Ok(());
        }
        let job = Job {
            total: self.job.total.min(TRIAL_BYTES.max(2 * block)),
            check: Check::Every,
        };
        self.transfer(job, &mut Region::new(context.clock))?;
        self.verify(&Work::default())
    }

    /// One transfer.
    fn transfer(&mut self, job: Job, region: &mut Region) -> Result<Figures, Failure> {
        match &mut self.sides {
            Sides::One(source, sink) => {
                let before = Usage::now()?;
                let done = region.measure(|| alone(source, sink, job));
                let usage = Usage::now()?.since(before);
                let (sent, received) = done?;
                Ok(Figures {
                    sent,
                    received,
                    sender: usage,
                    receiver: None,
                    capacity: self.capacity,
                })
            }
            Sides::Two(peer) => {
                let done = match peer.measure(region, job, |sink| sink.receive(job)) {
                    Ok(done) => done,
                    Err(failure) => return Err(senders_error(peer, job).unwrap_or(failure)),
                };
                Ok(Figures {
                    sent: done.other.0,
                    received: done.own,
                    sender: done.other_usage,
                    receiver: Some(done.own_usage),
                    capacity: self.capacity,
                })
            }
        }
    }
}

/// One thread has both ends of the channel on its CPU.
fn placement(parameters: &Parameters) -> Placement {
    match (parameters.mode, parameters.placement) {
        (Mode::OneThread, Placement::Other) => Placement::Same,
        (_, asked) => asked,
    }
}

/// The channel to be made; `crowded` is whether both sides have but one CPU.
fn plan(parameters: &Parameters, block: usize, crowded: bool) -> Plan {
    Plan {
        kind: parameters.channel,
        waiting: match parameters.mode {
            Mode::OneThread => Waiting::Refuses,
            _ if crowded => Waiting::Sleeps,
            _ => Waiting::Spins,
        },
        socket_buffer: (parameters.sockbuf == SocketBuffer::Buffer).then_some(block),
    }
}

/// The error of the kernel that made the sender stop, if that is why the transfer ended before its time.
fn senders_error(peer: &MeasuredPeer<Sink, Job, Sent>, job: Job) -> Option<Failure> {
    let (tally, error) = peer.left_behind()?;
    error.map(|error| tally.stopped("sending", error, job))
}

fn spawn_peer(
    kind: Other,
    seats: &Seats,
    sink: impl FnOnce(Option<Pid>) -> Result<Sink, Failure>,
    mut source: Source,
) -> Result<MeasuredPeer<Sink, Job, Sent>, Failure> {
    MeasuredPeer::spawn(kind, seats, sink, move |job| source.send(job))
}

/// Notes on these parameters, for the record.
fn remarks(parameters: &Parameters) -> Vec<String> {
    let Parameters {
        buffer,
        total,
        mode,
        placement,
        ..
    } = *parameters;
    let mut notes = Vec::new();
    if total < buffer {
        notes.push(format!("total is less than buffer: one block of {total} B"));
    } else if total % buffer != 0 {
        notes.push(format!(
            "total is no multiple of buffer: the last block has {} B",
            total % buffer
        ));
    }
    if mode == Mode::OneThread && placement == Placement::Other {
        notes.push("placement=other: one thread has no other side; it stays on one CPU".to_owned());
    }
    if parameters.sockbuf == SocketBuffer::Buffer && !parameters.channel.is_socket() {
        notes.push("sockbuf=buffer is without effect: this channel has no socket".to_owned());
    }
    notes
}

/// What the kernel made of the buffers asked for.
fn granted(
    plan: Plan,
    sender: &Sender,
    receiver: &channel::Receiver,
) -> Result<Option<String>, Failure> {
    match (
        plan.socket_buffer,
        sender.descriptor(),
        receiver.descriptor(),
    ) {
        (Some(asked), Some(sender), Some(receiver)) if plan.kind.is_socket() => {
            limits::granted(asked, sender, receiver)
        }
        _ => Ok(None),
    }
}

/// Blocks that must lie in memory: where a pipe refers to them, as many as it may refer to, one that is read and one
/// that is written.
fn slots(block: usize, sender: &Sender) -> Result<usize, Failure> {
    let Sender::Spliced(pipe, _) = sender else {
        return Ok(1);
    };
    let pages = limits::pipe_pages(pipe)?;
    Ok(pages / block.div_ceil(limits::PAGE_BYTES) + 2)
}

#[cfg(test)]
mod tests;
