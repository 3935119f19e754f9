//! What the store says of a cached file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Copy;
use crate::hex;
use crate::remote::Version;

pub use crate::digest::Digest;

/// Names one copy in its cache folder, for as long as the copy is there; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyId(pub(super) u64);

impl CopyId {
    /// The name of the copy's two files in the cache folder: 16 hexadecimal digits.
    pub fn name(self) -> String {
        format!("{:016x}", self.0)
    }

    /// The reverse of [`CopyId::name`]; `None` for any other text.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let hexadecimal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (name.len() == 16 && name.bytes().all(hexadecimal))
            .then(|| u64::from_str_radix(name, 16).ok().map(Self))
            .flatten()
    }
}

/// Attributes that a copy does not carry itself (its own mode and owner are the daemon's). Size and times
/// are those of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Permission bits, `0o7777`.
    pub mode: u32,
    /// Owner on the server.
    pub uid: u32,
    /// Group on the server.
    pub gid: u32,
}

/// Why a copy has to be copied back, or at least looked at: it was opened for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dirty {
    /// What the server had when the local changes began (`None`: no file). What it has when it is replaced must
    /// be this, or [`Dirty::sending`]; else both sides changed.
    pub base: Option<Version>,
    /// What a copying back that was under way would have left on the server. If the server has this version, that
    /// copying back was done, by us, though nobody lived to write it down: then it is the base.
    pub sending: Option<Version>,
    /// Digest of what that copying back would have left. Left out where there is none, as by versions that did not know
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Digest>,
    /// Digest of what the server had as [`Dirty::base`], where that version may hide another's change of the same
    /// second: what is there is compared with it before it is replaced. Left out where there is none, as by versions
    /// that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Digest>,
    /// Digest of what was to be written in place, into the file of [`Dirty::base`], which was empty or has other names:
    /// if the server has that, or a beginning of the copy, a kill or a broken connection cut it off. Left out where
    /// there is none, as by versions that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filling: Option<Digest>,
    /// Digest of what the server was last known to hold of this copy's making. A copy that still has it has nothing
    /// to copy back.
    pub digest: Option<Digest>,
    /// Digest of what [`super::Store::settle`] has forced to disk.
    pub settled: Option<Digest>,
    /// Name of the conflict copy that it goes to, beside its own name, as hexadecimal digits: see [`Dirty::beside`].
    /// Left out where there is none, as by versions that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) beside: Option<String>,
    /// The boot in which the copy became dirty (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// That boot is over: unless the content has the digest [`Dirty::digest`] or [`Dirty::settled`] it may be torn
    /// (contract, rule 5). Worked out, not stored.
    #[serde(skip)]
    pub other_boot: bool,
}

impl Dirty {
    /// The name of the conflict copy that it goes to, in the folder of its own name; [`Dirty::base`] and all else is
    /// of that file.
    pub fn beside(&self) -> Option<PathBuf> {
        hex::to_path(self.beside.as_deref()?)
    }

    /// What is known once it is to go to a conflict copy of that name.
    pub fn gone_beside(&self, name: &Path) -> Self {
        Self {
            base: None,
            sending: None,
            sent: None,
            content: None,
            filling: None,
            digest: None,
            settled: self.settled,
            beside: Some(hex::of_path(name)),
            boot_id: self.boot_id.clone(),
            other_boot: false,
        }
    }
}

/// One cached file, as it was when the store was asked.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The copy; pinned (never evicted) while it or a clone of it is held.
    pub copy: Copy,
    /// All names that lead to it, never empty; more than one: this mount linked them, so it is written back in place.
    pub paths: Vec<PathBuf>,
    /// The server's version that the content was, when last known to be the same; `None`: never was.
    pub version: Option<Version>,
    /// Whether `version` may be believed later (contract, rule 1).
    pub trusted: bool,
    /// Present if local changes may have to be copied back.
    pub dirty: Option<Dirty>,
    /// Mode and owner.
    pub kept: Kept,
    /// The copy looks (size, times of content and of change) as it did when it was kept or last became clean: in this
    /// boot nobody has written to it since, whatever time any program gave it.
    pub untouched: bool,
}

impl Entry {
    /// The first name.
    pub fn path(&self) -> &Path {
        &self.paths[0]
    }
}

/// A rename that was begun on the server and of which the end is not written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The old name.
    pub from: PathBuf,
    /// The new name.
    pub to: PathBuf,
    /// Number of the record on disk; `None`: nothing cached was concerned, so none was written.
    pub(super) number: Option<u64>,
    /// Who began it has given up: what became dirty meanwhile may have any age.
    pub(super) late: bool,
}

impl Rename {
    /// Of one whose outcome may be known much later.
    pub fn given_up(self) -> Self {
        Self { late: true, ..self }
    }
}
