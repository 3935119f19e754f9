//! Room: new copies, and eviction of those longest unused. What is dirty or held is never evicted.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;

use super::copy::Inner;
use super::index::{CacheIndex, Loose};
use super::record::Stamp;
use super::types::CopyId;
use super::{Copy, Store};
use crate::errno::errno;

/// Copies that are held grow unseen (the kernel writes to them itself). To look at a thousand takes a millisecond, so
/// not each new copy waits for it, unless it would not fit otherwise.
const RECOUNT: Duration = Duration::from_millis(200);

impl Store {
    /// As [`Store::make`] with no room set aside, and with an empty record beside the copy, so that to keep it makes no
    /// file: on ext4 that takes a tenth of a millisecond and more each. Others resume the store meanwhile.
    ///
    /// # Errors
    /// Those of open(2), also where `ENOSPC` could be fixed by evicting: [`Store::make`] does that.
    pub fn make_ready(&self) -> Result<Copy, Errno> {
        let (id, copy, entry) = {
            let mut index = self.lock();
            index.look_again();
            let id = CopyId(index.next_sequence());
            (id, index.folder.copy_path(id), index.folder.entry_path(id))
        };
        let file = create(&copy)?;
        if let Err(error) = create(&entry) {
            // A leftover: the next start would remove it too.
            let _ = fs::remove_file(&copy);
            return Err(error);
        }
        Ok(self.lock().loosen(id, file, 0))
    }

    /// Why a copy with that much set aside cannot be made, and what helps.
    pub fn why_no_room(&self, room: u64) -> String {
        let index = self.lock();
        let limit = mib(index.limit);
        if room > index.limit {
            return format!(
                "it has {}, more than the whole --cache-size ({limit}); mount with a larger --cache-size",
                mib(room)
            );
        }
        let held = index.taken() - index.evictable();
        if held.saturating_add(room) > index.limit {
            return format!(
                "files that are open or not copied back take {} of the --cache-size ({limit}); close some, or mount \
                 with a larger --cache-size",
                mib(held)
            );
        }
        drop(index);
        self.disk_is_full()
    }

    /// That the disk of the cache folder is full, and what helps.
    pub fn disk_is_full(&self) -> String {
        format!(
            "the local disk of the cache {} has no room; make room there, or mount with --cache on another disk",
            self.lock().folder.path().display()
        )
    }

    /// Evicts while the copies are over the limit: they grow unseen while they are written to, and become evictable
    /// only when they are clean and nobody holds them. `freed`: a copy of which that may be so now.
    pub fn trim(&self, freed: Option<CopyId>) {
        self.lock().trim(freed);
    }

    /// The same by the sizes that the copies have now: at the end of a mount, after which nothing looks again.
    pub fn trim_last(&self) {
        let mut index = self.lock();
        index.recount();
        index.trim(None);
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A new file for a copy or a record.
fn create(path: &Path) -> Result<File, Errno> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create_new(true).mode(0o600);
    // What this program reads of a copy, to copy it back, is no access of a user.
    how.custom_flags(nix::libc::O_NOATIME);
    how.open(path).map_err(errno)
}

impl CacheIndex {
    /// Looks at the sizes if that was not done a moment ago.
    fn look_again(&mut self) {
        if self.recounted.elapsed() > RECOUNT {
            self.recount();
            self.folder.refill_spare();
        }
    }

