//! A whole file to the server: under a temporary name, compared with what is there, then renamed over it.
//!
//! Of a large file of which little changed, the server copies the rest from the version that is replaced, if it can
//! (`copy-data`, <https://datatracker.ietf.org/doc/html/draft-ietf-secsh-filexfer-extensions-00#section-7>): one round
//! trip more.
//!
//! Three round trips for a small file: open the temporary; write, attributes, close, look at both names; rename. The
//! rename cannot go with the second: a write that failed, or a version that is not the expected one, must keep it back.

mod comparison;
mod naming;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Changed, Kind, Put, PutError, Stored};
use super::errno::{Doing, parent, settle};
use super::handle::Handle;
use super::link::Link;
use super::operations::{NEW, ask_open, ask_xattrs};
use super::pipeline::{RequestPipeline, StatusResult};
use super::request_error::RequestError;
use super::temporary;
use super::upload::{Sent, Upload};
use super::wire::{Packet, flag, kind};
use crate::blocks::BLOCK;
pub use comparison::judge;

/// How often it is begun anew where the connection breaks.
pub const TRIES: usize = 5;

/// The mode of what is being written: nobody else reads it before it has the one that it is to have.
pub const PRIVATE: u32 = 0o600;

/// Why a part of a put ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Another version is there.
    Conflict(Option<Attributes>),
    /// It failed.
    RequestError(RequestError),
}

impl From<RequestError> for Stop {
    fn from(trouble: RequestError) -> Self {
        Self::RequestError(trouble)
    }
}

/// One putting of one file, over as many connections as it takes.
pub struct Putting<'a> {
    pub(super) link: &'a Link,
    pub(super) from: &'a File,
    pub(super) order: &'a Put<'a>,
    pub(super) limit: Duration,
    pub(super) progress: Instant,
    /// In place: something may have been written.
    pub(super) begun: bool,
}

impl<'a> Putting<'a> {
    /// Nothing put as yet.
    pub fn new(link: &'a Link, from: &'a File, order: &'a Put<'a>) -> Self {
        Self {
            link,
            from,
            order,
            limit: link.limits.operation,
            progress: Instant::now(),
            begun: false,
        }
    }

    /// Put, under a temporary name and by a rename.
    pub fn replace(mut self) -> Result<Stored, PutError> {
        for _ in 0..TRIES {
            let deadline = self.progress + self.limit;
            let session = self.link.session(deadline)?;
            let name = temporary::name().map_err(PutError::Errno)?;
            let temporary = parent(self.order.path).join(name);
            let mut pipeline = self.link.pipeline(&session, deadline);
            self.link.begins(&temporary);
            let staged = self.stage(&mut pipeline, &temporary);
            // Each answer moved the limit on.
            self.progress = pipeline.deadline - self.limit;
            let stop = match staged {
                Ok(stored) => match self.name_it(&mut pipeline, &temporary, stored.attributes) {
                    Ok(attributes) => {
                        self.link.gone(&temporary);
                        return Ok(Stored {
                            attributes,
                            ..stored
                        });
                    }
                    Err(Stop::RequestError(RequestError::Lost | RequestError::Unsent)) => {
                        let named = self.was_named(&temporary, &stored)?;
                        self.link.gone(&temporary);
                        if named {
                            return Ok(stored);
                        }
                        continue;
                    }
                    Err(stop) => stop,
                },
                Err(stop) => stop,
            };
            match stop {
                Stop::RequestError(RequestError::Lost) => self.link.leave(temporary),
                Stop::RequestError(RequestError::Unsent) => self.link.gone(&temporary),
                Stop::RequestError(RequestError::Late) => {
                    session.late(self.limit);
                    self.link.leave(temporary);
                    return Err(PutError::Errno(Errno::EIO));
                }
                Stop::Conflict(now) => {
                    self.discard(&mut pipeline, temporary);
                    return Err(PutError::Conflict(now));
                }
                Stop::RequestError(RequestError::Errno(error)) => {
                    self.discard(&mut pipeline, temporary);
                    return Err(PutError::Errno(error));
                }
            }
        }
        Err(PutError::Errno(Errno::EIO))
    }

