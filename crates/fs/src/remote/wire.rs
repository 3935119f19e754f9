//! Packets of SFTP version 3 (draft-ietf-secsh-filexfer-02) and of OpenSSH's extensions (its PROTOCOL file): bytes to
//! values, no I/O.

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Kind, More, Statvfs};
use super::time::Time;

/// The version spoken.
pub const VERSION: u32 = 3;

/// Bytes of a packet that are taken from a server at most: OpenSSH sends 256 KiB, others a little more.
pub const LONGEST: usize = 1 << 20;

/// Bytes of a handle at most (draft-ietf-secsh-filexfer-02, 6.2). It goes with every request about the file.
const LONGEST_HANDLE: usize = 256;

/// `SSH_FXP_*`: what a packet is.
pub mod kind {
    pub const INIT: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const LSTAT: u8 = 7;
    pub const FSTAT: u8 = 8;
    pub const SETSTAT: u8 = 9;
    pub const FSETSTAT: u8 = 10;
    pub const OPENDIR: u8 = 11;
    pub const READDIR: u8 = 12;
    pub const REMOVE: u8 = 13;
    pub const MKDIR: u8 = 14;
    pub const RMDIR: u8 = 15;
    pub const REALPATH: u8 = 16;
    pub const STAT: u8 = 17;
    pub const RENAME: u8 = 18;
    pub const READLINK: u8 = 19;
    pub const SYMLINK: u8 = 20;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const NAME: u8 = 104;
    pub const ATTRS: u8 = 105;
    pub const EXTENDED: u8 = 200;
    pub const EXTENDED_REPLY: u8 = 201;
}

/// `SSH_FXF_*`: how a file is opened.
pub mod flag {
    pub const READ: u32 = 0x01;
    pub const WRITE: u32 = 0x02;
    pub const CREATE: u32 = 0x08;
    pub const EXCLUSIVE: u32 = 0x20;
}

/// `SSH_FX_*`: how a request ended. OpenSSH gives each error number one of these (`errno_to_portable`), several the
/// same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// The end of a file or folder.
    End,
    /// ENOENT, ENOTDIR, ELOOP, EBADF.
    NoSuchFile,
    /// EPERM, EACCES, EFAULT.
    PermissionDenied,
    /// ENAMETOOLONG, EINVAL.
    BadMessage,
    /// ENOSYS.
    Unsupported,
    /// Any other.
    Failure,
    /// The error number itself, which a server that runs `oscope-fs serve` reports.
    Exact(Errno),
}

impl Status {
    fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::End,
            2 => Self::NoSuchFile,
            3 => Self::PermissionDenied,
            5 => Self::BadMessage,
            8 => Self::Unsupported,
            _ => Self::Failure,
        }
    }

    /// The status in the body of an answer: its code, or the error number that its text names.
    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let code = body.number()?;
        let number = body
            .text()
            .ok()
            .and_then(|text| std::str::from_utf8(text).ok()?.strip_prefix("errno "));
        Ok(match number.and_then(|number| number.parse().ok()) {
            // These two are what their codes say.
            Some(libc::ENOENT) => Self::NoSuchFile,
            Some(libc::EACCES) => Self::PermissionDenied,
            Some(number) => Self::Exact(Errno::from_raw(number)),
            None => Self::from_code(code),
        })
    }
}

/// A packet that does not say what it has to: the connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl From<Malformed> for Errno {
    fn from(_: Malformed) -> Self {
        Self::EIO
    }
}

const HAS_SIZE: u32 = 0x1;
const HAS_OWNER: u32 = 0x2;
const HAS_MODE: u32 = 0x4;
const HAS_TIMES: u32 = 0x8;
const HAS_EXTENDED: u32 = 0x8000_0000;

/// What an `oscope-fs serve` adds to the attributes that it reports: exact times, number of links, device.
const MORE: &[u8] = b"attributes@oscope";

/// Exact times among attributes that are to be set.
const TIMES: &[u8] = b"times@oscope";

/// A packet that is being written; its length is filled in at the end.
pub struct Packet(Vec<u8>);

impl Packet {
    /// A request.
    pub fn request(kind: u8, id: u32) -> Self {
        Self(vec![0, 0, 0, 0, kind]).number(id)
    }

    /// A request of an extension.
    pub fn extended(id: u32, name: &str) -> Self {
        Self::request(kind::EXTENDED, id).text(name.as_bytes())
    }

