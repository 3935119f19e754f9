//! What a file of the server holds, as a digest: read by pipelined requests, kept nowhere.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

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

/// Its attributes and the digest of what it holds. `None`: it is no regular file, or changed meanwhile. `limit`: the time without progress.
pub fn digest(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    limit: Duration,
) -> Result<Option<(Attributes, Digest)>, RequestError> {
    let open = ask_open(talk, path, flag::READ, PRIVATE);
    let said = talk.handle(open)?;
    let handle = settle(talk, said, Doing::Read(path))?;
    let before = talk.ask_handle(kind::FSTAT, &handle);
    let said = talk.attributes(before)?;
    let before = settle(talk, said, Doing::Look)?;
    if before.kind != Kind::File {
        return Ok(None);
    }
    let Some(digest) = read(talk, &handle, before.size, limit)? else {
        return Ok(None);
    };
    let after = talk.ask_handle(kind::FSTAT, &handle);
    let said = talk.attributes(after)?;
    let after = settle(talk, said, Doing::Look)?;
    Ok((after.version() == before.version()).then_some((after, digest)))
}

/// The digest of the first `size` bytes; `None`: there are fewer.
fn read(
    talk: &mut RequestPipeline<'_>,
    handle: &Handle<'_>,
    size: u64,
    limit: Duration,
) -> Result<Option<Digest>, RequestError> {
    let chunk = chunk(talk);
    let (mut window, mut hasher) = (Window::new(chunk), Hasher::default());
    let mut asked: VecDeque<(u32, u64)> = VecDeque::new();
    let (mut next, mut done) = (0, 0);
    while done < size {
        while asked.len() < window.width() && next < size {
            let length = chunk.min(size - next);
            asked.push_back((ask(talk, handle, next, length), length));
            next += length;
        }
        let Some((id, length)) = asked.pop_front() else {
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
            // What is missing comes before all that was asked for after it.
            let rest = length - got;
            asked.push_front((ask(talk, handle, done + got, rest), rest));
        }
        done += got;
        window.answered(got);
        talk.extend(limit);
    }
    Ok(Some(hasher.finish()))
}

fn ask(talk: &mut RequestPipeline<'_>, handle: &Handle<'_>, offset: u64, length: u64) -> u32 {
    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
    talk.ask(|id| {
        Packet::request(kind::READ, id)
            .text(handle)
            .long(offset)
            .number(bytes)
    })
}
