//! The digest that shows whether the content of a copy has changed.

use std::fs::File;
use std::io;

use crate::blocks::read;
use crate::digest::{Digest, Hasher};

/// Bytes read at a time: few enough for a processor's own cache, enough for BLAKE3 to use wide instructions.
const CHUNK_BYTES: usize = 256 << 10;

/// Digest of the whole content of `file`. It is read at offsets: the file's own
/// offset stays where it is.
///
/// # Errors
/// Those of read(2).
pub fn digest(file: &File) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    // No more than there is, and one byte to see its end by: a buffer that is too large costs a small file more than
    // its reading.
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(CHUNK_BYTES);
    let mut chunk = vec![0; size.saturating_add(1).min(CHUNK_BYTES)];
    let mut offset = 0;
    loop {
        let count = read(file, &mut chunk, offset)?;
        hasher.update(&chunk[..count]);
        offset += count as u64;
        if count < chunk.len() {
            break;
        }
    }
    Ok(hasher.finish())
}
