//! What a file holds, through an open handle of the server, with its attributes and its way to the disk.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Changed, Put};
use super::errno::{Doing, settle};
use super::fetch::local;
use super::pipeline::RequestPipeline;
use super::request_error::RequestError;
use super::window::Window;
use super::wire::{Answer, Packet, Status, kind};
use crate::blocks::{self, BLOCK, Blocks};
use crate::digest::{Digest, Hasher};

/// Bytes a second that a server's disk writes at least: how much longer than other operations an fsync may take.
const DISK: u64 = 8 << 20;

/// Bytes that the server copies for one request at most: others wait for no more.
const COPIED_AT_ONCE: u64 = 64 << 20;

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
    /// The content where only a part of it is sent: the hasher has that part alone then.
    blocks: Option<Blocks>,
    /// The last request to copy what is not sent, unanswered: the server is silent meanwhile.
    copying: Option<u32>,
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
            blocks: None,
            copying: None,
        }
    }

    /// Have the server copy what it has already, from the `old` file that is to be replaced; the last request is left
    /// unanswered.
    pub fn copy(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        old: &[u8],
        kept: u64,
    ) -> Result<(), RequestError> {
        let mut copied = 0;
        while copied < kept {
            self.settle_copy(pipeline)?;
            let length = COPIED_AT_ONCE.min(kept - copied);
            let handle = self.handle;
            self.copying = Some(pipeline.ask(|id| {
                Packet::extended(id, "copy-data")
                    .text(old)
                    .long(copied)
                    .long(length)
                    .text(handle)
                    .long(copied)
            }));
            copied += length;
        }
        Ok(())
    }

    fn settle_copy(&mut self, pipeline: &mut RequestPipeline<'_>) -> Result<(), RequestError> {
        match self.copying.take() {
            Some(id) => self.slow_answer(pipeline, id, COPIED_AT_ONCE),
            None => Ok(()),
        }
    }

    /// Send what differs, behind what [`Self::copy`] asked for; the last writes are left unanswered.
    pub fn send_changed(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        changed: &Changed<'_>,
    ) -> Result<(), RequestError> {
        let most = u64::from(pipeline.extensions().write_length) / BLOCK * BLOCK;
        self.window = Window::new(most);
        let mut blocks = changed.blocks.clone();
        for range in changed.ranges {
            self.offset = range.start;
            while self.offset < range.end {
                let (offset, length) = (self.offset, most.min(range.end - self.offset));
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                self.buffer.resize(length, 0);
                let got = blocks::read(self.from, &mut self.buffer, offset).map_err(local)?;
                // It was cut meanwhile: zeros, as if it had been made as long again. What is known of what was sent
                // shows that it is not what the file holds.
                self.buffer[got..].fill(0);
                blocks.replace(offset, &self.buffer);
                self.ask_write(pipeline, length);
                while self.under_way.len() >= self.window.width() {
                    self.answer(pipeline)?;
                }
                pipeline.flush()?;
            }
        }
        self.offset = blocks.size();
        self.blocks = Some(blocks);
        Ok(())
    }

    /// Send all that `from` holds now; the last writes are left unanswered, the last of all is not yet sent.
    pub fn send(&mut self, pipeline: &mut RequestPipeline<'_>) -> Result<(), RequestError> {
        let chunk = u64::from(pipeline.extensions().write_length);
        let size = self.from.metadata().map_err(local)?.len();
        self.window = Window::new(chunk);
        while self.offset < size {
            let length = usize::try_from(chunk.min(size - self.offset)).unwrap_or(usize::MAX);
            if self.write(pipeline, length)? == 0 {
                // It was cut while it was read: what was read is the file.
                break;
            }
            while self.under_way.len() >= self.window.width() {
                self.answer(pipeline)?;
            }
            if self.offset < size {
                pipeline.flush()?;
            }
        }
        Ok(())
    }

    /// Gather one write of `length` bytes, or of what is left: how many.
    fn write(
        &mut self,
        pipeline: &mut RequestPipeline<'_>,
        length: usize,
    ) -> Result<usize, RequestError> {
        self.buffer.resize(length, 0);
        let count = blocks::read(self.from, &mut self.buffer, self.offset).map_err(local)?;
        if count > 0 {
            self.hasher.update(&self.buffer[..count]);
            self.ask_write(pipeline, count);
        }
        Ok(count)
    }

    /// Gather the write of so many bytes of the buffer.
    fn ask_write(&mut self, pipeline: &mut RequestPipeline<'_>, count: usize) {
        let (handle, offset, bytes) = (self.handle, self.offset, &self.buffer[..count]);
        let id = pipeline.ask(|id| {
            Packet::request(kind::WRITE, id)
                .text(handle)
                .long(offset)
                .text(bytes)
        });
        self.under_way.insert(id, count as u64);
        self.offset += count as u64;
    }

    /// The answer to one write.
    fn answer(&mut self, pipeline: &mut RequestPipeline<'_>) -> Result<(), RequestError> {
        self.settle_copy(pipeline)?;
        let (id, answer) = pipeline.any_of(|id| self.under_way.contains_key(&id))?;
        let bytes = self.under_way.remove(&id).unwrap_or_default();
        self.judge(pipeline, &answer, bytes)?;
        self.window.answered(bytes);
        pipeline.extend(self.limit);
        Ok(())
    }

    fn judge(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        answer: &Answer,
        bytes: u64,
    ) -> Result<(), RequestError> {
        let said = match answer.status()? {
            Status::Ok => Ok(()),
            status => Err(status),
        };
        settle(pipeline, said, Doing::Write(self.path, bytes))
    }

    /// Every write was answered.
    pub fn settle(&mut self, pipeline: &mut RequestPipeline<'_>) -> Result<Sent, RequestError> {
        self.settle_copy(pipeline)?;
        while !self.under_way.is_empty() {
            self.answer(pipeline)?;
        }
        let parts = self.blocks.as_ref().map(Blocks::digest);
        Ok(Sent {
            bytes: self.offset,
            digest: parts.unwrap_or_else(|| self.hasher.finish()),
        })
    }

    /// Gather what sets the attributes: the owner first, for it clears set-id bits; the size before all, of a file that
    /// was there and may have been longer. What such a file (`there`) has as wanted is not asked for.
    pub fn ask_attributes(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        order: &Put<'_>,
        there: Option<&Attributes>,
    ) -> Asked {
        let mut ask = |change: Change| {
            pipeline.ask(|id| {
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
        // Writing to it has cleared its set-id bits, perhaps.
        let same = |there: &Attributes| there.mode == order.mode && order.mode & 0o6000 == 0;
        let others = ask(Change {
            mode: (!there.is_some_and(same)).then_some(order.mode),
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
    pub fn ask_sync(&self, pipeline: &mut RequestPipeline<'_>, order: &Put<'_>) -> Option<u32> {
        (order.durable && pipeline.extensions().fsync)
            .then(|| pipeline.ask(|id| Packet::extended(id, "fsync@openssh.com").text(self.handle)))
    }

    /// It is on the disk.
    pub fn settle_sync(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        sync: Option<u32>,
    ) -> Result<(), RequestError> {
        match sync {
            Some(id) => self.slow_answer(pipeline, id, self.offset),
            None => Ok(()),
        }
    }

    /// The answer to what the server does to so many bytes on its disk. Meanwhile the server, which does one thing
    /// after the other, may be silent for as long as that takes.
    fn slow_answer(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        id: u32,
        bytes: u64,
    ) -> Result<(), RequestError> {
        pipeline.extend(self.limit + Duration::from_secs(bytes / DISK));
        pipeline
            .session
            .slow_requests
            .fetch_add(1, Ordering::Relaxed);
        let said = pipeline.status(id);
        pipeline
            .session
            .slow_requests
            .fetch_sub(1, Ordering::Relaxed);
        pipeline.extend(self.limit);
        settle(pipeline, said?, Doing::Write(self.path, 1))
    }
}

impl Asked {
    /// They are set: whether the owner is as wanted. That may be refused; in a file that was there and is another's,
    /// mode and times too.
    pub fn settle(
        self,
        pipeline: &mut RequestPipeline<'_>,
        path: &Path,
    ) -> Result<bool, RequestError> {
        if let Some(id) = self.cut {
            let said = pipeline.status(id)?;
            settle(pipeline, said, Doing::Write(path, 0))?;
        }
        let owned = match self.owner {
            Some(id) => pipeline.status(id)?.is_ok(),
            None => true,
        };
        match pipeline.status(self.others)? {
            Err(Status::PermissionDenied | Status::Exact(Errno::EPERM)) if self.in_place => {}
            said => settle(pipeline, said, Doing::Write(path, 0))?,
        }
        Ok(owned)
    }
}
