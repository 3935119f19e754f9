//! What is written of a copy (`entries/ID.json`) and of a rename, and reading it back.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::types::{Dirty, Kept};
use crate::hex;
use crate::remote::Version;

/// What shows that a file was written to: its size and its two times, as stat(2) gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    /// From what stat(2) says.
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Of an open file.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::of(&metadata))
    }
}

/// All that is known of a copy but its bytes.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) names: Vec<PathBuf>,
    pub(super) version: Option<Version>,
    pub(super) trusted: bool,
    pub(super) dirty: Option<Dirty>,
    pub(super) kept: Kept,
    /// Of a clean copy: what it looked like when it became clean.
    pub(super) stamp: Stamp,
    /// When it was written, among all records of the folder: a record is older than one with a greater number.
    pub(super) sequence: u64,
    /// The boot in which it was written.
    pub(super) boot_id: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct OnDisk {
    names: Vec<String>,
    version: Option<Version>,
    trusted: bool,
    dirty: Option<Dirty>,
    kept: Kept,
    stamp: Stamp,
    sequence: u64,
    boot_id: String,
    /// Over all the other fields: a power cut may mix the sectors of an old and a new record.
    check: String,
}

impl OnDisk {
    /// With the right `check`.
    fn checked(mut self) -> Result<Vec<u8>, serde_json::Error> {
        self.check.clear();
        let hash = blake3::hash(&serde_json::to_vec(&self)?);
        self.check = ::hex::encode(&hash.as_bytes()[..8]);
        serde_json::to_vec(&self)
    }
}

impl Record {
    /// As it is written.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let on_disk = OnDisk {
            names: self.names.iter().map(|name| hex::of_path(name)).collect(),
            version: self.version,
            trusted: self.trusted,
            dirty: self.dirty.clone(),
            kept: self.kept,
            stamp: self.stamp,
            sequence: self.sequence,
            boot_id: self.boot_id.clone(),
            check: String::new(),
        };
        on_disk.checked()
    }

    /// What was written; `None` if it is torn.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii_end();
        let read: OnDisk = serde_json::from_slice(bytes).ok()?;
        if read.clone().checked().ok()? != bytes {
            return None;
        }
        let names: Option<Vec<PathBuf>> =
            read.names.iter().map(|name| hex::to_path(name)).collect();
        Some(Self {
            names: names.filter(|names| !names.is_empty())?,
            version: read.version,
            trusted: read.trusted,
            dirty: read.dirty,
            kept: read.kept,
            stamp: read.stamp,
            sequence: read.sequence,
            boot_id: read.boot_id,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct RenameOnDisk {
    from: String,
    to: String,
}

/// A rename as it is written.
pub(super) fn rename_to_bytes(from: &Path, to: &Path) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&RenameOnDisk {
        from: hex::of_path(from),
        to: hex::of_path(to),
    })
}

/// What was written; `None` if it is torn.
pub(super) fn rename_from_bytes(bytes: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let read: RenameOnDisk = serde_json::from_slice(bytes).ok()?;
    Some((hex::to_path(&read.from)?, hex::to_path(&read.to)?))
}

/// Which names of a copy outlive that something else is renamed to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// None: it is clean, the server has all of it.
    Nowhere,
    /// Those below the new name: a folder that is renamed over was empty on the server, so what lies there has yet to
    /// be copied back.
    Below,
    /// The new name itself too: the copy became dirty after the rename was begun, so it may belong to either file.
    Anywhere,
}

/// The names of a file after `from` (and all below it) was renamed to `to`.
pub(super) fn renamed(names: &[PathBuf], from: &Path, to: &Path, stay: Stay) -> Vec<PathBuf> {
    let follow = |name: &PathBuf| match name.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => Some(to.to_path_buf()),
        Ok(rest) => Some(to.join(rest)),
        Err(_) if name == to => (stay == Stay::Anywhere).then(|| name.clone()),
        Err(_) if name.starts_with(to) => (stay != Stay::Nowhere).then(|| name.clone()),
        Err(_) => Some(name.clone()),
    };
    names.iter().filter_map(follow).collect()
}
