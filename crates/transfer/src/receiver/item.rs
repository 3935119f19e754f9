//! One thing of the manifest, as the receiver keeps it.

use crate::digest;
use crate::link::Link;
use crate::names::{self, Origin};
use crate::naming::taken;
use crate::options::DigestKind;
use crate::outcome::FileDone;
use crate::stop::Stop;
use crate::wire::{Entry, FilePlan, Frame};
use oscope_sys::error::Failure;

/// What something of the manifest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symbolic one.
    Link,
    /// Another name of a file.
    Hard,
}

/// One file of the manifest, kept, and what is wanted of it.
pub struct Item {
    pub kind: Kind,
    pub name: Vec<u8>,
    pub size: u64,
    pub mode: u32,
    pub mtime_ns: i64,
    /// It is a file with holes.
    pub sparse: bool,
    pub plan: FilePlan,
    /// How it comes.
    pub origin: Origin,
    pub room: Room,
}

/// What was at its place when it was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Nothing has its name, and no earlier transfer began it.
    Clear,
    /// Nothing has its name.
    Free,
    /// Something has its name, and is replaced.
    Taken,
}

impl Item {
    pub fn entry(&self) -> Entry<'_> {
        Entry {
            name: &self.name,
            size: self.size,
            mode: self.mode,
            mtime_ns: self.mtime_ns,
        }
    }

    /// Whether it may replace what has its name.
    pub fn replaces(&self) -> bool {
        self.room == Room::Taken
    }

    pub fn refused(&self, reason: Failure) -> Stop {
        Stop::refused(&self.name, reason)
    }

    /// It did not get its name. Where another file has that, what arrived is not kept: it would never get it.
    pub fn unnamed(&self, reason: Failure) -> Stop {
        let is_taken = reason == taken();
        let stop = self.refused(reason);
        if is_taken { stop.useless() } else { stop }
    }

    pub fn done(&self, digest: &[u8], skipped: bool) -> FileDone {
        FileDone {
            name: names::shown(&self.name),
            bytes: self.size,
            // That of a sparse file is none that other programs print.
            digest: digest::hex(digest).filter(|_| !self.sparse),
            skipped,
        }
    }
}

/// What comes of something that goes through memory.
pub enum Contents<'l> {
    /// Its contents, and their digest, which is the sender's.
    Whole(&'l [u8], Vec<u8>),
    /// Nothing: the sender leaves it out, for this reason.
    Left(String),
}

/// Contents that go through memory.
pub fn contents<'l>(
    link: &'l mut Link,
    kind: DigestKind,
    item: &Item,
) -> Result<Contents<'l>, Stop> {
    let size = usize::try_from(item.size).unwrap_or(usize::MAX);
    if size > 0 {
        match link.next()? {
            Frame::Data(length) if length as usize == size => {}
            Frame::Left(reason) => return Ok(Contents::Left(reason.to_owned())),
            _ => return Err(link.damaged()),
        }
    } else if let Frame::Left(reason) = link.peek()? {
        let reason = reason.to_owned();
        link.next()?;
        return Ok(Contents::Left(reason));
    }
    let (bytes, received_digest) = link.whole_and_end(size)?;
    let digest = digest::of(kind, bytes);
    match received_digest == digest {
        true => Ok(Contents::Whole(bytes, digest)),
        false => Err(mismatch(item)),
    }
}

/// The file's bytes are not those that were sent.
pub fn mismatch(item: &Item) -> Stop {
    Stop::file(
        &item.name,
        "it arrived damaged: its digest is not the sender's",
    )
    .with_remedy("send again")
}
