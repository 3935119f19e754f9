//! What goes through a channel: a running pattern, so that bytes lost, doubled, moved or changed are seen.
//!
//! The stream is made of blocks of one length, the last of which may be cut short. A block begins with its number, in 8
//! bytes, least first; from there on, the bytes of its word number `i` are those of `(i + 1) * FACTOR`.

/// The golden ratio of 2^64, which makes successive words differ in all bytes.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bytes of a word, and of a block's number.
const WORD: usize = 8;

/// Bytes of word number `index` of a block.
fn word(index: usize) -> u64 {
    (index as u64 + 1).wrapping_mul(FACTOR)
}

/// Fill a block, all but its number.
pub fn fill(block: &mut [u8]) {
    for (index, bytes) in block.chunks_mut(WORD).enumerate() {
        let length = bytes.len();
        bytes.copy_from_slice(&word(index).to_le_bytes()[..length]);
    }
}

/// Write the number of a block at its beginning, as much of it as there is room for.
#[inline]
pub fn stamp(block: &mut [u8], number: u64) {
    let length = block.len().min(WORD);
    block[..length].copy_from_slice(&number.to_le_bytes()[..length]);
}

/// The offset of the first byte of `data` that is not what it must be at `offset` of a stream of blocks of `block`
/// bytes.
pub fn first_wrong(block: usize, offset: u64, data: &[u8]) -> Option<u64> {
    let mut done = 0;
    while done < data.len() {
        let at = offset + done as u64;
        let (number, within) = (at / block as u64, (at % block as u64) as usize);
        let length = (block - within).min(data.len() - done);
        let part = &data[done..done + length];
        if let Some(place) = wrong_in_block(number, within, part) {
            return Some(at + place as u64);
        }
        done += length;
    }
    None
}

/// The same within one block.
fn wrong_in_block(number: u64, within: usize, part: &[u8]) -> Option<usize> {
    // Whole words, past the number, are compared at once.
    let begin = within.max(WORD).next_multiple_of(WORD) - within;
    let begin = begin.min(part.len());
    let words = begin..begin + (part.len() - begin) / WORD * WORD;
    let differ = words_differ((within + words.start) / WORD, &part[words.clone()]);
    let byte_differs = |place: &usize| part[*place] != byte(number, within + *place);
    if differ {
        return (0..part.len()).find(byte_differs);
    }
    (0..words.start)
        .chain(words.end..part.len())
        .find(byte_differs)
}

fn words_differ(index: usize, bytes: &[u8]) -> bool {
    let mut expected = word(index);
    let mut differing = 0;
    for bytes in bytes.chunks_exact(WORD) {
        let mut found = [0; WORD];
        found.copy_from_slice(bytes);
        differing |= u64::from_le_bytes(found) ^ expected;
        expected = expected.wrapping_add(FACTOR);
    }
    differing != 0
}

/// The byte at this place of the block of this number.
fn byte(number: u64, within: usize) -> u8 {
    let value = if within < WORD {
        number
    } else {
        word(within / WORD)
    };
    value.to_le_bytes()[within % WORD]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(block: usize, total: usize) -> Vec<u8> {
        let mut template = vec![0; block];
        fill(&mut template);
        let mut bytes = Vec::new();
        for number in 0.. {
            if bytes.len() >= total {
                break;
            }
            stamp(&mut template, number);
            bytes.extend_from_slice(&template);
        }
        bytes.truncate(total);
        bytes
    }

    proptest! {
        #[test]
        fn what_was_sent_is_right_however_it_is_cut(block in 1usize..300, total in 1usize..2000, cut in 1usize..400) {
            let bytes = stream(block, total);
            for (number, piece) in bytes.chunks(cut).enumerate() {
                prop_assert_eq!(first_wrong(block, (number * cut) as u64, piece), None);
            }
        }

        #[test]
        fn each_bit_that_tips_is_found(
            block in 1usize..300,
            total in 1usize..2000,
            from in 0usize..2000,
            place in 0usize..2000,
            bit in 0u32..8,
        ) {
            let mut bytes = stream(block, total);
            let place = place % total;
            let from = from % (place + 1);
            bytes[place] ^= 1 << bit;
            prop_assert_eq!(first_wrong(block, from as u64, &bytes[from..]), Some(place as u64));
        }

        #[test]
        fn what_moved_is_found(block in 16usize..300, by in 1usize..299) {
            prop_assume!(by % block != 0);
            let bytes = stream(block, 2000);
            prop_assert!(first_wrong(block, 0, &bytes[by..]).is_some());
        }
    }

    #[test]
    fn blocks_that_change_places_are_found() {
        let bytes = stream(64, 256);
        assert_eq!(first_wrong(64, 0, &bytes[64..]), Some(0));
        assert_eq!(first_wrong(64, 64, &bytes[64..]), None);
    }
}
