//! What `transfer.copy` says about itself, and the parameters it takes.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::workloads::transfer::files::Files;
use oscope_sys::error::Failure;
use oscope_sys::net::Shape;
use oscope_transfer::{DigestKind, ReceiveMethod, SendMethod};

/// Parameters of `transfer.copy`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// readwrite: read(2) and send(2); mmap: send(2) from a mapping; sendfile(2); splice(2) by a pipe; zerocopy:
    /// send(2) with MSG_ZEROCOPY from a mapping, which loopback copies after all
    /// (Documentation/networking/msg_zerocopy.rst); uring: io_uring(7); auto: the one that costs its thread the least
    /// CPU time, tried within a large transfer.
    #[parameter(choice("sendfile").only_with("writes", &["whole"]))]
    pub sender: SendMethod,
    /// readwrite: recv(2) and write(2); mmap: recv(2) into a mapping of the file; splice(2) by a pipe; uring:
    /// io_uring(7); auto: the one that costs its thread the least CPU time, tried within a large transfer.
    #[parameter(choice("readwrite").only_with("writes", &["whole"]))]
    pub receiver: ReceiveMethod,
    #[serde(flatten)]
    pub files: Files,
    /// What the receiver checks each file with, before it gets its name; both sides compute it while the bytes go
    /// through. none: nothing is checked by the receiver.
    #[parameter(choice("blake3").only_with("writes", &["whole"]))]
    pub digest: DigestKind,
    /// loopback: 127.0.0.1; namespaces: from one network namespace to another, joined by virtual Ethernet devices
    /// (network_namespaces(7), veth(4)), which root makes.
    #[parameter(choice("loopback"))]
    #[serde(rename = "where")]
    pub network: Network,
    /// Bytes of packets a second in each direction between the namespaces, by netem, or by a token bucket where the
    /// kernel has no netem (tc-netem(8), tc-tbf(8)); 0: no limit.
    #[parameter(bytes(0, 0..=16 << 30).unit("B/s"))]
    rate: u64,
    /// How much later each packet arrives, in each direction: half of what the round trip gains. Needs netem.
    // Both ends give up a connection that has not spoken within 10 s.
    #[parameter(seconds(0.0, 0.0..=2.0))]
    delay: f64,
    /// Of 1000 packets of at most 1500 B so many are lost in each direction, by chance. Needs netem.
    #[parameter(integer(0, 0..=500).unit("per 1000"))]
    loss: u64,
    /// ready: the receiver listens before the clock starts. retry: it listens `late` after the clock's start; the
    /// sender is refused until then (ECONNREFUSED, connect(2)) and sleeps 1 s after each refusal, as old programs do:
    /// being 0.1 s late costs 1 s, of which the receiver sees 0.9 s. receiver-retry: the roles of OS Project 2: the
    /// sender listens `late` after the clock's start; the receiver connects from the clock's start on and sleeps 1 s
    /// after each refusal: any delay below 1 s adds 1 s to the receiver's time. The transfer itself is the same.
    #[parameter(choice("ready"))]
    pub meeting: ConnectMode,
    /// How long after the clock's start the receiver listens; with meeting=receiver-retry, the sender.
    #[parameter(seconds(0.1, 0.0..=60.0).only_with("meeting", &["retry", "receiver-retry"]))]
    late: f64,
    /// whole: Oscope's own transfer; small: an exchange of its own, for each file a write(2) of a header of 32 B, one
    /// of the data, and a wait for an answer of 1 B, with the socket's defaults (TCP_NODELAY off: Nagle's algorithm
    /// holds the data back until the header is acknowledged, RFC 896) and TCP_QUICKACK off at the receiver, which
    /// delays that by 40 ms (tcp(7), RFC 1122 4.2.3.2): a step for each file; nodelay: the same with TCP_NODELAY on,
    /// without the step.
    #[parameter(choice("whole"))]
    pub writes: Writes,
    /// Where source and destination lie, in a folder made for the request and removed after it: it decides which file
    /// system is measured. By default a tmpfs: files are in memory on both sides (tmpfs(5)).
    #[parameter(path("/dev/shm"))]
    pub folder: PathBuf,
}

/// Over which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// 127.0.0.1.
    Loopback,
    /// Two namespaces joined by virtual Ethernet devices.
    Namespaces,
}

/// How the two sides come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectMode {
    /// The receiver listens before the sender's clock starts.
    Ready,
    /// The receiver comes late; the sender, refused, sleeps and tries again.
    Retry,
    /// The sender listens and comes late; the receiver, refused, sleeps and tries again.
    ReceiverRetry,
}

/// In which pieces files are written to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// As the engine does.
    Whole,
    /// A header, then the data, then a wait for the answer; with Nagle's algorithm and delayed acknowledgements.
    Small,
    /// The same without Nagle's algorithm.
    Nodelay,
}

