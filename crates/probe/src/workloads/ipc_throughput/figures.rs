//! What `ipc.throughput` says about itself, and the figures of a transfer.

use super::Parameters;
use super::transfer::Tally;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::workloads::ipc::usage::Usage;
use oscope_sys::error::Failure;

const MIB: f64 = (1 << 20) as f64;

/// What a transfer came to.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// What the sender did.
    pub sent: Tally,
    /// What the receiver did.
    pub received: Tally,
    /// What the sender used, or the one thread that was both.
    pub sender: Usage,
    /// What the receiver used, if it was another.
    pub receiver: Option<Usage>,
    /// What the channel holds, if that was found.
    pub capacity: Option<u64>,
}

impl Figures {
    /// The metrics of a transfer that took so long; those that have no meaning are left out.
    ///
    /// # Errors
    /// `Failure::Failed` if there is no rate.
    pub fn metrics(&self, time_s: f64) -> Result<Vec<(&'static str, f64)>, Failure> {
        // A time may come out at zero or below, but then there is no rate.
        if time_s <= 0.0 {
            return Err(Failure::failed(
                "the transfer took no longer than reading the clock: ask for a larger total",
            ));
        }
        let (sent, received) = (self.sent, self.received);
        let receiver_cpu_s = self.receiver.map_or(0.0, |usage| usage.cpu_s);
        let receiver = self.receiver;
        let (sender_modes, receiver_modes) = (
            self.sender.modes_s(),
            receiver.and_then(|usage| usage.modes_s()),
        );
        let values = Values {
            throughput: received.bytes as f64 / MIB / time_s,
            time_s,
            cpu_s: self.sender.cpu_s + receiver_cpu_s,
            bytes: received.bytes as f64,
            writes: sent.calls as f64,
            reads: received.calls as f64,
            short_writes: sent.short as f64,
            short_reads: received.short as f64,
            refusals: (sent.refusals + received.refusals) as f64,
            sender_voluntary: self.sender.voluntary,
            sender_involuntary: self.sender.involuntary,
            receiver_voluntary: receiver.map(|usage| usage.voluntary),
            receiver_involuntary: receiver.map(|usage| usage.involuntary),
            sender_user_s: sender_modes.map(|(user_s, _)| user_s),
            sender_system_s: sender_modes.map(|(_, system_s)| system_s),
            receiver_user_s: receiver_modes.map(|(user_s, _)| user_s),
            receiver_system_s: receiver_modes.map(|(_, system_s)| system_s),
            capacity: self.capacity.map(|bytes| bytes as f64),
        };
        Ok(values.values())
    }
}

/// What the workload is, takes and gives.
pub fn description() -> Description {
    Description {
        name: "ipc.throughput",
        version: 1,
        purpose: "How fast bytes go through a channel, within a thread, between two threads, between two processes",
        timing_model: "throughput = total / 2^20 / time_s, time_s = raw - correction. Inside the clock: every call of \
            both sides, from the opening of the gate at which the sender waits (running; asleep where both share a \
            CPU) until the receiver, which is the calling thread, has the last byte; the stamping of the blocks and \
            the checks asked for. Outside: making channel, buffers, thread or process, and asking getrusage, so that \
            a wait at the gate (microseconds) is in the sender's CPU time or switches. In 1thread both ends refuse to \
            wait, and one call of either is made in turn.",
        parameters: Parameters::parameters(),
        metrics: Values::described(),
        needs: vec![],
        programs: vec![],
        alone: SchedulingIsolation::Never,
    }
}

const SHM: &str = "Refused ones included; of shm, calls of the ring's function.";
const ONE: &str = "In 1thread, of the one thread.";
const TWO: &str = "in 1thread";
const FEW: &str = "where the CPU time is less than 10 ticks";
const EITHER: &str = "in 1thread, and where the CPU time is less than 10 ticks";

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(rate("MiB/s", "bytes received"))]
    throughput: f64,
    #[metric(time("s", Quantity::Time).of("the transfer"))]
    time_s: f64,
    #[metric(time("s", Quantity::CpuTime).of("both sides").note("By CLOCK_THREAD_CPUTIME_ID."))]
    cpu_s: f64,
    #[metric(found("B", "bytes received"))]
    bytes: f64,
    #[metric(found("1", "calls that send").note(SHM))]
    writes: f64,
    #[metric(found("1", "calls that receive").note(SHM))]
    reads: f64,
    #[metric(found("1", "calls that sent fewer bytes than requested"))]
    short_writes: f64,
    #[metric(found("1", "calls that received fewer bytes than requested")
        .note("Requested is a block, or the rest of the total."))]
    short_reads: f64,
    #[metric(found("1", "calls refused with EAGAIN").note("The channel was full or empty."))]
    refusals: f64,
    #[metric(found("1", "voluntary context switches of the sender").note(ONE))]
    sender_voluntary: f64,
    #[metric(found("1", "involuntary context switches of the sender").note(ONE))]
    sender_involuntary: f64,
    #[metric(found("1", "voluntary context switches of the receiver").null_when(TWO))]
    receiver_voluntary: Option<f64>,
    #[metric(found("1", "involuntary context switches of the receiver").null_when(TWO))]
    receiver_involuntary: Option<f64>,
    #[metric(time("s", Quantity::UserTime)
        .of("the sender")
        .note(ONE)
        .null_when(FEW)
        .not_compared())]
    sender_user_s: Option<f64>,
    #[metric(time("s", Quantity::SystemTime)
        .of("the sender")
        .note("Most kernels separate it from user time by sampling at ticks.")
        .null_when(FEW)
        .not_compared())]
    sender_system_s: Option<f64>,
    #[metric(time("s", Quantity::UserTime)
        .of("the receiver")
        .null_when(EITHER)
        .not_compared())]
    receiver_user_s: Option<f64>,
    #[metric(time("s", Quantity::SystemTime)
        .of("the receiver")
        .null_when(EITHER)
        .not_compared())]
    receiver_system_s: Option<f64>,
    #[metric(found("B", "bytes that an empty channel takes until it is full")
        .note("Written in blocks, before the repetitions.")
        .null_when("where that took more than a second"))]
    capacity: Option<f64>,
}
