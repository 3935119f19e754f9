//! What is in the cache folder, in memory: the copies, the names that lead to them, who holds them, and when they were
//! used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use nix::errno::Errno;

use super::Copy;
use super::copy::Inner;
use super::folder::{Folder, Need};
use super::record::{Record, Stamp};
use super::types::{CopyId, Digest, Dirty, Entry};
use crate::errno::errno;

/// A copy that has names.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) record: Record,
    /// The open copy, if somebody outside holds it.
    pub(super) pin: Weak<Inner>,
    /// Bytes on disk when last looked at.
    pub(super) bytes: u64,
    /// When it was used: key in [`CacheIndex::order`].
    pub(super) tick: u64,
}

/// A copy without a name: being made, or forgotten while somebody holds it.
#[derive(Debug)]
pub(super) struct Loose {
    pub(super) pin: Weak<Inner>,
    /// Bytes set aside for it.
    pub(super) room: u64,
    /// Bytes on disk when last looked at.
    pub(super) bytes: u64,
    /// It had a name: it is gone from the folder and gets none again.
    pub(super) forgotten: bool,
}

impl Loose {
    /// Bytes that it has or may take.
    pub(super) fn taken(&self) -> u64 {
        self.bytes.max(self.room)
    }
}

/// Everything behind the store's one mutex.
#[derive(Debug)]
pub(super) struct CacheIndex {
    pub(super) folder: Folder,
    pub(super) boot_id: String,
    pub(super) limit: u64,
    pub(super) slots: HashMap<CopyId, Slot>,
    pub(super) names: BTreeMap<PathBuf, CopyId>,
    /// Copies by when they were used, the longest unused first.
    pub(super) order: BTreeMap<u64, CopyId>,
    pub(super) loose: HashMap<CopyId, Loose>,
    /// Copies that were given out, so that their size has to be looked at again.
    pub(super) live: HashSet<CopyId>,
    /// Renames without an end, by the number of their record.
    pub(super) unresolved_renames: BTreeMap<u64, (PathBuf, PathBuf)>,
    /// Dirty copies of which a name leads elsewhere by now; looked at in each rename.
    pub(super) displaced: HashSet<CopyId>,
    /// Sum of `bytes` of all slots.
    pub(super) used: u64,
    pub(super) sequence: u64,
    pub(super) tick: u64,
    /// When sizes were last looked at.
    pub(super) recounted: Instant,
}

impl CacheIndex {
    /// The next number for a record or a copy.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The slot as an entry, with its copy opened if nobody holds it.
    pub(super) fn give_out(&mut self, id: CopyId) -> Result<Option<Entry>, Errno> {
        let Some(slot) = self.slots.get_mut(&id) else {
            return Ok(None);
        };
        let copy = match slot.pin.upgrade() {
            Some(inner) => Copy(inner),
            None => {
                let path = self.folder.copy_path(id);
                // What this program reads of a copy, to copy it back, is no access of a user.
                let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NOATIME;
                let opened = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(flags)
                    .open(&path);
                let file = match opened.map_err(errno) {
                    Ok(file) => file,
                    // Somebody deleted it. What was clean is fetched again; what was dirty is lost, which must not look
                    // like "no such file".
                    Err(Errno::ENOENT) if slot.record.dirty.is_none() => {
                        self.remove(id);
                        return Ok(None);
                    }
                    Err(Errno::ENOENT) => return Err(Errno::EIO),
                    Err(error) => return Err(error),
                };
                let inner = Arc::new(Inner { id, file, path });
                slot.pin = Arc::downgrade(&inner);
                Copy(inner)
            }
        };
        self.live.insert(id);
        self.touch(id);
        self.notice_changes(id, &copy)?;
        let Some(slot) = self.slots.get(&id) else {
            return Ok(None);
        };
        let record = &slot.record;
        let untouched = Stamp::of_file(copy.file()).map_err(errno)? == record.stamp;
        let dirty = record.dirty.clone().map(|dirty| Dirty {
            other_boot: dirty.boot_id != self.boot_id,
            ..dirty
        });
        Ok(Some(Entry {
            copy,
            paths: record.names.clone(),
            version: record.version,
            trusted: record.trusted,
            dirty,
            kept: record.kept,
            untouched,
        }))
    }

    /// A clean copy that does not look as it did when it became clean was written to behind our back (a program of a
    /// killed mount still had it open): it is dirty. That need not reach the disk: the difference itself is there to be
    /// seen.
    fn notice_changes(&mut self, id: CopyId, copy: &Copy) -> Result<(), Errno> {
        let stamp = Stamp::of_file(copy.file()).map_err(errno)?;
        let Some(slot) = self.slots.get_mut(&id) else {
            return Ok(());
        };
        if slot.record.dirty.is_none() && slot.record.stamp != stamp {
            slot.record.dirty = Some(fresh_dirty(slot.record.version, None, &self.boot_id));
        }
        Ok(())
    }

    /// Now is the time of its last use, here and (as the time of its record) for later lives.
    fn touch(&mut self, id: CopyId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        self.tick += 1;
        self.order.remove(&slot.tick);
        slot.tick = self.tick;
        self.order.insert(slot.tick, id);
        let now = nix::sys::time::TimeSpec::UTIME_NOW;
        let path = self.folder.entry_path(id);
        // Only the order of eviction after the next start depends on it.
        let _ = nix::sys::stat::utimensat(
            nix::fcntl::AT_FDCWD,
            &path,
            &now,
            &now,
            nix::sys::stat::UtimensatFlags::NoFollowSymlink,
        );
    }

