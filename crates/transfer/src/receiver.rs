//! The receiver's side: manifest, plan, contents, receipt.

mod folders;
mod item;
mod left;
mod links;
mod plan;
mod small;

use std::collections::HashSet;
use std::fs::File;
use std::sync::Mutex;
use std::thread;

use super::digest::StreamingDigest;
use super::dir_cache::{DirCache, Folder};
use super::holes;
use super::link::Link;
use super::meter::Meter;
use super::methods;
use super::names;
use super::options::{DigestKind, ReceiveMethod, ReceiveOptions};
use super::outcome::{FileDone, Received};
use super::partial::Partial;
use super::receive_methods::{self, ReceiveStep, unwritten};
use super::send_methods::Piece;
use super::sender::SMALL;
use super::stop::Stop;
use super::trial::{self, Methods};
use super::wire::{FilePlan, Frame, SEGMENT, segment};
use item::{Contents, Item, Kind, contents, mismatch};
use left::Coming;
use small::Small;

/// One side of one connection.
pub struct Receiver<'a, 'w> {
    link: &'a mut Link,
    dirs: DirCache<'a>,
    options: &'a ReceiveOptions,
    meter: Meter<'w>,
    digest: DigestKind,
    methods: Methods<ReceiveMethod, dyn ReceiveStep>,
    /// What the sender has left out, by its place in the manifest.
    left: HashSet<usize>,
}

impl<'a, 'w> Receiver<'a, 'w> {
    /// A receiver that has not said anything yet.
    pub fn new(
        link: &'a mut Link,
        into: &'a Folder,
        options: &'a ReceiveOptions,
        meter: Meter<'w>,
    ) -> Self {
        let candidates = match options.method {
            // Contents have to be decrypted in memory.
            ReceiveMethod::Auto if link.is_sealed() => vec![ReceiveMethod::ReadWrite],
            ReceiveMethod::Auto => CANDIDATES.to_vec(),
            method => vec![method],
        };
        Self {
            link,
            dirs: DirCache::new(into),
            options,
            meter,
            digest: DigestKind::None,
            methods: Methods::among(candidates),
            left: HashSet::new(),
        }
    }

    /// The whole transfer.
    ///
    /// # Errors
    /// [`Stop`]: the sender ended it, with its reason; the connection broke or stalled; what came is damaged; a file
    /// could not be written; a signal asked to stop.
    pub fn run(mut self) -> Result<Received, Stop> {
        self.link.greet();
        self.link.flush()?;
        self.link.greeted(HELLO, KEYED)?;
        let kind = match self.link.next()? {
            Frame::Hello(kind) => kind,
            _ => return Err(self.link.damaged()),
        };
        if self.options.verify {
            if kind == DigestKind::None {
                return Err(
                    Stop::here("the sender gives no digests, and this receiver verifies")
                        .with_remedy("let the sender verify, or receive with --no-verify"),
                );
            }
            self.digest = kind;
            self.link.resumes = kind != DigestKind::None;
        }
        let mut items = self.manifest()?;
        self.link.put(&Frame::Hello(self.digest))?;
        self.plan(&mut items)?;
        let files = self.files(&items)?;
        let calls = self.link.calls + self.dirs.calls;
        let here = self.meter.tally(calls)?;
        self.link.put(&Frame::Receipt(here.clone()))?;
        self.link.flush()?;
        self.meter.finish();
        Ok(Received { here, files })
    }

    /// Every file, while a second thread writes small ones that are verified.
    fn files(&mut self, items: &[Item]) -> Result<Vec<FileDone>, Stop> {
        let trouble = Mutex::new(None);
        let dirs = self.dirs.alike();
        thread::scope(|scope| {
            let mut small = Small::new(scope, dirs, items, &trouble);
            let mut links = Vec::new();
            let files: Result<Vec<_>, Stop> = (0..items.len())
                .filter_map(|index| self.file(items, index, &mut small, &mut links).transpose())
                .collect();
            // What is verified gets its name even if the connection broke behind it.
            let written = small.finish(&mut self.dirs);
            let files = files?;
            written?;
            // Links come last: nothing of this transfer is written through one.
            self.make_links(items, &links)?;
            self.dress_folders(items)?;
            Ok(files)
        })
    }

    /// One thing of the manifest; `None` for a folder, and for what the sender leaves out.
    fn file(
        &mut self,
        items: &[Item],
        index: usize,
        small: &mut Small,
        links: &mut Vec<(usize, Vec<u8>)>,
    ) -> Result<Option<FileDone>, Stop> {
        self.link.alive()?;
        let item = &items[index];
        match item.kind {
            Kind::File => self.regular(item, index, small),
            // It was made with the plan.
            Kind::Folder => {
                self.meter.folder();
                Ok(None)
            }
            Kind::Link | Kind::Hard => {
                let (target, digest) = match contents(self.link, self.digest, item)? {
                    Contents::Whole(target, digest) => (target, digest),
                    Contents::Left(reason) => return Ok(self.leave(item, index, &reason)),
                };
                links.push((index, target.to_vec()));
                self.meter.moved(&item.name, item.size);
                match item.kind {
                    Kind::Link => self.meter.link(),
                    _ => self.meter.file(false),
                }
                Ok(Some(item.done(&digest, false)))
            }
        }
    }

