//! What direct I/O asks of addresses and lengths.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use nix::sys::statfs::fstatfs;

use oscope_sys::error::Failure;

/// Alignment that suits every device so far, where the kernel does not report what is needed (before Linux 6.1).
const COMMON: u32 = 4096;
/// File systems in memory (`include/uapi/linux/magic.h`).
const TMPFS_MAGIC: u32 = 0x0102_1994;
const RAMFS_MAGIC: u32 = 0x8584_58f6;

/// What direct I/O on a file asks for, in bytes (`STATX_DIOALIGN`, statx(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Of the buffer's address.
    pub memory: usize,
    /// Of the offset in the file and of the length.
    pub offset: u64,
}

/// What direct I/O on `file` asks for; `None` where its file system has no direct I/O.
///
/// # Errors
/// The errno of statx(2), such as `ENOSYS` before Linux 4.11.
pub fn alignment(file: &File) -> io::Result<Option<Alignment>> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty string, which AT_EMPTY_PATH allows, and `status` has room for the answer.
    let answer = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            status.as_mut_ptr(),
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded; what it did not fill is zero, which every field may be.
    let status = unsafe { status.assume_init() };
    let (memory, offset) = (status.stx_dio_mem_align, status.stx_dio_offset_align);
    if status.stx_mask & libc::STATX_DIOALIGN == 0 {
        if is_in_memory(file)? {
            return Ok(None);
        }
        return Ok(Some(Alignment {
            memory: COMMON as usize,
            offset: COMMON.into(),
        }));
    }
    Ok((offset != 0).then_some(Alignment {
        memory: memory.max(offset) as usize,
        offset: offset.into(),
    }))
}

/// Whether the file system has no device: tmpfs takes O_DIRECT since Linux 6.6, and copies from its pages all the same
/// (`mm/shmem.c`).
fn is_in_memory(file: &File) -> io::Result<bool> {
    let kind = fstatfs(file)?.filesystem_type().0;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].contains(&(kind as u32)))
}

/// The alignment of direct I/O on `file`, with which `block_size` is to agree.
///
/// # Errors
/// `Failure::Unavailable` where there is no direct I/O, `Failure::Request` for a block size that is not a multiple of
/// the alignment.
pub fn aligned(file: &File, name: &str, block_size: u64) -> Result<Alignment, Failure> {
    let found = alignment(file).map_err(|error| Failure::system(name, error))?;
    let alignment = found.ok_or_else(|| {
        Failure::unavailable(
            format!("{name} lies on a file system without direct I/O"),
            "use a file on a disk, or another engine",
        )
    })?;
    if block_size % alignment.offset != 0 {
        return Err(Failure::request(
            "block_size",
            format!(
                "direct I/O on {name} takes multiples of {} bytes, not {block_size}",
                alignment.offset
            ),
        ));
    }
    Ok(alignment)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::unnamed;
    use super::*;

    #[test]
    fn a_file_in_memory_has_no_direct_access() {
        let file = unnamed("/dev/shm".as_ref()).unwrap();
        assert_eq!(alignment(&file).unwrap(), None);
        let refused = aligned(&file, "it", 4096).unwrap_err();
        assert!(matches!(refused, Failure::Unavailable { .. }), "{refused}");
    }
}
