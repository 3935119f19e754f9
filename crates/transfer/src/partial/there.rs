//! What is at the place of a file.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};

use super::KEPT;
use crate::names;
use crate::wire::Entry;
use oscope_sys::error::Failure;

/// What is at the place of a file.
pub enum There {
    /// Nothing.
    Nothing,
    /// Something else, which will be replaced.
    Other,
    /// A file of this size, time and mode.
    Alike(File),
}

/// Nanoseconds since 1970, of seconds and the rest; saturating beyond the years 1677 and 2262.
fn modified(seconds: i64, nanoseconds: i64) -> i64 {
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// What has the file's own name now; with its device and inode, where it has no other name.
///
/// # Errors
/// `Failure::Failed`: a folder has the name.
pub fn at_place(parent: BorrowedFd, entry: &Entry) -> Result<(There, Option<(u64, u64)>), Failure> {
    let (_, base) = names::split(entry.name);
    match fstatat(parent, base, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let own = (stat.st_nlink == 1).then_some((stat.st_dev, stat.st_ino));
            is_alike(parent, entry, &stat).map(|there| (there, own))
        }
        Err(_) => Ok((There::Nothing, None)),
    }
}

/// Whether what has this status is like the file.
fn is_alike(parent: BorrowedFd, entry: &Entry, stat: &FileStat) -> Result<There, Failure> {
    let (_, base) = names::split(entry.name);
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    if kind == SFlag::S_IFDIR {
        return Err(Failure::remediable(
            "a folder has its name there",
            "at the receiver, rename or remove that folder, or receive --into another folder",
        ));
    }
    let modified = modified(stat.st_mtime, stat.st_mtime_nsec);
    if kind != SFlag::S_IFREG
        || u64::try_from(stat.st_size) != Ok(entry.size)
        || modified != entry.mtime_ns
    {
        return Ok(There::Other);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let Ok(handle) = openat(parent, base, flags, Mode::empty()) else {
        return Ok(There::Other);
    };
    let file = File::from(handle);
    match file.metadata() {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & KEPT == entry.mode & KEPT => {
            Ok(There::Alike(file))
        }
        _ => Ok(There::Other),
    }
}