    /// The whole file under its temporary name, with all that it is to have.
    fn stage(&self, pipeline: &mut RequestPipeline<'_>, temporary: &Path) -> Result<Stored, Stop> {
        let asked = self.link.clock.now();
        let id = ask_open(pipeline, temporary, NEW, PRIVATE);
        let look = pipeline.ask_path(kind::LSTAT, temporary);
        let expected = self.order.expected;
        let there = expected.map(|_| pipeline.ask_path(kind::LSTAT, self.order.path));
        let said = pipeline.handle(id)?;
        let handle = settle(pipeline, said, Doing::Make(temporary))?;
        let there = there.map(|id| pipeline.attributes(id)).transpose()?;
        let old = self.open_old(pipeline, there)?;
        let order = there.map_or(*self.order, |there| self.as_there(there.ok()));
        if let Ok(made) = pipeline.attributes(look)? {
            self.link.clock.observe(made.mtime, asked);
        }
        // Before it has a mode by which others may read it.
        let inherited = ask_xattrs(pipeline, self.order.like, temporary);
        let mut upload = Upload::new(self.from, &handle, self.limit, temporary);
        let copied = send_or_copy(&mut upload, pipeline, old.as_ref())?;
        let attributes = upload.ask_attributes(pipeline, &order, None);
        let sync = upload.ask_sync(pipeline, self.order);
        let close = pipeline.ask_close(&handle);
        let new = pipeline.ask_path(kind::LSTAT, temporary);
        let old = pipeline.ask_path(kind::LSTAT, self.order.path);
        // Behind the fsync, which may take long: the less time lies between the comparison and the rename, the better.
        let comparison = self.ask_content(pipeline);
        let sent = upload.settle(pipeline)?;
        if let Some(id) = copied {
            // What was copied was the version that is to be replaced, to the end.
            let said = pipeline.attributes(id)?;
            judge(self.order, Ok(settle(pipeline, said, Doing::Look)?))?;
        }
        if let Some(id) = inherited {
            let said = pipeline.status(id)?;
            settle(pipeline, said, Doing::Write(temporary, 0))?;
        }
        let owned = attributes.settle(pipeline, temporary)?;
        upload.settle_sync(pipeline, sync)?;
        let said = pipeline.status(close)?;
        settle(pipeline, said, Doing::Write(temporary, 1))?;
        let said = pipeline.attributes(new)?;
        let made = settle(pipeline, said, Doing::Look)?;
        let said = pipeline.attributes(old)?;
        judge(self.order, said)?;
        let now = said.map_or(order, |now| self.as_there(Some(now)));
        let (made, owned) = match (now.mode, now.owner) == (order.mode, order.owner) {
            true => (made, owned),
            false => set_again(pipeline, &now, temporary)?,
        };
        let made = own(pipeline, &now, temporary, made, owned)?;
        whole(&made, &sent)?;
        // Last of all: what is compared now is replaced by the next request.
        self.judge_content(pipeline, said, comparison)?;
        Ok(Stored {
            attributes: made,
            digest: sent.digest,
            // Nobody could change it by its name before it had that.
            since: self.link.clock.now(),
        })
    }

    /// Open what is to be replaced, where the server can copy what of it did not change, if it is the version expected:
    /// the server would wait for ever for somebody to open the other end of a fifo. `None` if it is gone or not for us
    /// to read: then all of it goes.
    fn open_old<'t>(
        &self,
        pipeline: &mut RequestPipeline<'t>,
        there: Option<StatusResult<Attributes>>,
    ) -> Result<Option<(Handle<'t>, Changed<'a>)>, Stop> {
        let has = pipeline.extensions();
        let can = has.copy_data && u64::from(has.write_length) >= BLOCK;
        let (Some(changed), Some(said), true) = (self.order.changed, there, can) else {
            return Ok(None);
        };
        judge(self.order, said)?;
        if said.is_err() {
            return Ok(None);
        }
        let id = ask_open(pipeline, self.order.path, flag::READ, 0);
        Ok(pipeline.handle(id)?.ok().map(|old| (old, changed)))
    }

    /// The order, with mode and owner of the file that is replaced, if there is one: another may have changed them
    /// since they were read, which shows in no version.
    pub(super) fn as_there(&self, there: Option<Attributes>) -> Put<'a> {
        let replaced = there.filter(|now| now.kind == Kind::File && self.order.expected.is_some());
        replaced.map_or(*self.order, |now| Put {
            mode: now.mode,
            owner: Some((now.uid, now.gid)),
            ..*self.order
        })
    }
}