    /// A new empty copy without a name, with `room` bytes set aside.
    pub(super) fn make(&mut self, room: u64) -> Result<Copy, Errno> {
        self.look_again();
        self.clear_limit(room)?;
        self.clear_disk(room)?;
        loop {
            let id = CopyId(self.next_sequence());
            match create(&self.folder.copy_path(id)) {
                Ok(file) => return Ok(self.loosen(id, file, room)),
                Err(Errno::EEXIST) => {}
                Err(Errno::ENOSPC | Errno::EDQUOT) if self.evict_one(None) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The same for a file that nobody waits for: such copies, and others under way, take a quarter of the limit at
    /// most.
    pub(super) fn make_ahead(&mut self, room: u64) -> Result<Copy, Errno> {
        let held = |loose: &&Loose| loose.pin.strong_count() > 0;
        let under_way: u64 = self.loose.values().filter(held).map(Loose::taken).sum();
        match under_way.saturating_add(room) <= self.limit / 4 {
            true => self.make(room),
            false => Err(Errno::ENOSPC),
        }
    }

    /// A copy that was made just now.
    fn loosen(&mut self, id: CopyId, file: File, room: u64) -> Copy {
        let path = self.folder.copy_path(id);
        let inner = Arc::new(Inner { id, file, path });
        let loose = Loose {
            pin: Arc::downgrade(&inner),
            room,
            bytes: 0,
            forgotten: false,
        };
        self.loose.insert(id, loose);
        Copy(inner)
    }

    /// Makes that much available to writes into copies.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<(), Errno> {
        self.recount();
        self.clear_disk(bytes)
    }

    /// Bytes that count against the limit.
    pub(super) fn taken(&self) -> u64 {
        self.used + self.loose.values().map(Loose::taken).sum::<u64>()
    }

    fn clear_limit(&mut self, room: u64) -> Result<(), Errno> {
        if self.taken().saturating_add(room) <= self.limit {
            return Ok(());
        }
        self.recount();
        if room == 0 {
            // Made or emptied: it needs none as yet, and the limit does not apply to what is dirty. Others that are
            // over it may be on their way to the server.
            while self.taken() > self.limit && self.evict_one(None) {}
            return Ok(());
        }
        // A file that does not fit even into an otherwise empty cache must not cost everything that is in it.
        if (self.taken() - self.evictable()).saturating_add(room) > self.limit {
            return Err(Errno::ENOSPC);
        }
        while self.taken().saturating_add(room) > self.limit {
            if !self.evict_one(None) {
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }

    fn trim(&mut self, freed: Option<CopyId>) {
        match freed {
            // The size of one, not of all: this comes with each last close.
            Some(id) => self.recount_one(id),
            None => self.look_again(),
        }
        if self.taken() <= self.limit {
            return;
        }
        if let Some(id) = freed {
            // One that is over the limit by itself must not cost all the others first.
            let alone = self
                .slots
                .get(&id)
                .is_some_and(|slot| slot.bytes > self.limit);
            if alone && self.may_go(id) && self.unchanged(id) {
                self.remove(id);
            }
        }
        // What shrank or was let go of since the last look must not cost others.
        self.look_again();
        while self.taken() > self.limit && self.evict_one(None) {}
    }

    fn clear_disk(&mut self, room: u64) -> Result<(), Errno> {
        if room == 0 {
            return Ok(());
        }
        let promised: u64 = self
            .loose
            .values()
            .map(|loose| loose.room.saturating_sub(loose.bytes))
            .sum();
        let wanted = room.saturating_add(promised);
        let free = self.free_on_disk()?;
        if free >= wanted {
            return Ok(());
        }
        if free.saturating_add(self.evictable()) < wanted {
            return Err(Errno::ENOSPC);
        }
        while self.free_on_disk()? < wanted {
            if !self.evict_one(None) {
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }

    /// Bytes of the copies that may go.
    fn evictable(&self) -> u64 {
        self.slots
            .iter()
            .filter(|(id, _)| self.may_go(**id))
            .map(|(_, slot)| slot.bytes)
            .sum()
    }

    fn free_on_disk(&self) -> Result<u64, Errno> {
        let of = statvfs(self.folder.path())?;
        Ok(of.blocks_available().saturating_mul(of.fragment_size()))
    }

    /// Evicts the longest unused copy that may go, other than `except`; says whether there was one.
    pub(super) fn evict_one(&mut self, except: Option<CopyId>) -> bool {
        let found = self
            .order
            .values()
            .copied()
            .find(|id| Some(*id) != except && self.may_go(*id) && self.unchanged(*id));
        if let Some(id) = found {
            self.remove(id);
        }
        found.is_some()
    }

    fn may_go(&self, id: CopyId) -> bool {
        self.slots
            .get(&id)
            .is_some_and(|slot| slot.record.dirty.is_none() && slot.pin.strong_count() == 0)
    }

    /// The copy looks as it did when it became clean: nobody wrote to it behind our back.
    fn unchanged(&self, id: CopyId) -> bool {
        let Some(slot) = self.slots.get(&id) else {
            return false;
        };
        match fs::symlink_metadata(self.folder.copy_path(id)) {
            Ok(metadata) => Stamp::of(&metadata) == slot.record.stamp,
            // Gone from the folder: nothing to lose.
            Err(_) => true,
        }
    }
}
