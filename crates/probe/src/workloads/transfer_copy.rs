//! `transfer.copy`: files from one process to another over TCP, by the engine of `oscope transfer`.
//!
//! Two of its parameters do on purpose what the programs of OS Project 2 (docs/sources.md) may have done by accident,
//! and show what that costs: a side that comes late and a peer that sleeps before it tries again (`meeting`), small
//! writes against delayed acknowledgements (`writes`).

mod listen_endpoint;
mod parameters;
mod receiver;
mod sender;
mod small;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::ipc::measured_peer::{BothResults, Kind, MeasuredPeer};
use super::ipc::placement::{Placement, Seats};
use super::ipc::usage::Usage;
use super::transfer::check;
use super::transfer::folder::Folder;
use crate::description::{Description, Metrics};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use listen_endpoint::ListenEndpoint;
use oscope_sys::error::Failure;
use oscope_sys::net::{Link, LinkFailure};
use oscope_transfer::{DigestKind, ReceiveOptions, SendOptions, Source};
pub use parameters::Parameters;
use parameters::{ConnectMode, Network, Values, Writes};
use receiver::{Answer, Job, Receiver, Side};
use sender::{Place, Sender, Sent, sources};

const GIB: f64 = (1 << 30) as f64;
/// Where both are without a network of their own.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Most bytes of the files that are exchanged before the first repetition.
const REHEARSED_BYTES: u64 = 16 << 20;
/// Most of those files.
const REHEARSED_FILES: usize = 1000;

/// The prepared workload. The receiver comes first, since it is to be gone before its files are.
pub struct TransferCopy {
    /// There is none after a transfer that left it waiting: the next repetition makes another.
    receiver: Option<MeasuredPeer<(), Job, Answer>>,
    /// Where the receiver will be found, where it is the one to be found.
    address: Option<SocketAddr>,
    sender: Sender,
    folder: Folder,
    link: Option<Arc<Link>>,
    notes: Vec<String>,
    parameters: Parameters,
    seats: Seats,
}

/// What both sides did, where the receiver was there to the end.
type Both = BothResults<Result<Sent, Failure>, Answer>;

/// Why there is no link, and what to do instead.
fn no_link(reason: LinkFailure) -> Failure {
    let remedy = match reason {
        LinkFailure::Other(failure) => return failure,
        LinkFailure::NoNetwork(failure) => {
            return failure.with_alternative("choose where=loopback");
        }
        LinkFailure::NoDelay => {
            "measure in a guest, whose kernel has it (--on guest), or choose delay=0 and loss=0"
        }
        LinkFailure::NoRate => {
            "measure in a guest, whose kernel has both (--on guest), or choose rate=0"
        }
    };
    Failure::unavailable(reason.to_string(), remedy)
}

impl Workload for TransferCopy {
    type Parameters = Parameters;

    fn describe() -> Description {
        parameters::description()
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let shape = parameters.shape()?;
        let mut notes = parameters.remarks();
        let seats = Placement::Free.assign_cpus(context)?;
        let link = match parameters.network {
            Network::Loopback => None,
            Network::Namespaces => Some(Arc::new(Link::make(&shape).map_err(no_link)?)),
        };
        notes.extend(link.iter().map(|link| link.note.clone()));
        let folder = Folder::make(&parameters.folder, parameters.files)?;
        let mut prepared = Self {
            receiver: None,
            address: None,
            sender: Sender {
                late: parameters.late(),
                writes: parameters.writes,
                options: SendOptions {
                    method: parameters.sender,
                    digest: parameters.digest,
                    ..SendOptions::default()
                },
                receiver: parameters.receiver,
                sources: sources(&folder),
            },
            folder,
            link,
            notes,
            parameters,
            seats,
        };
        let meeting = prepared.parameters.meeting;
        let rehearsed = match shape.is_none() {
            true => prepared.rehearsed(),
            false => 0,
        };
        let mut region = Region::new(context.clock);
        if rehearsed == 0 {
            prepared.spawn_peer(meeting, &mut region)?;
        } else {
            prepared.spawn_peer(ConnectMode::Ready, &mut region)?;
            let done = prepared.transfer(ConnectMode::Ready, rehearsed, &mut region)?;
            prepared.judged(done)?;
        }
        Ok(prepared)
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    // The first repetition is as good as the last: what it needs is ready, and both sides meet by themselves.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.folder.clear()?;
        let meeting = self.parameters.meeting;
        if self.receiver.is_none() {
            let clock = region.clock();
            self.spawn_peer(meeting, &mut Region::new(clock))?;
        }
        let done = self.transfer(meeting, self.sender.sources.len(), region)?;
        let usages = (done.own_usage, done.other_usage);
        let (own, received) = self.judged(done)?;
        let (sent, received) = (used(own.side, usages.0), used(received, usages.1));
        let time_ns = region.clock().nanoseconds(region.corrected()?);
        let mut notes = self.notes.clone();
        notes.extend(own.notes);
        Ok(Work {
            metrics: values(time_ns, own.wait_ns, sent, received).values(),
            done: received.files,
            wanted: self.folder.files().len() as u64,
            notes,
        })
    }

    fn verify(&mut self, work: &Work) -> Result<(), Failure> {
        if work.done != work.wanted {
            return Err(Failure::failed(format!(
                "{} files were received, and {} sent",
                work.done, work.wanted
            )));
        }
        check::arrived(&self.folder)
    }
}

