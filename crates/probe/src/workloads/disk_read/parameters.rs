//! What `disk.read` is asked for, and what it finds.

use serde::Deserialize;

use super::method::Engine;
use super::pass::Use;
use crate::description::{Describe, Metrics, Quantity};
use crate::disk::source::Place;

/// State of the page cache before each repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    Found,
    Cold,
    Warm,
}

/// Parameters of `disk.read`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    #[serde(flatten)]
    pub place: Place,
    /// Bytes asked for by one call; with mmap, bytes that a thread looks at in one go. 0: chosen for the engine.
    #[parameter(bytes(128 << 10, 0..=32 << 20))]
    pub block_size: u64,
    /// Blocks to be read at most; 0: to the end of the file.
    #[parameter(integer(0, 0..=1 << 53))]
    pub count: u64,
    /// State of the page cache before each repetition, proved by looking: as it is found, without a page of the file,
    /// or with all.
    #[parameter(choice("found"))]
    pub cache: Cache,
    /// read(2), pread(2), a mapping, pread(2) with O_DIRECT, io_uring with O_DIRECT; auto: the best for this machine
    /// and the state of the file.
    #[parameter(choice("read"))]
    pub engine: Engine,
    /// Threads that read; 0: one for each allowed CPU. Several are spread over the CPUs, one alone stays on the
    /// probe's.
    #[parameter(integer(1, 0..=1024))]
    pub threads: u64,
    /// Reads in flight in each thread.
    #[parameter(integer(32, 1..=256).only_with("engine", &["uring"]))]
    pub queue_depth: u64,
    /// What is done with the bytes: nothing (with mmap, a byte of each page is looked at), or the XOR of all
    /// little-endian 32-bit words.
    #[parameter(choice("none"))]
    pub work: Use,
    /// A repetition ends after this long, wherever it is in the file.
    #[parameter(seconds(3600.0, 0.001..=86400.0))]
    pub longest: f64,
}

/// The metrics of a repetition.
#[derive(Metrics)]
pub struct Values {
    #[metric(rate("MiB/s", "bytes read"))]
    pub throughput: f64,
    #[metric(time("s", Quantity::Time).of("the reading"))]
    pub time_s: f64,
    #[metric(found("B", "bytes read"))]
    pub bytes: f64,
    #[metric(found("calls", "reads requested from the kernel").note("With mmap, blocks looked at."))]
    pub calls: f64,
    #[metric(time("s", Quantity::CpuTime).of("all threads").note("User and system, while the clock runs."))]
    pub cpu_s: f64,
    #[metric(found("1", "XOR of the little-endian 32-bit words read")
        .note("Zeros pad a short tail.")
        .null_when("with work=none, or where `longest` ended the reading"))]
    pub xor: Option<f64>,
    #[metric(found("1", "share of the pages to read that were in the page cache before")
        .null_when("where the file is neither the user's own nor writable"))]
    pub resident: Option<f64>,
    #[metric(found("1", "earlier reads of the file by this process"))]
    pub earlier_reads: f64,
}
