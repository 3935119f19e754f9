//! What `fs.compare` says about itself, and the parameters it takes.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::shared_folder::{PROGRAMS, System};
use oscope_sys::net::Shape;

/// Operations on the big file; the others are on small ones.
const BIG: [&str; 5] = [
    "read-first",
    "read-again",
    "read-random",
    "change-block",
    "append",
];

/// Parameters of `fs.compare`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// How the client reaches the server's folder. local: it works in that folder itself; oscope: oscope-fs; sshfs:
    /// sshfs(1) with its defaults; nfs: the kernel's NFS 4.2 on both sides, in a guest only.
    #[parameter(choice("oscope"))]
    pub system: System,
    /// read-first: open, read in pieces of 128 KiB and close the big file, of which the client has nothing; read-again:
    /// the same after it was read once; read-random: 1000 pread(2) of 4 KiB at random aligned places of the big file,
    /// which was read once and is open; change-block: open it, pwrite(2) 4 KiB in its middle, close; append: the same
    /// with O_APPEND; create: make the small files in a new folder (O_CREAT with O_EXCL); read-small: open, read and
    /// close each, the client having nothing of them; list: readdir(3) and lstat(2) of each, as ls -l; git-status: `git
    /// status --porcelain` in a repository of as many files that was made on the server, one of them changed: git reads
    /// anew each file whose inode number or ctime is not that of its index; unpack: `tar -xf` of as many files into a
    /// new folder.
    #[parameter(choice("read-first"))]
    pub operation: Task,
    /// Length of the big file.
    #[parameter(bytes(16 << 20, 64 << 10..=64 << 30).only_with("operation", &BIG))]
    pub size: u64,
    /// How many small files, of 4 KiB each; with git-status and unpack in ten folders.
    #[parameter(integer(100, 1..=100_000).never_with("operation", &BIG))]
    pub files: u64,
    /// How much later each packet arrives, in each direction: half of what the round trip gains. Needs netem.
    // Both ends give up a connection that has not spoken within 10 s.
    #[parameter(seconds(0.0, 0.0..=2.0))]
    delay: f64,
    /// Where the scratch folder is made, with the server's files and the client's cache in it: it decides which file
    /// system is below.
    #[parameter(path("/var/tmp"))]
    pub directory: PathBuf,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// A big file, of which the client has nothing.
    ReadFirst,
    /// A big file, once more.
    ReadAgain,
    /// Places of a big file.
    ReadRandom,
    /// One block in the middle of a big file.
    ChangeBlock,
    /// One block at the end of a big file.
    Append,
    /// Small files.
    Create,
    /// Small files, of which the client has nothing.
    ReadSmall,
    /// Their names and attributes.
    List,
    /// A repository, of which the client has nothing.
    GitStatus,
    /// An archive.
    Unpack,
}

impl Task {
    /// Whether it is of one big file.
    pub fn is_of_big_file(self) -> bool {
        matches!(
            self,
            Self::ReadFirst | Self::ReadAgain | Self::ReadRandom | Self::ChangeBlock | Self::Append
        )
    }
}

impl Parameters {
    /// How the network is slowed down.
    pub fn shape(&self) -> Shape {
        Shape {
            delay: Duration::from_secs_f64(self.delay),
            ..Shape::default()
        }
    }
}

/// What the workload is, takes and gives.
pub fn description() -> Description {
    Description {
        name: "fs.compare",
        version: 1,
        purpose: "A folder of a server, used through oscope-fs, sshfs or NFS, beside the local file system",
        timing_model: "time_ns = raw - correction, at the client's program: the operation's system calls, from the \
            first one until the last has returned (read-first, read-again, change-block, append: open(2) and close(2) \
            included; git-status, unpack: from the start of the program until its end has been seen); bytes_per_s = \
            bytes / time_ns. What was read is folded (xor) in the same pass. Outside the clock: server, network and \
            mount; making the files in the server's own folder; for read-first, read-small, list and git-status a new \
            mount, so that the client has nothing of them (system=local: for read-first and read-small the pages are \
            dropped from the page cache, which is proved; names and attributes stay in memory); for the others on the \
            big file the client has read it whole once, which with change-block and append is done anew for each \
            repetition, and for create and unpack it has made the folder itself; and, after the clock has stopped, \
            the wait until all lies with the server, and the comparison of every byte there with what it should be. \
            The server has its files in its page cache, and forces nothing to its disk that the file system does not \
            ask for. The big file was last modified years before, since what has just changed is not trusted by every \
            file system. Client and server are on one machine, in two network namespaces, and share its CPUs.",
        parameters: Parameters::parameters(),
        metrics: Values::described(),
        needs: vec![
            "root and /dev/fuse for system=oscope and sshfs",
            "a guest for system=nfs",
        ],
        programs: PROGRAMS.into_iter().chain(["git", "tar"]).collect(),
        alone: SchedulingIsolation::Never,
    }
}

const PART: &str =
    "A part of the operation. Only with read-first, read-again, change-block and append.";
const NETWORK: &str = "Headers included. What is sent after the clock has stopped is left out: late acknowledgements, \
    a close that the client puts off.";
const NO_NETWORK: &str = "with system=local";

/// The metrics of a repetition.
#[derive(Metrics)]
pub struct Values {
    #[metric(time("ns", Quantity::Time).of("the operation").note("As its program has to wait for it."))]
    pub time_ns: f64,
    #[metric(found("B", "contents that the program read or wrote").null_when("with git-status"))]
    pub bytes: Option<f64>,
    #[metric(rate("B/s", "contents read or written").null_when("without any"))]
    pub bytes_per_s: Option<f64>,
    #[metric(found("1", "files that the operation handles"))]
    pub files: f64,
    #[metric(time("ns", Quantity::Time).of("open(2)").note(PART))]
    pub open_ns: Option<f64>,
    #[metric(time("ns", Quantity::Time).of("close(2)").note(PART))]
    pub close_ns: Option<f64>,
    #[metric(spent("B", "bytes received by the client's network device").note(NETWORK).null_when(NO_NETWORK))]
    pub received_bytes: Option<f64>,
    #[metric(spent("B", "bytes sent by the client's network device").note(NETWORK).null_when(NO_NETWORK))]
    pub sent_bytes: Option<f64>,
    #[metric(spent("1", "packets received by the client's network device")
        .note("Without a delay, a packet may have up to 64 KiB; with one, at most 1500 B. Left out are the same as of \
               bytes."))]
    pub received_packets: Option<f64>,
    #[metric(spent("1", "packets sent by the client's network device").note("Left out are the same as of bytes."))]
    pub sent_packets: Option<f64>,
}
