//! One operation's requests and answers over a session, within its limit.
//!
//! Requests are gathered and sent together before the first answer is waited for: what can go in one round trip does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::attributes::{Attributes, Extensions, Statvfs};
use super::handle::Handle;
use super::request_error::RequestError;
use super::session::Session;
use super::target::Target;
use super::wire::{Answer, Malformed, Packet, Reader, Status, kind, packets};

/// What the server said: it was done, or how it ended.
pub type StatusResult<T> = Result<T, Status>;

/// One operation on one session.
pub struct RequestPipeline<'a> {
    /// The connection.
    pub session: &'a Session,
    /// Which folder.
    pub target: &'a Target,
    /// When the time is over; moved on where there is progress.
    pub deadline: Instant,
    sender: Sender<(u32, Option<Answer>)>,
    receiver: Receiver<(u32, Option<Answer>)>,
    gathered: Vec<u8>,
    early: HashMap<u32, Answer>,
    /// Requests that open something: an answer that comes too late for this operation has to be closed.
    opening: Vec<u32>,
    gone: bool,
    sent: bool,
    /// Whether somebody wants to know what the folders of changed names become.
    pub watched: bool,
    /// What they have become.
    pub folders: Vec<(PathBuf, Attributes)>,
}

impl<'a> RequestPipeline<'a> {
    /// Nothing said as yet.
    pub fn new(session: &'a Session, target: &'a Target, deadline: Instant) -> Self {
        let (sender, receiver) = mpsc::channel();
        Self {
            session,
            target,
            deadline,
            sender,
            receiver,
            gathered: Vec::new(),
            early: HashMap::new(),
            opening: Vec::new(),
            gone: false,
            sent: false,
            watched: false,
            folders: Vec::new(),
        }
    }

    /// The time of the operation begins anew.
    pub fn extend(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit;
    }

    /// What the server can do.
    pub fn extensions(&self) -> Extensions {
        self.session.extensions.get().copied().unwrap_or_default()
    }

    /// Gather a request: the id of its answer.
    pub fn ask(&mut self, packet: impl FnOnce(u32) -> Packet) -> u32 {
        let id = match self.session.register(&self.sender) {
            Ok(id) => id,
            Err(_) => {
                self.gone = true;
                return 0;
            }
        };
        let bytes = packet(id).finish();
        if matches!(bytes[4], kind::OPEN | kind::OPENDIR) {
            self.opening.push(id);
        }
        match self.gathered.is_empty() {
            true => self.gathered = bytes,
            false => self.gathered.extend(bytes),
        }
        id
    }

    /// Gather a request about a path that is relative to the target's folder.
    pub fn ask_path(&mut self, kind: u8, path: &Path) -> u32 {
        let full = self.target.full(path);
        self.ask(|id| Packet::request(kind, id).text(&full))
    }

    /// Gather a request about a handle.
    pub fn ask_handle(&mut self, kind: u8, handle: &[u8]) -> u32 {
        self.ask(|id| Packet::request(kind, id).text(handle))
    }

    /// Gather the first packet, whose answer has no id of its own.
    pub fn hello(&mut self) -> Result<u32, RequestError> {
        self.session
            .register_as(super::session::HELLO, &self.sender)?;
        self.gathered.extend(Packet::init().finish());
        Ok(super::session::HELLO)
    }

