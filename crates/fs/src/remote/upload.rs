//! What a file holds, through an open handle of the server, with its attributes and its way to the disk.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Put};
use super::errno::{Doing, settle};
use super::fetch::local;
use super::talk::{RequestError, RequestPipeline};
use super::window::Window;
use super::wire::{Answer, Packet, Status, kind};
use crate::digest::{Digest, Hasher};

/// Bytes a second that a server's disk writes at least: how much longer than other operations an fsync may take.
const DISK: u64 = 8 << 20;

/// What was sent: the file may have been written to meanwhile, and have held this at no time.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Bytes.
    pub bytes: u64,
    /// Digest of these bytes.
    pub digest: Digest,
}

/// The contents of one file on their way.
pub struct Upload<'a> {
    from: &'a File,
    handle: &'a [u8],
    limit: Duration,
    path: &'a Path,
    offset: u64,
    under_way: HashMap<u32, u64>,
    window: Window,
    buffer: Vec<u8>,
    hasher: Hasher,
}

/// Attributes that were asked to be set.
pub struct Asked {
    cut: Option<u32>,
    owner: Option<u32>,
    others: u32,
    in_place: bool,
}

impl<'a> Upload<'a> {
    /// Of `from`, from its first byte on; `path` is where it goes, for finding out why it failed.
    pub fn new(from: &'a File, handle: &'a [u8], limit: Duration, path: &'a Path) -> Self {
        Self {
            from,
            handle,
            limit,
            path,
            offset: 0,
            under_way: HashMap::new(),
            window: Window::new(1),
            buffer: Vec::new(),
            hasher: Hasher::default(),
        }
    }

    /// Send all that `from` holds now; the last writes are left unanswered, the last of all is not yet sent.
    pub fn send(&mut self, talk: &mut RequestPipeline<'_>) -> Result<(), RequestError> {
        let chunk = u64::from(talk.extensions().write_length);
        let size = self.from.metadata().map_err(local)?.len();
        self.window = Window::new(chunk);
        while self.offset < size {
            let length = usize::try_from(chunk.min(size - self.offset)).unwrap_or(usize::MAX);
            if self.write(talk, length)? == 0 {
                // It was cut while it was read: what was read is the file.
                break;
            }
            while self.under_way.len() >= self.window.width() {
                self.answer(talk)?;
            }
            if self.offset < size {
                talk.flush()?;
            }
        }
        Ok(())
    }

    /// Gather one write of `length` bytes, or of what is left: how many.
    fn write(
        &mut self,
        talk: &mut RequestPipeline<'_>,
        length: usize,
    ) -> Result<usize, RequestError> {
        self.buffer.resize(length, 0);
        let mut count = 0;
        while count < length {
            match self
                .from
                .read_at(&mut self.buffer[count..], self.offset + count as u64)
            {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(local(error)),
            }
        }
        if count > 0 {
            let (handle, offset, bytes) = (self.handle, self.offset, &self.buffer[..count]);
            self.hasher.update(bytes);
            let id = talk.ask(|id| {
                Packet::request(kind::WRITE, id)
                    .text(handle)
                    .long(offset)
                    .text(bytes)
            });
            self.under_way.insert(id, count as u64);
            self.offset += count as u64;
        }
        Ok(count)
    }

    /// The answer to one write.
    fn answer(&mut self, talk: &mut RequestPipeline<'_>) -> Result<(), RequestError> {
        let (id, answer) = talk.any_of(|id| self.under_way.contains_key(&id))?;
        let bytes = self.under_way.remove(&id).unwrap_or_default();
        self.judge(talk, &answer, bytes)?;
        self.window.answered(bytes);
        talk.extend(self.limit);
        Ok(())
    }

    fn judge(
        &self,
        talk: &mut RequestPipeline<'_>,
        answer: &Answer,
        bytes: u64,
    ) -> Result<(), RequestError> {
        let said = match answer.status()? {
            Status::Ok => Ok(()),
            status => Err(status),
        };
        settle(talk, said, Doing::Write(self.path, bytes))
    }

    /// Every write was answered.
    pub fn settle(&mut self, talk: &mut RequestPipeline<'_>) -> Result<Sent, RequestError> {
        while !self.under_way.is_empty() {
            self.answer(talk)?;
        }
        Ok(Sent {
            bytes: self.offset,
            digest: self.hasher.finish(),
        })
    }

    /// Gather what sets the attributes: the owner first, for it clears set-id bits; the size before all, of a file that
    /// was there and may have been longer. What such a file (`there`) has as wanted is not asked for.
    pub fn ask_attributes(
        &self,
        talk: &mut RequestPipeline<'_>,
        order: &Put<'_>,
        there: Option<&Attributes>,
    ) -> Asked {
        let mut ask = |change: Change| {
            talk.ask(|id| {
                Packet::request(kind::FSETSTAT, id)
                    .text(self.handle)
                    .change(&change)
            })
        };
        let cut = there.is_some_and(|there| there.size > 0).then(|| {
            ask(Change {
                size: Some(self.offset),
                ..Change::default()
            })
        });
        let another = |owner: &(u32, u32)| there.is_none_or(|now| (now.uid, now.gid) != *owner);
        let owner = order.owner.filter(another).map(|owner| {
            ask(Change {
                owner: Some(owner),
                ..Change::default()
            })
        });
        let others = ask(Change {
            mode: Some(order.mode),
            times: order.times,
            ..Change::default()
        });
        let in_place = there.is_some();
        Asked {
            cut,
            owner,
            others,
            in_place,
        }
    }

    /// Gather what brings it to the server's disk, if that is wanted and the server can.
    pub fn ask_sync(&self, talk: &mut RequestPipeline<'_>, order: &Put<'_>) -> Option<u32> {
        (order.durable && talk.extensions().fsync)
            .then(|| talk.ask(|id| Packet::extended(id, "fsync@openssh.com").text(self.handle)))
    }

    /// It is on the disk. Meanwhile the server, which does one thing after the other, may be silent for as long as its
    /// disk takes.
    pub fn settle_sync(
        &self,
        talk: &mut RequestPipeline<'_>,
        sync: Option<u32>,
    ) -> Result<(), RequestError> {
        let Some(id) = sync else { return Ok(()) };
        talk.extend(self.limit + Duration::from_secs(self.offset / DISK));
        talk.session.patient.fetch_add(1, Ordering::Relaxed);
        let said = talk.status(id);
        talk.session.patient.fetch_sub(1, Ordering::Relaxed);
        talk.extend(self.limit);
        settle(talk, said?, Doing::Write(self.path, 1))
    }
}

impl Asked {
    /// They are set: whether the owner is as wanted. That may be refused; in a file that was there and is another's,
    /// mode and times too.
    pub fn settle(self, talk: &mut RequestPipeline<'_>, path: &Path) -> Result<bool, RequestError> {
        if let Some(id) = self.cut {
            let said = talk.status(id)?;
            settle(talk, said, Doing::Write(path, 0))?;
        }
        let owned = match self.owner {
            Some(id) => talk.status(id)?.is_ok(),
            None => true,
        };
        match talk.status(self.others)? {
            Err(Status::PermissionDenied | Status::Exact(Errno::EPERM)) if self.in_place => {}
            said => settle(talk, said, Doing::Write(path, 0))?,
        }
        Ok(owned)
    }
}
