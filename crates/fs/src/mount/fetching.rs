//! A copy for a file that is opened: what the cache has, if the server still has it so, else fetched or empty.

use std::cell::Cell;
use std::path::Path;

use nix::errno::Errno;

use crate::remote::Attributes;
use crate::store::{Copy, Digest, Entry};

use super::Shared;
use super::file::{FileNode, set_times};
use super::looked_up::Seen;
use super::opening::{Use, adopt_dirty, kept};

/// Room is asked for in steps of this many bytes when a file turns out to be bigger than its attributes said.
const STEP: u64 = 64 << 20;

/// Whether a cached copy is what the server has.
enum Good {
    /// The server says so.
    Yes,
    /// It cannot be asked.
    Unasked,
    /// Its version cannot decide: the contents have to be compared.
    Compare,
    /// No.
    No,
}

impl Shared {
    /// With the gate held: a copy for a node that is bound to none.
    pub(super) fn bring(
        &self,
        ino: u64,
        file: &FileNode,
        (wanted, seen): (Use, Option<Seen>),
    ) -> Result<(), Errno> {
        self.follow_displaced();
        let path = self.tree().path(ino).ok_or(Errno::ESTALE)?;
        let entry = self.store.entry(&path)?;
        let held = entry
            .as_ref()
            .and_then(|entry| Some((entry, entry.dirty.as_ref()?)));
        if let Some((entry, dirty)) = held {
            adopt_dirty(file, entry, dirty);
            return Ok(());
        }
        if wanted == Use::Empty {
            drop(entry);
            return self.begin_empty(ino, file);
        }
        if let Some(entry) = entry {
            let read = seen.map_or_else(|| self.remote.clock().now(), |seen| seen.asked);
            let good = match self.still_good(ino, &entry, (wanted, seen))? {
                Good::Yes => Some((entry.version, read)),
                Good::Unasked => {
                    file.state().unasked = !entry.trusted;
                    Some((entry.version, read))
                }
                Good::Compare => self.same_on_server(ino, &entry)?,
                Good::No => None,
            };
            if let Some((base, known)) = good {
                let mut state = file.state();
                state.rebase(base, Some(known));
                state.copy = Some(entry.copy);
                return Ok(());
            }
        }
        self.fetch(ino, file)
    }

    /// Whether the server still has the version that the entry holds.
    fn still_good(
        &self,
        ino: u64,
        entry: &Entry,
        (wanted, seen): (Use, Option<Seen>),
    ) -> Result<Good, Errno> {
        let Some(version) = entry.version else {
            return Ok(Good::No);
        };
        if wanted == Use::Read && self.is_down() {
            // What is cached stays readable while there is no server to ask.
            return Ok(Good::Unasked);
        }
        if !entry.trusted {
            return Ok(Good::Compare);
        }
        let now = match seen.map_or_else(|| self.lstat(ino), |seen| Ok(seen.attributes)) {
            Err(Errno::EIO) if wanted == Use::Read && self.is_down() => return Ok(Good::Unasked),
            answer => answer?,
        };
        // A mode or owner that changed may mean that it may not be read any more: the server says so when it is
        // fetched.
        let good = now.version() == version && kept(&now) == entry.kept;
        Ok(if good { Good::Yes } else { Good::No })
    }

    /// An empty copy of a file that the server has, which is about to be overwritten.
    fn begin_empty(&self, ino: u64, file: &FileNode) -> Result<(), Errno> {
        let began = self.remote.clock().now();
        let now = self.lstat(ino)?;
        let (now, content) = match self.may_hide(now.version(), Some(began)) {
            true => self.content_of(ino, now)?,
            false => (now, None),
        };
        let path = self.tree().path(ino).ok_or(Errno::ESTALE)?;
        let copy = self.new_copy(&path, 0)?;
        self.report_state.has_room(&path);
        self.under_its_names(ino, &copy, |path| {
            self.store
                .keep_dirty(&copy, path, (Some(now.version()), content), kept(&now))
        })?;
        let mut state = file.state();
        state.copy = Some(copy);
        state.rebase(Some(now.version()), Some(began));
        (state.content, state.journalled) = (content, true);
        (state.noted, state.acknowledged) = (None, None);
        Ok(())
    }

    /// What the server has of a file that is about to be emptied here, to distinguish another's change from it.
    fn content_of(&self, ino: u64, now: Attributes) -> Result<(Attributes, Option<Digest>), Errno> {
        let path = self.tree().path(ino).ok_or(Errno::ESTALE)?;
        match self.remote.digest(&path) {
            Ok(Some((now, content))) => Ok((now, Some(content))),
            // Changing just now, or not for us to read: if its version is the same at the end, ours goes beside.
            Ok(None) | Err(Errno::EACCES) => Ok((now, None)),
            Err(why) => Err(why),
        }
    }

    /// The whole file from the server into a new copy.
    pub(super) fn fetch(&self, ino: u64, file: &FileNode) -> Result<(), Errno> {
        self.fetch_for(ino, file, false)
    }

    /// The same; where nobody has opened the file (`ahead`), it gets no room that others need.
    pub(super) fn fetch_for(&self, ino: u64, file: &FileNode, ahead: bool) -> Result<(), Errno> {
        let (path, size, changes) = {
            let tree = self.tree();
            let path = tree.path(ino).ok_or(Errno::ESTALE)?;
            let size = tree.attributes(ino).map_or(0, |known| known.0.size);
            (path, size, tree.changes(ino))
        };
        let copy = match ahead {
            true => self.store.make_ahead(size)?,
            false => self.new_copy(&path, size)?,
        };
        let room = Cell::new(size);
        let watch = |so_far: u64| {
            while so_far > room.get() {
                self.store.make_room(STEP)?;
                room.set(room.get() + STEP);
            }
            Ok(())
        };
        self.note_fetch(ino);
        let began = self.remote.clock().now();
        let fetched = self.remote.fetch(&path, copy.file(), size, &watch);
        let got = fetched.inspect_err(|why| self.not_fetched(&path, *why))?;
        self.report_state.has_room(&path);
        set_times(copy.file(), (got.atime, got.mtime))?;
        let trusted = self.remote.clock().can_trust(got.mtime, began);
        self.tree().note(ino, got, changes);
        self.under_its_names(ino, &copy, |path| {
            self.store
                .keep(&copy, path, got.version(), trusted, kept(&got))
        })?;
        let mut state = file.state();
        state.copy = Some(copy);
        state.rebase(Some(got.version()), Some(began));
        Ok(())
    }

    /// Has the store keep a copy under the names that the node has now: a folder above may have been renamed while the
    /// server was asked. None is until that is done, for what is kept under an old name after a rename would be copied
    /// back to it.
    pub(super) fn under_its_names(
        &self,
        ino: u64,
        copy: &Copy,
        keep: impl FnOnce(&Path) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _names = self.names_stay();
        let paths = self.tree().paths(ino);
        let (first, others) = paths.split_first().ok_or(Errno::ESTALE)?;
        keep(first)?;
        others
            .iter()
            .try_for_each(|path| self.store.linked(copy, path))
    }
}
