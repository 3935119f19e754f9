//! What becomes of a copy: kept, dirty, sent, clean, settled, named once more. Each is one record written whole.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use nix::errno::Errno;

use super::folder::Need;
use super::index::{CacheIndex, Slot, fresh_dirty};
use super::record::{Record, Stamp};
use super::types::{CopyId, Digest, Kept};
use super::{Copy, Store, digest};
use crate::errno::errno;
use crate::remote::Version;

impl Store {
    /// The new copy holds exactly that version of `path`. Its own times are to be set before: a clean copy that looks
    /// different later was written to by others, and is given out as dirty.
    ///
    /// # Errors
    /// `EBUSY`: `path` has a dirty copy, use that one; `EINVAL`: `copy` has or had a name (what is kept is never
    /// fetched into again: a kill in the middle would leave half a file); `ENOSPC` and others of write(2). Nothing is
    /// changed then.
    pub fn keep(
        &self,
        copy: &Copy,
        path: &Path,
        version: Version,
        trusted: bool,
        kept: Kept,
    ) -> Result<(), Errno> {
        let stamp = Stamp::of_file(copy.file()).map_err(errno)?;
        let record = Record {
            version: Some(version),
            trusted,
            ..blank(path, kept, stamp)
        };
        self.lock().keep(copy, path, record)
    }

    /// The new copy is that of `path` and dirty from its first moment: created, or emptied instead of fetched.
    /// `content`: see [`Dirty::content`].
    ///
    /// # Errors
    /// As [`Store::keep`].
    pub fn keep_dirty(
        &self,
        copy: &Copy,
        path: &Path,
        (base, content): (Option<Version>, Option<Digest>),
        kept: Kept,
    ) -> Result<(), Errno> {
        let stamp = Stamp::of_file(copy.file()).map_err(errno)?;
        let mut index = self.lock();
        let dirty = Some(fresh_dirty(base, content, &index.boot_id));
        let record = Record {
            version: base,
            dirty,
            ..blank(path, kept, stamp)
        };
        index.keep(copy, path, record)
    }

    /// Before the first write can come: when it is opened for writing or truncated. `base`: the version that the copy
    /// was made from; `content`: see [`Dirty::content`]. Of a dirty copy nothing changes, and nothing is written.
    ///
    /// # Errors
    /// `ENOSPC` and others of write(2): it must not be written to.
    pub fn mark_dirty(
        &self,
        copy: &Copy,
        base: Option<Version>,
        content: Option<Digest>,
    ) -> Result<(), Errno> {
        let mut index = self.lock();
        let dirty = fresh_dirty(base, content, &index.boot_id);
        index.change(copy, Need::Refusable, |record| {
            let clean = record.dirty.is_none();
            if clean {
                record.dirty = Some(dirty);
            }
            clean
        })
    }

    /// Just before a copying back that will leave `version` (the size and time that it sets) and the content of which
    /// `sent` is the digest, see [`Dirty::sending`]; `filling`: the digest of what goes into a file in place, see
    /// [`Dirty::filling`]. An earlier one stays until it is known what came of it.
    ///
    /// # Errors
    /// Those of write(2). Copying back all the same risks a needless conflict copy after a kill, and no loss.
    pub fn mark_sending(
        &self,
        copy: &Copy,
        version: Version,
        sent: Option<Digest>,
        filling: Option<Digest>,
    ) -> Result<(), Errno> {
        self.lock().change(copy, Need::Done, |record| {
            let Some(dirty) = &mut record.dirty else {
                return false;
            };
            let old = (dirty.sending, dirty.sent, dirty.filling);
            (dirty.sending, dirty.sent) = (Some(version), sent);
            dirty.filling = filling.or(dirty.filling);
            old != (dirty.sending, dirty.sent, dirty.filling)
        })
    }

