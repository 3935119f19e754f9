//! Opens the files to send, those of one folder relative to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, open, openat};
use nix::sys::stat::Mode;

use crate::digest::StreamingDigest;
use crate::names;
use crate::options::DigestKind;
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
    /// It is not there any more, or may not be read.
    pub fn open(&mut self, source: &Source, calls: &mut u64) -> Result<File, Stop> {
        self.try_open(source, calls).map_err(|error| {
            Stop::unopened(&source.name, &io::Error::from_raw_os_error(error as i32))
        })
    }

    fn try_open(&mut self, source: &Source, calls: &mut u64) -> Result<File, Errno> {
        // A FIFO that took the file's place is not waited for.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let path = source.path.as_os_str().as_bytes();
        let (folder, base) = names::split(path);
        if folder.is_empty() || folder != self.folder {
            self.folder.clear();
            self.folder.extend_from_slice(folder);
            if let Some(handle) = self.handle.take() {
                *calls += 1;
                drop(handle);
            }
            return openat(AT_FDCWD, path, flags, Mode::empty()).map(File::from);
        }
        if self.handle.is_none() {
            // The second file of it: there may be many.
            *calls += 1;
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            self.handle = Some(open(folder, flags, Mode::empty())?);
        }
        match &self.handle {
            Some(handle) => openat(handle.as_fd(), base, flags, Mode::empty()).map(File::from),
            None => Err(Errno::EBADF),
        }
    }
}

/// Begin the digest of a file.
pub fn follow(
    kind: DigestKind,
    file: &File,
    source: &Source,
    in_memory: Option<u64>,
) -> Result<StreamingDigest, Stop> {
    StreamingDigest::start(kind, file, source.size, source.sparse, in_memory)
        .map_err(|error| Stop::system(&source.name, "digesting", &error))
}
