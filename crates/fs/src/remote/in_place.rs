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
use super::put::{PRIVATE, Putting, Stop, TRIES, judge, whole};
use super::talk::{RequestError, RequestPipeline, StatusResult};
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
        let mut talk = RequestPipeline::new(&session, &self.link.target, deadline);
        let put = self.once(&mut talk);
        self.progress = talk.deadline - self.limit;
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
    fn once(&mut self, talk: &mut RequestPipeline<'_>) -> Result<Stored, Stop> {
        let path = self.order.path;
        let look = talk.ask_path(kind::LSTAT, path);
        let open = ask_open(talk, path, flag::WRITE, PRIVATE);
        let there = talk.attributes(look)?;
        let mut opened = talk.handle(open)?;
        self.may_overwrite(there)?;
        let comparison = self.ask_content(talk);
        self.judge_content(talk, there, comparison)?;
        let mut there = there.ok();
        if matches!(opened, Err(Status::NoSuchFile)) {
            self.begun = true;
            let open = ask_open(talk, path, NEW, PRIVATE);
            opened = talk.handle(open)?;
            there = None;
        }
        let handle = settle(talk, opened, Doing::Write(path, 1))?;
        self.begun = true;
        let put = self.opened(talk, &handle, there.as_ref());
        if let (Err(Stop::RequestError(RequestError::Errno(_))), Some(Version { size: 0, mtime })) =
            (&put, self.order.expected)
        {
            // What cannot be done now is found out by who puts it the next time.
            let _ = self.empty_again(talk, mtime);
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
    fn empty_again(&self, talk: &mut RequestPipeline<'_>, mtime: Time) -> Result<(), RequestError> {
        talk.extend(self.limit);
        let path = self.order.path;
        let look = talk.ask_path(kind::LSTAT, path);
        let open = ask_open(talk, path, flag::READ | flag::WRITE, PRIVATE);
        let there = talk.attributes(look)?;
        let Ok(handle) = talk.handle(open)? else {
            return Ok(());
        };
        let ours = match there {
            Ok(now) if now.kind == Kind::File => self.is_our_beginning(talk, &handle),
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
                talk.ask(|id| {
                    Packet::request(kind::FSETSTAT, id)
                        .text(&handle)
                        .change(&change)
                })
            });
            for id in asked {
                // Refused, it stays as it is: a conflict comes of it, and nothing is lost.
                let _ = talk.status(id);
            }
        }
        ours.map(drop)
    }

    /// Whether an open file of the server holds a beginning of what is put, and no more than one request can tell.
    fn is_our_beginning(
        &self,
        talk: &mut RequestPipeline<'_>,
        handle: &[u8],
    ) -> Result<bool, RequestError> {
        let length = talk.extensions().read_length;
        let read = talk.ask(|id| {
            Packet::request(kind::READ, id)
                .text(handle)
                .long(0)
                .number(length)
        });
        let look = talk.ask_handle(kind::FSTAT, handle);
        let data = match talk.read(read, kind::DATA, |body| body.text().map(<[u8]>::to_vec))? {
            Ok(data) => data,
            Err(Status::End) => Vec::new(),
            Err(_) => return Ok(false),
        };
        let whole = talk.attributes(look)?.map(|now| now.size) == Ok(data.len() as u64);
        let mut ours = vec![0; data.len()];
        // Ours may be shorter: then it is another's.
        Ok(whole && self.from.read_exact_at(&mut ours, 0).is_ok() && ours == data)
    }

    fn opened(
        &self,
        talk: &mut RequestPipeline<'_>,
        handle: &Handle<'_>,
        there: Option<&Attributes>,
    ) -> Result<Stored, Stop> {
        let path = self.order.path;
        let mut upload = Upload::new(self.from, handle, self.limit, path);
        upload.send(talk)?;
        let attributes = upload.ask_attributes(talk, self.order, there);
        let sync = upload.ask_sync(talk, self.order);
        let new = talk.ask_handle(kind::FSTAT, handle);
        let close = handle.ask_close(talk);
        let sent = upload.settle(talk)?;
        // The file is not ours, perhaps, and then keeps its owner: the mode was that of the file itself.
        attributes.settle(talk, path)?;
        upload.settle_sync(talk, sync)?;
        let said = talk.attributes(new)?;
        let made = settle(talk, said, Doing::Look)?;
        let said = talk.status(close)?;
        settle(talk, said, Doing::Write(path, 1))?;
        whole(&made, &sent)?;
        Ok(Stored {
            attributes: made,
            digest: sent.digest,
        })
    }
}
