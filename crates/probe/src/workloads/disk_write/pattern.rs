//! What is written: random bytes, in which each page of 4 KiB has a stamp of its own.
//!
//! Some layers store zeros, repetitions or equal pages in less than they pretend to. Making all of it anew inside the
//! clock would cost more than some writes do, so that 1 MiB of random bytes is made beforehand and repeated, and only
//! the stamps are new: 8 B in 4 KiB.

use crate::disk::content;

/// Bytes after which the random bytes repeat: more than layers that compress look at together (128 KiB in Btrfs and ZFS
/// by default).
const PERIOD: u64 = 1 << 20;
/// Bytes with a stamp of their own, the unit in which layers look for equal data at the finest.
const PAGE: u64 = 4096;
/// Bytes of a stamp.
const STAMP: usize = size_of::<u64>();
/// Alignment of the memory, in bytes, which direct I/O asks for.
const ALIGNMENT: usize = 64 << 10;

/// The content of a file, any block of which can be had.
#[derive(Debug)]
pub struct Pattern {
    memory: Vec<u8>,
    /// Where in `memory` its aligned part begins.
    start: usize,
    salt: u64,
}

impl Pattern {
    /// Content that can be had in blocks of `largest` bytes at most.
    pub fn new(largest: usize) -> Self {
        let length = PERIOD as usize + largest + STAMP;
        let mut memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let aligned = &mut memory[start..start + length];
        for period in aligned.chunks_mut(PERIOD as usize) {
            content::fill(0, period);
        }
        Self {
            memory,
            start,
            salt: 0,
        }
    }

    /// Have other stamps from now on: those of `salt`.
    pub fn renew(&mut self, salt: u64) {
        self.salt = salt;
    }

    /// The `length` bytes at `offset` in the file. Their address is as aligned as the offset is, up to 64 KiB.
    #[inline(always)]
    pub fn block(&mut self, offset: u64, length: usize) -> &[u8] {
        let place = self.start + (offset % PERIOD) as usize;
        let within = (offset % PAGE) as usize;
        let (mut page, mut stamp) = (offset / PAGE, place - within);
        if within >= STAMP {
            (page, stamp) = (page + 1, stamp + PAGE as usize);
        }
        while stamp < place + length {
            let bytes = (page ^ self.salt).to_le_bytes();
            self.memory[stamp..stamp + STAMP].copy_from_slice(&bytes);
            (page, stamp) = (page + 1, stamp + PAGE as usize);
        }
        &self.memory[place..place + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By its definition: byte by byte.
    fn by_definition(salt: u64, offset: u64) -> u8 {
        let within = (offset % PAGE) as usize;
        if within < STAMP {
            return ((offset / PAGE) ^ salt).to_le_bytes()[within];
        }
        let word = offset % PERIOD / 8 * 8;
        let mut bytes = [0; 8];
        content::fill(word, &mut bytes);
        bytes[(offset % 8) as usize]
    }

    proptest! {
        #[test]
        fn blocks_in_any_order_are_those_of_the_definition(
            blocks in prop::collection::vec((0_u64..3 * PERIOD, 0_usize..10_000), 1..20), salt: u64
        ) {
            let mut pattern = Pattern::new(10_000);
            pattern.renew(salt);
            for (offset, length) in blocks {
                let expected: Vec<u8> = (offset..offset + length as u64).map(|at| by_definition(salt, at)).collect();
                prop_assert_eq!(pattern.block(offset, length), &expected[..]);
            }
        }
    }

    #[test]
    fn aligned_offsets_have_aligned_addresses() {
        let mut pattern = Pattern::new(4096);
        for offset in [0, 512, 4096, 5 * PERIOD + 65536] {
            let address = pattern.block(offset, 512).as_ptr().addr() as u64;
            assert_eq!(address % 65536, offset % 65536);
        }
    }

    #[test]
    fn no_two_pages_are_equal() {
        let mut pattern = Pattern::new(PAGE as usize);
        let mut pages: Vec<Vec<u8>> = (0..3 * PERIOD / PAGE)
            .map(|page| pattern.block(page * PAGE, PAGE as usize).to_vec())
            .collect();
        let all = pages.len();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), all);
    }
}