    /// What a copying back left on the server, of which no answer came, was found there: that is the base now, with
    /// `content`. A filling stays written down: a server that is held up may resume it.
    ///
    /// # Errors
    /// Those of write(2). Copying back all the same risks a needless conflict copy after a kill, and no loss.
    pub fn mark_found(
        &self,
        copy: &Copy,
        version: Version,
        content: Option<Digest>,
    ) -> Result<(), Errno> {
        self.lock().change(copy, Need::Done, |record| {
            let Some(dirty) = &mut record.dirty else {
                return false;
            };
            (dirty.base, dirty.sending, dirty.digest) = (Some(version), None, None);
            (dirty.content, dirty.sent) = (content, None);
            true
        })
    }

    /// Before it goes to a conflict copy of that name, beside its own: what is known of the server's file of its own
    /// name counts no more. What the copy holds now is all that there is of it, whatever reboot was before.
    ///
    /// # Errors
    /// Those of write(2). Copying back all the same risks a second conflict copy after a kill, and no loss.
    pub fn mark_beside(&self, copy: &Copy, name: &Path) -> Result<(), Errno> {
        let mut index = self.lock();
        let boot_id = index.boot_id.clone();
        index.change(copy, Need::Done, |record| {
            let Some(dirty) = &mut record.dirty else {
                return false;
            };
            *dirty = dirty.gone_beside(name);
            dirty.boot_id = boot_id;
            true
        })
    }

    /// Copied back, but somebody may write to it yet: it stays dirty, from that version on. `digest`: of what went
    /// back.
    ///
    /// # Errors
    /// Those of write(2). As [`Dirty::sending`] names the version, nothing is lost by it.
    pub fn mark_acknowledged(
        &self,
        copy: &Copy,
        version: Version,
        digest: Digest,
    ) -> Result<(), Errno> {
        self.lock().change(copy, Need::Done, |record| {
            let Some(dirty) = &mut record.dirty else {
                return false;
            };
            (dirty.base, dirty.sending, dirty.digest) = (Some(version), None, Some(digest));
            (dirty.filling, dirty.sent, dirty.content) = (None, None, Some(digest));
            (record.version, record.trusted) = (Some(version), false);
            true
        })
    }

    /// The content is that version, and nobody can write to it any more. Also after the times of a clean copy were
    /// changed.
    ///
    /// # Errors
    /// Those of stat(2) and write(2): it stays dirty. As [`Dirty::sending`] names the version, nothing is lost by it.
    pub fn mark_clean(&self, copy: &Copy, version: Version, trusted: bool) -> Result<(), Errno> {
        let stamp = Stamp::of_file(copy.file()).map_err(errno)?;
        let mut index = self.lock();
        index.change(copy, Need::Done, |record| {
            (record.dirty, record.version, record.trusted, record.stamp) =
                (None, Some(version), trusted, stamp);
            true
        })?;
        index.give_up_lost_names(copy.id());
        Ok(())
    }

    /// The versions of clean copies at `below` and all below it decide no more: what is opened next is compared. How
    /// many there are.
    ///
    /// # Errors
    /// Those of write(2): some are trusted as before.
    pub fn distrust(&self, below: &Path) -> Result<usize, Errno> {
        let mut index = self.lock();
        let concerned: BTreeSet<CopyId> = index
            .names
            .iter()
            .filter(|(name, _)| name.starts_with(below))
            .map(|(_, id)| *id)
            .collect();
        let mut count = 0;
        for id in concerned {
            let clean = |slot: &&Slot| slot.record.dirty.is_none();
            let Some(slot) = index.slots.get(&id).filter(clean) else {
                continue;
            };
            let record = Record {
                trusted: false,
                ..slot.record.clone()
            };
            index.write_record(id, record, Need::Refusable)?;
            count += 1;
        }
        Ok(count)
    }

