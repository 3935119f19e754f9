//! A small file whole, in one request: its content with its attributes, or a content for an empty file.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::stat::futimens;

use super::Done;
use super::files::{opened, spec};
use super::place::Place;
use super::reply::{append, attributes};
use crate::digest::Hasher;
use crate::errno::errno;
use crate::lease::Lease;
use crate::remote::wire::{Packet, Reader, kind};
use crate::remote::{Change, SMALL, Time};

/// `digest@oscope`.
pub fn digest(id: u32, body: &mut Reader<'_>) -> Done {
    Ok(body.place()?.and_then(|path| {
        let (_, content) = read_whole(&path, SMALL)?;
        let mut hasher = Hasher::default();
        hasher.update(&content);
        let answer = Packet::request(kind::EXTENDED_REPLY, id).long(content.len() as u64);
        Ok(answer.text(&hasher.finish()))
    }))
}

/// `whole@oscope`, of `most` bytes at most.
pub fn whole(id: u32, body: &mut Reader<'_>, most: u32) -> Done {
    let (path, wanted) = (body.place()?, body.number()?.min(most));
    Ok(path.and_then(|path| {
        let (found, content) = read_whole(&path, wanted.into())?;
        let answer = append(Packet::request(kind::EXTENDED_REPLY, id), &found);
        Ok(answer.text(&content))
    }))
}

/// What a file holds, with the attributes that it has then.
///
/// # Errors
/// EFBIG: it has more than `most` bytes; EBUSY: it changed while it was read; EINVAL: it is no regular file.
fn read_whole(path: &Place, most: u64) -> Result<(Metadata, Vec<u8>), Errno> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = opened(&options, path)?;
    let before = file.metadata().map_err(errno)?;
    if !before.is_file() {
        return Err(Errno::EINVAL);
    }
    if before.size() > most {
        return Err(Errno::EFBIG);
    }
    let mut content = Vec::new();
    let read = (&file)
        .take(before.size() + 1)
        .read_to_end(&mut content)
        .map_err(errno)?;
    let after = file.metadata().map_err(errno)?;
    let seen = |of: &Metadata| (of.size(), of.mtime(), of.mtime_nsec());
    match read as u64 == before.size() && seen(&before) == seen(&after) {
        true => Ok((after, content)),
        false => Err(Errno::EBUSY),
    }
}

/// How long it is waited for who has a file open that is to be filled.
const BRIEFLY: Duration = Duration::from_millis(20);

/// `fill@oscope`.
pub fn fill(id: u32, body: &mut Reader<'_>) -> Done {
    let (path, expected) = (body.place()?, body.time()?);
    let (content, change) = (body.text()?, body.change()?);
    Ok(path.and_then(|path| {
        let until = Instant::now() + BRIEFLY;
        loop {
            match fill_once(&path, expected, content, &change) {
                Err(Errno::EBUSY) if Instant::now() < until => thread::sleep(BRIEFLY / 20),
                done => return done.map(|now| attributes(id, &now)),
            }
        }
    }))
}

fn fill_once(
    path: &Place,
    expected: Time,
    content: &[u8],
    change: &Change,
) -> Result<Metadata, Errno> {
    let mut options = OpenOptions::new();
    // Readable too, so that it can be seen whose content is there.
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = opened(&options, path)?;
    // Between the comparison and the end nobody else can open it, where there are leases.
    let _lease = match Lease::take(&file) {
        Err(Errno::EAGAIN) => return Err(Errno::EBUSY),
        taken => taken.ok(),
    };
    let there = file.metadata().map_err(errno)?;
    let time = Time::new(there.mtime(), there.mtime_nsec());
    if !there.is_file() || there.size() > 0 || time != expected {
        return Err(Errno::ECANCELED);
    }
    let filled = filled(&file, content, change);
    if matches!(filled, Err(why) if why != Errno::ESTALE) {
        let access = Time::new(there.atime(), there.atime_nsec());
        empty_again(&file, content, (access, time));
    }
    let now = filled?;
    // No lease keeps another from giving the name to another file.
    match path.symlink_metadata() {
        Ok(named) if (named.dev(), named.ino()) == (now.dev(), now.ino()) => Ok(now),
        _ => Err(Errno::ESTALE),
    }
}

/// Take away what is there of a content, with its times; but nothing of another's. Refused, it has another version than
/// before: that is a conflict, and nothing is lost.
fn empty_again(file: &File, content: &[u8], (access, modification): (Time, Time)) {
    let mut there = vec![0; content.len() + 1];
    let ours = file
        .read_at(&mut there, 0)
        .is_ok_and(|read| content.starts_with(&there[..read]));
    if ours && file.set_len(0).is_ok() {
        let _ = futimens(file, &spec(access), &spec(modification));
    }
}

/// Fill an empty file.
///
/// # Errors
/// ESTALE: another wrote to it meanwhile, and it has another size; else what the system said. What is there then may be
/// a part.
fn filled(file: &File, content: &[u8], change: &Change) -> Result<Metadata, Errno> {
    file.write_all_at(content, 0).map_err(errno)?;
    if let Some((access, modification)) = change.times {
        match futimens(file, &spec(access), &spec(modification)) {
            // Another's file keeps the time of this writing.
            Ok(()) | Err(Errno::EPERM | Errno::EACCES) => {}
            Err(why) => return Err(why),
        }
    }
    // A close may yet fail (NFS, quotas): of a second descriptor, so that the first can take the content away again.
    nix::unistd::close(file.try_clone().map_err(errno)?)?;
    let now = file.metadata().map_err(errno)?;
    match now.size() == content.len() as u64 {
        true => Ok(now),
        false => Err(Errno::ESTALE),
    }
}
