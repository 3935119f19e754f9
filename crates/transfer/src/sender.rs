//! The sender's side: manifest, plan, contents, receipt.

mod opener;
mod plan;

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::digest::{self, StreamingDigest};
use super::holes;
use super::link::{Link, cut};
use super::meter::Meter;
use super::methods;
use super::names;
use super::options::{DigestKind, SendMethod, SendOptions};
use super::outcome::{FileDone, LeftOut, Sent};
use super::send_methods::{Piece, SendStep};
use super::source::{Source, modified};
use super::stop::Stop;
use super::trial::{self, Methods};
use super::wire::{FilePlan, Frame, SEGMENT, segment};
use opener::follow;

pub use opener::Opener;
pub use plan::check;

/// Files of at most so many bytes go through memory, many in one call.
pub const SMALL: u64 = 256 << 10;

/// One side of one connection.
pub struct Sender<'a, 'w> {
    link: &'a mut Link,
    options: &'a SendOptions,
    meter: Meter<'w>,
    digest: DigestKind,
    methods: Methods<SendMethod, dyn SendStep>,
    opener: Opener,
    left_out: Vec<LeftOut>,
    /// The names of what is left out, as the receiver has them.
    left_names: HashSet<Vec<u8>>,
}

impl<'a, 'w> Sender<'a, 'w> {
    /// A sender that has not said anything yet.
    pub fn new(link: &'a mut Link, options: &'a SendOptions, meter: Meter<'w>) -> Self {
        let candidates = match options.method {
            // Contents have to be encrypted in memory.
            SendMethod::Auto if link.is_sealed() => vec![SendMethod::ReadWrite],
            SendMethod::Auto => CANDIDATES.to_vec(),
            method => vec![method],
        };
        Self {
            link,
            options,
            meter,
            digest: options.digest,
            methods: Methods::among(candidates),
            opener: Opener::default(),
            left_out: Vec::new(),
            left_names: HashSet::new(),
        }
    }

    /// The whole transfer.
    ///
    /// # Errors
    /// [`Stop`]: the receiver refused, with its reason; the connection broke or stalled; a file changed or could not be
    /// read; a signal asked to stop.
    pub fn run(mut self, files: &[Source]) -> Result<Sent, Stop> {
        let bytes = files.iter().map(|file| file.size).sum();
        self.meter.expect(files.len() as u64, bytes);
        self.link.greet();
        self.link.flush()?;
        // No name is sent to an unknown receiver.
        self.link.greeted(self.options.connect_limit, KEYED)?;
        self.link.put(&Frame::Hello(self.digest))?;
        self.manifest(files)?;
        let plan = self.plan(files)?;
        let mut done = Vec::with_capacity(files.len());
        for (file, plan) in files.iter().zip(plan) {
            not_interrupted(&file.name)?;
            match self.file(file, &plan) {
                Ok(one) => done.extend(one),
                Err(stop) => match &stop.leaves_out {
                    Some(why) => self.leave(file, &why.0, why.1)?,
                    None => return Err(stop),
                },
            }
        }
        self.link.flush()?;
        let there = match self.link.next()? {
            Frame::Receipt(tally) => tally.in_harmless_words(),
            _ => return Err(self.link.damaged()),
        };
        for method in self.methods.ready() {
            method.settle(self.link);
        }
        if !self.meter.agrees(&there) {
            return Err(self.link.damaged());
        }
        for text in self.methods.ready().filter_map(|method| method.note()) {
            self.meter.note(&text);
        }
        let here = self.meter.tally(self.link.calls)?;
        self.meter.finish();
        Ok(Sent {
            here,
            there,
            files: done,
            left_out: self.left_out,
        })
    }

    /// Nothing of a file was sent: the receiver hears why, and waits for the next one.
    fn leave(&mut self, source: &Source, reason: &str, remedy: &str) -> Result<(), Stop> {
        self.link.put(&Frame::Left(&cut(reason)))?;
        let left = LeftOut {
            name: names::shown(&source.name),
            reason: match remedy {
                "" => reason.to_owned(),
                _ => format!("{reason}: {remedy}"),
            },
        };
        self.meter.left(&left, source.size);
        self.left_names.insert(source.name.clone());
        self.left_out.push(left);
        Ok(())
    }

