//! `ipc.latency`: how long a message takes there and back.

mod recorder;
mod side;

use serde::Deserialize;

use super::ipc::channel::{self, Plan, Waiting, both_ways};
use super::ipc::measured_peer::{self, BothResults, MeasuredPeer};
use super::ipc::placement::{Placement, Seats};
use crate::clock::Clock;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::region::Region;
use crate::workload::{Context, Work, Workload};
use oscope_sys::error::Failure;
use recorder::Recorder;
use side::{Job, Side, Tally};

/// Fewer round trips do not determine the 99th percentile.
const LEAST_FOR_P99: u64 = 500;
/// The same for the 99.9th.
const LEAST_FOR_P999: u64 = 5000;

/// Parameters of `ipc.latency`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// pipe: two pipes; local and seqpacket: a pair of AF_UNIX sockets, SOCK_STREAM or SOCK_SEQPACKET; tcp: a
    /// connection over the loopback, TCP_NODELAY; shm: two rings in shared memory, with futexes to sleep on.
    #[parameter(among("pipe", &["pipe", "local", "seqpacket", "tcp", "shm"]))]
    channel: channel::Kind,
    /// The other side is a thread of this process, or a process of its own.
    #[parameter(choice("2proc"))]
    mode: Mode,
    /// Length of a message; it may come in parts, and counts once it is whole.
    #[parameter(bytes(1, 1..=64 << 10))]
    size: usize,
    /// free: both sides may run on every CPU allowed; same: both on the CPU of the request; other: each on a CPU of its
    /// own.
    #[parameter(choice("free"))]
    placement: Placement,
}

/// What the other side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Mode {
    #[serde(rename = "2thread")]
    Threads,
    #[serde(rename = "2proc")]
    Processes,
}

impl Mode {
    fn peer(self) -> measured_peer::Kind {
        match self {
            Self::Threads => measured_peer::Kind::Thread,
            Self::Processes => measured_peer::Kind::Process,
        }
    }
}

/// The prepared workload.
pub struct IpcLatency {
    peer: MeasuredPeer<Side, Job, Tally>,
    recorder: Recorder,
    /// The last repetition's.
    job: Job,
    /// What both sides received in it.
    tallies: Option<(Tally, Tally)>,
    notes: Vec<String>,
    _seats: Seats,
}

impl Workload for IpcLatency {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "ipc.latency",
            version: 1,
            purpose: "How long a message takes to another thread or process and back",
            timing_model: "An iteration is a round trip: a message of size bytes is sent, the other side receives it \
                whole and sends as many back. mean_ns = (raw - correction) / round_trips - r; the others are the time \
                between two readings of the clock after successive round trips less r, from a histogram that keeps \
                three significant digits. r is what one reading and its entry in the histogram cost, measured before \
                (some 30 ns). Inside the clock: the calls of both sides, stamping a number into each message and \
                comparing it (some 10 ns a side). Outside: making the channel and the other side, which stands at the \
                gate when the clock starts (running; asleep where both share a CPU). shm looks for some 20 us before \
                it sleeps, unless both sides have but one CPU.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let seats = parameters.placement.assign_cpus(context)?;
        let plan = Plan {
            kind: parameters.channel,
            waiting: match seats.crowded {
                true => Waiting::Sleeps,
                false => Waiting::Spins,
            },
            socket_buffer: None,
        };
        let (one, other) = both_ways(plan)?;
        let mut other = Side::new(other, parameters.size);
        let own = |process| {
            let mut own = Side::new(one, parameters.size);
            own.watch(process);
            Ok(own)
        };
        let kind = parameters.mode.peer();
        let peer = MeasuredPeer::spawn(kind, &seats, own, move |job| other.answer(job))?;
        let crowded = seats.crowded && parameters.placement != Placement::Same;
        Ok(Self {
            peer,
            recorder: Recorder::new(context.clock)?,
            job: Job::default(),
            tallies: None,
            notes: crowded
                .then(|| "both sides share the only CPU allowed".to_owned())
                .into_iter()
                .collect(),
            _seats: seats,
        })
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let job = Job {
            first: self.job.first + self.job.rounds,
            rounds: iterations,
        };
        self.job = job;
        self.tallies = None;
        self.recorder.clear();
        let recorder = &mut self.recorder;
        let both = self
            .peer
            .measure(region, job, |own| own.ask(job, recorder))?;
        self.tallies = Some((both.own, both.other));
        Ok(Work {
            metrics: self.values(iterations, region, &both)?.values(),
            done: both.own.messages,
            wanted: iterations,
            notes: self.notes.clone(),
        })
    }

    fn verify(&mut self, work: &Work) -> Result<(), Failure> {
        let (own, other) = self
            .tallies
            .ok_or_else(|| Failure::failed("nothing was sent"))?;
        for (who, tally) in [("this side", own), ("the other side", other)] {
            if tally.messages != work.wanted {
                return Err(Failure::failed(format!(
                    "{who} received {} of {} messages",
                    tally.messages, work.wanted
                )));
            }
            if tally.wrong > 0 {
                return Err(Failure::failed(format!(
                    "{} of {} messages that {who} received were not those sent",
                    tally.wrong, tally.messages
                )));
            }
        }
        let own = self.peer.end();
        match own.and_then(|own| own.wrong_answer(self.job)) {
            Some(place) => Err(Failure::failed(format!(
                "byte {place} of the last answer is not what was sent"
            ))),
            None => Ok(()),
        }
    }
}

