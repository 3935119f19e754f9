//! What the kernel is shown of a node: the server's attributes, and of a file in use the size and times of its copy.
//!
//! Times are shown in whole seconds, for SFTP has no others: a file's time stays the same when it is closed.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use nix::errno::Errno;

use crate::remote::{Attributes, Kind};

use super::Shared;
use super::file::seconds;

/// Bytes that programs are advised to read and write at once.
const BLOCK: u32 = 4096;

impl Shared {
    /// What to show of a node, and how long the kernel may believe it.
    pub(super) fn shown(&self, ino: u64) -> Result<(FileAttr, Duration), Errno> {
        let (known, names, file) = {
            let tree = self.tree();
            let known = tree.attributes(ino).ok_or(Errno::ESTALE)?;
            (known, tree.names(ino), tree.file(ino))
        };
        let (mut attributes, keep) = known;
        let mut blocks = attributes.size.div_ceil(512);
        if let Some(copy) = file.and_then(|file| file.copy()) {
            let found = copy.file().metadata().map_err(errno)?;
            attributes.size = found.size();
            attributes.mtime = seconds(found.mtime());
            blocks = found.blocks();
        }
        Ok((attr(ino, &attributes, blocks, names), keep))
    }
}

/// What the kernel calls the kind.
pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Other(bits) => match bits & libc::S_IFMT {
            libc::S_IFCHR => FileType::CharDevice,
            libc::S_IFBLK => FileType::BlockDevice,
            libc::S_IFIFO => FileType::NamedPipe,
            _ => FileType::Socket,
        },
    }
}

/// The error number of a failed operation on the copy.
pub fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn attr(ino: u64, of: &Attributes, blocks: u64, names: usize) -> FileAttr {
    let modified = time(of.mtime);
    FileAttr {
        ino: INodeNo(ino),
        size: of.size,
        blocks,
        atime: time(of.atime),
        mtime: modified,
        // SFTP does not have it; programs use it as a sign of change, like mtime.
        ctime: modified,
        crtime: UNIX_EPOCH,
        kind: file_type(of.kind),
        perm: u16::try_from(of.mode & 0o7777).unwrap_or(0),
        nlink: link_count(of.kind, names),
        uid: of.uid,
        gid: of.gid,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

/// Names known here; SFTP does not give a folder's count, and 1 makes programs (find) ignore it.
fn link_count(kind: Kind, names: usize) -> u32 {
    match kind {
        Kind::Folder => 1,
        _ => u32::try_from(names).unwrap_or(u32::MAX),
    }
}

fn time(seconds: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::from(seconds))
}
