//! The content of scratch files: a function of the offset, so that any part can be made and checked without the rest.
//!
//! It looks random, since some layers store zeros, repetition or compressible data in less than they pretend to.

/// Bytes in a word of the content.
const WORD: u64 = 8;
/// 2^64 divided by the golden ratio: the step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The 64-bit word at `index` (byte offset divided by 8), as SplitMix64 mixes it: number `index` of a fixed series that
/// passes for random.
#[inline(always)]
pub fn word(index: u64) -> u64 {
    let mut mixed = index.wrapping_add(1).wrapping_mul(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fill `block` with the content that begins `offset` bytes into the file; `offset` is a multiple of 8.
pub fn fill(offset: u64, block: &mut [u8]) {
    debug_assert_eq!(offset % WORD, 0);
    for (index, bytes) in block.chunks_mut(WORD as usize).enumerate() {
        let word = word(offset / WORD + index as u64).to_le_bytes();
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
}

/// Whether `data` is the content that begins `offset` bytes into the file; any offset.
pub fn matches(offset: u64, data: &[u8]) -> bool {
    let lead = (offset % WORD) as usize;
    let mut expected = vec![0; lead + data.len()];
    fill(offset - lead as u64, &mut expected);
    expected[lead..] == *data
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_part_is_that_of_the_whole(offset in 0usize..5000, length in 0usize..5000) {
            let mut whole = vec![0; 10_000];
            fill(0, &mut whole);
            prop_assert!(matches(offset as u64, &whole[offset..offset + length]));
        }

        #[test]
        fn a_wrong_bit_or_place_is_seen(offset in 0u64..5000, length in 16usize..500, wrong in 0usize..500) {
            let mut data = vec![0; length];
            fill(0, &mut data);
            prop_assert!(!matches(offset + 1, &data));
            data[wrong % length] ^= 1;
            prop_assert!(!matches(0, &data));
        }
    }
}
