//! Packets of SFTP version 3 (draft-ietf-secsh-filexfer-02) and of OpenSSH's extensions (its PROTOCOL file): bytes to
//! values, no I/O.

mod packet;
mod reader;

use nix::errno::Errno;

pub use packet::Packet;
pub use reader::Reader;

/// The version spoken.
pub const VERSION: u32 = 3;

/// Bytes of a packet that are taken from a server at most: OpenSSH sends 256 KiB, others a little more.
pub const LONGEST: usize = 1 << 20;

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
