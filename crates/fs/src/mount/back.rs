//! Copying back: a changed copy goes to the server under a temporary name and is renamed over its own.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;

use crate::blocks::Blocks;
use crate::log;
use crate::remote::{Attributes, Changed, Put, PutError, Stored, Time, Unsettled, Version};
use crate::store::{Copy, Digest};

use super::Shared;
use super::attributes::errno;
use super::file::{FileNode, Noted, digest, times};
use super::filling::fills_empty;
use super::recover::{missing_folder, without_folder};

/// What is being copied back, from where to where.
pub(super) struct Load {
    pub(super) copy: Copy,
    pub(super) base: Option<Version>,
    pub(super) unsettled: Option<Unsettled>,
    pub(super) path: PathBuf,
    /// The name that it has here: that of its conflict copy differs.
    pub(super) name: PathBuf,
    pub(super) attributes: Attributes,
    /// It has other names, whose file it has to stay.
    pub(super) linked: bool,
    /// This mount knows all of these names.
    pub(super) linked_here: bool,
    pub(super) noted: Noted,
    pub(super) digest: Digest,
    /// The content by block, and what of it the base has otherwise, where that is known and less than half.
    pub(super) blocks: Option<Arc<Blocks>>,
    pub(super) changed: Option<Vec<Range<u64>>>,
    pub(super) began: i64,
    /// The server has it, and is only to sync it.
    pub(super) again: bool,
}

impl Load {
    /// What differs from the base.
    fn changed(&self) -> Option<Changed<'_>> {
        let (blocks, ranges) = (self.blocks.as_deref()?, self.changed.as_deref()?);
        Some(Changed {
            ranges,
            kept: self.base?.size.min(blocks.size()),
            blocks,
        })
    }
}

impl Shared {
    /// With the gate held: if the copy differs from what the server has, copies it back; `durable` has the server sync
    /// it. A file without a name (unlinked through this mount) stays here.
    ///
    /// # Errors
    /// What the server or the disk said. The copy stays dirty and its content is forced to disk.
    pub(super) fn copy_back(&self, ino: u64, file: &FileNode, durable: bool) -> Result<(), Errno> {
        let (copy, wanted) = {
            let state = file.state();
            let wanted = state.journalled || (durable && state.is_unsynced());
            (state.copy.clone(), wanted)
        };
        let Some(copy) = copy.filter(|_| wanted) else {
            return Ok(());
        };
        self.follow_displaced();
        self.copy_back_now(ino, file, &copy, durable)?;
        file.state().failed = false;
        Ok(())
    }

    fn copy_back_now(
        &self,
        ino: u64,
        file: &FileNode,
        copy: &Copy,
        durable: bool,
    ) -> Result<(), Errno> {
        let keep = |why: &Errno| self.keep_for_later(ino, file, copy, *why);
        // The number of tries bounds the race with a rename of a folder above.
        for _ in 0..8 {
            let Some(load) = self.load(ino, file, copy, durable).inspect_err(keep)? else {
                return Ok(());
            };
            match self.send(file, &load, durable) {
                Ok(Some(now)) => {
                    self.sent(ino, file, &load, now, durable);
                    return Ok(());
                }
                // Cut off: the next try finds what is there.
                Ok(None) => {}
                // Another's content is there, after ours was.
                Err(PutError::Conflict(_)) if load.again => return Ok(()),
                Err(PutError::Conflict(there)) => {
                    if self.takes_over(file, &load, there).inspect_err(keep)? {
                        continue;
                    }
                    self.divert(file, &load).inspect_err(keep)?;
                }
                Err(PutError::Errno(why)) => {
                    if why == Errno::ENOENT && self.target(ino, file).as_ref() != Some(&load.path) {
                        continue;
                    }
                    if !load.again {
                        keep(&why);
                    }
                    return Err(why);
                }
            }
        }
        keep(&Errno::EIO);
        Err(Errno::EIO)
    }

