//! `transfer.device`: files through the kernel's own TCP connection, by the devices of `kernel/modules`, as the
//! programs of OS Project 2 (docs/sources.md) sent them.

mod parameters;
mod receiver;
mod sender;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use sha2::{Digest, Sha512};

use super::ipc::measured_peer::{Kind, MeasuredPeer};
use super::ipc::placement::{Placement, Seats};
use super::transfer::folder::Folder;
use crate::description::{Description, Metrics};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::cancel;
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::error::Failure;
use oscope_transfer::device::modules;
use oscope_transfer::device::node::{self, Device};
pub use parameters::Parameters;
use parameters::Values;
use sender::{Answer, Job, Sender, Side};

/// The prepared workload. The sender comes first, since its device is to be closed before its module is unloaded.
pub struct TransferDevice {
    sender: MeasuredPeer<(), Job, Answer>,
    /// Where the sender will be found.
    address: Option<SocketAddr>,
    parameters: Parameters,
    folder: Folder,
    /// The SHA-512 of each file to send.
    digests: Vec<[u8; 64]>,
    _seats: Seats,
    _modules: Vec<CleanupGuard>,
}

impl Workload for TransferDevice {
    type Parameters = Parameters;

    fn describe() -> Description {
        parameters::description()
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let modules = modules::provide()?;
        let seats = Placement::Free.assign_cpus(context)?;
        let folder = Folder::make(&parameters.folder, parameters.files)?;
        let source = folder.source();
        let digests = folder
            .files()
            .iter()
            .map(|one| digest(&source.join(one.name())));
        let digests = digests.collect::<Result<_, _>>()?;
        let mut sender = Sender::new(&parameters, &folder);
        let work = move |job| sender.work(job);
        let mut prepared = Self {
            sender: MeasuredPeer::spawn(Kind::Process, &seats, |_| Ok(()), work)?,
            address: None,
            parameters,
            folder,
            digests,
            _seats: seats,
            _modules: modules,
        };
        let mut region = Region::new(context.clock);
        let settled = prepared
            .sender
            .measure(&mut region, Job::Settle, |()| Ok(()))?;
        prepared.hear(settled.other)?;
        Ok(prepared)
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.folder.clear()?;
        // Kept until the sender has reported the next: after a failure it is the peer that says what went wrong
        // first.
        let address = self
            .address
            .ok_or_else(|| Failure::failed("the sender listens nowhere"))?;
        let device = Device::open(node::RECEIVER)?;
        let faults = faults()?;
        let (parameters, folder) = (&self.parameters, &self.folder);
        let done = self.sender.measure(region, Job::Send, |()| {
            receiver::receive(device, address, parameters, folder)
        });
        let faults = self::faults()? - faults;
        let done = done?;
        let sent = self.hear(done.other)?;
        let received = done.own;
        let time_ns = region.clock().nanoseconds(region.corrected()?);
        let bytes = received.bytes as f64;
        let values = Values {
            time_ns,
            bytes_per_s: (time_ns > 0.0).then(|| bytes * 1e9 / time_ns),
            sender_time_ns: sent.time_ns as f64,
            bytes,
            calls: received.calls as f64,
            sender_calls: sent.calls as f64,
            minflt: faults as f64,
        };
        Ok(Work {
            metrics: values.values(),
            done: received.files,
            wanted: self.folder.files().len() as u64,
            notes: Vec::new(),
        })
    }

    fn verify(&mut self, work: &Work) -> Result<(), Failure> {
        if work.done != work.wanted {
            return Err(Failure::failed(format!(
                "{} files were received, and {} sent",
                work.done, work.wanted
            )));
        }
        let destination = self.folder.destination();
        for (one, wanted) in self.folder.files().iter().zip(&self.digests) {
            if digest(&destination.join(one.name()))? != *wanted {
                return Err(Failure::failed(format!(
                    "{}: the SHA-512 of what arrived is not that of what was sent",
                    one.name()
                )));
            }
        }
        Ok(())
    }
}

impl TransferDevice {
    /// Take what the sender answered.
    fn hear(&mut self, answer: Answer) -> Result<Side, Failure> {
        self.address = answer.next;
        answer
            .sent
            .map_err(|error| error.failure().context("the sender"))
    }
}

/// Pages that the calling thread has had mapped without a disk (getrusage(2), `ru_minflt`).
fn faults() -> Result<i64, Failure> {
    let usage =
        getrusage(UsageWho::RUSAGE_THREAD).map_err(|error| Failure::system("getrusage", error))?;
    Ok(usage.minor_page_faults())
}

/// The SHA-512 of a file, as `sha512sum` has it.
fn digest(path: &Path) -> Result<[u8; 64], Failure> {
    if cancel::requested() {
        return Err(Failure::failed("interrupted while checking files"));
    }
    let mut hash = Sha512::new();
    File::open(path)
        .and_then(|mut file| io::copy(&mut file, &mut hash))
        .map_err(|error| Failure::system(&path.display().to_string(), &error))?;
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests;
