//! The receiver's side: manifest, plan, contents, receipt.

mod plan;

use std::fs::File;

use super::digest::{self, Follower};
use super::folder::{Folder, Shelf};
use super::link::Link;
use super::meter::Meter;
use super::names;
use super::options::{DigestKind, ReceiveMethod, ReceiveOptions};
use super::outcome::{FileDone, Received};
use super::partial::Partial;
use super::receive_methods::{self, ReceiveStep};
use super::send_methods::Piece;
use super::sender::SMALL;
use super::stop::Stop;
use super::trial::{self, Trial};
use super::wire::{Entry, Frame, SEGMENT};

/// One file of the manifest, kept, and what is wanted of it.
struct Item {
    name: Vec<u8>,
    size: u64,
    mode: u32,
    mtime_ns: i64,
    wanted: Wanted,
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    From(u64),
    Have(Vec<u8>),
}

impl Item {
    fn entry(&self) -> Entry<'_> {
        Entry {
            name: &self.name,
            size: self.size,
            mode: self.mode,
            mtime_ns: self.mtime_ns,
        }
    }

    fn refused(&self, reason: impl Into<String>) -> Stop {
        Stop::file(&self.name, reason)
    }

    fn done(&self, digest: &[u8], skipped: bool) -> FileDone {
        FileDone {
            name: names::shown(&self.name),
            bytes: self.size,
            digest: digest::hex(digest),
            skipped,
        }
    }
}

/// One side of one connection.
pub struct Receiver<'a, 'w> {
    link: &'a mut Link,
    shelf: Shelf<'a>,
    options: &'a ReceiveOptions,
    meter: Meter<'w>,
    digest: DigestKind,
    methods: Vec<(ReceiveMethod, Box<dyn ReceiveStep>)>,
    trial: Trial,
}

impl<'a, 'w> Receiver<'a, 'w> {
    /// A receiver that has not said anything yet.
    pub fn new(
        link: &'a mut Link,
        into: &'a Folder,
        options: &'a ReceiveOptions,
        meter: Meter<'w>,
    ) -> Self {
        Self {
            link,
            shelf: Shelf::new(into),
            options,
            meter,
            digest: DigestKind::None,
            methods: Vec::new(),
            trial: Trial::among(1),
        }
    }

    /// The whole transfer.
    ///
    /// # Errors
    /// Whatever ends it early.
    pub fn run(mut self) -> Result<Received, Stop> {
        self.link.greet();
        self.link.flush()?;
        self.link.greeted(HELLO)?;
        let kind = match self.link.next()? {
            Frame::Hello(kind) => kind,
            _ => return Err(self.link.damaged()),
        };
        if self.options.verify {
            if kind == DigestKind::None {
                return Err(
                    Stop::here("the sender gives no digests, and this receiver verifies")
                        .remedy("let the sender verify, or receive with --no-verify"),
                );
            }
            self.digest = kind;
        }
        let mut items = self.manifest()?;
        self.link.put(&Frame::Hello(self.digest))?;
        self.plan(&mut items)?;
        let mut files = Vec::with_capacity(items.len());
        for item in &items {
            files.push(self.file(item)?);
        }
        let calls = self.link.calls + self.shelf.calls;
        let here = self.meter.tally(calls)?;
        self.link.put(&Frame::Receipt(here.clone()))?;
        self.link.flush()?;
        self.meter.finish();
        Ok(Received { here, files })
    }

    fn file(&mut self, item: &Item) -> Result<FileDone, Stop> {
        let buffered = matches!(
            self.options.method,
            ReceiveMethod::Auto | ReceiveMethod::ReadWrite
        );
        let memory = item.size <= SMALL && (buffered || item.size == 0);
        let (digest, skipped) = match &item.wanted {
            Wanted::Have(digest) => {
                self.link.lean = true;
                let same = matches!(self.link.peek()?, Frame::Same);
                self.link.lean = false;
                match same {
                    true => {
                        self.link.next()?;
                        self.meter.passed(&item.name, item.size);
                        (digest.clone(), true)
                    }
                    false => (self.contents(item, 0, memory)?, false),
                }
            }
            Wanted::Whole => (self.contents(item, 0, memory)?, false),
            Wanted::From(at) => (self.contents(item, *at, false)?, false),
        };
        self.meter.file(skipped);
        Ok(item.done(&digest, skipped))
    }