    /// A regular file; `None` if the sender leaves it out.
    fn regular(
        &mut self,
        item: &Item,
        index: usize,
        small: &mut Small,
    ) -> Result<Option<FileDone>, Stop> {
        let buffered = matches!(
            self.options.method,
            ReceiveMethod::Auto | ReceiveMethod::ReadWrite
        );
        let memory = item.size <= SMALL && !item.sparse && (buffered || item.size == 0);
        let memory = memory && !matches!(item.plan, FilePlan::From(_));
        if !memory {
            small.write(&mut self.dirs)?;
        }
        if let FilePlan::Have(digest) = &item.plan {
            // Of what is here already the sender says whether it is the same.
            match self.coming()? {
                Coming::Same => {
                    self.meter.passed(&item.name, item.size);
                    self.meter.file(true);
                    return Ok(Some(item.done(digest, true)));
                }
                Coming::Left(reason) => return Ok(self.leave(item, index, &reason)),
                Coming::Contents => {}
            }
        }
        let from = match item.plan {
            FilePlan::From(at) => at,
            _ => 0,
        };
        let digest = match memory {
            true => self.small(item, index, small)?,
            false => self.large_leanly(item, index, from)?,
        };
        Ok(digest.map(|digest| {
            self.meter.file(false);
            item.done(&digest, false)
        }))
    }

    fn large_leanly(
        &mut self,
        item: &Item,
        index: usize,
        from: u64,
    ) -> Result<Option<Vec<u8>>, Stop> {
        self.link.lean = true;
        let digest = self.large(item, index, from);
        self.link.lean = false;
        digest
    }

    /// A file that is moved by a method, in segments; `None` if the sender leaves it out.
    fn large(&mut self, item: &Item, index: usize, from: u64) -> Result<Option<Vec<u8>>, Stop> {
        // All is ready when the sender has read the first bytes.
        let ready = self.make_ready(item, from);
        let coming = self.coming();
        if !matches!(coming, Ok(Coming::Contents)) {
            if let Some((partial, _)) = ready.ok().filter(|(partial, _)| partial.is_new) {
                self.discard(item, &partial);
            }
            let Coming::Left(reason) = coming? else {
                return Err(self.link.damaged());
            };
            self.leave(item, index, &reason);
            return Ok(None);
        }
        let (mut partial, follower) = ready?;
        if !partial.is_new {
            partial.keep(from).map_err(|reason| item.refused(reason))?;
        } else if from > 0 {
            let why = "what an earlier transfer left of it is gone";
            return Err(Stop::file(&item.name, why).with_remedy("send again"));
        }
        let digest = self.arrive(item, &mut partial, follower, from);
        let useless = |stop: &Stop| {
            stop.useless || self.digest == DigestKind::None || !partial.is_adoptable()
        };
        if !digest.as_ref().is_err_and(useless) {
            return digest.map(Some).map_err(Stop::kept);
        }
        self.discard(item, &partial);
        digest.map(Some)
    }

    /// Remove a partial file that no later transfer resumes. Where it cannot be removed it stays: why its contents did
    /// not come is what is reported.
    fn discard(&mut self, item: &Item, partial: &Partial) {
        let (folder, _) = names::split(&item.name);
        if let Ok(parent) = self.dirs.folder(folder) {
            let _ = partial.remove(parent);
        }
    }

    /// A file under its partial name, and what digests it.
    fn make_ready(&mut self, item: &Item, from: u64) -> Result<(Partial, StreamingDigest), Stop> {
        let (folder, _) = names::split(&item.name);
        let parent = self
            .dirs
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        let partial = Partial::open(parent, &item.entry(), item.origin)
            .map_err(|reason| item.refused(reason))?;
        let in_memory = self.link.is_sealed().then_some(from);
        let follower = StreamingDigest::start(
            self.digest.of_resumed(from),
            &partial.file,
            item.size,
            item.sparse,
            in_memory,
        )
        .map_err(|error| Stop::system(&item.name, "reading what arrived", &error))?;
        Ok((partial, follower))
    }

