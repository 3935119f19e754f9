//! A whole file into the one that is there, which stays the same file for its other names.
//!
//! Not atomic: others may see it half-written. Where the connection breaks in between, it is not written anew: what is
//! there by then may be our own beginning or another's change, which the caller has to find out.

use std::os::unix::fs::FileExt;

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Kind, PutError, Stored, Version};
use super::errno::{Doing, settle};
use super::handle::Handle;
use super::operations::{NEW, ask_open};
use super::pipeline::{RequestPipeline, StatusResult};
use super::put::{PRIVATE, Putting, Stop, TRIES, judge, whole};
use super::request_error::RequestError;
use super::time::Time;
use super::upload::Upload;
use super::wire::{Packet, Status, flag, kind};

impl Putting<'_> {
    /// Put in place, over one connection from the first write on; `None`: it broke, and what is there by now has to be
    /// found out. A server that is held up may write what it has received even then: only a rename is safe from that.
    pub fn in_place(mut self) -> Result<Option<Stored>, PutError> {
        for _ in 0..TRIES {
            let put = self.over_one_connection()?;
            if put.is_some() || self.begun {
                return Ok(put);
            }
        }
        Err(PutError::Errno(Errno::EIO))
    }

    /// Put in place; `None`: the connection broke.
    fn over_one_connection(&mut self) -> Result<Option<Stored>, PutError> {
        let deadline = self.progress + self.limit;
        let session = self.link.session(deadline)?;
        let mut pipeline = RequestPipeline::new(&session, &self.link.target, deadline);
        let put = self.once(&mut pipeline);
        self.progress = pipeline.deadline - self.limit;
        match put {
            Ok(stored) => Ok(Some(stored)),
            Err(Stop::Conflict(now)) => Err(PutError::Conflict(now)),
            Err(Stop::RequestError(RequestError::Errno(error))) => Err(PutError::Errno(error)),
            Err(Stop::RequestError(RequestError::Lost | RequestError::Unsent)) => Ok(None),
            Err(Stop::RequestError(RequestError::Late)) => {
                session.late(self.limit);
                Err(PutError::Errno(Errno::EIO))
            }
        }
    }

    /// Over one connection. The file is opened while it is looked at: that changes nothing, and what is to be made is
    /// made by itself.
    fn once(&mut self, pipeline: &mut RequestPipeline<'_>) -> Result<Stored, Stop> {
        let path = self.order.path;
        let look = pipeline.ask_path(kind::LSTAT, path);
        let open = ask_open(pipeline, path, flag::WRITE, PRIVATE);
        let there = pipeline.attributes(look)?;
        let mut opened = pipeline.handle(open)?;
        self.may_overwrite(there)?;
        let comparison = self.ask_content(pipeline);
        self.judge_content(pipeline, there, comparison)?;
        let mut there = there.ok();
        if matches!(opened, Err(Status::NoSuchFile)) {
            self.begun = true;
            let open = ask_open(pipeline, path, NEW, PRIVATE);
            opened = pipeline.handle(open)?;
            there = None;
        }
        let handle = settle(pipeline, opened, Doing::Write(path, 1))?;
        self.begun = true;
        let put = self.opened(pipeline, &handle, there.as_ref());
        if let (Err(Stop::RequestError(RequestError::Errno(_))), Some(Version { size: 0, mtime })) =
            (&put, self.order.expected)
        {
            // What cannot be done now is found out by who puts it the next time.
            let _ = self.empty_again(pipeline, mtime);
        }
        put
    }

    /// What is there may be written over: never through a link to elsewhere, else as for every put.
    fn may_overwrite(&self, there: StatusResult<Attributes>) -> Result<(), Stop> {
        match there {
            Ok(now) if now.kind == Kind::Folder => Err(RequestError::Errno(Errno::EISDIR).into()),
            Ok(now) if now.kind != Kind::File => Err(Stop::Conflict(Some(now))),
            there => judge(self.order, there),
        }
    }

    /// What was empty and could not be filled becomes what it was, so that nobody reads a part of it; but only what
    /// holds nothing but a beginning of ours.
    fn empty_again(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        mtime: Time,
    ) -> Result<(), RequestError> {
        pipeline.extend(self.limit);
        let path = self.order.path;
        let look = pipeline.ask_path(kind::LSTAT, path);
        let open = ask_open(pipeline, path, flag::READ | flag::WRITE, PRIVATE);
        let there = pipeline.attributes(look)?;
        let Ok(handle) = pipeline.handle(open)? else {
            return Ok(());
        };
        let ours = match there {
            Ok(now) if now.kind == Kind::File => self.is_our_beginning(pipeline, &handle),
            _ => Ok(false),
        };
        if ours == Ok(true) {
            let empty = Change {
                size: Some(0),
                ..Change::default()
            };
            let dated = Change {
                times: Some((mtime, mtime)),
                ..Change::default()
            };
            let asked = [empty, dated].map(|change| {
                pipeline.ask(|id| {
                    Packet::request(kind::FSETSTAT, id)
                        .text(&handle)
                        .change(&change)
                })
            });
            for id in asked {
                // Refused, it stays as it is: a conflict comes of it, and nothing is lost.
                let _ = pipeline.status(id);
            }
        }
        ours.map(drop)
    }

    /// Whether an open file of the server holds a beginning of what is put, and no more than one request can tell.
    fn is_our_beginning(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        handle: &[u8],
    ) -> Result<bool, RequestError> {
        let length = pipeline.extensions().read_length;
        let read = pipeline.ask(|id| {
            Packet::request(kind::READ, id)
                .text(handle)
                .long(0)
                .number(length)
        });
        let look = pipeline.ask_handle(kind::FSTAT, handle);
        let data = match pipeline.read(read, kind::DATA, |body| body.text().map(<[u8]>::to_vec))? {
            Ok(data) => data,
            Err(Status::End) => Vec::new(),
            Err(_) => return Ok(false),
        };
        let whole = pipeline.attributes(look)?.map(|now| now.size) == Ok(data.len() as u64);
        let mut ours = vec![0; data.len()];
        // Ours may be shorter: then it is another's.
        Ok(whole && self.from.read_exact_at(&mut ours, 0).is_ok() && ours == data)
    }

    fn opened(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        handle: &Handle<'_>,
        there: Option<&Attributes>,
    ) -> Result<Stored, Stop> {
        let path = self.order.path;
        let since = self.link.clock.now();
        let mut upload = Upload::new(self.from, handle, self.limit, path);
        upload.send(pipeline)?;
        let order = self.as_there(there.copied());
        let attributes = upload.ask_attributes(pipeline, &order, there);
        let sync = upload.ask_sync(pipeline, self.order);
        let new = pipeline.ask_handle(kind::FSTAT, handle);
        let close = pipeline.ask_close(handle);
        let sent = upload.settle(pipeline)?;
        // The file is not ours, perhaps, and then keeps its owner: the mode was that of the file itself.
        attributes.settle(pipeline, path)?;
        upload.settle_sync(pipeline, sync)?;
        let said = pipeline.attributes(new)?;
        let made = settle(pipeline, said, Doing::Look)?;
        let said = pipeline.status(close)?;
        settle(pipeline, said, Doing::Write(path, 1))?;
        whole(&made, &sent)?;
        Ok(Stored {
            attributes: made,
            digest: sent.digest,
            since,
        })
    }
}