    /// The first packet.
    pub fn init() -> Self {
        Self(vec![0, 0, 0, 0, kind::INIT]).number(VERSION)
    }

    /// A number of 32 bits.
    pub fn number(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A number of 64 bits.
    pub fn long(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Bytes with their number before them. What is longer than a packet can be is refused by the server, not cut.
    pub fn text(mut self, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(bytes);
        self
    }

    /// A time.
    pub fn time(self, time: Time) -> Self {
        self.long(u64::from_ne_bytes(time.seconds.to_ne_bytes()))
            .number(time.nanoseconds)
    }

    /// Attributes that a server reports: size, owner, group and mode; times of access, modification and change; number
    /// of links; device.
    pub fn attributes(
        self,
        (size, uid, gid, mode): (u64, u32, u32, u32),
        [access, modification, change]: [Time; 3],
        links: u32,
        device: u32,
    ) -> Self {
        let more = Self(Vec::new())
            .time(access)
            .time(modification)
            .time(change)
            .number(links)
            .number(device);
        self.number(HAS_SIZE | HAS_OWNER | HAS_MODE | HAS_TIMES | HAS_EXTENDED)
            .long(size)
            .number(uid)
            .number(gid)
            .number(mode)
            .number(access.coarse())
            .number(modification.coarse())
            .number(1)
            .text(MORE)
            .text(&more.0)
    }

    /// Attributes that are to be had: the size first, for the server sets it first and it changes the times.
    pub fn change(self, change: &Change) -> Self {
        let has = |there: bool, bit: u32| if there { bit } else { 0 };
        // Of another server than one that runs `oscope-fs serve` all times are such as SFTP has.
        let exact = change.times.filter(|times| {
            [times.0, times.1]
                .iter()
                .any(|time| time.kept(false) != *time)
        });
        let flags = has(change.size.is_some(), HAS_SIZE)
            | has(change.owner.is_some(), HAS_OWNER)
            | has(change.mode.is_some(), HAS_MODE)
            | has(change.times.is_some(), HAS_TIMES)
            | has(exact.is_some(), HAS_EXTENDED);
        let mut packet = self.number(flags);
        if let Some(size) = change.size {
            packet = packet.long(size);
        }
        if let Some((uid, gid)) = change.owner {
            packet = packet.number(uid).number(gid);
        }
        if let Some(mode) = change.mode {
            packet = packet.number(mode & 0o7777);
        }
        if let Some((atime, mtime)) = change.times {
            packet = packet.number(atime.coarse()).number(mtime.coarse());
        }
        if let Some((atime, mtime)) = exact {
            let value = Self(Vec::new()).time(atime).time(mtime);
            packet = packet.number(1).text(TIMES).text(&value.0);
        }
        packet
    }

    /// The whole packet, its length filled in.
    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// One request among several.
pub struct Request<'a> {
    /// What it asks for.
    pub kind: u8,
    /// The id of its answer.
    pub id: u32,
    /// All of it, its length included.
    pub bytes: &'a [u8],
}

/// The gathered requests, in order.
pub fn packets(gathered: &[u8]) -> impl Iterator<Item = Request<'_>> {
    let mut left = Reader(gathered);
    std::iter::from_fn(move || {
        let whole = left.0;
        let mut body = Reader(left.text().ok()?);
        let (kind, id) = (body.byte().ok()?, body.number().ok()?);
        let bytes = &whole[..whole.len() - left.0.len()];
        Some(Request { kind, id, bytes })
    })
}

/// What is left to read of a packet.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A number of 32 bits.
    pub fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// A number of 64 bits.
    pub fn long(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Bytes with their number before them.
    pub fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        self.take(length)
    }