    fn contents(&mut self, item: &Item, from: u64, memory: bool) -> Result<Vec<u8>, Stop> {
        match memory {
            true => self.small(item),
            false => {
                self.link.lean = true;
                let digest = self.large(item, from);
                self.link.lean = false;
                digest
            }
        }
    }

    /// A file that is received and verified in memory, then written.
    fn small(&mut self, item: &Item) -> Result<Vec<u8>, Stop> {
        let size = usize::try_from(item.size).unwrap_or(usize::MAX);
        if size > 0 {
            match self.link.next()? {
                Frame::Data(length) if length as usize == size => {}
                _ => return Err(self.link.damaged()),
            }
        }
        let kind = self.digest;
        let (bytes, told) = self.link.whole_and_end(size)?;
        let digest = digest::of(kind, bytes);
        if told != digest {
            return Err(mismatch(item));
        }
        let (folder, _) = names::split(&item.name);
        let parent = self
            .shelf
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        let mut partial =
            Partial::open(parent, &item.entry()).map_err(|reason| item.refused(reason))?;
        if !partial.is_new {
            partial.keep(0).map_err(|reason| item.refused(reason))?;
        }
        if !bytes.is_empty() {
            receive_methods::write(&mut partial.calls, &partial.file, &item.name, bytes, 0)
                .inspect_err(|_| {
                    // Nothing of a small file is worth keeping; that the disk is full is the error to tell.
                    let _ = partial.remove(parent);
                })?;
        }
        if let Err(reason) = partial.finish(parent, &item.entry()) {
            let _ = partial.remove(parent);
            return Err(item.refused(reason));
        }
        self.shelf.calls += partial.calls + 1;
        self.meter.method(ReceiveMethod::ReadWrite.name());
        self.meter.moved(&item.name, item.size);
        Ok(digest)
    }

    /// A file that is moved by a method, in segments.
    fn large(&mut self, item: &Item, from: u64) -> Result<Vec<u8>, Stop> {
        let (folder, _) = names::split(&item.name);
        let parent = self
            .shelf
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        let mut partial =
            Partial::open(parent, &item.entry()).map_err(|reason| item.refused(reason))?;
        if !partial.is_new {
            partial.keep(from).map_err(|reason| item.refused(reason))?;
        } else if from > 0 {
            return Err(item
                .refused("what an earlier transfer left of it is gone")
                .remedy("send again"));
        }
        let unread =
            |error: std::io::Error| Stop::system(&item.name, "reading what arrived", &error);
        self.meter.passed(&item.name, from);
        self.choose(item.size - from)?;
        let mut follower =
            Follower::start(self.digest, &partial.file, item.size).map_err(unread)?;
        follower.reach(from).map_err(unread)?;
        let mut at = from;
        while at < item.size {
            let length = match self.link.next()? {
                Frame::Data(length)
                    if length > 0
                        && length as usize <= SEGMENT
                        && u64::from(length) <= item.size - at =>
                {
                    length as usize
                }
                _ => return Err(self.link.damaged()),
            };
            let before = trial::thread_time();
            self.segment(item, &partial.file, at, length, &mut follower)?;
            at += length as u64;
            if length == SEGMENT && self.trial.record(trial::thread_time() - before).is_some() {
                let name = self.methods[self.trial.current()].0.name();
                self.meter
                    .note(&format!("auto: {name} costs the receiver least"));
            }
        }
        self.verified(item, partial, follower)
    }