    /// Mode or owner were changed on the server, or are to be when it is copied back.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn set_kept(&self, copy: &Copy, kept: Kept) -> Result<(), Errno> {
        self.lock().change(copy, Need::Done, |record| {
            let old = std::mem::replace(&mut record.kept, kept);
            old != kept
        })
    }

    /// Forces the content and the record of a dirty copy to disk and writes down its digest, so that a power cut later
    /// leaves it known to be whole. Waits for the disk, and reads the whole copy.
    ///
    /// # Errors
    /// Those of read(2), write(2) and fsync(2).
    pub fn settle(&self, copy: &Copy) -> Result<(), Errno> {
        let settled = digest(copy.file()).map_err(errno)?;
        copy.file().sync_all().map_err(errno)?;
        let copies = copy.path().parent().ok_or(Errno::EIO)?;
        File::open(copies)
            .and_then(|copies| copies.sync_all())
            .map_err(errno)?;
        self.lock().change(copy, Need::Done, |record| {
            let Some(dirty) = &mut record.dirty else {
                return false;
            };
            dirty.settled = Some(settled);
            true
        })
    }

    /// `path` is one more name of the copy (link(2) through this mount, done by the server).
    ///
    /// # Errors
    /// Those of write(2).
    pub fn linked(&self, copy: &Copy, path: &Path) -> Result<(), Errno> {
        self.lock().link(copy, path)
    }
}

impl CacheIndex {
    fn keep(&mut self, copy: &Copy, path: &Path, record: Record) -> Result<(), Errno> {
        if self
            .loose
            .get(&copy.id())
            .is_none_or(|loose| loose.forgotten)
        {
            return Err(Errno::EINVAL);
        }
        let earlier = self.names.get(path).copied();
        if let Some(id) = earlier {
            // Opened to be looked at: it may have been written to behind our back.
            if self
                .give_out(id)?
                .is_some_and(|entry| entry.dirty.is_some())
            {
                return Err(Errno::EBUSY);
            }
        }
        self.write_record(copy.id(), record, Need::Refusable)?;
        if let Some(id) = earlier {
            // Its record is the older one: in the next life too it has lost the name.
            let _ = self.take_name(id, path);
        }
        self.names.insert(path.to_path_buf(), copy.id());
        Ok(())
    }

    /// Changes the record of a copy if `edit` says that there is something to write. One without a name has no record.
    fn change(
        &mut self,
        copy: &Copy,
        need: Need,
        edit: impl FnOnce(&mut Record) -> bool,
    ) -> Result<(), Errno> {
        let Some(slot) = self.slots.get(&copy.id()) else {
            let never_kept = self
                .loose
                .get(&copy.id())
                .is_some_and(|loose| !loose.forgotten);
            return if never_kept {
                Err(Errno::EINVAL)
            } else {
                Ok(())
            };
        };
        let mut record = slot.record.clone();
        if !edit(&mut record) {
            return Ok(());
        }
        self.write_record(copy.id(), record, need)
    }

    fn link(&mut self, copy: &Copy, path: &Path) -> Result<(), Errno> {
        let id = copy.id();
        let Some(slot) = self.slots.get(&id) else {
            return Ok(());
        };
        let mut record = slot.record.clone();
        if record.names.iter().any(|name| name == path) {
            return Ok(());
        }
        record.names.push(path.to_path_buf());
        self.write_record(id, record, Need::Done)?;
        match self.names.insert(path.to_path_buf(), id) {
            Some(earlier)
                if self
                    .slots
                    .get(&earlier)
                    .is_some_and(|slot| slot.record.dirty.is_some()) =>
            {
                self.displaced.insert(earlier);
                Ok(())
            }
            Some(earlier) => self.take_name(earlier, path),
            None => Ok(()),
        }
    }

    /// A clean copy has no claim to names that lead to another by now.
    fn give_up_lost_names(&mut self, id: CopyId) {
        if !self.displaced.remove(&id) {
            return;
        }
        let Some(slot) = self.slots.get(&id) else {
            return;
        };
        for name in slot.record.names.clone() {
            if self.names.get(&name) != Some(&id) {
                // The other record is there in the next life too, and then a clean one gives way.
                let _ = self.take_name(id, &name);
            }
        }
    }
}

/// The record of a copy with one name of which nothing else is known.
fn blank(path: &Path, kept: Kept, stamp: Stamp) -> Record {
    Record {
        names: vec![path.to_path_buf()],
        version: None,
        trusted: false,
        dirty: None,
        kept,
        stamp,
        sequence: 0,
        boot_id: String::new(),
    }
}
