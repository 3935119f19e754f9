//! A whole file from the server: pipelined reads, the same version before and after.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Kind, Version};
use super::errno::{Doing, settle};
use super::gathered::Gathered;
use super::link::Link;
use super::pipeline::RequestPipeline;
use super::request_error::RequestError;
use super::small;
use super::window::Window;
use super::wire::{Answer, Packet, Status, flag, kind};

/// How often a file that changes under the reading is begun anew.
const TRIES: usize = 3;

/// A file that was changed so recently may be changed again without its version showing it: mtime is whole seconds.
const UNSETTLED: u64 = 2;

/// Reads are of whole blocks of so many bytes. OpenSSH gives 255 KiB at most: pieces of that size end amid a page, and
/// a file that is written in such pieces gets small folios in the page cache, out of which each later read takes a
/// quarter longer.
const BLOCK: u64 = 64 << 10;

/// One fetching of one file, over as many connections as it takes.
pub struct Fetch<'a> {
    path: &'a Path,
    into: &'a File,
    watch: &'a dyn Fn(u64) -> Result<(), Errno>,
    limit: Duration,
    /// Bytes that it is thought to have.
    size: u64,
    /// What the first `done` bytes of `into` are of; `None` if they are of no use to another connection.
    version: Option<Version>,
    done: u64,
    gathered: Gathered,
    progress: Instant,
}

/// How one connection's part ended.
enum End {
    Whole(Attributes),
    Changed,
}

impl<'a> Fetch<'a> {
    /// Nothing fetched as yet.
    pub fn new(
        path: &'a Path,
        into: &'a File,
        watch: &'a dyn Fn(u64) -> Result<(), Errno>,
        (limit, size): (Duration, u64),
    ) -> Self {
        Self {
            path,
            into,
            watch,
            limit,
            size,
            version: None,
            done: 0,
            gathered: Gathered::default(),
            progress: Instant::now(),
        }
    }

    /// Fetch.
    pub fn run(mut self, link: &Link) -> Result<Attributes, Errno> {
        let mut begun = 0;
        loop {
            let deadline = self.progress + self.limit;
            let session = link.session(deadline)?;
            // Resumes where it broke off, or starts again, which may not be repeated without end.
            begun += usize::from(self.version.is_none());
            if begun > TRIES {
                return Err(Errno::EIO);
            }
            let mut pipeline = RequestPipeline::new(&session, &link.target, deadline);
            match self.once(&mut pipeline) {
                Ok(End::Whole(attributes)) => return Ok(attributes),
                Ok(End::Changed) => {
                    self.version = None;
                    self.progress = Instant::now();
                }
                Err(RequestError::Errno(error)) => return Err(error),
                Err(RequestError::Late) => {
                    session.late(self.limit);
                    return Err(Errno::EIO);
                }
                Err(RequestError::Lost | RequestError::Unsent) => {}
            }
        }
    }

    /// Over one connection.
    fn once(&mut self, pipeline: &mut RequestPipeline<'_>) -> Result<End, RequestError> {
        if self.size <= small::FETCHED.into() {
            if let Some((attributes, content)) = small::fetch(pipeline, self.path)? {
                return self.whole(pipeline, attributes, &content);
            }
        }
        let full = pipeline.target.full(self.path);
        let none = Change::default();
        let id = pipeline.ask(|id| {
            Packet::request(kind::OPEN, id)
                .text(&full)
                .number(flag::READ)
                .change(&none)
        });
        let said = pipeline.handle(id)?;
        let handle = settle(pipeline, said, Doing::Read(self.path))?;
        self.opened(pipeline, &handle)
    }

    /// All of it came at once.
    fn whole(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        attributes: Attributes,
        content: &[u8],
    ) -> Result<End, RequestError> {
        self.into.set_len(0).map_err(local)?;
        self.into.write_all_at(content, 0).map_err(local)?;
        self.advance(pipeline, content.len() as u64)?;
        Ok(End::Whole(attributes))
    }

    /// From an open file. A small one comes with its attributes before and after in one round trip.
    fn opened(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        handle: &[u8],
    ) -> Result<End, RequestError> {
        let chunk = chunk(pipeline);
        let start = if self.version.is_some() { self.done } else { 0 };
        let before = pipeline.ask_handle(kind::FSTAT, handle);
        let mut under_way = HashMap::new();
        ask_read(pipeline, handle, (start, chunk), &mut under_way);
        let after = pipeline.ask_handle(kind::FSTAT, handle);
        let said = pipeline.attributes(before)?;
        let before = settle(pipeline, said, Doing::Look)?;
        match before.kind {
            Kind::File => {}
            Kind::Folder => return Err(RequestError::Errno(Errno::EISDIR)),
            _ => return Err(RequestError::Errno(Errno::EIO)),
        }
        if start > 0 && self.version != Some(before.version()) {
            return Ok(End::Changed);
        }
        self.begin(&before, start)?;
        let mut after = Some(after);
        if before.size > start + chunk {
            // That one came too early: it is read, and asked for again at the end.
            let early = after.take().map(|id| pipeline.attributes(id));
            early
                .transpose()?
                .map(|said| settle(pipeline, said, Doing::Look))
                .transpose()?;
        } else if let Some(read) = under_way.values_mut().next() {
            // No more than there is: a file that has grown is seen by its attributes.
            read.1 = before.size - start;
        }
        let mut next = (start + chunk).min(before.size);
        let moved = self.read(pipeline, handle, &mut next, before.size, &mut under_way);
        self.write(pipeline)?;
        self.done = under_way
            .values()
            .map(|(offset, _)| *offset)
            .min()
            .unwrap_or(next);
        if !moved? {
            return Ok(End::Changed);
        }
        let after = match after {
            Some(id) => id,
            None => pipeline.ask_handle(kind::FSTAT, handle),
        };
        let said = pipeline.attributes(after)?;
        let after = settle(pipeline, said, Doing::Look)?;
        Ok(match after.version() == before.version() {
            true => End::Whole(after),
            false => End::Changed,
        })
    }

