//! Copying back: a changed copy goes to the server under a temporary name and is renamed over its own.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::remote::{Attributes, Put, PutError, Version};
use crate::store::{self, Copy, Digest};

use super::Shared;
use super::attributes::errno;
use super::file::{FileNode, Noted, times};

/// What is being copied back, from where to where.
struct Load {
    copy: Copy,
    base: Option<Version>,
    path: PathBuf,
    attributes: Attributes,
    in_place: bool,
    noted: Noted,
    digest: Digest,
    began: i64,
}

impl Shared {
    /// With the gate held: if the copy differs from what the server has, copies it back; `durable` has the server sync it.
    /// A file without a name (unlinked through this mount) stays here.
    ///
    /// # Errors
    /// What the server or the disk said. The copy stays dirty and its content is forced to disk.
    pub(super) fn copy_back(&self, ino: u64, file: &FileNode, durable: bool) -> Result<(), Errno> {
        let (copy, journalled) = {
            let state = file.state();
            (state.copy.clone(), state.journalled)
        };
        let Some(copy) = copy.filter(|_| journalled) else {
            return Ok(());
        };
        // The number of tries bounds the race with a rename of a folder above.
        for _ in 0..8 {
            let Some(load) = self
                .load(ino, file, &copy)
                .inspect_err(|why| self.keep_for_later(ino, &copy, *why))?
            else {
                return Ok(());
            };
            match self.send(file, &load, durable) {
                Ok(now) => return self.sent(ino, file, &load, now),
                Err(PutError::Conflict(there)) => {
                    if self.was_ours(file, there) {
                        continue;
                    }
                    let diverted = self.divert(ino, file, &load, durable);
                    return diverted.inspect_err(|why| self.keep_for_later(ino, &copy, *why));
                }
                Err(PutError::Errno(why)) => {
                    if why == Errno::ENOENT && self.target(ino, file).as_ref() != Some(&load.path) {
                        continue;
                    }
                    self.keep_for_later(ino, &copy, why);
                    return Err(why);
                }
            }
        }
        Err(Errno::EIO)
    }

    /// What has to be sent; `None` if the server has it, or the file has no name.
    fn load(&self, ino: u64, file: &FileNode, copy: &Copy) -> Result<Option<Load>, Errno> {
        let Some(path) = self.target(ino, file) else {
            return Ok(None);
        };
        let (known, names) = {
            let tree = self.tree();
            (tree.attributes(ino), tree.names(ino))
        };
        let (attributes, _) = known.ok_or(Errno::ESTALE)?;
        let noted = file.look(copy).map_err(errno)?;
        let (before, acknowledged, base, backing, diverted) = {
            let state = file.state();
            (
                state.noted,
                state.acknowledged,
                state.base,
                state.backing.is_some(),
                state.diverted.is_some(),
            )
        };
        if before == Some(noted) && (acknowledged.is_none() || !backing) {
            return Ok(None);
        }
        let digest = store::digest(copy.file()).map_err(errno)?;
        // A coarse clock, or a page that was mapped and written to before, shows no change of times.
        if (before.is_none() || before == Some(noted)) && acknowledged == Some(digest) {
            file.state().noted = Some(noted);
            return Ok(None);
        }
        Ok(Some(Load {
            copy: copy.clone(),
            base,
            path,
            attributes,
            in_place: names > 1 && !diverted,
            noted,
            digest,
            began: self.clock.now(),
        }))
    }

    /// The name that a file's content goes to; `None` if it has lost its name.
    fn target(&self, ino: u64, file: &FileNode) -> Option<PathBuf> {
        let path = self.tree().path(ino)?;
        Some(file.state().diverted.clone().unwrap_or(path))
    }

    fn send(&self, file: &FileNode, load: &Load, durable: bool) -> Result<Attributes, PutError> {
        let times = times(load.copy.file()).map_err(|error| PutError::Errno(errno(error)))?;
        let version = Version {
            size: load.noted.size(),
            mtime: times.1,
        };
        self.store.mark_sending(&load.copy, version)?;
        let sent = self.put(load, &load.path, load.base, times, durable);
        if matches!(sent, Err(PutError::Errno(_))) {
            // It may have been done: the answer alone may be what is missing.
            file.state().sending = Some(version);
        }
        sent
    }

    /// Whether what is there is what an earlier copying back left, of which no answer came: then it is the base.
    fn was_ours(&self, file: &FileNode, there: Option<Attributes>) -> bool {
        let Some(there) = there.map(|there| there.version()) else {
            return false;
        };
        let mut state = file.state();
        let ours = state.sending.take() == Some(there);
        if ours {
            (state.base, state.acknowledged) = (Some(there), None);
        }
        ours
    }

    fn put(
        &self,
        load: &Load,
        path: &Path,
        base: Option<Version>,
        times: (u32, u32),
        durable: bool,
    ) -> Result<Attributes, PutError> {
        let order = Put {
            path,
            expected: base,
            expect_nothing: base.is_none(),
            mode: load.attributes.mode,
            owner: Some((load.attributes.uid, load.attributes.gid)),
            times: Some(times),
            durable,
            in_place: load.in_place,
        };
        self.remote.put(load.copy.file(), &order)
    }

    /// The server has it: writes that down.
    fn sent(&self, ino: u64, file: &FileNode, load: &Load, now: Attributes) -> Result<(), Errno> {
        {
            let mut state = file.state();
            (state.base, state.known) = (Some(now.version()), load.began);
            state.noted = Some(load.noted);
            state.acknowledged = Some(load.digest);
            if state.diverted.is_none() {
                drop(state);
                self.tree().became(ino, now);
            }
        }
        self.told.went_back(&load.path);
        self.store
            .mark_acknowledged(&load.copy, now.version(), load.digest)
    }

    /// Both sides changed: ours goes to a name of its own beside it, and so does what is written through handles that are
    /// still open. Nothing is lost, so this is no error.
    fn divert(&self, ino: u64, file: &FileNode, load: &Load, durable: bool) -> Result<(), Errno> {
        let times = times(load.copy.file()).map_err(errno)?;
        let mut tries = super::conflict::names(&load.path);
        loop {
            let name = tries.next().ok_or(Errno::EEXIST)?;
            match self.put(load, &name, None, times, durable) {
                Err(PutError::Conflict(_)) => continue,
                Err(PutError::Errno(why)) => return Err(why),
                Ok(now) => {
                    self.told.conflict(&load.path, &name);
                    self.tree().made_beside(ino, &name, now);
                    file.state().diverted = Some(name);
                    return self.sent(ino, file, load, now);
                }
            }
        }
    }

    /// Not copied back: it must survive here.
    fn keep_for_later(&self, ino: u64, copy: &Copy, why: Errno) {
        let path = self.tree().path(ino);
        if let Some(path) = path {
            self.told.failed(&path, why.desc());
        }
        if let Err(error) = self.store.settle(copy) {
            crate::command::log::note(&format!(
                "cannot force {} to disk: {}",
                copy.path().display(),
                error.desc()
            ));
        }
    }
}
