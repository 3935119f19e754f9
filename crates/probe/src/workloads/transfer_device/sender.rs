//! The sender: a process of its own, which sends once for each repetition.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Parameters;
use crate::workloads::transfer::files::One;
use crate::workloads::transfer::folder::Folder;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::serialized_error::SerializedError;
use oscope_transfer::device::header::Header;
use oscope_transfer::device::node::{self, Device};
use oscope_transfer::device::{Method, Outgoing};

/// Longest wait for the receiver to come, and for progress afterwards.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What the sender is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Say where it will be found.
    Settle,
    /// Send all files by one connection.
    Send,
}

/// What it answers.
#[derive(Clone, Copy)]
pub struct Answer {
    /// What it sent; nothing for [`Job::Settle`].
    pub sent: Result<Side, SerializedError>,
    /// Where it will be found the next time.
    pub next: Option<SocketAddr>,
}

/// What one side did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Side {
    /// Files that went whole.
    pub files: u64,
    /// Bytes of contents.
    pub bytes: u64,
    /// System calls on the device and the files.
    pub calls: u64,
    /// As the side's own clock has it.
    pub time_ns: u64,
}

/// How it sends.
#[derive(Debug)]
pub struct Sender {
    method: Method,
    buffer: usize,
    total: u64,
    files: Vec<(One, PathBuf)>,
    /// The device that listens for the next receiver; there is none before it has settled.
    door: Option<Device>,
}

impl Sender {
    /// A sender of the folder's files.
    pub fn new(parameters: &Parameters, folder: &Folder) -> Self {
        let source = folder.source();
        Self {
            method: parameters.method,
            buffer: parameters.buffer as usize,
            total: parameters.files.total(),
            files: folder
                .files()
                .iter()
                .map(|&one| (one, source.join(one.name())))
                .collect(),
            door: None,
        }
    }

    /// Do a job.
    pub fn work(&mut self, job: Job) -> Answer {
        let sent = match job {
            Job::Settle => Ok(Side::default()),
            Job::Send => self.send(),
        };
        let door = listen();
        let (sent, door) = match (sent, door) {
            (Ok(side), Ok((door, address))) => (Ok(side), Some((door, address))),
            (Err(failure), door) => (Err(failure), door.ok()),
            (Ok(_), Err(failure)) => (Err(failure), None),
        };
        let next = door.as_ref().map(|(_, address)| *address);
        self.door = door.map(|(door, _)| door);
        Answer {
            sent: sent.map_err(|failure| SerializedError::of(&failure)),
            next,
        }
    }

    fn send(&mut self) -> Result<Side, Failure> {
        let door = self.door.take();
        let mut door = door.ok_or_else(|| Failure::failed("it has no device that listens"))?;
        let failed =
            |doing: &'static str| move |error: std::io::Error| Failure::system(doing, &error);
        door.calls = 0;
        let began = Instant::now();
        door.accept(PATIENCE, PATIENCE)
            .map_err(failed("waiting for the receiver"))?;
        let mut out =
            Outgoing::new(door, self.method, self.buffer).map_err(failed("mapping the area"))?;
        for (one, path) in &self.files {
            self.send_file(*one, path, &mut out)
                .map_err(|failure| failure.context(&one.name()))?;
        }
        let mut device = out.into_device().map_err(failed("sending"))?;
        device
            .finish(PATIENCE)
            .map_err(failed("waiting for the receiver to close"))?;
        Ok(Side {
            files: self.files.len() as u64,
            bytes: self.total,
            calls: device.calls,
            time_ns: began.elapsed().as_nanos() as u64,
        })
    }

    /// Read the file to where it is sent from: the buffer, or the area itself.
    fn send_file(&self, one: One, path: &PathBuf, out: &mut Outgoing) -> Result<(), Failure> {
        let failed = Failure::from;
        let name = one.name();
        let header = Header {
            name: name.len(),
            size: one.length,
            mtime_ns: one.modified_ns,
            mode: one.mode,
            digest: false,
            files: self.files.len() as u64,
            bytes: self.total,
        };
        out.put(&header.encode()).map_err(failed)?;
        out.put(name.as_bytes()).map_err(failed)?;
        let mut file = File::open(path).map_err(failed)?;
        let mut left = one.length;
        let mut reads = 0;
        while left > 0 {
            if cancel::requested() {
                return Err(Failure::failed("interrupted"));
            }
            let room = out.room().map_err(failed)?;
            let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let length = file.read(&mut room[..most]).map_err(failed)?;
            if length == 0 {
                return Err(Failure::failed("became shorter while it was sent"));
            }
            out.advance(length);
            left -= length as u64;
            reads += 1;
        }
        // With its opening and closing.
        out.count(reads + 2);
        out.flush().map_err(failed)
    }
}

/// A device that listens on a port of its own.
fn listen() -> Result<(Device, SocketAddr), Failure> {
    let mut device = Device::open(node::SENDER)?;
    let address = device
        .listen((Ipv4Addr::LOCALHOST, 0).into())
        .map_err(|error| Failure::system("listening", &error))?;
    Ok((device, address))
}
