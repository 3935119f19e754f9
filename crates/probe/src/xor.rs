//! The XOR of a stream's little-endian 32-bit words.
//!
//! XOR can be taken in any order, so the stream may be read in slices of any length, by several threads: the XOR of
//! what [`fold_at`] gives for each is that of the whole.

/// Words of 64 bits taken side by side: as many as fill 8 registers of 256 bits, so that no step waits for the one
/// before.
const LANES: usize = 32;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The XOR of the 32-bit words of a stream that is `data`; a short last word is padded with zeros.
#[inline]
pub fn fold(data: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has AVX2.
        return unsafe { fold_avx2(data) };
    }
    fold_words(data)
}

/// What `data`, which begins at byte `offset` of a stream, adds to the stream's XOR.
#[inline]
pub fn fold_at(data: &[u8], offset: u64) -> u32 {
    // A byte's place within its word is its place in the stream modulo 4.
    fold(data).rotate_left(8 * (offset % 4) as u32)
}

/// [`fold_words`], compiled for registers of 256 bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fold_avx2(data: &[u8]) -> u32 {
    fold_words(data)
}

#[inline(always)]
fn fold_words(data: &[u8]) -> u32 {
    let mut lanes = [0_u64; LANES];
    let mut blocks = data.chunks_exact(LANES * WORD);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(WORD)) {
            *lane ^= little_endian(word);
        }
    }
    let mut words = blocks.remainder().chunks_exact(WORD);
    // Not into a lane: one that is named by its number would keep all of them out of the registers.
    let mut rest = 0;
    for word in &mut words {
        rest ^= little_endian(word);
    }
    let mut last = [0; WORD];
    for (to, from) in last.iter_mut().zip(words.remainder()) {
        *to = *from;
    }
    let both = lanes
        .into_iter()
        .fold(rest ^ u64::from_le_bytes(last), |all, lane| all ^ lane);
    (both ^ (both >> 32)) as u32
}

/// The word that these 8 bytes are.
#[inline(always)]
fn little_endian(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a chunk is a word long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By its definition: byte by byte.
    fn by_definition(data: &[u8]) -> u32 {
        let bytes = data.iter().enumerate();
        bytes.fold(0, |all, (place, &byte)| {
            all ^ (u32::from(byte) << (8 * (place % 4)))
        })
    }

    proptest! {
        #[test]
        fn the_fold_is_that_of_the_definition(
            data in prop::collection::vec(any::<u8>(), 0..2000),
            start in 0_usize..64,
        ) {
            let data = &data[start.min(data.len())..];
            prop_assert_eq!(fold(data), by_definition(data));
            prop_assert_eq!(fold_words(data), by_definition(data));
        }

        #[test]
        fn slices_of_any_length_add_up_to_the_whole(
            data in prop::collection::vec(any::<u8>(), 1..2000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
            offset: u64,
        ) {
            let offset = offset / 2;
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(data.len())).collect();
            places.extend([0, data.len()]);
            places.sort_unstable();
            let sum = places.windows(2).fold(0, |all, ends| {
                all ^ fold_at(&data[ends[0]..ends[1]], offset + ends[0] as u64)
            });
            prop_assert_eq!(sum, fold_at(&data, offset));
            let before = vec![0; (offset % 4) as usize];
            prop_assert_eq!(sum, by_definition(&[before, data].concat()));
        }

        #[test]
        fn a_changed_byte_changes_the_fold(
            mut data in prop::collection::vec(any::<u8>(), 1..2000),
            place: prop::sample::Index,
            flip in 1_u8..,
        ) {
            let before = fold(&data);
            let place = place.index(data.len());
            data[place] ^= flip;
            prop_assert_ne!(fold(&data), before);
        }
    }

    #[test]
    fn every_short_length_is_right() {
        let data: Vec<u8> = (0..5000_u32)
            .map(|place| (place * 167 + 13) as u8)
            .collect();
        for length in 0..data.len() {
            assert_eq!(
                fold(&data[..length]),
                by_definition(&data[..length]),
                "{length}"
            );
        }
    }

    #[test]
    fn nothing_and_a_short_word_are_padded_with_zeros() {
        assert_eq!(fold(&[]), 0);
        assert_eq!(fold(&[1, 2, 3]), 0x0003_0201);
        assert_eq!(fold(&[1, 2, 3, 4, 5]), 0x0403_0204);
        assert_eq!(fold_at(&[0xab], 7), 0xab00_0000);
    }
}