    /// One thing; `None` for a folder, and for what is left out.
    fn file(&mut self, source: &Source, plan: &FilePlan) -> Result<Option<FileDone>, Stop> {
        if source.is_folder() {
            self.meter.folder();
            return Ok(None);
        }
        if let (true, Some(first)) = (source.is_hard(), &source.leads_to) {
            if self.left_names.contains(first) {
                let first = names::shown(first);
                let reason = format!("it is another name of {first}, which is left out");
                return self.leave(source, &reason, "").map(|()| None);
            }
        }
        let mut from = 0;
        match plan {
            FilePlan::Whole => {}
            FilePlan::From(at) => from = *at,
            FilePlan::Have(there) => {
                let own = self.digest_of(source)?;
                if own == *there {
                    self.link.put(&Frame::Same)?;
                    self.meter.passed(&source.name, source.size);
                    self.meter.file(true);
                    return Ok(Some(done(source, &own, true)));
                }
            }
        }
        let buffered = matches!(
            self.options.method,
            SendMethod::Auto | SendMethod::ReadWrite
        );
        let digest = match &source.leads_to {
            Some(target) => self.link_target(source, target)?,
            None if from == 0
                && source.size <= SMALL
                && !source.sparse
                && (buffered || source.size == 0) =>
            {
                self.small(source)?
            }
            None => self.large(source, from)?,
        };
        match source.is_symbolic() {
            true => self.meter.link(),
            false => self.meter.file(false),
        }
        Ok(Some(done(source, &digest, false)))
    }

    /// The digest of a file that the receiver has, too.
    fn digest_of(&mut self, source: &Source) -> Result<Vec<u8>, Stop> {
        let file = Arc::new(self.opener.open(source, &mut self.link.calls)?);
        self.link.flush()?;
        // A receiver of an earlier version names digests of another kind: the file is sent.
        let kind = self.digest.of_what_is_there();
        let mut follower = follow(kind, &file, source, None)?;
        follower
            .reach(source.size)
            .map_err(|error| unread(source, &error))?;
        let link = &mut *self.link;
        follower
            .finish(|| link.alive())?
            .map_err(|error| unread(source, &error))
    }

    /// A file that goes through memory: read straight to where it waits to be sent.
    fn small(&mut self, source: &Source) -> Result<Vec<u8>, Stop> {
        let file = self.opener.open(source, &mut self.link.calls)?;
        let size = usize::try_from(source.size).unwrap_or(usize::MAX);
        self.link.calls += 3;
        let start = self.link.waiting().len();
        if size > 0 {
            super::wire::encode(&Frame::Data(size as u32), self.link.waiting());
        }
        let waiting = self.link.waiting();
        let from = waiting.len();
        // One byte more than there should be, so that a file that has grown is seen.
        waiting.resize(from + size + 1, 0);
        let got = file.read_at(&mut waiting[from..], 0);
        if !matches!(got, Ok(got) if got == size) {
            waiting.truncate(start);
            return Err(match got {
                Ok(_) => changed(source),
                Err(error) => unread(source, &error),
            });
        }
        waiting.truncate(from + size);
        let digest = digest::of(self.digest, &waiting[from..]);
        self.meter.method(SendMethod::ReadWrite.name());
        self.meter.moved(&source.name, source.size);
        self.link.put(&Frame::End(&digest))?;
        Ok(digest)
    }

    /// A link: where it leads, or the file's first name.
    fn link_target(&mut self, source: &Source, target: &[u8]) -> Result<Vec<u8>, Stop> {
        super::wire::encode(&Frame::Data(target.len() as u32), self.link.waiting());
        self.link.waiting().extend_from_slice(target);
        let digest = digest::of(self.digest, target);
        self.meter.moved(&source.name, source.size);
        self.link.put(&Frame::End(&digest))?;
        Ok(digest)
    }

