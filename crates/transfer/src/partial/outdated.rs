//! Partial files of what has changed at the sender since: no later transfer resumes them.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use nix::fcntl::{AtFlags, openat};
use nix::sys::stat::{Mode, fstat, fstatat};

use super::{OPEN, Partial, is_own};
use crate::names::{self, Origin};
use crate::stop::Stop;
use crate::wire::Entry;

/// After so many names of a folder the peer is sent a sign of life.
const NAMES: usize = 1024;

/// Bytes of names that one getdents64(2) of the C library's readdir(3) takes, and of the head of each.
const LISTED: usize = 32 * 1024;
const HEAD: usize = 19;

/// The partial files of the folders that were looked at.
#[derive(Default)]
pub struct Outdated {
    looked: HashSet<Vec<u8>>,
    /// By what their names begin with.
    found: HashMap<Vec<u8>, Vec<CString>>,
    /// System calls so far.
    pub calls: u64,
}

impl Outdated {
    /// See once which partial files a folder has; in one that cannot be listed, none.
    ///
    /// # Errors
    /// What `alive` answers.
    pub fn look(
        &mut self,
        folder: &[u8],
        parent: BorrowedFd,
        mut alive: impl FnMut() -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.looked.contains(folder) {
            return Ok(());
        }
        self.looked.insert(folder.to_owned());
        // openat(2) and newfstatat(2), and close(2); then getdents64(2), the last time for nothing.
        self.calls += 4;
        // The folder itself and the one above it are listed too.
        let mut bytes = 2 * record(1);
        // It may be open by its place alone.
        let Ok(listed) = fs::read_dir(format!("/proc/self/fd/{}", parent.as_raw_fd())) else {
            return Ok(());
        };
        for (number, entry) in listed.map_while(Result::ok).enumerate() {
            if number % NAMES == NAMES - 1 {
                alive()?;
            }
            let name = entry.file_name().into_vec();
            bytes += record(name.len());
            let Some(prefix) = names::prefix_of(&name).map(<[u8]>::to_owned) else {
                continue;
            };
            if let Ok(name) = CString::new(name) {
                self.found.entry(prefix).or_default().push(name);
            }
        }
        self.calls += bytes.div_ceil(LISTED) as u64;
        Ok(())
    }

    /// Remove those of a file, in its folder, except what this transfer resumes. What is not this user's alone stays,
    /// and what another transfer has.
    pub fn remove(&mut self, parent: BorrowedFd, entry: &Entry, origin: Origin) {
        if self.found.is_empty() {
            return;
        }
        let prefix = names::partial_prefix(entry.name);
        for name in self.found.remove(prefix.as_bytes()).unwrap_or_default() {
            if names::partials(entry, origin).all(|own| own.as_bytes() != name.as_bytes()) {
                remove(parent, &name, &mut self.calls);
            }
        }
    }
}

/// Bytes that a name of this length takes in what getdents64(2) answers.
fn record(name: usize) -> usize {
    (HEAD + name + 1).next_multiple_of(8)
}

/// Remove a partial file if nobody else has a part in it: whether it was.
fn remove(parent: BorrowedFd, name: &CStr, calls: &mut u64) -> Option<()> {
    *calls += 1;
    // Before it is opened: a FIFO would notice that.
    let named = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    // One that its owner may not open is about to get its name, and keeps its mode.
    let opened = is_own(&named).then(|| openat(parent, name, OPEN, Mode::empty()))?;
    *calls += 1;
    let handle = opened.ok()?;
    // Its status, and that it is closed.
    *calls += 2;
    // What was opened counts: the name may be another file's by now.
    let partial = is_own(&fstat(handle.as_fd()).ok()?).then(|| Partial {
        file: Arc::new(handle.into()),
        is_new: false,
        name: name.to_owned(),
        calls: 0,
    })?;
    // A lock, its status, and that of what has its name now.
    *calls += 3;
    partial.own(parent).ok()?;
    *calls += 1;
    partial.remove(parent).ok()
}