    /// What has to be sent; `None` if the server has it, or the file has no name.
    fn load(
        &self,
        ino: u64,
        file: &FileNode,
        copy: &Copy,
        durable: bool,
    ) -> Result<Option<Load>, Errno> {
        let Some(name) = self.tree().path(ino) else {
            return Ok(None);
        };
        let name = self.resolved_name(name)?;
        let (known, names) = {
            let tree = self.tree();
            (tree.attributes(ino), tree.names(ino))
        };
        let (attributes, _) = known.ok_or(Errno::ESTALE)?;
        let links = attributes.more.map_or(1, |more| more.links);
        let noted = file.look(copy).map_err(errno)?;
        let (before, acknowledged, unseen, diverted, clean, resync) = {
            let state = file.state();
            (
                state.noted,
                state.acknowledged,
                // A coarse clock, or a page that was mapped and written to before, shows no change of times.
                state.backing.is_some() && state.acknowledged.is_some(),
                state.diverted.clone(),
                !state.journalled,
                durable && state.is_unsynced(),
            )
        };
        let looks_same = clean || (before == Some(noted) && !unseen);
        if looks_same && !resync {
            return Ok(None);
        }
        let blocks = Blocks::of(copy.file()).map_err(errno)?;
        let digest = digest(copy, blocks.as_ref())?;
        let same = (before.is_none() || before == Some(noted)) && acknowledged == Some(digest);
        if same && !resync {
            file.state().noted = Some(noted);
            return Ok(None);
        }
        let moved = self.follow_move(ino, file, &name);
        let again = (looks_same || same) && !moved;
        let (base, unsettled, old) = {
            let displaced_from = self.tree().displaced_from(ino);
            let mut state = file.state();
            if state.diverted.is_none() && displaced_from.is_some() {
                // The base is of the name that it has lost.
                state.rebase(None, None);
                (state.content, state.displaced_from) = (None, displaced_from);
            }
            (state.base, state.unsettled(), state.known_blocks())
        };
        Ok(Some(Load {
            copy: copy.clone(),
            base,
            changed: blocks
                .as_ref()
                .zip(old.as_deref())
                .and_then(|(new, old)| few_changes(new, old)),
            blocks: blocks.map(Arc::new),
            // The copy equals what the server has, so its digest is the server's.
            unsettled: unsettled.map(|known| Unsettled {
                content: known.content.or(again.then_some(digest)),
                ..known
            }),
            linked: (names > 1 || links > 1) && diverted.is_none(),
            path: beside(&name, diverted),
            name,
            attributes,
            linked_here: names > 1,
            noted,
            digest,
            began: self.remote.clock().now(),
            again,
        }))
    }

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

    /// The name that a file's content goes to; `None` if it has lost its name.
    pub(super) fn target(&self, ino: u64, file: &FileNode) -> Option<PathBuf> {
        let name = self.tree().path(ino)?;
        Some(beside(&name, file.state().diverted.clone()))
    }

    /// Puts it on the server. `None`: it was being written into an empty file there when the connection broke.
    fn send(
        &self,
        file: &FileNode,
        load: &Load,
        durable: bool,
    ) -> Result<Option<Stored>, PutError> {
        let times =
            times(&self.remote, load.copy.file()).map_err(|error| PutError::Errno(errno(error)))?;
        let version = Version {
            size: load.noted.size(),
            mtime: times.1,
        };
        if file.state().suspect {
            // It goes beside whatever is there.
            return Err(PutError::Conflict(None));
        }
        self.settle_sending(file, load, version)?;
        // After a cut by a rename alone, until it is known to be whole: a server that is held up may resume what it had
        // received.
        let fills = fills_empty(load.base, load.noted.size()) && file.state().filling.is_none();
        let filling = (fills || load.linked).then_some(load.digest);
        if let Err(why) = self
            .store
            .mark_sending(&load.copy, version, Some(load.digest), filling)
        {
            // A full disk must not keep what is dirty from leaving it; after a kill there may be a needless conflict
            // copy.
            unwritten(&load.path, why);
        }
        let order = Put {
            unsettled: load.unsettled,
            changed: load.changed(),
            ..order(load, times, durable)
        };
        let sent = match (load.linked, fills) {
            (true, _) if load.linked_here => self.remote.put_in_place(load.copy.file(), &order),
            (true, _) | (false, true) => self.fill(load, &order),
            (false, false) => self.remote.put(load.copy.file(), &order).map(Some),
        };
        if matches!(sent, Ok(None) | Err(PutError::Errno(_))) {
            // It may have been done: the answer alone may be what is missing.
            let mut state = file.state();
            (state.sending, state.sent) = (Some(version), Some(load.digest));
            state.filling = filling.or(state.filling);
        }
        sent
    }

