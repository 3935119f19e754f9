//! What one thread does with its share of the memory, and how it is proved.

use std::hint::black_box;

use crate::xor;
use oscope_sys::cancel;

/// Bytes handled between two looks at whether a signal came. The C library copies past the caches from a length on that
/// may be hundreds of MiB (`glibc.cpu.x86_non_temporal_threshold`, three quarters of the last cache), so that shorter
/// pieces would be other copying than asked for.
const STRIDE_BYTES: usize = 1 << 30;
/// Bytes from one sampled byte of what was written to the next: somewhat less than a page, so that each page has one,
/// at another place.
const SAMPLE_STRIDE: usize = 4093;

/// The share of one thread.
#[derive(Debug)]
pub enum Share<'a> {
    /// The XOR of all words of `source` is taken.
    Read {
        /// What is read.
        source: &'a [u8],
        /// Its XOR.
        expected: u32,
    },
    /// All of `destination` is set to one byte.
    Write {
        /// What is written.
        destination: &'a mut [u8],
        /// What the last pass writes; those before write its complement.
        mark: u8,
    },
    /// `source` is copied into `window`, which starts anew as often as it is full.
    Copy {
        /// What is read.
        source: &'a [u8],
        /// What is written, no longer than the source.
        window: &'a mut [u8],
    },
}

/// What a thread did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Bytes read, written or copied.
    pub bytes: u64,
    /// Passes whose XOR was not the one expected.
    pub wrong: u64,
}

impl Share<'_> {
    /// Go over the share so many times, or until a signal comes.
    pub fn passes(&mut self, count: u64) -> Tally {
        let mut tally = Tally::default();
        for left in (0..count).rev() {
            if cancel::requested() {
                break;
            }
            tally.bytes += match self {
                Self::Read { source, expected } => {
                    let (bytes, folded) = read(source);
                    tally.wrong += u64::from(folded != *expected);
                    bytes
                }
                Self::Write { destination, mark } => {
                    write(destination, if left == 0 { *mark } else { !*mark })
                }
                Self::Copy { source, window } => copy(source, window),
            };
        }
        tally
    }

    /// Make sure that what was copied before cannot be taken for what is copied next.
    pub fn spoil(&mut self) {
        if let Self::Copy { source, window } = self {
            for place in samples(window.len()) {
                window[place] = !last_copied(source, window.len(), place);
            }
        }
    }

    /// The first sampled byte of the destination that is not what it must be after the last pass.
    pub fn first_wrong(&self) -> Option<usize> {
        match self {
            Self::Read { .. } => None,
            Self::Write { destination, mark } => {
                samples(destination.len()).find(|&place| destination[place] != *mark)
            }
            Self::Copy { source, window } => samples(window.len())
                .find(|&place| window[place] != last_copied(source, window.len(), place)),
        }
    }
}

/// Bytes read and their XOR, which is that of the source if no signal came.
fn read(source: &[u8]) -> (u64, u32) {
    let (mut bytes, mut folded) = (0, 0);
    for piece in source.chunks(STRIDE_BYTES) {
        if cancel::requested() {
            break;
        }
        // A piece is a whole number of words, so that the XORs add up as they are. The compiler must not know one
        // pass's from another's.
        folded ^= xor::fold(black_box(piece));
        bytes += piece.len() as u64;
    }
    (bytes, folded)
}

fn write(destination: &mut [u8], value: u8) -> u64 {
    let mut bytes = 0;
    for piece in destination.chunks_mut(STRIDE_BYTES) {
        if cancel::requested() {
            break;
        }
        piece.fill(value);
        bytes += black_box(piece).len() as u64;
    }
    bytes
}

fn copy(source: &[u8], window: &mut [u8]) -> u64 {
    let mut bytes = 0;
    for turn in source.chunks(window.len()) {
        for (from, into) in turn
            .chunks(STRIDE_BYTES)
            .zip(window.chunks_mut(STRIDE_BYTES))
        {
            if cancel::requested() {
                return bytes;
            }
            into[..from.len()].copy_from_slice(from);
            black_box(into);
            bytes += from.len() as u64;
        }
    }
    bytes
}

/// What was copied to `place` of a window of so many bytes last, in a whole pass over `source`.
fn last_copied(source: &[u8], window: usize, place: usize) -> u8 {
    let turns = (source.len() - 1 - place) / window;
    source[turns * window + place]
}

/// The places that are looked at, the first and the last among them.
fn samples(length: usize) -> impl Iterator<Item = usize> {
    (0..length)
        .step_by(SAMPLE_STRIDE)
        .chain(length.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_window_ends_up_as_copying_byte_by_byte_leaves_it(
            source in prop::collection::vec(any::<u8>(), 1..500),
            window: prop::sample::Index,
        ) {
            let length = window.index(source.len()) + 1;
            let mut expected = vec![0; length];
            for (place, byte) in source.iter().enumerate() {
                expected[place % length] = *byte;
            }
            let mut window = vec![0; length];
            prop_assert_eq!(copy(&source, &mut window), source.len() as u64);
            prop_assert_eq!(&window, &expected);
            for (place, byte) in expected.iter().enumerate() {
                prop_assert_eq!(last_copied(&source, length, place), *byte);
            }
        }
    }

    #[test]
    fn a_wrong_word_is_counted_in_each_pass() {
        let mut source = vec![3; 1 << 16];
        let expected = xor::fold(&source);
        let passes = |source: &[u8]| Share::Read { source, expected }.passes(3);
        let (bytes, wrong) = (3 << 16, 0);
        assert_eq!(passes(&source), Tally { bytes, wrong });
        source[777] = 4;
        assert_eq!(passes(&source), Tally { bytes, wrong: 3 });
    }

    #[test]
    fn what_was_not_written_is_seen_on_every_page() {
        let mut destination = vec![0; 10 * 4096];
        let mut share = Share::Write {
            destination: &mut destination,
            mark: 7,
        };
        assert_eq!(share.first_wrong(), Some(0));
        assert_eq!(share.passes(2).bytes, 2 * 10 * 4096);
        assert_eq!(share.first_wrong(), None);
        for page in 0..10 {
            let mut spoilt = destination.clone();
            spoilt[page * 4096..(page + 1) * 4096].fill(!7);
            let share = Share::Write {
                destination: &mut spoilt,
                mark: 7,
            };
            assert_eq!(share.first_wrong().map(|place| place / 4096), Some(page));
        }
    }

    #[test]
    fn an_old_copy_is_not_taken_for_a_new_one() {
        let source: Vec<u8> = (0..100_000_u32).map(|place| (place * 31) as u8).collect();
        for length in [1, 64, 4096, 30_000, 100_000] {
            let mut window = vec![0; length];
            let mut share = Share::Copy {
                source: &source,
                window: &mut window,
            };
            for _ in 0..2 {
                share.spoil();
                assert_eq!(share.first_wrong(), Some(0));
                assert_eq!(share.passes(1).bytes, 100_000);
                assert_eq!(share.first_wrong(), None);
            }
        }
    }
}
