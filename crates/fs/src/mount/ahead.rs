//! Small files that are fetched before they are opened.

use std::ffi::{OsStr, OsString};

use super::Shared;
use super::tree::is_small;

impl Shared {
    /// A file was opened to be read: the folder and the names in it that had better be fetched now.
    pub(super) fn next_to_fetch(&self, ino: u64) -> Option<(u64, Vec<OsString>)> {
        match self.is_far() && !self.is_down() {
            true => self.tree().next_to_fetch(ino),
            false => None,
        }
    }

    /// A name was looked up: what of its folder had better be fetched now.
    pub(super) fn first_to_fetch(&self, parent: u64, name: &OsStr) -> Vec<OsString> {
        match self.is_far() && !self.is_down() {
            true => self.tree().first_to_fetch(parent, name),
            false => Vec::new(),
        }
    }

    /// A file is fetched, for who opens it or ahead.
    pub(super) fn note_fetch(&self, ino: u64) {
        if self.is_far() {
            self.tree().fetched(ino);
        }
    }

    /// Whether a round trip takes long enough for files to be fetched ahead.
    fn is_far(&self) -> bool {
        let time = self.remote.round_trip();
        time.is_some_and(|time| time >= self.options.fetch_ahead_from)
    }

    /// Fetches a file that nobody has opened yet and of which there is no copy. Its opening asks for its version all
    /// the same. A failure is for who opens it.
    pub(super) fn fetch_ahead(&self, parent: u64, name: &OsString) {
        let Ok(ino) = self.lookup(parent, name) else {
            return;
        };
        let file = self.tree().file(ino);
        if let Some(file) = file {
            let _gate = file.gate();
            let path = self.tree().path(ino);
            let none = path.is_some_and(|path| matches!(self.store.entry(&path), Ok(None)));
            // Looked at anew: the server would wait for ever for somebody to open the other end of a fifo, and what has
            // grown large is of no use to who reads small files.
            if none
                && !file.in_use()
                && self.lstat(ino).is_ok_and(|now| is_small(&now))
                && self.fetch_for(ino, &file, true).is_ok()
            {
                self.free(&file);
                // The pages that the kernel may have of this file are of an earlier copy.
                file.state().pages = None;
            }
        }
        self.tree().drop_unused(ino);
    }
}