    /// A file that is moved by a method, in segments.
    fn large(&mut self, source: &Source, from: u64) -> Result<Vec<u8>, Stop> {
        let file = Arc::new(self.opener.open(source, &mut self.link.calls)?);
        unchanged(source, &file)?;
        self.meter.passed(&source.name, from);
        self.choose(source.size - from)?;
        let in_memory = self.link.is_sealed().then_some(from);
        let mut follower = follow(self.digest.of_resumed(from), &file, source, in_memory)?;
        follower
            .reach(from)
            .map_err(|error| unread(source, &error))?;
        let mut at = from;
        let mut data_end = if source.sparse { at } else { source.size };
        while at < source.size {
            if at == data_end {
                let (data, end) = holes::next_data(&file, at, source.size)
                    .map_err(|error| unread(source, &error))?;
                data_end = end;
                if data > at {
                    self.link.put(&Frame::Hole(data - at))?;
                    self.meter.hole(&source.name, data - at);
                    follower
                        .reach(data)
                        .map_err(|error| unread(source, &error))?;
                    at = data;
                    continue;
                }
            }
            let length = segment(data_end - at);
            let before = trial::thread_time();
            self.link.put(&Frame::Data(length as u32))?;
            self.link.flush_before_more()?;
            self.segment(source, &file, at, length, &mut follower)?;
            self.link.aside()?;
            at += length as u64;
            let spent = trial::thread_time() - before;
            let whole = length == SEGMENT;
            if let Some(method) = whole.then(|| self.methods.record(spent)).flatten() {
                let name = method.name();
                self.meter.chose(name);
                self.meter
                    .note(&format!("auto: {name} costs the sender least CPU time"));
            }
        }
        self.link.flush()?;
        let link = &mut *self.link;
        let digest = follower
            .finish(|| link.alive())?
            .map_err(|error| unread(source, &error))?;
        unchanged(source, &file)?;
        // Opening, being sure twice that it is the same, closing.
        self.link.calls += 4;
        self.link.put(&Frame::End(&digest))?;
        Ok(digest)
    }

    /// Move one segment; if the file fails in the middle of it, fill it with zeros, so that the reason can be sent
    /// after it.
    fn segment(
        &mut self,
        source: &Source,
        file: &File,
        at: u64,
        length: usize,
        follower: &mut StreamingDigest,
    ) -> Result<(), Stop> {
        let (method, step) = self.methods.current();
        self.meter.method(method.name());
        let mut moved = 0;
        while moved < length {
            let piece = Piece {
                file,
                name: &source.name,
                at: at + moved as u64,
                length: length - moved,
            };
            let stop =
                match not_interrupted(&source.name).and_then(|()| step.step(self.link, piece)) {
                    Ok(0) => changed(source),
                    Ok(count) => {
                        self.link.progress();
                        moved += count;
                        self.meter.moved(&source.name, count as u64);
                        match follower.reach_with(step.moved(), at + moved as u64) {
                            Ok(()) => continue,
                            Err(error) => unread(source, &error),
                        }
                    }
                    Err(stop) => stop,
                };
            if stop.to_peer.is_some() {
                self.link.send(&vec![0; length - moved], 0)?;
            }
            return Err(stop);
        }
        Ok(())
    }

    /// Make the method ready, or those to be tried.
    fn choose(&mut self, bytes: u64) -> Result<(), Stop> {
        let (chunk, link) = (self.options.chunk, &*self.link);
        self.methods
            .choose(bytes, |method| methods::sender(method, chunk, link))
            .map_err(|(method, error)| Stop::method(method.name(), &error))
    }
}

/// What `auto` tries for a very large file, and the first for others.
///
/// The others copy or map what these two pass on, and trying them costs more than they could give back.
const CANDIDATES: [SendMethod; 2] = [SendMethod::SendFile, SendMethod::Splice];

/// What helps where the receiver has a key, and this side has none.
const KEYED: (&str, &str) = (
    "takes transfers with a key alone: nothing was sent",
    "send with its key and without --trusted-network, or receive with --trusted-network",
);

/// The probe was asked to stop.
fn not_interrupted(name: &[u8]) -> Result<(), Stop> {
    match oscope_sys::cancel::requested() {
        true => Err(Stop::file(name, "interrupted")),
        false => Ok(()),
    }
}

/// The file is still as the manifest says.
fn unchanged(source: &Source, file: &File) -> Result<(), Stop> {
    let meta = file.metadata().map_err(|error| unread(source, &error))?;
    match meta.is_file() && meta.len() == source.size && modified(&meta) == source.mtime_ns {
        true => Ok(()),
        false => Err(changed(source)),
    }
}

fn changed(source: &Source) -> Stop {
    Stop::file(&source.name, "the file changed while it was sent")
        .with_remedy("send it again when nobody writes to it")
        .useless()
}

/// A file that ends too early for its digest has shrunk.
fn unread(source: &Source, error: &std::io::Error) -> Stop {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => changed(source),
        _ => Stop::system(&source.name, "reading", error),
    }
}

fn done(source: &Source, digest: &[u8], skipped: bool) -> FileDone {
    FileDone {
        name: names::shown(&source.name),
        bytes: source.size,
        // That of a sparse file is none that other programs print.
        digest: digest::hex(digest).filter(|_| !source.sparse),
        skipped,
    }
}