impl Parameters {
    /// How the network is slowed down.
    ///
    /// # Errors
    /// `Failure::Request` where a network is to be slowed down that all of this machine share.
    pub fn shape(&self) -> Result<Shape, Failure> {
        let shape = Shape {
            rate: self.rate,
            delay: Duration::from_secs_f64(self.delay),
            loss_per_mille: self.loss,
        };
        let field = match shape {
            Shape { rate: 1.., .. } => "rate",
            Shape {
                loss_per_mille: 1..,
                ..
            } => "loss",
            _ => "delay",
        };
        match self.network {
            Network::Loopback if !shape.is_none() => Err(Failure::request(
                field,
                "must be 0 with where=loopback, which is the whole machine's; choose where=namespaces",
            )),
            _ => Ok(shape),
        }
    }

    /// How much later one side comes than the other.
    pub fn late(&self) -> Duration {
        Duration::from_secs_f64(self.late)
    }

    /// Notes on them, for the record.
    pub fn remarks(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.writes != Writes::Whole {
            notes.push(
                "writes=small and writes=nodelay are an exchange of their own: sender, receiver and digest have no \
                 meaning"
                    .to_owned(),
            );
        }
        notes
    }
}

/// What the workload is, takes and gives.
pub fn description() -> Description {
    Description {
        name: "transfer.copy",
        version: 1,
        purpose: "Files from one process to another over TCP: system calls, network, and which side starts first",
        timing_model: "time_ns = raw - correction, at the sender, which is the measured process: from before its \
            first connect(2) until it has the receiver's receipt for all files, each of them whole, verified by its \
            digest and under its name; bytes_per_s = bytes / time_ns. With meeting=retry the refused connects and the \
            sleeps between them are inside, with meeting=receiver-retry the sender's being late and its wait for the \
            receiver's next try. Outside the clock: making the files, the receiver's process (one for all \
            repetitions, which is forked and not started anew) and the network; one exchange of the first files (at \
            most 16 MiB; with meeting=ready, and none over a network that is slowed down), in which both processes \
            get their memory and code, so that the first repetition is like the others, and no warm-up beside it; \
            removing what the last repetition left; and the comparison of every byte, mode and time with the \
            source's. receiver_time_ns is the receiver's own: from accept(2), with meeting=retry from its listen(2), \
            with meeting=receiver-retry from before its first connect(2), until the last file has its name. Files \
            come from the page cache and go to it: no fsync(2).",
        parameters: Parameters::parameters(),
        metrics: Values::described(),
        needs: vec!["root for where=namespaces"],
        programs: vec!["ip", "tc"],
        alone: SchedulingIsolation::Never,
    }
}

/// The metrics of a repetition.
#[derive(Metrics)]
pub struct Values {
    #[metric(time("ns", Quantity::Time)
        .of("the transfer at the sender")
        .note("From before its first connect(2), with meeting=receiver-retry the receiver's, until the sender has the \
               receipt for all files."))]
    pub time_ns: f64,
    #[metric(time("ns", Quantity::Time)
        .of("the transfer at the receiver")
        .note("From the connection, with meeting=retry and receiver-retry from the receiver's first attempt, until the \
               last file has its name."))]
    pub receiver_time_ns: f64,
    #[metric(found("B", "contents received"))]
    pub bytes: f64,
    #[metric(rate("B/s", "contents received").note("By the sender's clock."))]
    pub bytes_per_s: Option<f64>,
    #[metric(spent("1", "system calls of the sender")
        .note("Those that send, receive, read, write, open, close or name, as its code counts them. Setting up the \
               socket is not included."))]
    pub calls: f64,
    #[metric(spent("1", "system calls of the receiver")
        .note("Counted as the sender's are. The call that sends this count is not included."))]
    pub receiver_calls: f64,
    #[metric(spent("1", "context switches of the sender")
        .note("Voluntary and involuntary, of all threads (getrusage(2))."))]
    pub switches: Option<f64>,
    #[metric(spent("1", "context switches of the receiver")
        .note("Voluntary and involuntary, of all threads (getrusage(2))."))]
    pub receiver_switches: Option<f64>,
    #[metric(time("s/GiB", Quantity::CpuTime)
        .of("the sender")
        .per("GiB of contents")
        .null_when("without contents")
        .note("Of all threads. Where both are on one machine, the kernel does part of the \
               receiver's protocol work and wake-ups within the sender's calls (softirq): they count here."))]
    pub cpu_s_per_gib: Option<f64>,
    #[metric(time("s/GiB", Quantity::CpuTime)
        .of("the receiver")
        .per("GiB of contents")
        .note("Of all threads. It excludes the receiver's work that the kernel does within the sender's calls, and \
               includes the sender's work (acknowledgements) that it does within the receiver's."))]
    pub receiver_cpu_s_per_gib: Option<f64>,
    #[metric(time("ns", Quantity::WaitingTime)
        .of("the sender until the connection stands")
        .note("Refused connects, sleeps and its own delay are included."))]
    pub wait_ns: f64,
}
