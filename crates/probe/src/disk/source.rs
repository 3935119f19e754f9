//! The file that a disk workload reads: one that is named, or a scratch file.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;

use super::scratch::{Files, History, Scratch, link};
use crate::description::Describe;
use oscope_sys::error::{Failure, errno_message};

/// Where the file is: the parameters that all disk workloads share. A workload's parameters take them in with
/// `#[serde(flatten)]`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Place {
    /// The file; without one, a scratch file of random content, which is gone with the probe.
    #[parameter(path(""))]
    pub file: PathBuf,
    /// Where the scratch file is made: it decides which file system and device are measured.
    #[parameter(path("/var/tmp").only_with("file", &[""]))]
    pub directory: PathBuf,
    /// Length of the scratch file.
    #[parameter(bytes(1 << 30, 4096..=1 << 40).only_with("file", &[""]))]
    pub size: u64,
}

/// What of a file changes when somebody writes to it: length in bytes, time of the last change of its content in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    length: u64,
    changed_ns: i128,
}

/// A file to be read, open and checked.
#[derive(Debug)]
pub struct Source {
    /// The file, open for reading.
    pub file: File,
    /// The file's length in bytes when it was opened; never 0.
    pub length: u64,
    /// What it is called in messages.
    pub name: String,
    stamp: Stamp,
    identity: (u64, u64),
    scratch: Option<Rc<Scratch>>,
    files: Rc<Files>,
}

impl Source {
    /// Open the file that `place` means.
    ///
    /// # Errors
    /// `Failure::Request` for a named file that cannot be read as a whole: missing, empty, no file at all;
    /// `Failure::Unavailable` if a scratch file cannot be made.
    pub fn open(place: &Place, files: &Rc<Files>) -> Result<Self, Failure> {
        if place.file.as_os_str().is_empty() {
            let scratch = files.scratch(&place.directory, place.size)?;
            let name = format!("the scratch file in {}", place.directory.display());
            let mut source = Self::of(&scratch.path(), name, files)?;
            source.scratch = Some(scratch);
            return Ok(source);
        }
        Self::of(&place.file, place.file.display().to_string(), files)
    }

    fn of(path: &Path, name: String, files: &Rc<Files>) -> Result<Self, Failure> {
        let refused = |error: std::io::Error| {
            Failure::request("file", format!("{name}: {}", errno_message(&error)))
        };
        // Looked at before it is opened: opening a pipe or a device may wait, or do something.
        check_type(&std::fs::metadata(path).map_err(refused)?, &name)?;
        let mut file = open(path).map_err(refused)?;
        let metadata = file.metadata().map_err(refused)?;
        check_type(&metadata, &name)?;
        let stamp = stamp(&mut file, &metadata).map_err(refused)?;
        if stamp.length == 0 {
            return Err(no_length(&mut file, &name));
        }
        Ok(Self {
            file,
            length: stamp.length,
            name,
            stamp,
            identity: (metadata.dev(), metadata.ino()),
            scratch: None,
            files: Rc::clone(files),
        })
    }

    /// Where this and other processes can open the file anew, whatever its name.
    pub fn path(&self) -> PathBuf {
        link(&self.file)
    }

    /// The file opened once more for reading, with further flags of open(2), such as `O_DIRECT`.
    ///
    /// # Errors
    /// The errno of open(2), such as `EINVAL` where the file system has no direct I/O.
    pub fn reopen(&self, flags: i32) -> std::io::Result<File> {
        // By its descriptor, not its name, which may be another file's by now; it is no FIFO, and so needs no
        // O_NONBLOCK, with which io_uring answers EAGAIN for ever on some file systems.
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(self.path())
    }

    /// The XOR of the whole file, where it is known: of a scratch file from its making, of another from an earlier
    /// reading of the same state.
    pub fn known_xor(&self) -> Option<u32> {
        match &self.scratch {
            Some(scratch) => Some(scratch.xor),
            None => self
                .history()
                .xor
                .filter(|(stamp, _)| *stamp == self.stamp)
                .map(|(_, xor)| xor),
        }
    }

    /// Whether the content is that of a scratch file, which `content` knows.
    pub fn is_scratch(&self) -> bool {
        self.scratch.is_some()
    }

    /// How often this session has read the file.
    pub fn reads(&self) -> u64 {
        self.history().reads
    }

    /// Remember that the file was read once more, and its XOR if the whole of it was folded.
    pub fn remember_reading(&self, xor: Option<u32>) {
        let History { reads, xor: before } = self.history();
        let history = History {
            reads: reads + 1,
            xor: xor.map(|xor| (self.stamp, xor)).or(before),
        };
        self.files.remember(self.identity, history);
    }

    /// Make sure that nobody has changed the file since it was opened.
    ///
    /// # Errors
    /// `Failure::Failed` that says how it changed: what was read then belongs to no single state of the file.
    pub fn check_unchanged(&mut self) -> Result<(), Failure> {
        let metadata = self.file.metadata();
        let now = metadata.and_then(|metadata| stamp(&mut self.file, &metadata));
        let now = now.map_err(|error| Failure::system(&self.name, error))?;
        if now.length != self.stamp.length {
            let how = if now.length < self.length {
                "shrank"
            } else {
                "grew"
            };
            return Err(Failure::failed(format!(
                "{} {how} from {} to {} bytes while it was read; read it when nobody writes to it",
                self.name, self.stamp.length, now.length
            )));
        }
        if now != self.stamp {
            return Err(Failure::failed(format!(
                "{} was written to while it was read; read it when nobody writes to it",
                self.name
            )));
        }
        Ok(())
    }

    fn history(&self) -> History {
        self.files.history(self.identity)
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

fn check_type(metadata: &Metadata, name: &str) -> Result<(), Failure> {
    let kind = metadata.file_type();
    let what = if kind.is_file() || kind.is_block_device() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a character device"
    };
    Err(Failure::request("file", format!("{name} is {what}"))
        .with_remedy("name a regular file or a block device"))
}

/// Why a file of length 0 cannot be read. Those of /proc and /sys have content all the same.
fn no_length(file: &mut File, name: &str) -> Failure {
    let (what, remedy) = match file.read(&mut [0]) {
        Ok(1..) => ("has no length", "copy it, and name the copy"),
        _ => ("is empty", "name a file that has content"),
    };
    Failure::request("file", format!("{name} {what}")).with_remedy(remedy)
}

/// The state of the file now. A block device has its length at its end, and no time of change that writing would set.
fn stamp(file: &mut File, metadata: &Metadata) -> std::io::Result<Stamp> {
    if metadata.file_type().is_block_device() {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        return Ok(Stamp {
            length,
            changed_ns: 0,
        });
    }
    Ok(Stamp {
        length: metadata.len(),
        changed_ns: i128::from(metadata.mtime()) * 1_000_000_000
            + i128::from(metadata.mtime_nsec()),
    })
}
