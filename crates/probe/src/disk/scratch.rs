//! Scratch files, and what a session remembers of the files it read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use oscope_sys::cancel::survive_size_limit;

use super::content;
use super::source::Stamp;
use crate::xor;
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};

/// Bytes written at once while a scratch file is made; a multiple of 8.
const PIECE: usize = 4 << 20;

/// A file of this process without a name: it is gone when the process ends, however that happens.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    /// The open file, for reading and writing.
    pub file: File,
    /// Length in bytes.
    pub size: u64,
    /// XOR of its little-endian 32-bit words.
    pub xor: u32,
}

impl Scratch {
    /// Make a file of `size` bytes of content in `directory`, and wait until the device has it.
    fn make(directory: &Path, size: u64) -> Result<Self, Failure> {
        let mut file = unnamed(directory)?;
        let mut piece = vec![0; PIECE];
        let (mut written, mut folded) = (0, 0);
        while written < size {
            if cancel::requested() {
                return Err(Failure::failed("interrupted while making a scratch file"));
            }
            let length = (size - written).min(PIECE as u64) as usize;
            content::fill(written, &mut piece[..length]);
            folded ^= xor::fold_at(&piece[..length], written);
            file.write_all(&piece[..length])
                .map_err(|error| no_room(directory, written, size, &error))?;
            written += length as u64;
        }
        file.sync_all()
            .map_err(|error| no_room(directory, written, size, &error))?;
        Ok(Self {
            directory: directory.to_owned(),
            file,
            size,
            xor: folded,
        })
    }

    /// Where this and other processes can open it anew.
    pub fn path(&self) -> PathBuf {
        link(&self.file)
    }
}

/// Where this and other processes can open an open file anew, whatever its name, or without one (proc_pid_fd(5)).
pub fn link(file: &File) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        file.as_raw_fd()
    ))
}

/// A new file in `directory` that has no name (O_TMPFILE, open(2)).
///
/// # Errors
/// `Failure::Unavailable` if there can be none, with the remedy.
pub fn unnamed(directory: &Path) -> Result<File, Failure> {
    survive_size_limit()?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(directory)
        .map_err(|error| {
            Failure::unavailable_system(
                &format!("no scratch file can be made in {}", directory.display()),
                error,
                "choose another with --set directory=DIR, or a file of yours with --set file=FILE",
            )
        })
}

fn no_room(directory: &Path, written: u64, size: u64, error: &std::io::Error) -> Failure {
    let message = format!(
        "writing a scratch file in {}: {} after {written} of {size} bytes",
        directory.display(),
        errno_message(error)
    );
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Failure::unavailable(message, "choose --set size=SMALLER or --set directory=DIR")
        }
        _ => Failure::failed(message),
    }
    .because_of(error)
}

/// What a session remembers of a file.
#[derive(Debug, Default, Clone, Copy)]
pub struct History {
    /// How often it was read.
    pub reads: u64,
    /// The XOR of the whole file, and the state of the file that it is of.
    pub xor: Option<(Stamp, u32)>,
}

/// The scratch files of a session, and its memory of the files it read.
#[derive(Debug, Default)]
pub struct Files {
    scratches: RefCell<Vec<Rc<Scratch>>>,
    histories: RefCell<HashMap<(u64, u64), History>>,
}

impl Files {
    /// The scratch file of this size in this directory, made when first asked for. Others are given up: one at a time
    /// is enough.
    ///
    /// # Errors
    /// `Failure::Unavailable` if there is no room or the directory takes no file.
    pub fn scratch(&self, directory: &Path, size: u64) -> Result<Rc<Scratch>, Failure> {
        let mut scratches = self.scratches.borrow_mut();
        scratches.retain(|each| each.directory == directory && each.size == size);
        if let Some(found) = scratches.first() {
            return Ok(Rc::clone(found));
        }
        let made = Rc::new(Scratch::make(directory, size)?);
        // It may have the inode number of one that was given up.
        let metadata = made.file.metadata();
        let metadata = metadata.map_err(|error| Failure::system("a scratch file", error))?;
        let identity = (metadata.dev(), metadata.ino());
        self.histories.borrow_mut().remove(&identity);
        scratches.push(Rc::clone(&made));
        Ok(made)
    }

    /// What is remembered of the file with this device and inode number.
    pub fn history(&self, identity: (u64, u64)) -> History {
        self.histories
            .borrow()
            .get(&identity)
            .copied()
            .unwrap_or_default()
    }

    /// Remember `history` of the file with this device and inode number.
    pub fn remember(&self, identity: (u64, u64), history: History) {
        self.histories.borrow_mut().insert(identity, history);
    }
}