    /// Send what was gathered.
    pub fn flush(&mut self) -> Result<(), RequestError> {
        if self.gone {
            return Err(self.lost());
        }
        if self.gathered.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.gathered);
        match self.session.send(&bytes, self.deadline) {
            Err(RequestError::Unsent) => Err(self.lost()),
            Err(RequestError::Late) => {
                // What of it closes a handle has to go later.
                self.gathered = bytes;
                Err(RequestError::Late)
            }
            result => {
                self.sent = true;
                result
            }
        }
    }

    fn lost(&self) -> RequestError {
        match self.sent {
            true => RequestError::Lost,
            false => RequestError::Unsent,
        }
    }

    /// Gather the request that closes a handle, for who has to know whether that succeeds: the id of its answer.
    /// Without this it is closed when it is dropped, with the next request over this connection, whoever asks it, or in
    /// half a second; a failure to do so concerns nobody.
    pub fn ask_close(&mut self, handle: &Handle<'_>) -> u32 {
        handle.closes();
        self.ask_handle(kind::CLOSE, handle)
    }

    /// The next answer to one of the wanted requests; those to others are kept.
    pub fn any_of(&mut self, wanted: impl Fn(u32) -> bool) -> Result<(u32, Answer), RequestError> {
        self.flush()?;
        loop {
            let early = self.early.keys().copied().find(|id| wanted(*id));
            if let Some((id, answer)) = early.and_then(|id| self.early.remove_entry(&id)) {
                return Ok((id, answer));
            }
            let (id, answer) = self.receive()?;
            self.early.insert(id, answer);
        }
    }

    /// The answer to one request; those to others are kept.
    pub fn answer(&mut self, id: u32) -> Result<Answer, RequestError> {
        self.any_of(|other| other == id).map(|(_, answer)| answer)
    }

    fn receive(&mut self) -> Result<(u32, Answer), RequestError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.receiver.recv_timeout(left) {
            Ok((id, Some(answer))) => Ok((id, answer)),
            Ok((_, None)) | Err(RecvTimeoutError::Disconnected) => Err(RequestError::Lost),
            Err(RecvTimeoutError::Timeout) => Err(RequestError::Late),
        }
    }

    /// An answer that only says whether it was done.
    pub fn status(&mut self, id: u32) -> Result<StatusResult<()>, RequestError> {
        match self.answer(id)?.status()? {
            Status::Ok => Ok(Ok(())),
            status => Ok(Err(status)),
        }
    }

    /// An answer of a kind, read.
    pub fn read<T>(
        &mut self,
        id: u32,
        wanted: u8,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<StatusResult<T>, RequestError> {
        Ok(self.answer(id)?.get(wanted, read)?)
    }

    /// An answer that is a handle.
    pub fn handle(&mut self, id: u32) -> Result<StatusResult<Handle<'a>>, RequestError> {
        let said = self.read(id, kind::HANDLE, |body| body.handle().map(<[u8]>::to_vec))?;
        Ok(said.map(|bytes| Handle::new(self.session, bytes)))
    }

    /// An answer that is attributes.
    pub fn attributes(&mut self, id: u32) -> Result<StatusResult<Attributes>, RequestError> {
        self.read(id, kind::ATTRS, |body| body.attributes())
    }

    /// Gather the question what the folder of a name becomes, behind the request that changes it: no round trip of its
    /// own.
    pub fn ask_folder(&mut self, path: &Path) -> Option<(PathBuf, u32)> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let id = self.watched.then(|| self.ask_path(kind::LSTAT, &folder))?;
        Some((folder, id))
    }

    /// Note the answer. One that does not come makes nothing undone: the folder is asked about when it is looked at.
    pub fn note_folder(&mut self, asked: Option<(PathBuf, u32)>) {
        if let Some((folder, id)) = asked {
            if let Ok(Ok(now)) = self.attributes(id) {
                self.folders.push((folder, now));
            }
        }
    }

    /// Gather the question for the room of the file system that a path lies on.
    pub fn ask_room(&mut self, path: &Path) -> u32 {
        let full = self.target.full(path);
        self.ask(|id| Packet::extended(id, "statvfs@openssh.com").text(&full))
    }

    /// Its answer.
    pub fn room(&mut self, id: u32) -> Result<StatusResult<Statvfs>, RequestError> {
        self.read(id, kind::EXTENDED_REPLY, |body| body.statvfs())
    }
}

impl Drop for RequestPipeline<'_> {
    /// What was opened for an operation that has ended without it is closed, also where the answer has yet to come.
    fn drop(&mut self) {
        for packet in packets(&self.gathered) {
            match packet.kind {
                kind::CLOSE => self.session.put_off(packet.bytes),
                _ => self.session.abandon(&[packet.id]),
            }
        }
        self.session.abandon(&self.opening);
        // From here on no answer to those comes in any more.
        let waiting = self.receiver.try_iter().filter_map(|(_, answer)| answer);
        let early = self.early.drain().map(|(_, answer)| answer);
        for answer in waiting.chain(early) {
            self.session.reuse(answer);
        }
    }
}
