//! Whole transfers of files through the devices, with the names, partial files and tallies of the engine.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha512};

use super::header::{DIGEST, Header, LENGTH};
use super::node::{self, Device};
use super::stream::{Incoming, Method, Outgoing};
use super::uapi::{AREA, Descriptor};
use crate::dir_cache::{DirCache, Folder};
use crate::meter::Meter;
use crate::names::{self, Clash, shown};
use crate::observer::Event;
use crate::outcome::{FileDone, Progress, Tally};
use crate::partial::Partial;
use crate::receive_methods::unwritten;
use crate::sender::Opener;
use crate::source::Source;
use crate::stop::Stop;
use crate::wire::Entry;
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};

/// Bytes of a `read` or `write` on a device.
const BUFFER: usize = 64 << 10;
/// Between two tries of a receiver whose sender is not there yet.
const PAUSE: Duration = Duration::from_millis(20);
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

/// Connect to the sender at `address`, waiting until it is there, and receive into `folder`. `None`: asked to stop
/// before it came.
///
/// # Errors
/// `Failure::Unavailable` without the device; `Failure::Failed` if the sender does not answer, is gone or makes no
/// progress, or a file cannot be written or verified. The sender sees its connection reset.
pub fn receive(
    address: SocketAddr,
    folder: &Folder,
    options: &Options,
    report: &mut dyn FnMut(Event),
) -> Result<Option<Done>, Failure> {
    let mut device = Device::open(node::RECEIVER)?;
    let doing = format!("connecting to {address}");
    loop {
        match device.connect(address, options.limit, options.stall) {
            Ok(()) => break,
            Err(_) if cancel::requested() => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => thread::sleep(PAUSE),
            Err(error) => return Err(system(&doing)(error)),
        }
    }
    report(Event::Peer(address));
    let mut watch = |progress: Progress| report(Event::Progress(progress));
    let mut meter = Meter::new(&mut watch).map_err(|stop| stop.error)?;
    meter.method(name(options.method));
    let mut come =
        Incoming::new(device, options.method, BUFFER).map_err(system("mapping the area"))?;
    let mut dirs = DirCache::new(folder);
    let mut files = Vec::new();
    let mut all_names = HashSet::new();
    let mut promised = None;
    let mut bytes = [0; LENGTH];
    while come.fill(&mut bytes).map_err(system("receiving"))? {
        interrupted()?;
        let header = Header::decode(&bytes).map_err(|error| Failure::failed(error.to_string()))?;
        if options.verify && !header.digest {
            return Err(Failure::failed("the sender verifies nothing")
                .with_remedy("receive with --no-verify"));
        }
        // Before the end is read, which would show the sender that all is well.
        if header.files != *promised.get_or_insert(header.files)
            || files.len() as u64 == header.files
        {
            return Err(Failure::failed(
                "other files come than the sender has announced",
            ));
        }
        meter.expect(header.files, header.bytes);
        let mut file_name = vec![0; header.name];
        come.fill_whole(&mut file_name)
            .map_err(system("receiving"))?;
        take_name(&mut all_names, &file_name)?;
        let digest = receive_file(&file_name, &header, &mut come, &mut dirs, &mut meter)?;
        meter.file(false);
        files.push(done(&file_name, header.size, digest));
    }
    let promised = promised.unwrap_or(0);
    if files.len() as u64 != promised {
        let message = format!("{} files came, and {promised} were announced", files.len());
        return Err(Failure::failed(message));
    }
    let calls = come.device().calls + dirs.calls;
    finished(meter, calls, files, come.device(), options).map(Some)
}

/// Refuse a name that no file may have, or that another file of the transfer has.
fn take_name(all: &mut HashSet<Vec<u8>>, name: &[u8]) -> Result<(), Failure> {
    let stop = match names::check(name) {
        Err(why) => Stop::file(name, why),
        Ok(()) if all.insert(name.to_vec()) => return Ok(()),
        Ok(()) => Stop::refused(name, Clash::Twice(name).explained().1),
    };
    Err(stop.error)
}

/// Receive one file: under its name once it is whole and verified.
fn receive_file(
    file_name: &[u8],
    header: &Header,
    come: &mut Incoming,
    dirs: &mut DirCache,
    meter: &mut Meter,
) -> Result<Option<[u8; DIGEST]>, Failure> {
    let refused = |reason: Failure| Stop::refused(file_name, reason).error;
    let entry = Entry {
        name: file_name,
        size: header.size,
        mode: header.mode,
        mtime_ns: header.mtime_ns,
    };
    let parent = dirs.folder(names::split(file_name).0).map_err(refused)?;
    let mut partial = Partial::open(parent, &entry, names::Origin::Plain).map_err(refused)?;
    let filled = fill_file(&entry, header.digest, &mut partial, come, meter).and_then(|digest| {
        partial
            .finish(parent, &entry, true)
            .map_err(refused)
            .map(|()| digest)
    });
    if filled.is_err() {
        // It cannot be resumed: this protocol has no resuming.
        partial.remove(parent).map_err(refused)?;
    }
    come.count(partial.calls);
    filled
}

/// Fill a file with what comes, and verify it.
fn fill_file(
    entry: &Entry,
    verified: bool,
    partial: &mut Partial,
    come: &mut Incoming,
    meter: &mut Meter,
) -> Result<Option<[u8; DIGEST]>, Failure> {
    let label = shown(entry.name);
    let failed = system(&label);
    partial
        .keep(0)
        .map_err(|reason| Stop::refused(entry.name, reason).error)?;
    let mut hash = Sha512::new();
    let mut left = entry.size;
    let mut writes = 0;
    while left > 0 {
        interrupted()?;
        let there = come.next(left).map_err(&failed)?;
        if there.is_empty() {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let length = there.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if verified {
            hash.update(&there[..length]);
        }
        partial
            .file
            .write_all(&there[..length])
            .map_err(|error| unwritten(entry.name, &error).error)?;
        come.take(length);
        left -= length as u64;
        writes += 1;
        meter.moved(entry.name, length as u64);
    }
    come.count(writes);
    let digest: Option<[u8; DIGEST]> = verified.then(|| hash.finalize().into());
    if let Some(digest) = &digest {
        let mut received_digest = [0; DIGEST];
        come.fill_whole(&mut received_digest).map_err(&failed)?;
        if received_digest != *digest {
            let why = "its SHA-512 is not that of what was sent";
            return Err(Stop::file(entry.name, why).error);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_once_and_leads_nowhere() {
        let mut all = HashSet::new();
        for name in ["photos/1.jpg", "photos/2.jpg", "1.jpg"] {
            take_name(&mut all, name.as_bytes()).expect("a name of its own");
        }
        for (name, expected) in [
            ("photos/1.jpg", "two files would have this name"),
            ("../1.jpg", "a component"),
        ] {
            let error = take_name(&mut all, name.as_bytes()).expect_err("refused");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
