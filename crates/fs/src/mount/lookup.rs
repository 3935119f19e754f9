//! What the server says of names: looked up, refreshed and listed.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;

use crate::log;
use crate::remote::{Attributes, BOUNDS, is_temporary};

use super::file::FileNode;
use super::looked_up::Seen;
use super::opening::adopt_dirty;
use super::tree::Cached;
use super::{Shared, locked};

/// How often an answer is asked for again that this mount's own changes overtook.
const TRIES: usize = 16;

impl Shared {
    /// The node of a name.
    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.look_up(parent, name).map(|(ino, _)| ino)
    }

    /// The node of a name, and what the server said where it was asked for that one.
    pub(super) fn look_up(&self, parent: u64, name: &OsStr) -> Result<(u64, Option<Seen>), Errno> {
        for _ in 0..TRIES {
            let (path, mark) = {
                let mut tree = self.tree();
                match tree.cached(parent, name) {
                    Cached::Node(ino) => return Ok((ino, None)),
                    Cached::Nothing => return Err(Errno::ENOENT),
                    Cached::Unknown => {}
                }
                (
                    tree.path_of(parent, name).ok_or(Errno::ENOENT)?,
                    tree.mark(parent, name),
                )
            };
            if is_temporary(name) {
                return Err(Errno::ENOENT);
            }
            if self.is_down() {
                if let Some(ino) = self.known_offline(parent, name) {
                    return Ok((ino, None));
                }
            }
            if self.list_ahead(parent, name)? {
                continue;
            }
            let asked = self.remote.clock().now();
            let answer = self.remote.lstat(&path);
            let mut tree = self.tree();
            if tree.path_of(parent, name).as_ref() != Some(&path) {
                continue;
            }
            match answer {
                Ok(attributes) => {
                    let Some(ino) = tree.enter(parent, name, attributes, mark) else {
                        continue;
                    };
                    let file = tree.file(ino);
                    drop(tree);
                    self.take_up(&path, file)?;
                    return Ok((ino, Some(Seen { attributes, asked })));
                }
                Err(why) => {
                    if why == Errno::ENOENT {
                        tree.gone(parent, name, mark);
                    }
                    return Err(why);
                }
            }
        }
        Err(Errno::EIO)
    }

    /// Lists a folder in place of asking for one more name of it; false where the name is to be asked for.
    fn list_ahead(&self, parent: u64, name: &OsStr) -> Result<bool, Errno> {
        // What an earlier life left is shown as its copy is, which is found when its name is asked for.
        let left = !locked(&self.left).is_empty();
        if left || !self.tree().list_ahead(parent, name) {
            return Ok(false);
        }
        // Once: where names are being made in the folder, a listing would be overtaken again and again.
        let answer = self.ask_listing(parent);
        self.tree()
            .listed_ahead(parent, answer.as_ref().err().copied());
        match answer {
            // The server is away, and was waited for.
            Err(Errno::EIO) => Err(Errno::EIO),
            answer => Ok(matches!(answer, Ok(Some(_)))),
        }
    }

    /// Lists the next folder of a walk, unless it was just now: the names in it that had better be fetched. A failure
    /// is for who comes there.
    pub(super) fn list_next(&self, next: u64) -> Vec<OsString> {
        let left = !locked(&self.left).is_empty();
        let listed = || self.tree().listing(next).is_some();
        match left || !(listed() || matches!(self.ask_listing(next), Ok(Some(_)))) {
            true => Vec::new(),
            false => self.tree().first_of_next(next),
        }
    }

    /// The node of a name that the server has for sure, whatever was cached.
    pub(super) fn lookup_anew(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        let path = self.tree().path_of(parent, name).ok_or(Errno::ENOENT)?;
        let found = self.remote.lstat(&path)?;
        Ok(self.tree().made(parent, name, found))
    }

    /// While there is no server to ask: what is known of a name, however old.
    fn known_offline(&self, parent: u64, name: &OsStr) -> Option<u64> {
        self.tree().child(parent, name)
    }

    /// A file that an earlier life left dirty is shown as its copy is.
    fn take_up(&self, path: &Path, file: Option<Arc<FileNode>>) -> Result<(), Errno> {
        let Some(file) = file.filter(|file| !file.in_use()) else {
            return Ok(());
        };
        if !locked(&self.left).remove(path) {
            return Ok(());
        }
        let _gate = file.gate();
        let held = self.store.entry(path)?.filter(|_| !file.in_use());
        if let Some((entry, dirty)) = held
            .as_ref()
            .and_then(|entry| Some((entry, entry.dirty.as_ref()?)))
        {
            adopt_dirty(&file, entry, dirty);
        }
        Ok(())
    }

    /// What the server says of a node whose attributes are too old to be shown.
    pub(super) fn refresh(&self, ino: u64) -> Result<(), Errno> {
        let (path, file) = {
            let tree = self.tree();
            (tree.path(ino), tree.file(ino))
        };
        let unlinked = path.is_none();
        if unlinked || self.is_down() {
            // No name to ask by, or nobody to ask: what is known is all there is.
            return Ok(());
        }
        let answer = self.lstat(ino);
        let in_use = file.is_some_and(|file| file.in_use());
        match answer {
            // Removed or replaced on the server while it is in use here: it lives on until it is copied back.
            Err(Errno::ENOENT | Errno::ESTALE) if in_use => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Asks the server about a node, again if its path changed meanwhile.
    ///
    /// # Errors
    /// ESTALE: its name stands for what is of another kind, or it has none. Those of the server.
    pub(super) fn lstat(&self, ino: u64) -> Result<Attributes, Errno> {
        loop {
            let (path, changes) = {
                let tree = self.tree();
                (tree.path(ino).ok_or(Errno::ESTALE)?, tree.changes(ino))
            };
            let answer = self.remote.lstat(&path);
            let mut tree = self.tree();
            if tree.path(ino).as_ref() != Some(&path) {
                continue;
            }
            let attributes = answer?;
            tree.note(ino, attributes, changes);
            return match tree.is_of_kind(ino, attributes.kind) {
                true => Ok(attributes),
                // Another node's, which a look-up of the name makes. Of one that changes its kind the kernel would
                // answer EIO for ever (fuse_stale_inode, fs/fuse/fuse_i.h).
                false => Err(Errno::ESTALE),
            };
        }
    }

    /// What is in a folder, by name, without our temporary files.
    ///
    /// A place in a listing is its number: it holds when the folder is listed anew only if the order stays.
    pub(super) fn list(&self, ino: u64) -> Result<Vec<(OsString, Attributes)>, Errno> {
        if let Some(listing) = self.tree().listing(ino) {
            return Ok(listing);
        }
        for _ in 0..TRIES {
            if let Some(names) = self.ask_listing(ino)? {
                return Ok(names);
            }
        }
        Err(Errno::EIO)
    }

    /// Asks the server what is in a folder; `None` where this mount's own changes overtook the answer.
    fn ask_listing(&self, ino: u64) -> Result<Option<Vec<(OsString, Attributes)>>, Errno> {
        let (path, changes, asked) = {
            let tree = self.tree();
            let path = tree.path(ino).ok_or(Errno::ENOENT)?;
            (path, tree.changes(ino), Instant::now())
        };
        let answer = self.remote.list(&path);
        if answer == Err(Errno::EFBIG) {
            log::note(&format!(
                "{}: the server lists more than {} names, or {} MiB of them: the folder cannot be listed here",
                super::report::shown(&path),
                BOUNDS.names,
                BOUNDS.bytes >> 20
            ));
        }
        let mut tree = self.tree();
        if tree.path(ino).as_ref() != Some(&path) {
            return Ok(None);
        }
        let mut names = answer?;
        names.retain(|(name, _)| !is_temporary(name));
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(tree.listed(ino, &names, (changes, asked)).then_some(names))
    }
}
