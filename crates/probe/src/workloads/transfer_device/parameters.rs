//! What `transfer.device` says about itself, and the parameters it takes.

use std::path::PathBuf;

use serde::Deserialize;

use crate::description::{
    Describe, Description, Kind, Metrics, Parameter, Quantity, SchedulingIsolation,
};
use crate::workloads::transfer::files::Files;
use oscope_transfer::device::Method;

/// Most files: each is made, sent and hashed in every repetition.
const MOST_FILES: u64 = 10_000;

/// Parameters of `transfer.device`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// fcntl (the word of OS Project 2): write(2) to the sender's device, read(2) from the receiver's; mmap: files are
    /// read into the mapped area of 2 MiB, and written from it, and an ioctl(2) sends or receives a part of it.
    #[parameter(choice("fcntl"))]
    pub method: Method,
    #[serde(flatten)]
    pub files: Files,
    /// Bytes of a read(2) or write(2) with method=fcntl, on the device and on the file; a page by default, between the
    /// 512 B of the programs that OS Project 2 began with and the 2 MiB that method=mmap moves by one ioctl(2).
    #[parameter(bytes(4096, 64..=2 << 20).only_with("method", &["fcntl"]))]
    pub buffer: u64,
    /// Where source and destination lie, in a folder made for the request and removed after it: it decides which file
    /// system is measured. By default a tmpfs: files are in memory on both sides (tmpfs(5)).
    #[parameter(path("/dev/shm"))]
    pub folder: PathBuf,
}

pub fn description() -> Description {
    Description {
        name: "transfer.device",
        version: 1,
        purpose: "Files from one process to another by two character devices that hold the TCP connection in the \
            kernel: read and write, or a mapped area",
        timing_model: "time_ns = raw - correction, at the receiver, as in OS Project 2: from before it connects to \
            the sender, which listens already, until it has written every file, has seen the end of the stream and \
            has closed its device; bytes_per_s = bytes / time_ns. Inside are the files' open(2), write(2) and \
            close(2) and, with method=mmap, mmap(2), the faults of the area and munmap(2). Outside: loading the \
            modules, making the files, the sender's process (one for all repetitions), opening the devices, and the \
            SHA-512 of every file on both sides, which is compared afterwards. sender_time_ns is the sender's own: \
            from before it accepts until the receiver has closed. Both processes run on any allowed CPU; the \
            connection is over 127.0.0.1.",
        parameters: Parameters::parameters().into_iter().map(fewer).collect(),
        metrics: Values::described(),
        needs: vec!["root", "/dev/oscope_sender", "/dev/oscope_receiver"],
        programs: vec![],
        alone: SchedulingIsolation::Never,
    }
}

fn fewer(mut parameter: Parameter) -> Parameter {
    if parameter.name == "files" {
        if let Kind::Integer { maximum, .. } = &mut parameter.kind {
            *maximum = MOST_FILES;
        }
    }
    parameter
}

/// The metrics of a repetition.
#[derive(Metrics)]
pub struct Values {
    #[metric(time("ns", Quantity::Time)
        .of("the transfer at the receiver")
        .note("From its connect until it has all files and has closed its device."))]
    pub time_ns: f64,
    #[metric(rate("B/s", "contents received").note("By the receiver's clock."))]
    pub bytes_per_s: Option<f64>,
    #[metric(time("ns", Quantity::Time)
        .of("the transfer at the sender")
        .note("From its accept until the receiver has closed."))]
    pub sender_time_ns: f64,
    #[metric(found("B", "contents of all files"))]
    pub bytes: f64,
    #[metric(spent("1", "system calls of the receiver")
        .note("Those inside the clock, on its device and on the files."))]
    pub calls: f64,
    #[metric(spent("1", "system calls of the sender"))]
    pub sender_calls: f64,
    #[metric(spent("1", "page faults of the receiver without a device")
        .note("Counted by getrusage(2). With method=mmap, those of the area are included."))]
    pub minflt: f64,
}
