//! What goes beside a name: contents of which the server's name stands for something else by now.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::errno::errno;
use crate::log;
use crate::remote::{Attributes, Put, PutError, Remote, Version};
use crate::store::{self, Copy, Digest, Dirty, Entry, Store};

use super::file::FileNode;
use super::report::{shown, unwritten};
use super::same::{begins_with, fetched};
use super::tree::Displaced;
use super::{Shared, conflict, locked};

impl Shared {
    /// With the gate held: whether the file was moved to another folder since it went beside. Its conflict copy stays
    /// where it was put; from now on it goes beside the new name.
    pub(super) fn follow_move(&self, ino: u64, file: &FileNode, name: &Path) -> bool {
        let folder = self.tree().first_place(ino).map(|(folder, _)| folder);
        let (copy, diverted, was) = {
            let mut state = file.state();
            let was = std::mem::replace(&mut state.beside_in, folder);
            (state.copy.clone(), state.diverted.clone(), was)
        };
        let (Some(copy), Some(diverted)) = (copy, diverted) else {
            return false;
        };
        if was.is_none() || was == folder {
            return false;
        }
        self.begin_beside(file, &copy, name, &diverted);
        true
    }

    /// Writes down, and here, that a file goes to a conflict copy of which the server has nothing yet.
    fn begin_beside(&self, file: &FileNode, copy: &Copy, name: &Path, beside: &Path) {
        if let Err(why) = self.store.mark_beside(copy, beside) {
            unwritten(name, why);
        }
        let mut state = file.state();
        state.rebase(None, None);
        (state.sending, state.sent, state.filling) = (None, None, None);
        (state.content, state.noted, state.acknowledged) = (None, None, None);
        (state.diverted, state.suspect) = (Some(beside.to_owned()), false);
        state.displaced_from.get_or_insert_with(|| name.to_owned());
    }

    /// Both sides changed: ours goes to a name of its own beside it, and so does what is written through handles that
    /// are still open. Nothing is lost, so this is no error. The name is written down before it is used: a try without
    /// an answer is repeated under the same one.
    pub(super) fn divert(&self, file: &FileNode, copy: &Copy, name: &Path) -> Result<(), Errno> {
        let beside = conflict::free(&self.remote, name)?;
        self.begin_beside(file, copy, name, &beside);
        Ok(())
    }

    /// Has the store call by their new names what the tree displaced. Before the store is asked about a name.
    pub(super) fn follow_displaced(&self) {
        let _one_at_a_time = locked(&self.following);
        let displaced = self.tree().take_displaced();
        for one in displaced {
            if let Err(why) = self.follow(&one) {
                let old = shown(&one.old);
                log::note(&format!(
                    "cannot write down that {old} has lost its name: {}",
                    why.desc()
                ));
                self.tree().displaced_still(one);
            }
        }
    }

    fn follow(&self, one: &Displaced) -> Result<(), Errno> {
        let Some(new) = &one.new else {
            // One of several names: the others keep the copy.
            self.store.forget(&one.old);
            return Ok(());
        };
        let record = self.store.begin_rename(&one.old, new)?;
        if let Err(why) = self.store.finish_rename(&record) {
            // Done in memory. After a kill it is found under the old name, and goes beside it all the same.
            log::note(&format!(
                "cannot write down the name {}: {}",
                shown(new),
                why.desc()
            ));
        }
        Ok(())
    }
}

/// A name, or that of its conflict copy in the same folder.
pub(super) fn beside(name: &Path, diverted: Option<PathBuf>) -> PathBuf {
    match diverted {
        Some(diverted) => name.with_file_name(diverted),
        None => name.to_owned(),
    }
}

/// Gives the copy a conflict copy's name, which is written down before it is used: a try without an answer is repeated
/// under the same one.
pub(super) fn divert(
    remote: &Remote,
    store: &Store,
    entry: &Entry,
    dirty: &Dirty,
) -> Result<Dirty, Errno> {
    let name = conflict::free(remote, entry.path())?;
    if let Err(why) = store.mark_beside(&entry.copy, &name) {
        // A full disk must not keep it here; after a kill there may be a second conflict copy.
        log::note(&format!("cannot write down a name: {}", why.desc()));
        return Ok(dirty.gone_beside(&name));
    }
    // It may have gone back, or been removed, meanwhile.
    let now = store.entry_of(entry.copy.id())?;
    now.and_then(|now| now.dirty).ok_or(Errno::ESTALE)
}

/// What a writing in place that was cut off may have left.
pub(super) struct Ours<'a> {
    /// What is to be there.
    pub copy: &'a File,
    /// Digest of what was sent, where it is known: the copy may have been changed since.
    pub sent: Option<Digest>,
}

/// Puts what the server has at `path` (`there`) beside it, before it is written over: a writing in place that was cut
/// off may have torn it, or somebody else may have changed it; which of the two is unknown. Not if it is a beginning of
/// ours, or all that was sent: whoever wrote that, nothing is lost. What was there, and the name that it has now.
pub(super) fn save_theirs(
    remote: &Remote,
    store: &Store,
    path: &Path,
    there: &Attributes,
    ours: &Ours<'_>,
) -> Result<((Version, Digest), Option<PathBuf>), Errno> {
    let theirs = store.make(there.size)?;
    // No more than there is room for: what is more by now changes just now.
    let there = fetched(remote, path, theirs.file(), there.size)?;
    let content = store::digest(theirs.file()).map_err(errno)?;
    let found = (there.version(), content);
    if begins_with(ours.copy, theirs.file())? || Some(content) == ours.sent {
        return Ok((found, None));
    }
    for name in conflict::names(path) {
        let order = Put {
            path: &name,
            like: path,
            expected: None,
            unsettled: None,
            expect_nothing: true,
            mode: there.mode,
            owner: Some((there.uid, there.gid)),
            times: Some((there.atime, there.mtime)),
            durable: true,
            changed: None,
        };
        match remote.put(theirs.file(), &order) {
            Ok(_) => return Ok((found, Some(name))),
            Err(PutError::Conflict(_)) => {}
            Err(PutError::Errno(why)) => return Err(why),
        }
    }
    Err(Errno::EEXIST)
}

/// The message to people about it.
pub(super) fn cut_off(path: &Path, name: &Path) -> String {
    let (path, name) = (shown(path), shown(name));
    format!("{path}: writing it in place was cut off; what the server had of it since is {name}")
}