/// Another changed mode or owner of what is replaced since the temporary was given them: it gets the new ones. Returns
/// its attributes, and whether the owner was not refused.
fn set_again(
    pipeline: &mut RequestPipeline<'_>,
    order: &Put<'_>,
    temporary: &Path,
) -> Result<(Attributes, bool), RequestError> {
    let owner = ask_owner(pipeline, temporary, order.owner);
    let mode = ask_mode(pipeline, temporary, order.mode);
    let look = pipeline.ask_path(kind::LSTAT, temporary);
    let owned = pipeline.status(owner)?.is_ok();
    let said = pipeline.status(mode)?;
    settle(pipeline, said, Doing::Write(temporary, 0))?;
    let said = pipeline.attributes(look)?;
    Ok((settle(pipeline, said, Doing::Look)?, owned))
}

/// Where the owner was refused: the group alone, if the server lets us, and no set-id bits of another's file.
fn own(
    pipeline: &mut RequestPipeline<'_>,
    order: &Put<'_>,
    temporary: &Path,
    made: Attributes,
    owned: bool,
) -> Result<Attributes, RequestError> {
    let (Some((_, group)), false) = (order.owner, owned) else {
        return Ok(made);
    };
    let group =
        (group != made.gid).then(|| ask_owner(pipeline, temporary, Some((made.uid, group))));
    let mode = ask_mode(pipeline, temporary, order.mode & 0o1777);
    let look = pipeline.ask_path(kind::LSTAT, temporary);
    if let Some(id) = group {
        // Not ours to give: it stays the group that it is.
        let _ = pipeline.status(id)?;
    }
    let said = pipeline.status(mode)?;
    settle(pipeline, said, Doing::Write(temporary, 0))?;
    let said = pipeline.attributes(look)?;
    settle(pipeline, said, Doing::Look)
}

/// Gather the change of an owner.
fn ask_owner(pipeline: &mut RequestPipeline<'_>, path: &Path, owner: Option<(u32, u32)>) -> u32 {
    let change = Change {
        owner,
        ..Change::default()
    };
    ask_change(pipeline, path, &change)
}

/// Gather the change of a mode.
fn ask_mode(pipeline: &mut RequestPipeline<'_>, path: &Path, mode: u32) -> u32 {
    let change = Change {
        mode: Some(mode),
        ..Change::default()
    };
    ask_change(pipeline, path, &change)
}

fn ask_change(pipeline: &mut RequestPipeline<'_>, path: &Path, change: &Change) -> u32 {
    let full = pipeline.target.full(path);
    pipeline.ask(|id| {
        Packet::request(kind::SETSTAT, id)
            .text(&full)
            .change(change)
    })
}

/// Send the content: all of it, or only what differs from the version that is replaced; then also the question for the
/// attributes of that one.
fn send_or_copy(
    upload: &mut Upload<'_>,
    pipeline: &mut RequestPipeline<'_>,
    old: Option<&(Handle<'_>, Changed<'_>)>,
) -> Result<Option<u32>, RequestError> {
    let Some((old, changed)) = old else {
        upload.send(pipeline)?;
        return Ok(None);
    };
    upload.copy(pipeline, old, changed.kept)?;
    let seen = pipeline.ask_handle(kind::FSTAT, old);
    upload.send_changed(pipeline, changed)?;
    Ok(Some(seen))
}

/// All that was sent has to be there: else it would be taken for the version that was put.
pub fn whole(made: &Attributes, sent: &Sent) -> Result<(), RequestError> {
    match made.size == sent.bytes {
        true => Ok(()),
        false => Err(RequestError::Errno(Errno::EIO)),
    }
}
