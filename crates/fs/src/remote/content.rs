//! What a file of the server holds, as a digest: read by pipelined requests, kept nowhere.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::attributes::{Attributes, Kind};
use super::errno::{Doing, settle};
use super::fetch::chunk;
use super::handle::Handle;
use super::operations::ask_open;
use super::pipeline::RequestPipeline;
use super::put::PRIVATE;
use super::request_error::RequestError;
use super::window::Window;
use super::wire::{Packet, Status, flag, kind};
use crate::digest::{Digest, Hasher};

/// Bytes up to which a helper is asked for the digest: it answers nobody else meanwhile.
pub const SMALL: u64 = 4 << 20;

/// A question for a content that was gathered, so that it goes with other requests.
pub enum Question {
    /// The helper computes the digest.
    Digest(u32),
    /// The file is opened, to be read.
    Open(u32),
}

/// Gather the question for what a file of `size` bytes holds.
pub fn ask(pipeline: &mut RequestPipeline<'_>, path: &Path, size: u64) -> Question {
    match pipeline.extensions().digest && size <= SMALL {
        true => {
            let full = pipeline.target.full(path);
            Question::Digest(pipeline.ask(|id| Packet::extended(id, "digest@oscope").text(&full)))
        }
        false => Question::Open(ask_open(pipeline, path, flag::READ, PRIVATE)),
    }
}

/// Whether a file holds `size` bytes with this digest: the answer to a question. `limit`: the time without progress.
pub fn holds(
    pipeline: &mut RequestPipeline<'_>,
    question: Question,
    path: &Path,
    (size, digest): (u64, Digest),
    limit: Duration,
) -> Result<bool, RequestError> {
    let found = match question {
        Question::Digest(id) => {
            let said = pipeline.read(id, kind::EXTENDED_REPLY, |body| {
                Ok((body.long()?, body.text()?.try_into().ok()))
            })?;
            if matches!(said, Err(Status::Exact(Errno::EBUSY | Errno::EFBIG))) {
                // It changes just now, or has become another.
                return Ok(false);
            }
            settle(pipeline, said, Doing::Read(path))?
        }
        Question::Open(id) => {
            let said = pipeline.handle(id)?;
            let handle = settle(pipeline, said, Doing::Read(path))?;
            let found = opened(pipeline, &handle, Some(size), limit)?;
            return Ok(found.is_some_and(|(_, found)| found == digest));
        }
    };
    Ok(found == (size, Some(digest)))
}

/// Its attributes and the digest of what it holds. `None`: it is no regular file, or changed meanwhile. `limit`: the
/// time without progress.
pub fn digest(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    limit: Duration,
) -> Result<Option<(Attributes, Digest)>, RequestError> {
    let open = ask_open(pipeline, path, flag::READ, PRIVATE);
    let said = pipeline.handle(open)?;
    let handle = settle(pipeline, said, Doing::Read(path))?;
    opened(pipeline, &handle, None, limit)
}

/// The same of an open file. Where the size is known, what it holds is asked for together with its attributes.
fn opened(
    pipeline: &mut RequestPipeline<'_>,
    handle: &Handle<'_>,
    size: Option<u64>,
    limit: Duration,
) -> Result<Option<(Attributes, Digest)>, RequestError> {
    let before = pipeline.ask_handle(kind::FSTAT, handle);
    let early = size.map(|size| Reading::new(pipeline, handle, size));
    let said = pipeline.attributes(before)?;
    let before = settle(pipeline, said, Doing::Look)?;
    if before.kind != Kind::File || size.is_some_and(|size| size != before.size) {
        return Ok(None);
    }
    let mut reading = early.unwrap_or_else(|| Reading::new(pipeline, handle, before.size));
    let Some(digest) = reading.digest(pipeline, handle, limit)? else {
        return Ok(None);
    };
    let after = reading.after(pipeline, handle);
    let said = pipeline.attributes(after)?;
    let after = settle(pipeline, said, Doing::Look)?;
    Ok((after.version() == before.version()).then_some((after, digest)))
}

/// The first `size` bytes of a file on their way.
struct Reading {
    size: u64,
    chunk: u64,
    window: Window,
    asked: VecDeque<(u32, u64)>,
    next: u64,
    /// The question for the attributes that it has when all is read.
    after: Option<u32>,
}

impl Reading {
    /// The first requests are gathered.
    fn new(pipeline: &mut RequestPipeline<'_>, handle: &Handle<'_>, size: u64) -> Self {
        let chunk = chunk(pipeline);
        let mut reading = Self {
            size,
            chunk,
            window: Window::new(chunk),
            asked: VecDeque::new(),
            next: 0,
            after: None,
        };
        reading.ask(pipeline, handle);
        reading
    }

    fn ask(&mut self, pipeline: &mut RequestPipeline<'_>, handle: &Handle<'_>) {
        if self.next >= self.size {
            return;
        }
        while self.asked.len() < self.window.width() && self.next < self.size {
            let length = self.chunk.min(self.size - self.next);
            let id = ask_read(pipeline, handle, self.next, length);
            self.asked.push_back((id, length));
            self.next += length;
        }
        if self.next >= self.size {
            self.after = Some(pipeline.ask_handle(kind::FSTAT, handle));
        }
    }

    /// The question for the attributes, behind the last read.
    fn after(&mut self, pipeline: &mut RequestPipeline<'_>, handle: &Handle<'_>) -> u32 {
        self.after
            .take()
            .unwrap_or_else(|| pipeline.ask_handle(kind::FSTAT, handle))
    }

    /// `None`: there are fewer bytes.
    fn digest(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        handle: &Handle<'_>,
        limit: Duration,
    ) -> Result<Option<Digest>, RequestError> {
        let (mut hasher, mut done) = (Hasher::default(), 0);
        while done < self.size {
            self.ask(pipeline, handle);
            let Some((id, length)) = self.asked.pop_front() else {
                return Ok(None);
            };
            let answer = pipeline.answer(id)?;
            let said = answer.get(kind::DATA, |body| {
                let data = body.text()?;
                let got = data
                    .len()
                    .min(usize::try_from(length).unwrap_or(usize::MAX));
                hasher.update(&data[..got]);
                Ok(got as u64)
            })?;
            pipeline.session.reuse(answer);
            let got = match said {
                Ok(0) | Err(Status::End) => return Ok(None),
                said => settle(pipeline, said, Doing::Look)?,
            };
            if got < length {
                // What is missing comes before all that was asked for after it, and the attributes after it.
                let rest = length - got;
                let id = ask_read(pipeline, handle, done + got, rest);
                self.asked.push_front((id, rest));
                self.after = None;
            }
            done += got;
            self.window.answered(got);
            pipeline.extend(limit);
        }
        Ok(Some(hasher.finish()))
    }
}

fn ask_read(
    pipeline: &mut RequestPipeline<'_>,
    handle: &Handle<'_>,
    offset: u64,
    length: u64,
) -> u32 {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    pipeline.ask(|id| {
        Packet::request(kind::READ, id)
            .text(handle)
            .long(offset)
            .number(bytes)
    })
}
