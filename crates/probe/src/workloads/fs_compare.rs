//! `fs.compare`: a folder of a server, used by a client through one of several file systems.
//!
//! Server and client are on this machine, or in one guest, in two network namespaces (`shared_folder`). What the server
//! has is written and compared in its own folder, past the file system that is measured.

mod big_file;
mod changing;
mod operation;
mod parameters;
mod programs;
mod reading;
mod small_files;
mod tree;

use super::ipc::placement::{Placement, Seats};
use super::transfer::folder;
use crate::description::{Description, Metrics};
use crate::region::Region;
use crate::shared_folder::{SharedFolder, System, Traffic};
use crate::workload::{Context, Iterations, Work, Workload};
use changing::{Change, Place};
use operation::{Done, Operation};
use oscope_sys::error::Failure;
pub use parameters::Parameters;
use parameters::{Task, Values};
use programs::{GitStatus, Unpack};
use reading::{Again, First, Random};
use small_files::{Create, Existing, Look};

/// Room that a small file takes on a disk with all that belongs to it, in bytes.
const SMALL_BYTES: u64 = 16 << 10;
/// Small files of which there may be room at once: those of the server, those of the client's cache, and an archive or
/// repository of them.
const SMALL_COPIES: u64 = 4;
/// Big files at once with oscope-fs: the server's, the client's copy, and what is copied back under another name.
const BIG_COPIES: u64 = 3;

/// The prepared workload. What holds files open comes before the folder that they are in.
pub struct FsCompare {
    operation: Box<dyn Operation>,
    folder: SharedFolder,
    notes: Vec<String>,
    _seats: Seats,
}

impl Workload for FsCompare {
    type Parameters = Parameters;

    fn describe() -> Description {
        parameters::description()
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let shape = parameters.shape();
        // Who serves and who mounts are children of this thread, and run where it may.
        let seats = Placement::Free.assign_cpus(context)?;
        let folder = SharedFolder::make(parameters.system, &parameters.directory, &shape)?;
        check_room(&parameters, &folder)?;
        Ok(Self {
            operation: make(&parameters, &folder)?,
            notes: folder.notes().to_vec(),
            folder,
            _seats: seats,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let clock = region.clock();
        self.operation.ready(&mut self.folder, clock)?;
        let before = self.folder.traffic()?;
        let done = region.measure(|| self.operation.act(clock))?;
        let after = self.folder.traffic()?;
        let time_ns = clock.nanoseconds(region.corrected()?);
        let moved = after.zip(before).map(|(after, before)| after.since(before));
        Ok(Work {
            metrics: values(time_ns, done, moved).values(),
            done: done.files,
            wanted: self.operation.files(),
            notes: self.notes.clone(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        self.folder.settle()?;
        self.operation.check(&self.folder)
    }
}

/// Check that there is room for all that may lie in the scratch folder at once.
fn check_room(parameters: &Parameters, folder: &SharedFolder) -> Result<(), Failure> {
    let needed = match (parameters.operation.is_of_big_file(), parameters.system) {
        (true, System::Oscope) => BIG_COPIES.saturating_mul(parameters.size),
        (true, _) => parameters.size,
        (false, _) => SMALL_COPIES * SMALL_BYTES * parameters.files,
    };
    folder::check_room(
        folder.served(),
        needed,
        "the files of server and client",
        "choose --set size=SMALLER, fewer files, or --set directory=DIR on a disk with more room",
    )
}

/// Make what the operation is of, in the server's folder.
fn make(parameters: &Parameters, folder: &SharedFolder) -> Result<Box<dyn Operation>, Failure> {
    let Parameters {
        system,
        size,
        files,
        ..
    } = *parameters;
    Ok(match parameters.operation {
        Task::ReadFirst => Box::new(First::make(folder, system, size)?),
        Task::ReadAgain => Box::new(Again::make(folder, size)?),
        Task::ReadRandom => Box::new(Random::make(folder, size)?),
        Task::ChangeBlock => Box::new(Change::make(folder, Place::Middle, size)?),
        Task::Append => Box::new(Change::make(folder, Place::End, size)?),
        Task::Create => Box::new(Create::new(files)?),
        Task::ReadSmall => Box::new(Existing::make(folder, system, Look::Read, files)?),
        Task::List => Box::new(Existing::make(folder, system, Look::List, files)?),
        Task::GitStatus => Box::new(GitStatus::make(folder, files)?),
        Task::Unpack => Box::new(Unpack::make(folder, files)?),
    })
}

fn values(time_ns: f64, done: Done, moved: Option<Traffic>) -> Values {
    let bytes = done.bytes.map(|bytes| bytes as f64);
    let rate = bytes.filter(|bytes| *bytes > 0.0 && time_ns > 0.0);
    let moved = |count: fn(Traffic) -> u64| moved.map(|moved| count(moved) as f64);
    Values {
        time_ns,
        bytes,
        bytes_per_s: rate.map(|bytes| bytes * 1e9 / time_ns),
        files: done.files as f64,
        open_ns: done.open_ns,
        close_ns: done.close_ns,
        received_bytes: moved(|moved| moved.received_bytes),
        sent_bytes: moved(|moved| moved.sent_bytes),
        received_packets: moved(|moved| moved.received_packets),
        sent_packets: moved(|moved| moved.sent_packets),
    }
}

#[cfg(test)]
mod tests;
