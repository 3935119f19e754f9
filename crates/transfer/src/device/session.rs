//! Whole transfers of files through the devices, with the names, partial files and tallies of the engine.

mod receiving;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use sha2::{Digest, Sha512};

use super::header::{DIGEST, Header};
use super::node::{self, Device};
use super::stream::{Method, Outgoing};
use super::uapi::{AREA, Descriptor};
use crate::meter::Meter;
use crate::names::shown;
use crate::observer::Event;
use crate::outcome::{FileDone, Progress, Tally};
use crate::sender::Opener;
use crate::source::Source;
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};
pub use receiving::receive;

/// Bytes of a `read` or `write` on a device.
const BUFFER: usize = 64 << 10;
const PAGE: usize = 4096;

/// How both sides go about it.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How data come to the device and from it.
    pub method: Method,
    /// Whether each file's SHA-512 is sent, or asked for.
    pub verify: bool,
    /// No progress for so long is an error.
    pub stall: Duration,
    /// The receiver may take so long to come; at the receiver, the sender's host to answer.
    pub limit: Duration,
    /// Whether the descriptors of the area's pages are wanted.
    pub descriptors: bool,
}

/// What came of it.
pub struct Done {
    /// What this side did.
    pub here: Tally,
    /// Every file.
    pub files: Vec<FileDone>,
    /// The descriptors of the area's pages that were used, while they were mapped; none unless asked for.
    pub pages: Vec<Descriptor>,
}

fn system(doing: &str) -> impl Fn(io::Error) -> Failure {
    move |error| {
        let gone = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        );
        match gone {
            true => Failure::failed(format!("{doing}: the other side has given up or is gone"))
                .with_remedy("see what it says"),
            false if error.kind() == io::ErrorKind::UnexpectedEof => {
                Failure::failed(format!("{doing}: the sender ended in the middle of it"))
            }
            false => Failure::system(doing, &error),
        }
    }
}

/// Listen at `address`, and send the files to the receiver that comes.
///
/// # Errors
/// `Failure::Unavailable` without the device; `Failure::Failed` if the receiver does not come, is gone or makes no
/// progress, or a file cannot be read. The receiver sees its connection reset, and gives no file its name that was not
/// whole.
pub fn send(
    address: SocketAddr,
    files: &[Source],
    options: &Options,
    report: &mut dyn FnMut(Event),
) -> Result<Done, Failure> {
    let mut door = Device::open(node::SENDER)?;
    let doing = format!("listening on {address}");
    let address = door.listen(address).map_err(system(&doing))?;
    report(Event::Listening(address));
    let peer = door
        .accept(options.limit, options.stall)
        .map_err(system("waiting for the receiver"))?;
    report(Event::Peer(peer));
    let mut watch = |progress: Progress| report(Event::Progress(progress));
    let mut meter = Meter::new(&mut watch).map_err(|stop| stop.error)?;
    meter.method(name(options.method));
    let total = files.iter().map(|file| file.size).sum();
    meter.expect(files.len() as u64, total);
    let mut out =
        Outgoing::new(door, options.method, BUFFER).map_err(system("mapping the area"))?;
    let mut opener = Opener::default();
    let mut sent = Vec::new();
    for file in files {
        let header = Header {
            name: file.name.len(),
            size: file.size,
            mtime_ns: file.mtime_ns,
            mode: file.mode,
            digest: options.verify,
            files: files.len() as u64,
            bytes: total,
        };
        let digest = send_file(file, &header, &mut opener, &mut out, &mut meter)?;
        meter.file(false);
        sent.push(done(&file.name, file.size, digest));
    }
    let mut device = out.into_device().map_err(system("sending"))?;
    device
        .finish(options.stall)
        .map_err(system("waiting for the receiver to close"))?;
    finished(meter, device.calls, sent, &device, options)
}

/// Send one file, read to where it is sent from; its SHA-512.
fn send_file(
    source: &Source,
    header: &Header,
    opener: &mut Opener,
    out: &mut Outgoing,
    meter: &mut Meter,
) -> Result<Option<[u8; DIGEST]>, Failure> {
    let label = shown(&source.name);
    let failed = system(&label);
    let mut calls = 0;
    let mut file = opener.open(source, &mut calls).map_err(|stop| stop.error)?;
    out.put(&header.encode()).map_err(&failed)?;
    out.put(&source.name).map_err(&failed)?;
    let mut hash = Sha512::new();
    let mut left = source.size;
    let mut reads = 0;
    while left > 0 {
        interrupted()?;
        let room = out.room().map_err(&failed)?;
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let length = file.read(&mut room[..most]).map_err(&failed)?;
        if length == 0 {
            return Err(Failure::failed(format!(
                "{label}: became shorter while it was sent"
            )));
        }
        if header.digest {
            hash.update(&room[..length]);
        }
        out.advance(length);
        left -= length as u64;
        reads += 1;
        meter.moved(&source.name, length as u64);
    }
    if file.read(&mut [0]).map_err(&failed)? != 0 {
        return Err(Failure::failed(format!(
            "{label}: became longer while it was sent"
        )));
    }
    // With its opening and closing, and the look for its end.
    out.count(calls + reads + 3);
    let digest: Option<[u8; DIGEST]> = header.digest.then(|| hash.finalize().into());
    if let Some(digest) = &digest {
        out.put(digest).map_err(&failed)?;
    }
    out.flush().map_err(&failed)?;
    Ok(digest)
}

fn interrupted() -> Result<(), Failure> {
    match cancel::requested() {
        true => Err(Failure::failed("interrupted")),
        false => Ok(()),
    }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Fcntl => "fcntl",
        Method::Mmap => "mmap",
    }
}

fn done(name: &[u8], bytes: u64, digest: Option<[u8; DIGEST]>) -> FileDone {
    FileDone {
        name: shown(name),
        bytes,
        digest: digest.map(hex::encode),
        skipped: false,
    }
}

/// What is known of the area's pages that are there.
fn pages(device: &Device) -> Result<Vec<Descriptor>, Failure> {
    let offsets = (0..AREA).step_by(PAGE);
    let described: io::Result<Vec<_>> = offsets.map(|offset| device.describe(offset)).collect();
    let mut pages = described.map_err(system("reading page descriptors"))?;
    pages.retain(Descriptor::is_mapped);
    Ok(pages)
}

fn finished(
    mut meter: Meter,
    calls: u64,
    files: Vec<FileDone>,
    device: &Device,
    options: &Options,
) -> Result<Done, Failure> {
    let here = meter.tally(calls).map_err(|stop| stop.error)?;
    // Hundreds of calls that are no part of the transfer: after the clock was read.
    let pages = match options.descriptors {
        true => pages(device)?,
        false => Vec::new(),
    };
    meter.finish();
    Ok(Done { here, files, pages })
}

/// What no peer can fix, before one is waited for: the device at `path` cannot be opened, or its descriptors cannot be
/// had.
///
/// # Errors
/// A usage error where the pages are asked for and nothing is mapped; what `Device::open` fails with; that the pages
/// are for root alone.
pub fn check(path: &str, options: &Options) -> Result<(), Failure> {
    if options.descriptors && options.method != Method::Mmap {
        return Err(
            Failure::usage("--descriptors is about the pages of a mapped area")
                .with_remedy("add --device mmap"),
        );
    }
    let device = Device::open(path)?;
    match options.descriptors.then(|| device.describe(0)) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(error)) => {
            let message = format!("--descriptors: {}", errno_message(&error));
            Err(Failure::failed(message).with_remedy("run as root"))
        }
    }
}
