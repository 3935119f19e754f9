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
use super::put::PRIVATE;
use super::talk::{RequestError, RequestPipeline};
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
pub fn ask(talk: &mut RequestPipeline<'_>, path: &Path, size: u64) -> Question {
    match talk.extensions().digest && size <= SMALL {
        true => {
            let full = talk.target.full(path);
            Question::Digest(talk.ask(|id| Packet::extended(id, "digest@oscope").text(&full)))
        }
        false => Question::Open(ask_open(talk, path, flag::READ, PRIVATE)),
    }
}

/// Whether a file holds `size` bytes with this digest: the answer to a question. `limit`: the time without progress.
pub fn holds(
    talk: &mut RequestPipeline<'_>,
    question: Question,
    path: &Path,
    (size, digest): (u64, Digest),
    limit: Duration,
) -> Result<bool, RequestError> {
    let found = match question {
        Question::Digest(id) => {
            let said = talk.read(id, kind::EXTENDED_REPLY, |body| {
                Ok((body.long()?, body.text()?.try_into().ok()))
            })?;
            if matches!(said, Err(Status::Exact(Errno::EBUSY | Errno::EFBIG))) {
                // It changes just now, or has become another.
                return Ok(false);
            }
            settle(talk, said, Doing::Read(path))?
        }
        Question::Open(id) => {
            let said = talk.handle(id)?;
            let handle = settle(talk, said, Doing::Read(path))?;
            let found = opened(talk, &handle, Some(size), limit)?;
            return Ok(found.is_some_and(|(_, found)| found == digest));
        }
    };
    Ok(found == (size, Some(digest)))
}

/// Its attributes and the digest of what it holds. `None`: it is no regular file, or changed meanwhile. `limit`: the
/// time without progress.
pub fn digest(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    limit: Duration,
) -> Result<Option<(Attributes, Digest)>, RequestError> {
    let open = ask_open(talk, path, flag::READ, PRIVATE);
    let said = talk.handle(open)?;
    let handle = settle(talk, said, Doing::Read(path))?;
    opened(talk, &handle, None, limit)
}

/// The same of an open file. Where the size is known, what it holds is asked for together with its attributes.
fn opened(
    talk: &mut RequestPipeline<'_>,
    handle: &Handle<'_>,
    size: Option<u64>,
    limit: Duration,
) -> Result<Option<(Attributes, Digest)>, RequestError> {
    let before = talk.ask_handle(kind::FSTAT, handle);
    let early = size.map(|size| Reading::new(talk, handle, size));
    let said = talk.attributes(before)?;
    let before = settle(talk, said, Doing::Look)?;
    if before.kind != Kind::File || size.is_some_and(|size| size != before.size) {
        return Ok(None);
    }
    let mut reading = early.unwrap_or_else(|| Reading::new(talk, handle, before.size));
    let Some(digest) = reading.digest(talk, handle, limit)? else {
        return Ok(None);
    };
    let after = reading.after(talk, handle);
    let said = talk.attributes(after)?;
    let after = settle(talk, said, Doing::Look)?;
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
    fn new(talk: &mut RequestPipeline<'_>, handle: &Handle<'_>, size: u64) -> Self {
        let chunk = chunk(talk);
        let mut reading = Self {
            size,
            chunk,
            window: Window::new(chunk),
            asked: VecDeque::new(),
            next: 0,
            after: None,
        };
        reading.ask(talk, handle);
        reading
    }

    fn ask(&mut self, talk: &mut RequestPipeline<'_>, handle: &Handle<'_>) {
        if self.next >= self.size {
            return;
        }
        while self.asked.len() < self.window.width() && self.next < self.size {
            let length = self.chunk.min(self.size - self.next);
            let id = ask_read(talk, handle, self.next, length);
            self.asked.push_back((id, length));
            self.next += length;
        }
        if self.next >= self.size {
            self.after = Some(talk.ask_handle(kind::FSTAT, handle));
        }
    }

    /// The question for the attributes, behind the last read.
    fn after(&mut self, talk: &mut RequestPipeline<'_>, handle: &Handle<'_>) -> u32 {
        self.after
            .take()
            .unwrap_or_else(|| talk.ask_handle(kind::FSTAT, handle))
    }

    /// `None`: there are fewer bytes.
    fn digest(
        &mut self,
        talk: &mut RequestPipeline<'_>,
        handle: &Handle<'_>,
        limit: Duration,
    ) -> Result<Option<Digest>, RequestError> {
        let (mut hasher, mut done) = (Hasher::default(), 0);
        while done < self.size {
            self.ask(talk, handle);
            let Some((id, length)) = self.asked.pop_front() else {
                return Ok(None);
            };
            let answer = talk.answer(id)?;
            let said = answer.get(kind::DATA, |body| {
                let data = body.text()?;
                let got = data
                    .len()
                    .min(usize::try_from(length).unwrap_or(usize::MAX));
                hasher.update(&data[..got]);
                Ok(got as u64)
            })?;
            talk.session.reuse(answer);
            let got = match said {
                Ok(0) | Err(Status::End) => return Ok(None),
                said => settle(talk, said, Doing::Look)?,
            };
            if got < length {
                // What is missing comes before all that was asked for after it, and the attributes after it.
                let rest = length - got;
                let id = ask_read(talk, handle, done + got, rest);
                self.asked.push_front((id, rest));
                self.after = None;
            }
            done += got;
            self.window.answered(got);
            talk.extend(limit);
        }
        Ok(Some(hasher.finish()))
    }
}

fn ask_read(talk: &mut RequestPipeline<'_>, handle: &Handle<'_>, offset: u64, length: u64) -> u32 {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    talk.ask(|id| {
        Packet::request(kind::READ, id)
            .text(handle)
            .long(offset)
            .number(bytes)
    })
}
