//! A dirty copy of an earlier life whose name nobody has on the server any more, when the name is to be made anew.

use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::{Shared, recover};
use crate::lease::alone;

/// How long it is waited for that nobody can write to it any more, and how often that is looked at.
const WAIT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(20);

impl Shared {
    /// Puts what is left dirty under this name beside it, so that a new file can have the name.
    ///
    /// # Errors
    /// `EEXIST`: the file is in use here, so it is there; `EBUSY`: a program of a dead mount can still write to what is
    /// left; else what the server said. The name must not be made then.
    pub(super) fn put_leftover_beside(
        &self,
        parent: u64,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), Errno> {
        let Some(entry) = self
            .store
            .entry(path)?
            .filter(|entry| entry.dirty.is_some())
        else {
            return Ok(());
        };
        let bound = {
            let tree = self.tree();
            let child = tree.child(parent, name);
            child.and_then(|ino| tree.file(ino))
        };
        if bound.is_some_and(|file| file.in_use()) {
            return Err(Errno::EEXIST);
        }
        // The kernel lets go of what a mount had registered a while after its end.
        let until = Instant::now() + WAIT;
        while !alone(entry.copy.file()) {
            if Instant::now() >= until {
                return Err(Errno::EBUSY);
            }
            thread::sleep(STEP);
        }
        let beside = recover::put_beside(&self.remote, &self.store, &entry)?;
        self.report_state.conflict(path, &beside);
        if let Some(name) = beside.file_name() {
            // For listings alone: what went beside is there, whatever comes of this.
            let _ = self.lookup_anew(parent, name);
        }
        Ok(())
    }
}
