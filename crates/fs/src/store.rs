//! The cache folder on disk: whole copies of the server's files, which version each is, and which have to be copied
//! back.
//!
//! What a method has acknowledged outlives `kill -9`: each record is a file that is written beside its place and
//! renamed into it, and the page cache does not die with the process. A power cut is another matter: nothing is forced
//! to disk but by [`Store::settle`] and [`Store::checkpoint`]; what they did not cover is known by its boot, see
//! [`Dirty::other_boot`]. Nothing here asks the server.

mod copy;
mod digest;
mod folder;
mod index;
mod load;
mod marks;
mod record;
mod rename;
mod room;
mod temporaries;
mod types;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

pub use copy::Copy;
pub use digest::digest;
pub use temporaries::Temporaries;
pub use types::{CopyId, Digest, Dirty, Entry, Kept, Rename};

use crate::errno::errno;
use folder::{Folder, Need};
use index::CacheIndex;
use oscope_sys::error::Failure;

/// linux/magic.h; nix has no name for it.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// One cache folder, locked for as long as this lives. Used from many threads at once.
#[derive(Debug)]
pub struct Store {
    index: Mutex<CacheIndex>,
    damaged: Vec<String>,
    temporaries: Arc<Temporaries>,
}

impl Store {
    /// Opens the cache folder, or makes it (mode 0700); reads what is in it, fixes what a kill left half done, removes
    /// half-made copies. A daemon opens it after its fork: lock and process number are those of the caller.
    ///
    /// # Errors
    /// `Failure::Failed` with a remedy: in use by another process; of another target or another format; not ours; no
    /// cache at all; or what the system says.
    pub fn open(folder: &Path, target_key: &str, limit_bytes: u64) -> Result<Self, Failure> {
        Self::open_in_boot(folder, target_key, limit_bytes, folder::boot_id()?)
    }

    pub(crate) fn open_in_boot(
        path: &Path,
        target_key: &str,
        limit_bytes: u64,
        boot_id: String,
    ) -> Result<Self, Failure> {
        let folder = Folder::open(path, target_key)?;
        let unreadable = |error: Errno| {
            Failure::remediable(
                format!(
                    "the cache folder {} cannot be read: {}",
                    path.display(),
                    error.desc()
                ),
                "repair its file system, or choose another folder with --cache DIR",
            )
        };
        let temporaries = Temporaries::open(folder.path()).map_err(unreadable)?;
        let (index, damaged) = load::load(folder, boot_id, limit_bytes).map_err(unreadable)?;
        Ok(Self {
            index: Mutex::new(index),
            damaged,
            temporaries: Arc::new(temporaries),
        })
    }

    /// What was found and could not be used when the folder was opened, a line for the person each: after a power cut,
    /// or when somebody deleted files in it.
    pub fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Where the names are written down under which files are put on the server.
    pub fn temporaries(&self) -> &Arc<Temporaries> {
        &self.temporaries
    }

    /// What is cached under this name; held, hence not evicted, while its copy is.
    ///
    /// # Errors
    /// The copy is there but cannot be opened (`EMFILE`, `EIO`): do not fetch over it, it may be dirty.
    pub fn entry(&self, path: &Path) -> Result<Option<Entry>, Errno> {
        let mut index = self.lock();
        match index.names.get(path).copied() {
            Some(id) => index.give_out(id),
            None => Ok(None),
        }
    }

    /// The same for a copy; `None` when all its names are forgotten.
    ///
    /// # Errors
    /// As [`Store::entry`].
    pub fn entry_of(&self, id: CopyId) -> Result<Option<Entry>, Errno> {
        self.lock().give_out(id)
    }

    /// All that may have to be copied back, of this and earlier lives, oldest first. Ids: there may be more of them
    /// than a process may have descriptors.
    pub fn dirty(&self) -> Vec<CopyId> {
        let index = self.lock();
        let mut ids: Vec<CopyId> = index
            .slots
            .iter()
            .filter(|(_, slot)| slot.record.dirty.is_some())
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids
    }

    /// The first names of those.
    pub fn dirty_paths(&self) -> Vec<PathBuf> {
        let index = self.lock();
        let dirty = index
            .slots
            .values()
            .filter(|slot| slot.record.dirty.is_some());
        let mut paths: Vec<PathBuf> = dirty
            .filter_map(|slot| slot.record.names.first().cloned())
            .collect();
        paths.sort_unstable();
        paths
    }

    /// A new empty copy, with `room` bytes set aside. It belongs to no name until [`Store::keep`] or
    /// [`Store::keep_dirty`], and is gone after a kill or when it is dropped before. Clean copies that nobody holds
    /// give way, the longest unused first.
    ///
    /// # Errors
    /// `ENOSPC`: neither the limit nor the disk has that much, whatever is evicted (then nothing is); the limit refuses
    /// no copy without room. Those of open(2).
    pub fn make(&self, room: u64) -> Result<Copy, Errno> {
        self.lock().make(room)
    }

