//! Opens the files to send, those of one folder relative to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::beneath::FOLDER;
use crate::digest::StreamingDigest;
use crate::names;
use crate::options::DigestKind;
use crate::place::{self, READ};
use crate::source::Source;
use crate::stop::Stop;

/// The folder that the last file came from.
#[derive(Default)]
pub struct Opener {
    folder: Vec<u8>,
    handle: Option<OwnedFd>,
}

impl Opener {
    /// Open a file to read.
    ///
    /// # Errors
    /// [`Stop::unopened`] with the errno of open(2): `ENOENT` if it is gone, `EACCES` if it may not be read, `ELOOP` if
    /// a symbolic link has taken its place.
    pub fn open(&mut self, source: &Source, calls: &mut u64) -> Result<File, Stop> {
        self.try_open(source, calls).map_err(|error| {
            Stop::unopened(&source.name, &io::Error::from_raw_os_error(error as i32))
        })
    }

    fn try_open(&mut self, source: &Source, calls: &mut u64) -> Result<File, Errno> {
        let path = source.path.as_os_str().as_bytes();
        let (folder, base) = names::split(path);
        if folder.is_empty() || folder != self.folder {
            self.folder.clear();
            self.folder.extend_from_slice(folder);
            if let Some(handle) = self.handle.take() {
                *calls += 1;
                drop(handle);
            }
            return open_at(&source.path, source, READ, calls).map(File::from);
        }
        if self.handle.is_none() {
            // The second file of it: there may be many.
            *calls += 1;
            let folder = Path::new(OsStr::from_bytes(folder));
            self.handle = Some(open_at(folder, source, FOLDER, calls)?);
        }
        let flags = match source.followed < path.len() {
            true => READ | OFlag::O_NOFOLLOW,
            false => READ,
        };
        match &self.handle {
            Some(handle) => openat(handle.as_fd(), base, flags, Mode::empty()).map(File::from),
            None => Err(Errno::EBADF),
        }
    }
}

fn open_at(path: &Path, source: &Source, flags: OFlag, calls: &mut u64) -> Result<OwnedFd, Errno> {
    if (1..path.as_os_str().len()).contains(&source.followed) {
        // The folder down to which links are followed is opened and closed, too.
        *calls += 2;
    }
    place::open(path, source.followed, flags)
}

/// Begin the digest of a file.
pub fn follow(
    kind: DigestKind,
    file: &Arc<File>,
    source: &Source,
    in_memory: Option<u64>,
) -> Result<StreamingDigest, Stop> {
    StreamingDigest::start(kind, file, source.size, source.sparse, in_memory)
        .map_err(|error| Stop::system(&source.name, "digesting", &error))
}