impl IpcLatency {
    fn values(
        &self,
        rounds: u64,
        region: &Region,
        both: &BothResults<Tally, Tally>,
    ) -> Result<Values, Failure> {
        let each = |sum: f64| sum / rounds as f64;
        let clock: &Clock = region.clock();
        let time = |ticks: f64| clock.nanoseconds(ticks - self.recorder.cost());
        let quantile = |share| time(self.recorder.quantile(share));
        Ok(Values {
            round_trip_ns: quantile(0.5),
            mean_ns: time(each(region.corrected()?)),
            min_ns: time(self.recorder.least()),
            p90_ns: quantile(0.9),
            p99_ns: (rounds >= LEAST_FOR_P99).then(|| quantile(0.99)),
            p999_ns: (rounds >= LEAST_FOR_P999).then(|| quantile(0.999)),
            max_ns: time(self.recorder.most()),
            cpu_ns: each((both.own_usage.cpu_s + both.other_usage.cpu_s) * 1e9),
            round_trips: rounds as f64,
            voluntary: each(both.own_usage.voluntary + both.other_usage.voluntary),
        })
    }
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(time("ns", Quantity::Time).of("a round trip").note("The median."))]
    round_trip_ns: f64,
    #[metric(time("ns", Quantity::Time)
        .per("round trip")
        .note("The mean: that of the repetition divided by its round trips."))]
    mean_ns: f64,
    #[metric(time("ns", Quantity::Time).of("the shortest round trip"))]
    min_ns: f64,
    #[metric(time("ns", Quantity::Time).of("a round trip at the 90th percentile"))]
    p90_ns: f64,
    #[metric(time("ns", Quantity::Time)
        .of("a round trip at the 99th percentile")
        .null_when("below 500 round trips"))]
    p99_ns: Option<f64>,
    #[metric(time("ns", Quantity::Time)
        .of("a round trip at the 99.9th percentile")
        .null_when("below 5000 round trips"))]
    p999_ns: Option<f64>,
    #[metric(time("ns", Quantity::Time).of("the longest round trip"))]
    max_ns: f64,
    #[metric(time("ns", Quantity::CpuTime)
        .of("both sides")
        .per("round trip")
        .note("Polling for the other side and waiting at the start barrier are included."))]
    cpu_ns: f64,
    #[metric(found("1", "round trips"))]
    round_trips: f64,
    #[metric(found("1", "voluntary context switches of both sides").per("round trip"))]
    voluntary: f64,
}

#[cfg(test)]
mod tests;
