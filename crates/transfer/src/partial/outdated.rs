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

/// The partial files of the folders that were looked at.
#[derive(Default)]
pub struct Outdated {
    looked: HashSet<Vec<u8>>,
    /// By what their names begin with.
    found: HashMap<Vec<u8>, Vec<CString>>,
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
        // It may be open by its place alone.
        let Ok(listed) = fs::read_dir(format!("/proc/self/fd/{}", parent.as_raw_fd())) else {
            return Ok(());
        };
        for (number, entry) in listed.map_while(Result::ok).enumerate() {
            if number % NAMES == NAMES - 1 {
                alive()?;
            }
            let name = entry.file_name().into_vec();
            let Some(prefix) = names::prefix_of(&name).map(<[u8]>::to_owned) else {
                continue;
            };
            if let Ok(name) = CString::new(name) {
                self.found.entry(prefix).or_default().push(name);
            }
        }
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
                remove(parent, &name);
            }
        }
    }
}

/// Remove a partial file if nobody else has a part in it: whether it was.
fn remove(parent: BorrowedFd, name: &CStr) -> Option<()> {
    // Before it is opened: a FIFO would notice that.
    let named = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    // One that its owner may not open is about to get its name, and keeps its mode.
    let opened = is_own(&named).then(|| openat(parent, name, OPEN, Mode::empty()));
    let handle = opened?.ok()?;
    // What was opened counts: the name may be another file's by now.
    let partial = is_own(&fstat(handle.as_fd()).ok()?).then(|| Partial {
        file: Arc::new(handle.into()),
        is_new: false,
        name: name.to_owned(),
        calls: 0,
    })?;
    partial.own(parent).ok()?;
    partial.remove(parent).ok()
}
