//! Holes of sparse files: where the file system says that there are no data, and what such a file is digested by.
//!
//! A hole is neither read, moved nor written. So that a file of terabytes with few data is verified as fast as it is
//! moved, its digest is that of its data with their places, in one form whatever holes a file system has: the blocks
//! that are not all zeros, those beside each other within [`WINDOW`] together, each time with the offset and the count
//! of bytes before them; and the file's size at the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::place::{self, READ};
use super::wire::{BLOCK, SEGMENT};

/// Bytes of the file, from a multiple of them on, of which the data are digested together.
pub const WINDOW: u64 = 256 << 10;

/// The next data of a file: where they begin, and where they end; both at its size if there are no more.
///
/// # Errors
/// Those of lseek(2) except `ENXIO`.
pub fn next_data(file: &File, at: u64, size: u64) -> io::Result<(u64, u64)> {
    let Some(data) = seek(file, at, Whence::SeekData)?.filter(|&data| data < size) else {
        return Ok((size, size));
    };
    let begin = at.max(data - data % BLOCK);
    // Without a hole behind them the data end with the file, which may have shrunk meanwhile.
    let hole = seek(file, data, Whence::SeekHole)?.unwrap_or(size);
    let end = hole.max(begin + 1).next_multiple_of(BLOCK).min(size);
    Ok((begin, end))
}

/// An offset from which on something is, `None` if that is nowhere. The descriptor's own offset is used for nothing
/// else.
fn seek(file: &File, at: u64, whence: Whence) -> io::Result<Option<u64>> {
    let offset = i64::try_from(at).map_err(io::Error::other)?;
    match lseek(file, offset, whence) {
        Ok(found) => Ok(u64::try_from(found).ok()),
        Err(Errno::ENXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a file has a hole, at a path that is followed so far ([`place`]). One that is compressed has fewer blocks
/// than bytes, too, and none.
pub fn has_some(path: &Path, followed: usize, meta: &std::fs::Metadata) -> bool {
    if meta.blocks().saturating_mul(512) >= meta.len() {
        return false;
    }
    // One that cannot be opened or searched is sent as others are, where the
    // reason is reported.
    let hole = place::open(path, followed, READ)
        .map_err(io::Error::from)
        .and_then(|file| seek(&File::from(file), 0, Whence::SeekHole));
    matches!(hole, Ok(Some(at)) if at < meta.len())
}

/// Whether a sparse file's part may have such a length: nobody sends a byte a part.
pub fn is_part(at: u64, length: u64, left: u64) -> bool {
    length > 0 && length <= left && (length == left || (at + length) % BLOCK == 0)
}

/// As [`is_part`], of data.
pub fn is_data(at: u64, length: u64, left: u64) -> bool {
    length <= SEGMENT as u64 && is_part(at, length, left)
}
