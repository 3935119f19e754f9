//! What a handle can do with the bytes of its copy: read, write, reserve, look for holes, copy back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::unistd::{Whence, lseek};

use super::{Handle, Shared};
use crate::errno::errno;
use crate::remote::Statvfs;

/// How the kernel sends what a program appends.
#[derive(Clone, Copy)]
pub enum Append {
    /// One request waits for the one before.
    InTurn,
    /// Past its pages (`O_DIRECT`): the parts of what is long may come in any order, each with its own offset.
    AtOnce,
}

impl Append {
    /// What is written through a handle that was opened with these flags.
    pub fn of(flags: i32) -> Option<Self> {
        (flags & libc::O_APPEND != 0).then_some(match flags & libc::O_DIRECT {
            0 => Self::InTurn,
            _ => Self::AtOnce,
        })
    }
}

impl Shared {
    /// As many bytes as are asked for, unless the file ends before.
    pub(super) fn read(&self, number: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let handle = self.handle(number).ok_or(Errno::EBADF)?;
        read_whole(handle.copy.file(), offset, size)
    }

    /// Writes to the copy. Whether it went to another place than the kernel has it in its own pages: an append goes to
    /// the copy's end, whatever size the kernel takes the file to have. It does not report RWF_NOAPPEND.
    pub(super) fn write(
        &self,
        number: u64,
        offset: u64,
        data: &[u8],
        appends: Option<Append>,
    ) -> Result<bool, Errno> {
        let handle = self.handle(number).ok_or(Errno::EBADF)?;
        let (copy, known) = (handle.copy.file(), &handle.file.kernel_size);
        let end = || copy.metadata().map(|found| found.len()).map_err(errno);
        let place = match appends {
            None => offset,
            Some(Append::InTurn) => end()?,
            Some(Append::AtOnce) => match known.place(offset) {
                // Where the kernel has the size after all, it has sent it to the end.
                moved if moved != offset && end()? != offset => moved,
                _ => offset,
            },
        };
        known.grown(offset.saturating_add(data.len() as u64));
        // Counted on both sides: a copying back in between must see that what it read may be old.
        handle.file.wrote();
        let attempt = || copy.write_all_at(data, place).map_err(errno);
        let written = match attempt() {
            Err(Errno::ENOSPC) => self
                .store
                .make_room(data.len() as u64)
                .and_then(|()| attempt()),
            answer => answer,
        };
        if let (Err(_), Some(Append::InTurn)) = (written, appends) {
            // The kernel counts nothing of it: a part that stayed would come before what is appended next.
            let _ = copy.set_len(place);
        }
        handle.file.wrote();
        written.map(|()| place != offset)
    }

    /// Reserves or frees room in a copy (fallocate): done here, copied back with the rest.
    pub(super) fn allocate(
        &self,
        number: u64,
        mode: i32,
        offset: i64,
        length: i64,
    ) -> Result<(), Errno> {
        let handle = self.handle(number).ok_or(Errno::EBADF)?;
        let flags = FallocateFlags::from_bits(mode).ok_or(Errno::EOPNOTSUPP)?;
        if !flags.contains(FallocateFlags::FALLOC_FL_KEEP_SIZE) {
            let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
            self.server_has_room(handle.copy.file(), u64::try_from(end).unwrap_or(0))?;
        }
        handle.file.wrote();
        let attempt = || fallocate(handle.copy.file(), flags, offset, length);
        match attempt() {
            Err(Errno::ENOSPC) => {
                self.store.make_room(u64::try_from(length).unwrap_or(0))?;
                attempt()
            }
            answer => answer,
        }?;
        handle.file.writes.fetch_add(1, Ordering::Relaxed);
        if !flags.contains(FallocateFlags::FALLOC_FL_KEEP_SIZE) {
            let end = u64::try_from(offset.saturating_add(length)).unwrap_or(0);
            handle.file.kernel_size.grown(end);
        }
        Ok(())
    }

    /// Refuses a size (`ENOSPC`) that the server's file system cannot take: a program must not be promised room that is
    /// missing when the file is copied back. Where the server does not report its room nothing is refused.
    fn server_has_room(&self, copy: &File, end: u64) -> Result<(), Errno> {
        let grown = end.saturating_sub(copy.metadata().map_err(errno)?.len());
        if grown == 0 {
            return Ok(());
        }
        match self.remote.room() {
            Ok(room) if lacks(&room, grown) => Err(Errno::ENOSPC),
            _ => Ok(()),
        }
    }

    /// Where data or a hole begins (`SEEK_DATA`, `SEEK_HOLE`).
    pub(super) fn seek(&self, number: u64, offset: i64, whence: Whence) -> Result<i64, Errno> {
        let handle = self.handle(number).ok_or(Errno::EBADF)?;
        // A description of its own: the copy's is shared, its offset too.
        let file = handle.copy.open(OFlag::O_RDONLY).map_err(errno)?;
        lseek(&file, offset, whence)
    }

    /// Copies back what a handle's file has changed.
    pub(super) fn copy_back_of(&self, held: &Handle, durable: bool) -> Result<(), Errno> {
        let _gate = held.file.gate();
        self.copy_back(held.ino, &held.file, durable)
    }
}

/// Whether so many bytes have no room there: what is kept for root does not count.
fn lacks(room: &Statvfs, bytes: u64) -> bool {
    room.bavail.saturating_mul(room.frsize) < bytes
}

fn read_whole(file: &File, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
    let mut data = vec![0; usize::try_from(size).map_err(|_| Errno::EINVAL)?];
    let mut have = 0;
    while have < data.len() {
        match file.read_at(&mut data[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(error)),
        }
    }
    data.truncate(have);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_is_kept_for_root_is_none() {
        let room = Statvfs {
            bsize: 4096,
            frsize: 4096,
            blocks: 100,
            bfree: 20,
            bavail: 10,
            files: 0,
            ffree: 0,
            favail: 0,
            fsid: 0,
            flag: 0,
            namemax: 255,
        };
        assert!(!lacks(&room, 10 * 4096));
        assert!(lacks(&room, 10 * 4096 + 1));
    }
}