    /// Writes the record of a copy (with a new number and this boot), then takes it over in memory. On a full disk
    /// clean copies give way, and the spare space if the matter is `Done` already; an error changes nothing.
    pub(super) fn write_record(
        &mut self,
        id: CopyId,
        mut record: Record,
        need: Need,
    ) -> Result<(), Errno> {
        record.sequence = self.next_sequence();
        record.boot_id.clone_from(&self.boot_id);
        let bytes = record.to_bytes().map_err(|_| Errno::EIO)?;
        let settled = |record: &Record| {
            record
                .dirty
                .as_ref()
                .is_some_and(|dirty| dirty.settled.is_some())
        };
        let durable = settled(&record)
            || self
                .slots
                .get(&id)
                .is_some_and(|slot| settled(&slot.record));
        self.write_making_room(
            "entries",
            &format!("{}.json", id.name()),
            &bytes,
            durable,
            Some(id),
            need,
        )?;
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.record = record;
        } else {
            self.tick += 1;
            let pin = self
                .loose
                .remove(&id)
                .map_or_else(Weak::new, |loose| loose.pin);
            self.order.insert(self.tick, id);
            self.live.insert(id);
            self.slots.insert(
                id,
                Slot {
                    record,
                    pin,
                    bytes: 0,
                    tick: self.tick,
                },
            );
            self.recount_one(id);
        }
        Ok(())
    }

    /// Writes a small file of the folder; see [`CacheIndex::write_record`].
    pub(super) fn write_making_room(
        &mut self,
        place: &str,
        name: &str,
        bytes: &[u8],
        durable: bool,
        except: Option<CopyId>,
        need: Need,
    ) -> Result<(), Errno> {
        let mut spare = need == Need::Done;
        loop {
            match self.folder.write(place, name, bytes, durable) {
                Err(Errno::ENOSPC | Errno::EDQUOT) if self.evict_one(except) => {}
                Err(Errno::ENOSPC | Errno::EDQUOT) if spare && self.folder.spend_spare() => {
                    spare = false
                }
                result => {
                    if need == Need::Done && !spare {
                        self.folder.refill_spare();
                    }
                    return result;
                }
            }
        }
    }

    /// Takes one name from a copy; with its last name the copy goes too. The error is that of writing the rest of the
    /// names down; in memory it is done all the same.
    pub(super) fn take_name(&mut self, id: CopyId, name: &Path) -> Result<(), Errno> {
        if self.names.get(name) == Some(&id) {
            self.names.remove(name);
        }
        let Some(slot) = self.slots.get(&id) else {
            return Ok(());
        };
        let mut record = slot.record.clone();
        record.names.retain(|other| other != name);
        if record.names.is_empty() {
            self.remove(id);
            return Ok(());
        }
        let names = record.names.clone();
        let written = self.write_record(id, record, Need::Done);
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.record.names = names;
        }
        written
    }

    /// The copy goes: its record first, for a copy without one is a leftover, while one without its copy would promise
    /// content that is not there. Whoever holds it goes on using it.
    pub(super) fn remove(&mut self, id: CopyId) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        self.used -= slot.bytes;
        self.order.remove(&slot.tick);
        self.live.remove(&id);
        self.displaced.remove(&id);
        for name in &slot.record.names {
            if self.names.get(name) == Some(&id) {
                self.names.remove(name);
            }
        }
        // A file that cannot be removed is dealt with at the next start: a record without a copy, or a copy without a
        // record.
        let _ = fs::remove_file(self.folder.entry_path(id));
        let _ = fs::remove_file(self.folder.copy_path(id));
        if slot.pin.strong_count() > 0 {
            self.loose.insert(
                id,
                Loose {
                    pin: slot.pin,
                    room: 0,
                    bytes: slot.bytes,
                    forgotten: true,
                },
            );
        }
    }

    /// Looks again at how much the copies that were given out occupy, and lets go of those nobody holds any more.
    pub(super) fn recount(&mut self) {
        self.recounted = Instant::now();
        for id in self.live.iter().copied().collect::<Vec<_>>() {
            let held = self
                .slots
                .get(&id)
                .is_some_and(|slot| slot.pin.strong_count() > 0);
            self.recount_one(id);
            if !held {
                self.live.remove(&id);
            }
        }
        let folder = &self.folder;
        self.loose.retain(|id, loose| match loose.pin.upgrade() {
            Some(inner) => {
                loose.bytes = inner
                    .file
                    .metadata()
                    .map_or(loose.bytes, |metadata| occupied(&metadata));
                true
            }
            None => {
                if !loose.forgotten {
                    // Only one that was made ready has a record, an empty one.
                    let _ = fs::remove_file(folder.entry_path(*id));
                    let _ = fs::remove_file(folder.copy_path(*id));
                }
                false
            }
        });
    }

    pub(super) fn recount_one(&mut self, id: CopyId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let metadata = match slot.pin.upgrade() {
            Some(inner) => inner.file.metadata(),
            None => fs::symlink_metadata(self.folder.copy_path(id)),
        };
        let bytes = metadata.map_or(slot.bytes, |metadata| occupied(&metadata));
        self.used = self.used - slot.bytes + bytes;
        slot.bytes = bytes;
    }
}

/// Bytes on disk.
pub(super) fn occupied(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

/// Dirty from now on, in this boot.
pub(super) fn fresh_dirty(
    base: Option<crate::remote::Version>,
    content: Option<Digest>,
    boot_id: &str,
) -> Dirty {
    Dirty {
        base,
        sending: None,
        sent: None,
        content,
        filling: None,
        digest: None,
        settled: None,
        beside: None,
        boot_id: boot_id.to_owned(),
        other_boot: false,
    }
}