    /// As [`Store::make`], for a file that nobody waits for: with others that have no name yet it takes a quarter of
    /// the limit at most.
    ///
    /// # Errors
    /// `ENOSPC` also where that is taken.
    pub fn make_ahead(&self, room: u64) -> Result<Copy, Errno> {
        self.lock().make_ahead(room)
    }

    /// Evicts until the disk has that many free bytes: for a write into a copy that met `ENOSPC`. The limit does not
    /// apply to what is dirty.
    ///
    /// # Errors
    /// `ENOSPC`: there is not enough to evict (then nothing is).
    pub fn make_room(&self, bytes: u64) -> Result<(), Errno> {
        self.lock().make_room(bytes)
    }

    /// Before the server is asked to rename `from` to `to`.
    ///
    /// # Errors
    /// `ENOSPC` and others of write(2): the server must not be asked.
    pub fn begin_rename(&self, from: &Path, to: &Path) -> Result<Rename, Errno> {
        self.lock().begin_rename(from, to)
    }

    /// The server has done it: `from` and all below it have their new names; the copy that was named `to` has lost that
    /// name, and is gone if it was its last (unless it became dirty since the rename was begun). A kill leaves all of
    /// it or nothing.
    ///
    /// # Errors
    /// It could not be written down (in memory it is done); `EINVAL`: it was finished or cancelled before.
    pub fn finish_rename(&self, rename: &Rename) -> Result<(), Errno> {
        self.lock().finish_rename(rename)
    }

    /// The server has not done it.
    pub fn cancel_rename(&self, rename: &Rename) {
        self.lock().cancel_rename(rename);
    }

    /// The renames that were begun, in this life or an earlier one, and neither finished nor cancelled; oldest first.
    /// Whether they were done only the server can say.
    pub fn unresolved_renames(&self) -> Vec<Rename> {
        let index = self.lock();
        let unresolved_renames = index.unresolved_renames.iter();
        unresolved_renames
            .map(|(number, (from, to))| Rename {
                from: from.clone(),
                to: to.clone(),
                number: Some(*number),
                late: true,
            })
            .collect()
    }

    /// Whether a path has, or is to get, a name by a rename that was neither finished nor cancelled.
    pub fn is_unresolved(&self, path: &Path) -> bool {
        let index = self.lock();
        let mut unresolved = index.unresolved_renames.values();
        unresolved.any(|(from, to)| path.starts_with(from) || path.starts_with(to))
    }

    /// The name leads nowhere any more: the server has removed it, or the copy is of no use. With its last name a copy
    /// goes, dirty or not; whoever holds it goes on using it, and the other methods then do nothing for it.
    pub fn forget(&self, path: &Path) {
        let mut index = self.lock();
        if let Some(id) = index.names.get(path).copied() {
            // A name that cannot be taken from the record comes back after a kill; the server is asked about each name
            // anyway.
            let _ = index.take_name(id, path);
        }
    }

    /// The copy goes, under whatever names: what a dead mount's programs may still write to, once it was copied back.
    pub fn forget_copy(&self, id: CopyId) {
        self.lock().remove(id);
    }

    /// Bytes on disk of all copies, those set aside for fetching included.
    pub fn used_bytes(&self) -> u64 {
        let mut index = self.lock();
        index.recount();
        index.taken()
    }

    /// Forces all to disk, and writes down that what is clean now may be believed after a power cut; other clean copies
    /// are dropped then. Waits for the whole file system (syncfs(2)): at the end of a mount.
    ///
    /// # Errors
    /// Those of syncfs(2) and write(2).
    pub fn checkpoint(&self) -> Result<(), Errno> {
        let (sequence, folder) = {
            let index = self.lock();
            (index.sequence, index.folder.path().to_path_buf())
        };
        let opened = File::open(&folder).map_err(errno)?;
        nix::unistd::syncfs(&opened)?;
        let bytes = load::settled_bytes(sequence)?;
        self.lock()
            .write_making_room("", "settled", &bytes, true, None, Need::Refusable)
    }

    /// Whether the folder lies in memory. Such file systems do not tell of every store through a mapping: a page that
    /// was read stays writable, and no time is set when it is written to (`vma_wants_writenotify`, mm/vma.c: there is
    /// nothing to write back).
    pub fn lies_in_memory(&self) -> bool {
        let kind = statfs(self.lock().folder.path()).map(|found| found.filesystem_type());
        kind.is_ok_and(|kind| kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
    }

    fn lock(&self) -> MutexGuard<'_, CacheIndex> {
        // A panic elsewhere under the lock leaves what is on disk true, and that is what counts.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