    /// The contents of a file from an offset on, its digest, and its name.
    fn arrive(
        &mut self,
        item: &Item,
        partial: &mut Partial,
        mut follower: StreamingDigest,
        from: u64,
    ) -> Result<Vec<u8>, Stop> {
        let unread =
            |error: std::io::Error| Stop::system(&item.name, "reading what arrived", &error);
        self.meter.passed(&item.name, from);
        self.choose(item.size - from)?;
        follower.reach(from).map_err(unread)?;
        let mut at = from;
        // No hole follows another one.
        let mut hole_end = u64::MAX;
        while at < item.size {
            let left = item.size - at;
            let length = match self.link.next()? {
                Frame::Data(length) if length as usize == segment(left) => segment(left),
                Frame::Data(length) if item.sparse && holes::is_data(at, length.into(), left) => {
                    length as usize
                }
                Frame::Hole(length)
                    if item.sparse && hole_end != at && holes::is_part(at, length, left) =>
                {
                    at += length;
                    hole_end = at;
                    // So long is what an interrupted transfer leaves.
                    self.link.calls += 1;
                    partial
                        .file
                        .set_len(at)
                        .map_err(|error| unwritten(&item.name, &error))?;
                    self.meter.hole(&item.name, length);
                    follower.reach(at).map_err(unread)?;
                    continue;
                }
                _ => return Err(self.link.damaged()),
            };
            let before = trial::thread_time();
            self.segment(item, &partial.file, at, length, &mut follower)?;
            at += length as u64;
            let spent = trial::thread_time() - before;
            let whole = length == SEGMENT;
            if let Some(method) = whole.then(|| self.methods.record(spent)).flatten() {
                let name = method.name();
                self.meter.chose(name);
                self.meter
                    .note(&format!("auto: {name} costs the receiver least CPU time"));
            }
        }
        self.verified(item, partial, follower)
    }

    /// The end of a file: its digest, then its name.
    fn verified(
        &mut self,
        item: &Item,
        partial: &mut Partial,
        follower: StreamingDigest,
    ) -> Result<Vec<u8>, Stop> {
        let received_digest = match self.link.next()? {
            Frame::End(digest) => digest.to_vec(),
            _ => return Err(self.link.damaged()),
        };
        let link = &mut *self.link;
        let digest = follower
            .finish(|| link.alive())?
            .map_err(|error| Stop::system(&item.name, "reading what arrived", &error))?;
        let (folder, _) = names::split(&item.name);
        let parent = self
            .dirs
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        if received_digest != digest {
            partial
                .remove(parent)
                .map_err(|reason| item.refused(reason))?;
            return Err(mismatch(item));
        }
        partial
            .finish(parent, &item.entry(), item.replaces())
            .map_err(|reason| item.unnamed(reason))?;
        self.dirs.calls += partial.calls + 1;
        Ok(digest)
    }

    /// Move one segment.
    fn segment(
        &mut self,
        item: &Item,
        file: &File,
        at: u64,
        length: usize,
        follower: &mut StreamingDigest,
    ) -> Result<(), Stop> {
        let unread =
            |error: std::io::Error| Stop::system(&item.name, "reading what arrived", &error);
        let (method, step) = self.methods.current();
        self.meter.method(method.name());
        let mut moved = 0;
        let mut calls = 0;
        // On a keyed connection the first step begins with them.
        let early = self
            .link
            .here(if self.link.is_sealed() { 0 } else { length });
        if !early.is_empty() {
            receive_methods::write(&mut calls, file, &item.name, early, at)?;
            moved = early.len();
            self.meter.moved(&item.name, moved as u64);
        }
        self.link.calls += calls;
        while moved < length {
            if oscope_sys::cancel::requested() {
                return Err(Stop::file(&item.name, "interrupted"));
            }
            // The sender may have sent all, and wait for the receipt while much of it is still on its way.
            self.link.alive()?;
            let piece = Piece {
                file,
                name: &item.name,
                at: at + moved as u64,
                length: length - moved,
            };
            let count = step.step(self.link, piece)?;
            self.link.progress();
            moved += count;
            self.meter.moved(&item.name, count as u64);
            follower
                .reach_with(self.link.moved(count), at + moved as u64)
                .map_err(unread)?;
        }
        follower.reach(at + length as u64).map_err(unread)
    }

    /// Make the method ready, or those to be tried.
    fn choose(&mut self, bytes: u64) -> Result<(), Stop> {
        let chunk = self.options.chunk;
        self.methods
            .choose(bytes, |method| methods::receiver(method, chunk))
            .map_err(|(method, error)| Stop::method(method.name(), &error))
    }
}

/// What helps where the sender has a key, and this side takes none.
const KEYED: (&str, &str) = (
    "sends with a key, and this receiver takes none",
    "receive without --trusted-network, or send with it",
);

/// How long the sender's first words may take.
const HELLO: std::time::Duration = std::time::Duration::from_secs(10);

/// What `auto` tries for a very large file, and the first for others.
///
/// A mapping takes a fault for each page, and a ring the copies of `readwrite`.
const CANDIDATES: [ReceiveMethod; 2] = [ReceiveMethod::Splice, ReceiveMethod::ReadWrite];
