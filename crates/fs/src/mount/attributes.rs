//! What the kernel is shown of a node: the server's attributes, and of a file in use the size and times of its copy.
//!
//! Times are shown as exactly as the server keeps them (SFTP: in whole seconds): a file's time stays the same when it
//! is closed.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use nix::errno::Errno;

use crate::errno::errno;
use crate::remote::{Attributes, Kind, Time};

use super::Shared;
use super::file::FileNode;
use super::tree::ROOT;

/// Bytes that programs are advised to read and write at once.
const BLOCK: u32 = 4096;

impl Shared {
    /// What to show of a node, and how long the kernel may believe it. Where it reads and writes the copy itself it may
    /// not: what is stored through a mapping changes the time of the copy, and the kernel does not count that as a
    /// change of this file.
    pub(super) fn shown(&self, ino: u64) -> Result<(FileAttr, Duration), Errno> {
        let (known, names, file) = {
            let tree = self.tree();
            let known = tree.attributes(ino).ok_or(Errno::ESTALE)?;
            // The root has no name below another folder.
            let names = tree.names(ino).max(usize::from(ino == ROOT));
            (known, names, tree.file(ino))
        };
        let (mut attributes, mut keep) = known;
        // As a file system without holes has it: the room of a file must not grow when its copy is opened.
        let mut blocks = attributes.size.div_ceil(BLOCK.into()) * u64::from(BLOCK / 512);
        if file
            .as_ref()
            .is_some_and(|file| file.state().may_be_stored_to())
        {
            keep = Duration::ZERO;
        }
        if let Some(copy) = file.and_then(|file| file.copy()) {
            let found = copy.file().metadata().map_err(errno)?;
            attributes.size = found.size();
            attributes.mtime =
                Time::new(found.mtime(), found.mtime_nsec()).kept(self.remote.is_exact());
            blocks = found.blocks();
        }
        Ok((attr(ino, &attributes, blocks, names), keep))
    }

    /// The kernel is about to be sent these attributes of a node.
    pub(super) fn size_shown(&self, ino: u64, attr: &FileAttr) {
        if let Some(file) = self.tree().file(ino) {
            // What the kernel itself writes to a copy this program does not hear of.
            let by_kernel = file.state().may_be_stored_to();
            match by_kernel {
                true => file.kernel_size.is_unknown(),
                false => file.kernel_size.shown(attr.size),
            }
        }
    }

    /// A file that has one name as far as this mount knows.
    pub(super) fn file_of_one_name(&self, ino: u64) -> Option<Arc<FileNode>> {
        let tree = self.tree();
        tree.file(ino).filter(|_| tree.names(ino) == 1)
    }

    /// The kernel is given a node with these attributes, and may remember its name.
    pub(super) fn shown_by_name(&self, ino: u64, attr: &FileAttr) {
        if let Some(file) = self.tree().file(ino) {
            file.looked_up.given(None);
        }
        self.size_shown(ino, attr);
    }

    /// Whether the server need not be asked for a node's attributes.
    pub(super) fn is_known(&self, ino: u64) -> bool {
        let known = self.tree().attributes(ino);
        known.is_some_and(|(_, keep)| !keep.is_zero())
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

fn attr(ino: u64, of: &Attributes, blocks: u64, names: usize) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: of.size,
        blocks,
        atime: of.atime.into(),
        mtime: of.mtime.into(),
        // Where the server does not report it, or what was changed has not gone back: programs use it as a sign of
        // change, like mtime.
        ctime: of
            .more
            .map_or(of.mtime, |more| more.ctime.max(of.mtime))
            .into(),
        crtime: UNIX_EPOCH,
        kind: file_type(of.kind),
        perm: u16::try_from(of.mode & 0o7777).unwrap_or(0),
        nlink: link_count(of, names),
        uid: of.uid,
        gid: of.gid,
        rdev: of.more.map_or(0, |more| more.device),
        blksize: BLOCK,
        flags: 0,
    }
}

/// The server's count, where it reports it. Else the names known here; of a folder 1, which makes programs (find)
/// ignore it.
fn link_count(of: &Attributes, names: usize) -> u32 {
    match (of.more, of.kind) {
        _ if names == 0 => 0,
        (Some(more), _) => more.links,
        (None, Kind::Folder) => 1,
        (None, _) => u32::try_from(names).unwrap_or(u32::MAX),
    }
}