    /// The end of a file: its digest, then its name.
    fn verified(
        &mut self,
        item: &Item,
        mut partial: Partial,
        follower: Follower,
    ) -> Result<Vec<u8>, Stop> {
        let told = match self.link.next()? {
            Frame::End(digest) => digest.to_vec(),
            _ => return Err(self.link.damaged()),
        };
        let link = &mut *self.link;
        let digest = follower
            .finish(|| link.alive())?
            .map_err(|error| Stop::system(&item.name, "reading what arrived", &error))?;
        let (folder, _) = names::split(&item.name);
        let parent = self
            .shelf
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        if told != digest {
            partial
                .remove(parent)
                .map_err(|reason| item.refused(reason))?;
            return Err(mismatch(item));
        }
        partial
            .finish(parent, &item.entry())
            .map_err(|reason| item.refused(reason))?;
        self.shelf.calls += partial.calls + 1;
        Ok(digest)
    }

    /// Move one segment.
    fn segment(
        &mut self,
        item: &Item,
        file: &File,
        at: u64,
        length: usize,
        follower: &mut Follower,
    ) -> Result<(), Stop> {
        let unread =
            |error: std::io::Error| Stop::system(&item.name, "reading what arrived", &error);
        let (method, step) = &mut self.methods[self.trial.current()];
        self.meter.method(method.name());
        let mut moved = 0;
        let mut calls = 0;
        let early = self.link.here(length);
        if !early.is_empty() {
            receive_methods::write(&mut calls, file, &item.name, early, at)?;
            moved = early.len();
            self.meter.moved(&item.name, moved as u64);
        }
        self.link.calls += calls;
        while moved < length {
            if crate::cancel::requested() {
                return Err(item.refused("interrupted"));
            }
            let piece = Piece {
                file,
                name: &item.name,
                at: at + moved as u64,
                length: length - moved,
            };
            let count = step.step(self.link, piece)?;
            moved += count;
            self.meter.moved(&item.name, count as u64);
            follower.reach(at + moved as u64).map_err(unread)?;
        }
        follower.reach(at + length as u64).map_err(unread)
    }

    /// Make the method ready, or those to be tried.
    fn choose(&mut self, bytes: u64) -> Result<(), Stop> {
        let auto = self.options.method == ReceiveMethod::Auto;
        let wanted: &[ReceiveMethod] = match self.options.method {
            ReceiveMethod::Auto if self.methods.len() > 1 => return Ok(()),
            ReceiveMethod::Auto if bytes >= trial::WORTH => &CANDIDATES,
            ReceiveMethod::Auto => &[ReceiveMethod::ReadWrite],
            _ => std::slice::from_ref(&self.options.method),
        };
        if self.methods.len() == wanted.len() {
            return Ok(());
        }
        self.methods.clear();
        for &method in wanted {
            match receive_methods::receiver(method, self.options.chunk) {
                Ok(step) => self.methods.push((method, step)),
                // What this machine cannot do is not a candidate.
                Err(_) if auto && method != ReceiveMethod::ReadWrite => {}
                Err(error) => {
                    let doing = format!(
                        "the method {}: {}",
                        method.name(),
                        crate::error::words(&error)
                    );
                    return Err(Stop::here(doing).remedy("choose another method"));
                }
            }
        }
        self.trial = Trial::among(self.methods.len());
        Ok(())
    }
}

/// How long the sender's first words may take.
const HELLO: std::time::Duration = std::time::Duration::from_secs(10);

/// What `auto` tries for a large file.
const CANDIDATES: [ReceiveMethod; 4] = [
    ReceiveMethod::ReadWrite,
    ReceiveMethod::Splice,
    ReceiveMethod::Mmap,
    ReceiveMethod::Uring,
];

/// The file's bytes are not those that were sent.
fn mismatch(item: &Item) -> Stop {
    item.refused("it arrived damaged: its digest is not the sender's")
        .remedy("send again")
}
