//! A small file whole, in one request: of a server that runs `oscope-fs serve`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Kind, Put, PutError, Stored, Version};
use super::errno::{Doing, settle};
use super::link::Link;
use super::pipeline::RequestPipeline;
use super::put::whole;
use super::request_error::RequestError;
use super::time::Time;
use super::upload::Sent;
use super::wire::{Packet, Status, kind};
use crate::blocks;
use crate::digest::Hasher;
use crate::errno::errno;

/// Bytes that are fetched by one request at most: the server answers nobody else meanwhile.
pub const FETCHED: u32 = 64 << 10;

/// Bytes that every server takes in one request (draft-ietf-secsh-filexfer-02, 3: packets of 34000 bytes).
pub const ONE_REQUEST: u64 = 32 << 10;

/// The attributes of a file and what it holds. `None`: the server cannot say so at once, or it is larger, changes just
/// now, or is no regular file.
pub fn fetch(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
) -> Result<Option<(Attributes, Vec<u8>)>, RequestError> {
    if !pipeline.extensions().whole {
        return Ok(None);
    }
    let full = pipeline.target.full(path);
    let id = pipeline.ask(|id| {
        Packet::extended(id, "whole@oscope")
            .text(&full)
            .number(FETCHED)
    });
    let said = pipeline.read(id, kind::EXTENDED_REPLY, |body| {
        Ok((body.attributes()?, body.text()?.to_vec()))
    })?;
    match said {
        Err(Status::Exact(Errno::EBUSY | Errno::EFBIG | Errno::EINVAL)) => Ok(None),
        said => {
            let (attributes, content) = settle(pipeline, said, Doing::Read(path))?;
            let there = attributes.kind == Kind::File && attributes.size == content.len() as u64;
            Ok(there.then_some((attributes, content)))
        }
    }
}

/// How a filling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// The server has it.
    Stored(Stored),
    /// The connection broke, or another came between: it may have been done.
    Cut,
    /// Nothing was done.
    Refused,
}

/// Put into the empty file that is expected, which the server compares and fills in one request.
pub fn fill(link: &Link, from: &File, order: &Put<'_>) -> Result<Filled, PutError> {
    let Some(Version { size: 0, mtime }) = order.expected else {
        return Ok(Filled::Refused);
    };
    // A disk may take long, which the usual requests allow for. Writing clears set-id bits, and not everybody may write
    // to a file of mode 0444.
    let usual = order.expect_nothing || order.durable || order.mode & 0o6600 != 0o600;
    let content = content(from).map_err(|error| PutError::Errno(errno(error)))?;
    let (Some(content), false) = (content, usual) else {
        return Ok(Filled::Refused);
    };
    let deadline = Instant::now() + link.limits.operation;
    loop {
        let session = link.session(deadline)?;
        let mut pipeline = RequestPipeline::new(&session, &link.target, deadline);
        match once(link, &mut pipeline, (order, mtime), &content) {
            Ok(filled) => return Ok(filled),
            Err(RequestError::Errno(why)) => return Err(PutError::Errno(why)),
            Err(RequestError::Lost) => return Ok(Filled::Cut),
            Err(RequestError::Unsent) => {}
            Err(RequestError::Late) => {
                session.late(link.limits.operation);
                return Err(PutError::Errno(Errno::EIO));
            }
        }
    }
}

/// Over one connection.
fn once(
    link: &Link,
    pipeline: &mut RequestPipeline<'_>,
    (order, expected): (&Put<'_>, Time),
    content: &[u8],
) -> Result<Filled, RequestError> {
    let since = link.clock.now();
    let full = pipeline.target.full(order.path);
    let times = Change {
        times: order.times,
        ..Change::default()
    };
    let id = pipeline.ask(|id| {
        Packet::extended(id, "fill@oscope")
            .text(&full)
            .time(expected)
            .text(content)
            .change(&times)
    });
    let attributes = match pipeline.attributes(id)? {
        Ok(attributes) => attributes,
        Err(Status::Exact(Errno::ESTALE)) => return Ok(Filled::Cut),
        Err(_) => return Ok(Filled::Refused),
    };
    let mut hasher = Hasher::default();
    hasher.update(content);
    let sent = Sent {
        bytes: content.len() as u64,
        digest: hasher.finish(),
    };
    if attributes.kind != Kind::File {
        return Err(RequestError::Errno(Errno::EIO));
    }
    whole(&attributes, &sent)?;
    Ok(Filled::Stored(Stored {
        attributes,
        digest: sent.digest,
        since,
    }))
}

/// What a file holds now; `None`: too much.
fn content(from: &File) -> io::Result<Option<Vec<u8>>> {
    let size = from.metadata()?.len();
    if size > ONE_REQUEST {
        return Ok(None);
    }
    let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
    let read = blocks::read(from, &mut content, 0)?;
    content.truncate(read);
    Ok(Some(content))
}
