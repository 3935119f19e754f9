//! A copy: one file in the cache folder that holds a whole file of the server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use super::types::CopyId;

/// A copy, open. While any clone is held the store neither evicts it nor gives its name to another. It goes on working
/// when its name is forgotten: its space is given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Copy(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) id: CopyId,
    pub(super) file: File,
    pub(super) path: PathBuf,
}

impl Copy {
    /// What names it in the store.
    pub fn id(&self) -> CopyId {
        self.0.id
    }

    /// Its descriptor, open for reading and writing. Shared by all holders: read and write at offsets.
    pub fn file(&self) -> &File {
        &self.0.file
    }

    /// Opens it once more, with its own offset and flags (`O_APPEND`, `O_RDONLY`, …; the access mode counts).
    /// Works after its name was forgotten too. Errors: those of open(2), `EMFILE` above all.
    pub fn open(&self, flags: OFlag) -> io::Result<File> {
        let access = flags & OFlag::O_ACCMODE;
        let rest = flags - OFlag::O_ACCMODE - OFlag::O_CREAT - OFlag::O_EXCL - OFlag::O_NOFOLLOW;
        OpenOptions::new()
            .read(access != OFlag::O_WRONLY)
            .write(access != OFlag::O_RDONLY)
            .custom_flags(rest.bits())
            .open(format!("/proc/self/fd/{}", self.0.file.as_raw_fd()))
    }

    /// Where it lies in the cache folder: to tell a person; nothing is there any more once its name was forgotten.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}
