//! The digests of a content by block: what has changed since an older one, and the digest of the whole.
//!
//! BLAKE3 is a tree (<https://github.com/BLAKE3-team/BLAKE3-specs>, 2.1): the values of its subtrees show which parts
//! differ, and together they make the digest of the whole, so that a content is read and hashed once for both.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::digest::Digest;

/// Bytes of a block: what is sent at least for a change. A subtree of BLAKE3 (1024 times a power of two), and what
/// every SFTP server takes in one write.
pub const BLOCK: u64 = 32 << 10;

/// A smaller content goes whole.
pub const LEAST: u64 = 4 * BLOCK;

/// Blocks read at once.
const AT_ONCE: usize = 8;

/// The digests of the blocks of one content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    size: u64,
    values: Vec<ChainingValue>,
}

impl Blocks {
    /// Those of what a file holds; `None` if it is small, or its size changed meanwhile.
    ///
    /// # Errors
    /// Those of fstat(2) and read(2).
    pub fn of(file: &File) -> io::Result<Option<Self>> {
        let size = file.metadata()?.len();
        if size < LEAST {
            return Ok(None);
        }
        let mut blocks = Self {
            size,
            values: Vec::new(),
        };
        let mut buffer = vec![0; AT_ONCE * BLOCK as usize];
        let mut offset = 0;
        while offset < size {
            let part = &mut buffer[..length(size - offset, AT_ONCE as u64 * BLOCK)];
            if read(file, part, offset)? < part.len() {
                return Ok(None);
            }
            for block in part.chunks(BLOCK as usize) {
                let value = value(offset, block);
                blocks.values.push(value);
                offset += block.len() as u64;
            }
        }
        Ok(Some(blocks))
    }

    /// Bytes of the content.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The digest of the whole content, as of [`crate::digest::Hasher`].
    pub fn digest(&self) -> Digest {
        let (left, right, left_size) = halves(&self.values, self.size);
        let right_size = self.size - left_size;
        let (left, right) = (subtree(left, left_size), subtree(right, right_size));
        let whole = merge_subtrees_root(&left, &right, Mode::Hash);
        let mut digest = [0; 16];
        digest.copy_from_slice(&whole.as_bytes()[..16]);
        digest
    }

    /// The bytes in blocks that `old` has otherwise or not at all, in sequence.
    pub fn changed_since(&self, old: &Self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (index, value) in self.values.iter().enumerate() {
            if old.values.get(index) == Some(value) {
                continue;
            }
            let start = index as u64 * BLOCK;
            let end = (start + BLOCK).min(self.size);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// From `offset` on, where a block begins, the content is these whole blocks.
    pub fn replace(&mut self, offset: u64, bytes: &[u8]) {
        let first = usize::try_from(offset / BLOCK).unwrap_or(usize::MAX);
        let places = self.values.iter_mut().skip(first);
        for ((place, block), index) in places.zip(bytes.chunks(BLOCK as usize)).zip(0..) {
            *place = value(offset + index * BLOCK, block);
        }
    }
}

/// Read until the buffer is full or the file ends: how much.
///
/// # Errors
/// Those of read(2).
pub fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// `left`, or `most` if that is less, as a length in memory.
fn length(left: u64, most: u64) -> usize {
    usize::try_from(left.min(most)).unwrap_or(usize::MAX)
}

/// The value of one block at its place.
fn value(offset: u64, block: &[u8]) -> ChainingValue {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset).update(block);
    hasher.finalize_non_root()
}

/// The two subtrees of more than one block, and the bytes of the left one.
fn halves(values: &[ChainingValue], size: u64) -> (&[ChainingValue], &[ChainingValue], u64) {
    let left = left_subtree_len(size);
    let (first, second) = values.split_at(usize::try_from(left / BLOCK).unwrap_or(usize::MAX));
    (first, second, left)
}

/// The value of a subtree that is not the whole.
fn subtree(values: &[ChainingValue], size: u64) -> ChainingValue {
    if let [only] = values {
        return *only;
    }
    let (left, right, left_size) = halves(values, size);
    let (left, right) = (subtree(left, left_size), subtree(right, size - left_size));
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::{BLOCK, Blocks, LEAST};
    use crate::store;
    use crate::testing::{contents, file_of};

    fn blocks(bytes: &[u8]) -> Blocks {
        Blocks::of(&file_of(bytes)).unwrap().unwrap()
    }

    #[test]
    fn the_digest_of_the_whole_is_that_of_one_pass() {
        let all = contents(3_000_001);
        for size in [
            LEAST,
            LEAST + 1,
            5 * BLOCK,
            8 * BLOCK - 1,
            8 * BLOCK,
            9 * BLOCK + 7,
            3_000_001,
        ] {
            let bytes = &all[..size as usize];
            let wanted = store::digest(&file_of(bytes)).unwrap();
            assert_eq!(blocks(bytes).digest(), wanted, "{size}");
        }
        assert!(
            Blocks::of(&file_of(&all[..LEAST as usize - 1]))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn what_changed_is_found_by_block() {
        let old = contents(10 * BLOCK as usize + 5);
        let mut new = old.clone();
        assert!(blocks(&new).changed_since(&blocks(&old)).is_empty());
        new[BLOCK as usize - 1] ^= 1;
        new[BLOCK as usize] ^= 1;
        new[7 * BLOCK as usize + 3] ^= 1;
        new.extend([0; 3]);
        let size = new.len() as u64;
        let wanted = vec![0..2 * BLOCK, 7 * BLOCK..8 * BLOCK, 10 * BLOCK..size];
        assert_eq!(blocks(&new).changed_since(&blocks(&old)), wanted);
        // Cut, the last block is another one unless it ends where one did.
        assert!(
            blocks(&old[..6 * BLOCK as usize])
                .changed_since(&blocks(&old))
                .is_empty()
        );
        let cut = blocks(&old[..6 * BLOCK as usize + 9]);
        assert_eq!(
            cut.changed_since(&blocks(&old)),
            vec![6 * BLOCK..6 * BLOCK + 9]
        );
    }

    #[test]
    fn a_block_that_is_replaced_counts_for_the_whole() {
        let old = contents(10 * BLOCK as usize + 5);
        let new = file_of(&old);
        let mut known = blocks(&old);
        for (block, length) in [(0, 2 * BLOCK), (10, 5)] {
            let bytes = vec![7; length as usize];
            new.write_all_at(&bytes, block * BLOCK).unwrap();
            known.replace(block * BLOCK, &bytes);
        }
        assert_eq!(known, Blocks::of(&new).unwrap().unwrap());
    }
}