    /// A handle.
    pub fn handle(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.text()?;
        match bytes.len() <= LONGEST_HANDLE {
            true => Ok(bytes),
            false => Err(Malformed),
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A time.
    pub fn time(&mut self) -> Result<Time, Malformed> {
        let (seconds, nanoseconds) = (self.long()?, self.number()?);
        let seconds = i64::from_ne_bytes(seconds.to_ne_bytes());
        if nanoseconds >= 1_000_000_000 {
            return Err(Malformed);
        }
        Ok(Time {
            seconds,
            nanoseconds,
        })
    }

    /// Attributes that are to be set.
    pub fn change(&mut self) -> Result<Change, Malformed> {
        let flags = self.number()?;
        let has = |bit: u32| flags & bit != 0;
        let mut change = Change::default();
        if has(HAS_SIZE) {
            change.size = Some(self.long()?);
        }
        if has(HAS_OWNER) {
            change.owner = Some((self.number()?, self.number()?));
        }
        if has(HAS_MODE) {
            change.mode = Some(self.number()? & 0o7777);
        }
        if has(HAS_TIMES) {
            let (access, modification) = (self.number()?, self.number()?);
            change.times = Some((Time::whole(access.into()), Time::whole(modification.into())));
        }
        if has(HAS_EXTENDED) {
            for _ in 0..self.number()? {
                let (name, value) = (self.text()?, self.text()?);
                if name == TIMES {
                    let mut value = Reader(value);
                    change.times = Some((value.time()?, value.time()?));
                }
            }
        }
        Ok(change)
    }

    /// Attributes; a server that leaves one of them out is of no use for a file system.
    pub fn attributes(&mut self) -> Result<Attributes, Malformed> {
        let flags = self.number()?;
        let all = HAS_SIZE | HAS_OWNER | HAS_MODE | HAS_TIMES;
        if flags & all != all {
            return Err(Malformed);
        }
        let size = self.long()?;
        let (uid, gid, bits) = (self.number()?, self.number()?, self.number()?);
        let (atime, mtime) = (self.number()?, self.number()?);
        let mut times = (Time::whole(atime.into()), Time::whole(mtime.into()));
        let mut more = None;
        if flags & HAS_EXTENDED != 0 {
            for _ in 0..self.number()? {
                let (name, value) = (self.text()?, self.text()?);
                if name == MORE {
                    let mut value = Reader(value);
                    times = (value.time()?, value.time()?);
                    more = Some(More {
                        ctime: value.time()?,
                        links: value.number()?,
                        device: value.number()?,
                    });
                }
            }
        }
        let kind = match bits & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFLNK => Kind::Link,
            other => Kind::Other(other),
        };
        let mode = bits & 0o7777;
        Ok(Attributes {
            kind,
            size,
            mode,
            uid,
            gid,
            atime: times.0,
            mtime: times.1,
            more,
        })
    }

    /// What `statvfs@openssh.com` answers.
    pub fn statvfs(&mut self) -> Result<Statvfs, Malformed> {
        Ok(Statvfs {
            bsize: self.long()?,
            frsize: self.long()?,
            blocks: self.long()?,
            bfree: self.long()?,
            bavail: self.long()?,
            files: self.long()?,
            ffree: self.long()?,
            favail: self.long()?,
            fsid: self.long()?,
            flag: self.long()?,
            namemax: self.long()?,
        })
    }
}

/// An answer: what it is, and its bytes, the kind and the id included.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
}

/// Bytes of an answer before what it says: its kind and its id.
const HEAD: usize = 5;

impl Answer {
    /// An answer and the id of the request that it answers.
    pub fn new(bytes: Vec<u8>) -> Result<(u32, Self), Malformed> {
        let mut reader = Reader(&bytes);
        reader.byte()?;
        let id = reader.number()?;
        Ok((id, Self { bytes }))
    }

    /// What the packet is.
    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// What it says.
    pub fn body(&self) -> Reader<'_> {
        Reader(&self.bytes[HEAD..])
    }

    /// The bytes, to be used again for another answer.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// `Ok(None)` if it is of the wanted kind, the status if it is a status.
    fn status_or(&self, wanted: u8) -> Result<Option<Status>, Malformed> {
        match self.kind() {
            kind if kind == wanted => Ok(None),
            kind::STATUS => Ok(Some(Status::read(&mut self.body())?)),
            _ => Err(Malformed),
        }
    }

    /// The status.
    pub fn status(&self) -> Result<Status, Malformed> {
        match self.status_or(kind::STATUS)? {
            None => Status::read(&mut self.body()),
            Some(status) => Ok(status),
        }
    }

    /// What `read` makes of an answer of kind `wanted`, or the status that came instead.
    pub fn get<T>(
        &self,
        wanted: u8,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<Result<T, Status>, Malformed> {
        match self.status_or(wanted)? {
            None => Ok(Ok(read(&mut self.body())?)),
            // It cannot have been done and have given nothing.
            Some(Status::Ok) => Err(Malformed),
            Some(status) => Ok(Err(status)),
        }
    }
}