    /// Make `into` ready for a version from `start` on.
    fn begin(&mut self, before: &Attributes, start: u64) -> Result<(), RequestError> {
        if start == 0 {
            self.into.set_len(0).map_err(local)?;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let settled = u64::from(before.mtime.coarse()) + UNSETTLED < now.as_secs();
        self.version = settled.then(|| before.version());
        self.done = start;
        Ok(())
    }

    /// Read up to `size`: whether all was there. At an error, what is not yet read is left in `under_way`.
    fn read(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        handle: &[u8],
        next: &mut u64,
        size: u64,
        under_way: &mut HashMap<u32, (u64, u64)>,
    ) -> Result<bool, RequestError> {
        let chunk = chunk(pipeline);
        let mut window = Window::new(chunk);
        let mut fetched = self.done;
        loop {
            if under_way.len() + window.batch() <= window.width() {
                for _ in 0..window.width() - under_way.len() {
                    let length = chunk.min(size - *next);
                    if length > 0 {
                        ask_read(pipeline, handle, (*next, length), under_way);
                    }
                    *next += length;
                }
            }
            if under_way.values().all(|(_, length)| *length == 0) {
                return Ok(true);
            }
            let (id, answer) = pipeline.any_of(|id| under_way.contains_key(&id))?;
            let (offset, length) = under_way.get(&id).copied().unwrap_or_default();
            let got = self.keep(pipeline, answer, offset, length)?;
            under_way.remove(&id);
            if got < length {
                if got == 0 {
                    return Ok(false);
                }
                ask_read(pipeline, handle, (offset + got, length - got), under_way);
            }
            window.answered(got);
            fetched += got;
            self.advance(pipeline, fetched)?;
        }
    }

    /// Take what came: how much of the wanted it is; 0 at the end of the file.
    fn keep(
        &mut self,
        pipeline: &RequestPipeline<'_>,
        answer: Answer,
        offset: u64,
        length: u64,
    ) -> Result<u64, RequestError> {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        let got = match answer.get(kind::DATA, |body| Ok(body.text()?.len().min(wanted)))? {
            Ok(got) if got > 0 => got,
            Ok(_) | Err(Status::End) => return Ok(0),
            Err(_) => return Err(RequestError::Errno(Errno::EIO)),
        };
        if !self.gathered.takes(offset) {
            self.write(pipeline)?;
        }
        if self.gathered.add(offset, answer, got) {
            self.write(pipeline)?;
        }
        Ok(got as u64)
    }

    /// Write what was gathered.
    fn write(&mut self, pipeline: &RequestPipeline<'_>) -> Result<(), RequestError> {
        let answers = self.gathered.write(self.into).map_err(local)?;
        let session = &pipeline.session;
        answers.into_iter().for_each(|answer| session.reuse(answer));
        Ok(())
    }

    fn advance(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        fetched: u64,
    ) -> Result<(), RequestError> {
        self.progress = Instant::now();
        pipeline.extend(self.limit);
        (self.watch)(fetched).map_err(RequestError::Errno)
    }
}

/// Bytes of one read: a block times a power of two, as many as the server gives. The page cache of the copy has larger
/// folios the larger and the better aligned its writes are, and is read the faster.
pub fn chunk(pipeline: &RequestPipeline<'_>) -> u64 {
    match u64::from(pipeline.extensions().read_length) {
        most if most > BLOCK => BLOCK << (most / BLOCK).ilog2(),
        most => most,
    }
}

fn ask_read(
    pipeline: &mut RequestPipeline<'_>,
    handle: &[u8],
    (offset, length): (u64, u64),
    under_way: &mut HashMap<u32, (u64, u64)>,
) {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    let id = pipeline.ask(|id| {
        Packet::request(kind::READ, id)
            .text(handle)
            .long(offset)
            .number(bytes)
    });
    under_way.insert(id, (offset, length));
}

/// What the local file system says.
pub fn local(error: io::Error) -> RequestError {
    RequestError::Errno(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}
