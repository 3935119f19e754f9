//! What direct I/O asks of addresses and lengths.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use crate::error::Failure;

/// Alignment that suits every device so far, where the kernel does not tell what is needed (before Linux 6.1).
const COMMON: u32 = 4096;

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
/// What statx(2) answers.
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

/// The alignment of direct I/O on `file`, with which `block_size` is to agree.
///
/// # Errors
/// `Failure::Unavailable` where there is no direct I/O, `Failure::Request` for a block size that is not a multiple of the alignment.
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
