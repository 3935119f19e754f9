//! The attributes that the server reports of a file, and what it is asked to change or to put.

use std::ops::Range;
use std::path::Path;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::time::Time;
use crate::blocks::Blocks;
use crate::digest::Digest;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, socket or fifo: the bits of its mode that tell which (`S_IFMT`).
    Other(u32),
}

/// A state of a file's contents, as far as the server can tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Bytes.
    pub size: u64,
    /// Time of the last change of the contents.
    pub mtime: Time,
}

/// What of a file's attributes only a server that runs `oscope-fs serve` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct More {
    /// Time of the last change of the contents or the attributes.
    pub ctime: Time,
    /// Number of its names.
    pub links: u32,
    /// The device that it stands for (`st_rdev`), where it is one.
    pub device: u32,
}

/// The attributes that the server reports of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Permissions with the set-id and sticky bits: 0o7777.
    pub mode: u32,
    /// The server's number of its owner.
    pub uid: u32,
    /// The server's number of its group.
    pub gid: u32,
    /// Time of the last access.
    pub atime: Time,
    /// Time of the last change of the contents.
    pub mtime: Time,
    /// What SFTP version 3 does not have, where the server reports it.
    pub more: Option<More>,
}

impl Attributes {
    /// The state of the contents.
    pub fn version(&self) -> Version {
        Version {
            size: self.size,
            mtime: self.mtime,
        }
    }
}

/// What of a file's attributes is to be changed; `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Permissions with the set-id and sticky bits: 0o7777.
    pub mode: Option<u32>,
    /// User and group, the server's numbers.
    pub owner: Option<(u32, u32)>,
    /// Access and modification.
    pub times: Option<(Time, Time)>,
    /// Bytes: what is beyond is cut, what is missing is zero.
    pub size: Option<u64>,
}

/// A file that is to be put on the server.
#[derive(Debug, Clone, Copy)]
pub struct Put<'a> {
    /// The name it is to have, relative to the target's folder.
    pub path: &'a Path,
    /// The name whose extended attributes and access control list it is to have, where the server can give them to it:
    /// its own, or that of the file that it goes beside.
    pub like: &'a Path,
    /// The version that is to be replaced. Another one there is a conflict; nothing there is none (it is made anew).
    /// `None`: nothing is there or whatever is there.
    pub expected: Option<Version>,
    /// That version may hide another's change: see there. `None`: it does not.
    pub unsettled: Option<Unsettled>,
    /// Anything there is a conflict.
    pub expect_nothing: bool,
    /// Permissions that it is to have: 0o7777. The file that is `expected` gives it its own, and its owner, if it is
    /// there.
    pub mode: u32,
    /// User and group that it is to have, if the server lets us: where it does not, the file is put all the same,
    /// without set-id bits.
    pub owner: Option<(u32, u32)>,
    /// Access and modification times that it is to have; `None`: the server's present time.
    pub times: Option<(Time, Time)>,
    /// On the server's disk before it gets its name, where the server has `fsync@openssh.com`.
    pub durable: bool,
    /// What of it differs from the version that is to be replaced, where that is known and little. `None`: all of it.
    pub changed: Option<Changed<'a>>,
}

/// What of a content differs from the version that it replaces; what is the same the server copies itself, if it can.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// The bytes that differ, in whole blocks (the last one of the content ends with it), in sequence.
    pub ranges: &'a [Range<u64>],
    /// Bytes of the older version, from its first one on, that the server copies.
    pub kept: u64,
    /// The content that is to be there.
    pub blocks: &'a Blocks,
}

/// What the server has by a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its attributes, before anyone else can change them.
    pub attributes: Attributes,
    /// Digest of the content. That of the file that was put only if nobody wrote to that meanwhile.
    pub digest: Digest,
    /// By [`super::Clock::now`]: what another changes after that has a later time. In place, only what it changes after
    /// the whole is there has.
    pub since: i64,
}

/// What distinguishes a version from another's change of the same size and second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsettled {
    /// When it was read, by [`super::Clock::now`]: if it was old enough then, by the server's clock at the putting, the
    /// version alone decides.
    pub read: Option<i64>,
    /// What was there then. Where that is not known the version is taken for another one.
    pub content: Option<Digest>,
}

/// Why a file was not put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutError {
    /// Another version is there than the one expected: what is there now.
    Conflict(Option<Attributes>),
    /// It failed.
    Errno(Errno),
}

impl From<Errno> for PutError {
    fn from(error: Errno) -> Self {
        Self::Errno(error)
    }
}

/// The room of the server's file system: `statvfs(3)` by `statvfs@openssh.com`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statvfs {
    /// Preferred block, bytes.
    pub bsize: u64,
    /// The unit of `blocks`, `bfree` and `bavail`, bytes.
    pub frsize: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for others than root.
    pub bavail: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Free inodes for others than root.
    pub favail: u64,
    /// The file system's number.
    pub fsid: u64,
    /// `ST_RDONLY` 1, `ST_NOSUID` 2.
    pub flag: u64,
    /// Bytes of a name at most.
    pub namemax: u64,
}

/// What the server can do beyond SFTP version 3, as it said itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Extensions {
    /// `posix-rename@openssh.com`: rename over what is there. A server without it is refused.
    pub posix_rename: bool,
    /// `hardlink@openssh.com`.
    pub hardlink: bool,
    /// `fsync@openssh.com`.
    pub fsync: bool,
    /// `statvfs@openssh.com`.
    pub statvfs: bool,
    /// `lsetstat@openssh.com`: attributes of a symbolic link itself.
    pub lsetstat: bool,
    /// `oscope@1`: the server runs `oscope-fs serve`, and has exact times, special files, and a comparison that goes
    /// with the replacement.
    pub exact: bool,
    /// `digest@oscope`: the server computes the digest of a small file, so that it need not be read over the network.
    pub digest: bool,
    /// `whole@oscope`: the server answers with the content of a small file and its attributes at once.
    pub whole: bool,
    /// `fill@oscope`: the server compares an empty file with what is expected, and fills it, in one request.
    pub fill: bool,
    /// `xattrs@oscope`: the server gives a file the extended attributes and the access control list of another.
    pub xattrs: bool,
    /// `limits@openssh.com`.
    pub limits: bool,
    /// `copy-data`: the server copies from one of its files to another.
    pub copy_data: bool,
    /// Bytes of one read at most.
    pub read_length: u32,
    /// Bytes of one write at most.
    pub write_length: u32,
}