    fn fill(&self, load: &Load, order: &Put<'_>) -> Result<Option<Stored>, PutError> {
        match self.remote.put_in_place(load.copy.file(), order) {
            // It is not to be written to (mode 0444): it can yet be replaced.
            Err(PutError::Errno(Errno::EACCES | Errno::EPERM)) => {
                self.remote.put(load.copy.file(), order).map(Some)
            }
            answer => answer,
        }
    }

    /// The server has it: writes that down. If somebody wrote to the copy meanwhile, the server has neither what it
    /// held before nor what it holds now, and it still looks changed.
    fn sent(&self, ino: u64, file: &FileNode, load: &Load, stored: Stored, durable: bool) {
        let (now, digest) = (stored.attributes, stored.digest);
        let displaced_from = {
            let mut state = file.state();
            state.rebase(Some(now.version()), Some(load.began));
            // Nobody wrote to it meanwhile, if this is what was sent.
            state.blocks = load.blocks.clone().filter(|_| digest == load.digest);
            (state.content, state.sent) = (Some(digest), None);
            state.noted = Some(load.noted);
            state.acknowledged = Some(digest);
            state.unsynced = (!durable).then(|| now.version());
            (state.sending, state.filling) = (None, None);
            let displaced_from = state.displaced_from.take();
            let diverted = state.diverted.is_some();
            drop(state);
            match (diverted, &displaced_from) {
                (false, _) => self.tree().became(ino, now),
                (true, Some(_)) => self.tree().made_beside(ino, &load.path, now),
                (true, None) => {}
            }
            displaced_from
        };
        self.report_state.went_back(&load.name);
        if let Some(name) = displaced_from {
            self.report_state.went_back(&name);
            self.report_state.conflict(&name, &load.path);
        }
        let written = self
            .store
            .mark_acknowledged(&load.copy, now.version(), digest);
        if let Err(why) = written {
            // It is on the server all the same, and the journal records what was being sent.
            unwritten(&load.path, why);
        }
    }

    /// Both sides changed: ours goes to a name of its own beside it, and so does what is written through handles that
    /// are still open. Nothing is lost, so this is no error. The name is written down before it is used: a try without
    /// an answer is repeated under the same one.
    fn divert(&self, file: &FileNode, load: &Load) -> Result<(), Errno> {
        let name = super::conflict::free(&self.remote, &load.name)?;
        self.begin_beside(file, &load.copy, &load.name, &name);
        Ok(())
    }

    /// Why it is not copied back, for a person.
    pub(super) fn why_not_back(&self, path: &Path, why: Errno) -> String {
        match missing_folder(&self.remote, path, why) {
            Some(folder) => format!("{} ({})", why.desc(), without_folder(&folder)),
            None => why.desc().to_owned(),
        }
    }

    /// Not copied back: it must survive here.
    fn keep_for_later(&self, ino: u64, file: &FileNode, copy: &Copy, why: Errno) {
        file.state().failed = true;
        let path = self.tree().path(ino);
        if let Some(path) = path {
            self.report_state
                .failed(&path, &self.why_not_back(&path, why));
        }
        if let Err(error) = self.store.settle(copy) {
            log::note(&format!(
                "cannot force {} to disk: {}",
                copy.path().display(),
                error.desc()
            ));
        }
    }
}

/// A name, or that of its conflict copy in the same folder.
pub(super) fn beside(name: &Path, diverted: Option<PathBuf>) -> PathBuf {
    match diverted {
        Some(diverted) => name.with_file_name(diverted),
        None => name.to_owned(),
    }
}

fn order(load: &Load, times: (Time, Time), durable: bool) -> Put<'_> {
    Put {
        path: &load.path,
        // A conflict copy has attributes of its own once it is there.
        like: load.base.map_or(&load.name, |_| &load.path),
        expected: load.base,
        unsettled: None,
        expect_nothing: load.base.is_none(),
        mode: load.attributes.mode,
        owner: Some((load.attributes.uid, load.attributes.gid)),
        times: Some(times),
        durable,
        changed: None,
    }
}

/// What differs, if that is less than half of what is to be there.
fn few_changes(new: &Blocks, old: &Blocks) -> Option<Vec<Range<u64>>> {
    let ranges = new.changed_since(old);
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    (bytes < new.size() / 2).then_some(ranges)
}

/// The cache's disk has no room for what is known of a copy.
pub(super) fn unwritten(path: &Path, why: Errno) {
    log::note(&format!(
        "cannot write down how far the copying back of {} is: {}",
        super::report::shown(path),
        why.desc()
    ));
}
