//! Copying back: a changed copy goes to the server under a temporary name and is renamed over its own.

mod load;

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::errno::errno;
use crate::log;
use crate::remote::{Put, PutError, Stored, Time, Version};
use crate::store::Copy;

use super::Shared;
use super::beside::beside;
use super::file::{FileNode, times};
use super::filling::fills_empty;
use super::recover::{missing_folder, without_folder};
use super::report::unwritten;
pub(super) use load::Load;

impl Shared {
    /// With the gate held: if the copy differs from what the server has, copies it back; `durable` has the server sync
    /// it. A file without a name (unlinked through this mount) stays here.
    ///
    /// # Errors
    /// The errno that the server answered or the disk gave, `EIO` without an answer in time. The copy stays dirty and
    /// its content is forced to disk.
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
                    self.divert(file, &load.copy, &load.name)
                        .inspect_err(keep)?;
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
        if !load.linked {
            return self.remote.put_into_empty(load.copy.file(), order);
        }
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
            state.rebase(Some(now.version()), Some(stored.since));
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