impl TransferCopy {
    /// Make the receiver, and have it be found as this meeting has it.
    fn spawn_peer(&mut self, first: ConnectMode, region: &mut Region) -> Result<(), Failure> {
        let receiver = spawn_peer(
            &self.parameters,
            &self.folder,
            self.link.clone(),
            &self.seats,
        )?;
        let receiver = self.receiver.insert(receiver);
        let settled = receiver.measure(region, Job::Settle(first), |()| Ok(()));
        let answer = self.given(settled)?.other;
        self.hear(answer).map(drop)
    }

    /// How many of the files are exchanged before the first repetition.
    fn rehearsed(&self) -> usize {
        let mut bytes = 0;
        let fit = |source: &&Source| {
            bytes += source.size;
            bytes <= REHEARSED_BYTES
        };
        let files = self.sender.sources.iter().take(REHEARSED_FILES);
        files.take_while(fit).count()
    }

    /// One transfer of the first `count` files, by both sides.
    fn transfer(
        &mut self,
        meeting: ConnectMode,
        count: usize,
        region: &mut Region,
    ) -> Result<Both, Failure> {
        let known = || {
            let address = self.address;
            address.ok_or_else(|| Failure::failed("the receiver listens nowhere"))
        };
        // The connection belongs to the namespace in which its socket is made.
        let visit = self.link.as_ref().map(|link| link.sender.enter());
        let visit = visit.transpose()?;
        let place = match meeting {
            ConnectMode::Ready => Place::There(known()?),
            ConnectMode::Retry => Place::Later(known()?),
            ConnectMode::ReceiverRetry => {
                Place::Here(ListenEndpoint::new(meeting, self.own_address())?)
            }
        };
        let job = match &place {
            Place::Here(door) => Job::Fetch(door.address),
            Place::There(_) | Place::Later(_) => Job::LetIn,
        };
        let (sender, folder) = (&self.sender, &self.folder);
        let receiver = self.receiver.as_mut();
        let receiver = receiver.ok_or_else(|| Failure::failed("there is no receiver"))?;
        let done = receiver.measure(region, job, |()| sender.send(place, count, folder));
        drop(visit);
        self.given(done)
    }

    fn own_address(&self) -> IpAddr {
        match &self.link {
            Some(link) => link.sender_address(),
            None => HERE,
        }
    }

    /// After a job that the sender gave up, or that the receiver did not live to end, there is no receiver; what it
    /// said counts first.
    fn given<T>(
        &mut self,
        done: Result<BothResults<T, Answer>, Failure>,
    ) -> Result<BothResults<T, Answer>, Failure> {
        done.map_err(|failure| {
            let receiver = self.receiver.take();
            let answer = receiver.and_then(|receiver| receiver.left_behind());
            let heard = answer.and_then(|answer| self.hear(answer).err());
            self.address = None;
            heard.unwrap_or(failure)
        })
    }

    /// What both sides did, or why not. The receiver is heard in any case: it also sends where it will be found the
    /// next time.
    fn judged(&mut self, done: Both) -> Result<(Sent, Side), Failure> {
        match (done.own, self.hear(done.other)) {
            (Ok(own), received) => Ok((own, received?)),
            // An exchange that has no words for it: either may be only that the other has gone.
            (Err(own), Err(received)) if self.sender.writes != Writes::Whole => {
                Err(Failure::failed(format!("{own}; {received}")))
            }
            (Err(own), _) => Err(own),
        }
    }

    /// Take what the receiver answered.
    fn hear(&mut self, answer: Answer) -> Result<Side, Failure> {
        self.address = answer.next;
        answer
            .received
            .map_err(|error| error.failure().context("the receiver"))
    }
}

fn spawn_peer(
    parameters: &Parameters,
    folder: &Folder,
    link: Option<Arc<Link>>,
    seats: &Seats,
) -> Result<MeasuredPeer<(), Job, Answer>, Failure> {
    let at = match &link {
        Some(link) => link.address(),
        None => HERE,
    };
    let mut receiver = Receiver {
        link,
        at,
        meeting: parameters.meeting,
        late: parameters.late(),
        writes: parameters.writes,
        destination: folder.destination(),
        options: ReceiveOptions {
            method: parameters.receiver,
            verify: parameters.digest != DigestKind::None,
            ..ReceiveOptions::default()
        },
        door: None,
    };
    MeasuredPeer::spawn(
        Kind::Process,
        seats,
        |_| Ok(()),
        move |job| receiver.work(job),
    )
}

/// What a side used, where it has one thread, of which `usage` is.
fn used(side: Side, usage: Usage) -> Side {
    let of_thread = (usage.cpu_s, usage.voluntary + usage.involuntary);
    Side {
        used: side.used.or(Some(of_thread)),
        ..side
    }
}

fn values(time_ns: f64, wait_ns: u64, sent: Side, received: Side) -> Values {
    let switches = |side: Side| side.used.map(|(_, switches)| switches);
    let cpu_s_per_gib = |side: Side| {
        let (cpu_s, _) = side.used.filter(|_| side.bytes > 0)?;
        Some(cpu_s * GIB / side.bytes as f64)
    };
    Values {
        time_ns,
        receiver_time_ns: received.time_ns as f64,
        bytes: received.bytes as f64,
        bytes_per_s: (time_ns > 0.0).then(|| received.bytes as f64 * 1e9 / time_ns),
        calls: sent.calls as f64,
        receiver_calls: received.calls as f64,
        switches: switches(sent),
        receiver_switches: switches(received),
        cpu_s_per_gib: cpu_s_per_gib(sent),
        receiver_cpu_s_per_gib: cpu_s_per_gib(received),
        wait_ns: wait_ns as f64,
    }
}

#[cfg(test)]
mod tests;
