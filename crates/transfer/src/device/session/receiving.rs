//! The side that receives.

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha512};

use super::super::header::{DIGEST, Header, LENGTH};
use super::super::node::{self, Device};
use super::super::stream::Incoming;
use super::{BUFFER, Done, Options, done, finished, interrupted, name, system};
use crate::dir_cache::{DirCache, Folder};
use crate::meter::Meter;
use crate::names::{self, Clash, shown};
use crate::observer::Event;
use crate::outcome::Progress;
use crate::partial::Partial;
use crate::receive_methods::unwritten;
use crate::stop::Stop;
use crate::wire::Entry;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Between two tries of a receiver whose sender is not there yet.
const PAUSE: Duration = Duration::from_millis(20);
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
        (&*partial.file)
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
