//! `transfer.copy`: files from one process to another over TCP, by the engine of `oscope transfer`.
//!
//! Two of its parameters do on purpose what the document's programs may have done by accident, and show what that costs: a side that comes late
//! and a peer that sleeps before it tries again (`meeting`), small writes against delayed acknowledgements (`writes`).

mod meeting;
mod parameters;
mod receiver;
mod small;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use super::ipc::partner::{Kind, Partner, Together};
use super::ipc::placement::{Placement, Seats};
use super::ipc::usage::Usage;
use super::transfer::check;
use super::transfer::folder::Folder;
use crate::description::Description;
use crate::error::Failure;
use crate::net::Link;
use crate::region::Region;
use crate::transfer::{self, DigestKind, Progress, ReceiveOptions, SendOptions, Source};
use crate::workload::{Context, Iterations, Work, Workload};
pub use parameters::Parameters;
use parameters::{Meeting, Network, Writes};
use receiver::{Answer, Job, Receiver, Side};

const GIB: f64 = (1 << 30) as f64;

/// The prepared workload. The receiver comes first, since it is to be gone before its files are.
pub struct TransferCopy {
    receiver: Partner<Job, Answer>,
    /// Where the receiver will be found.
    address: Option<SocketAddr>,
    sender: Sender,
    folder: Folder,
    link: Option<Arc<Link>>,
    notes: Vec<String>,
    _seats: Seats,
}

/// How the measured process sends.
struct Sender {
    meeting: Meeting,
    writes: Writes,
    options: SendOptions,
    sources: Vec<Source>,
}

/// What came of sending.
struct Sent {
    side: Side,
    wait_ns: u64,
    notes: Vec<String>,
}

impl Workload for TransferCopy {
    type Parameters = Parameters;

    fn describe() -> Description {
        parameters::description()
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let shape = parameters.shape()?;
        let mut notes = parameters.remarks();
        let seats = Placement::Free.seats(context)?;
        let link = match parameters.network {
            Network::Loopback => None,
            Network::Namespaces => Some(Arc::new(Link::make(&shape)?)),
        };
        notes.extend(link.iter().map(|link| link.note.clone()));
        let folder = Folder::make(&parameters.folder, parameters.files)?;
        let receiver = hire(&parameters, &folder, link.clone(), &seats)?;
        let mut prepared = Self {
            receiver,
            address: None,
            sender: Sender {
                meeting: parameters.meeting,
                writes: parameters.writes,
                options: SendOptions {
                    method: parameters.sender,
                    digest: parameters.digest,
                    ..SendOptions::default()
                },
                sources: sources(&folder),
            },
            folder,
            link,
            notes,
            _seats: seats,
        };
        let mut region = Region::new(context.clock);
        let settled = prepared
            .receiver
            .measure(&mut region, Job::Settle, || Ok(()))?;
        prepared.hear(settled.other)?;
        Ok(prepared)
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.folder.clear()?;
        let done = self.transfer(region)?;
        let received = self.hear(done.other)?;
        let received = used(received, done.other_usage);
        let sent = used(done.own.side, done.own_usage);
        let time_ns = region.clock().nanoseconds(region.corrected()?);
        let mut notes = self.notes.clone();
        notes.extend(done.own.notes);
        Ok(Work {
            metrics: figures(time_ns, done.own.wait_ns, sent, received),
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
    /// One transfer, by both sides.
    fn transfer(&mut self, region: &mut Region) -> Result<Together<Sent, Answer>, Failure> {
        let address = self.address.take();
        let address = address.ok_or_else(|| Failure::failed("the receiver listens nowhere"))?;
        let (sender, folder) = (&self.sender, &self.folder);
        // The connection belongs to the namespace in which its socket is made.
        let visit = self.link.as_ref().map(|link| link.sender.enter());
        let visit = visit.transpose()?;
        let done = self
            .receiver
            .measure(region, Job::Receive, || sender.send(address, folder));
        drop(visit);
        done
    }

    /// Take what the receiver answered.
    fn hear(&mut self, answer: Answer) -> Result<Side, Failure> {
        self.address = answer.next;
        answer
            .received
            .map_err(|told| told.failure().about("the receiver"))
    }
}

impl Sender {
    /// Connect and send everything.
    fn send(&self, address: SocketAddr, folder: &Folder) -> Result<Sent, Failure> {
        let started = Instant::now();
        let stream = meeting::connect(self.meeting, address)?;
        let wait_ns = started.elapsed().as_nanos() as u64;
        let mut notes = Vec::new();
        let side = match self.writes {
            Writes::Whole => {
                let mut watch = |progress: Progress| {
                    if let Progress::Note(text) = progress {
                        notes.push(text.to_owned());
                    }
                };
                let sent = transfer::send(stream, &self.sources, &self.options, &mut watch)?;
                let asked = self.options.method.name();
                if sent.here.method != asked {
                    notes.push(format!("sender={asked} used {}", sent.here.method));
                }
                Side::from(&sent.here)
            }
            Writes::Small | Writes::Nodelay => {
                let nodelay = self.writes == Writes::Nodelay;
                small::send(stream, &folder.source(), folder.files(), nodelay)?.into()
            }
        };
        Ok(Sent {
            side,
            wait_ns,
            notes,
        })
    }
}

fn hire(
    parameters: &Parameters,
    folder: &Folder,
    link: Option<Arc<Link>>,
    seats: &Seats,
) -> Result<Partner<Job, Answer>, Failure> {
    let at = match &link {
        Some(link) => link.address(),
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
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
    Partner::hire(Kind::Process, seats, move |job| receiver.work(job))
}

fn sources(folder: &Folder) -> Vec<Source> {
    let source = folder.source();
    let of = |one: &super::transfer::files::One| Source {
        path: source.join(one.name()),
        name: one.name().into_bytes(),
        size: one.length,
        mode: one.mode,
        mtime_ns: one.modified_ns,
    };
    folder.files().iter().map(of).collect()
}

/// What a side used, where it has one thread, of which `usage` is.
fn used(side: Side, usage: Usage) -> Side {
    let of_thread = (usage.cpu_s, usage.voluntary + usage.involuntary);
    Side {
        used: side.used.or(Some(of_thread)),
        ..side
    }
}

fn figures(time_ns: f64, wait_ns: u64, sent: Side, received: Side) -> Vec<(&'static str, f64)> {
    let mut metrics = vec![
        ("time_ns", time_ns),
        ("receiver_time_ns", received.time_ns as f64),
        ("bytes", received.bytes as f64),
        ("calls", sent.calls as f64),
        ("receiver_calls", received.calls as f64),
        ("wait_ns", wait_ns as f64),
    ];
    if time_ns > 0.0 {
        metrics.push(("bytes_per_s", received.bytes as f64 * 1e9 / time_ns));
    }
    let sides = [
        (sent, "switches", "cpu_s_per_gib"),
        (received, "receiver_switches", "receiver_cpu_s_per_gib"),
    ];
    for (side, switches, cpu) in sides {
        let Some((cpu_s, switched)) = side.used else {
            continue;
        };
        metrics.push((switches, switched));
        if side.bytes > 0 {
            metrics.push((cpu, cpu_s * GIB / side.bytes as f64));
        }
    }
    metrics
}

#[cfg(test)]
mod tests;
