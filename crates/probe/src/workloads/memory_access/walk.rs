//! `do_mem_access` of CS380L lab 2 (docs/sources.md): working sets of 512 lines, each walked 16 times, one line in 8
//! written and the others read.

use std::hint::black_box;
use std::ptr::{read_volatile, write_volatile};

use crate::pressure::xorshift::Xorshift;
use crate::steps::opaque;

use serde::Deserialize;

/// Bytes of a cache line, as in CS380L lab 2.
pub const LINE_BYTES: u64 = 64;
/// Lines of a working set.
pub const SET_LINES: u64 = 512;
/// How often a working set is walked.
pub const WALKS: u64 = 16;
/// Of so many lines, the first is written.
pub const WRITE_EACH: u64 = 8;
/// What is written.
pub const WRITTEN: u8 = 1;

/// How the next working set is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Each begins where the last one ended.
    Seq,
    /// Each begins anywhere.
    Random,
}

/// How much of the memory the working sets can lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Footprint {
    /// All of it.
    Full,
    /// An error of CS380L lab 2: the base, which counts lines, is added as if it counted bytes.
    First64th,
}

/// Where the working sets begin, in their order: the same in the measured walk, in its check, and in its simulation.
#[derive(Debug, Clone)]
pub struct Bases {
    pattern: Pattern,
    /// Bytes that a base of 1 stands for.
    unit: u64,
    /// Bases lie below, in lines. Of `u32` as the `int` and the random numbers of CS380L lab 2 are.
    most: u32,
    base: u32,
    random: Xorshift,
}

impl Bases {
    /// Those of a walk over `size` bytes: at least two working sets, at most 2^37.
    pub fn new(pattern: Pattern, footprint: Footprint, size: u64) -> Self {
        Self {
            pattern,
            unit: match footprint {
                Footprint::Full => LINE_BYTES,
                Footprint::First64th => 1,
            },
            most: (size / LINE_BYTES - SET_LINES) as u32,
            base: 0,
            random: Xorshift::new(),
        }
    }

    /// Working sets after which they begin again, in sequence; at random they never do.
    pub fn cycle(&self) -> Option<u64> {
        let cycle = u64::from(self.most).div_ceil(SET_LINES);
        (self.pattern == Pattern::Seq).then_some(cycle)
    }

    /// Bytes in which all working sets lie.
    pub fn reach(&self) -> u64 {
        u64::from(self.most - 1) * self.unit + SET_LINES * LINE_BYTES
    }

    /// Where the next working set begins, in bytes.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        // Generated in both cases, so that they differ by the pattern only.
        let drawn = black_box(self.random.draw() % self.most);
        self.base = match self.pattern {
            Pattern::Random => drawn,
            Pattern::Seq => match self.base + SET_LINES as u32 {
                base if base >= self.most => 0,
                base => base,
            },
        };
        u64::from(self.base) * self.unit
    }
}

/// Walk `sets` working sets from `start` on; how many it were.
///
/// # Safety
/// From `start` on there is writable memory of the size that `bases` were made for, which nothing else refers to.
#[inline(never)]
pub unsafe fn walk(start: *mut u8, mut bases: Bases, sets: u64) -> u64 {
    let mut done = 0;
    while done < sets {
        let base = bases.next() as usize;
        // SAFETY: a base lies at least a working set before the end.
        unsafe { walk_set(start.add(base)) };
        done += 1;
    }
    done
}

/// As [`walk`], with something done after each set.
///
/// # Safety
/// As there.
#[inline(never)]
pub unsafe fn walk_with_pauses(
    start: *mut u8,
    mut bases: Bases,
    sets: u64,
    pause: impl Fn(),
) -> u64 {
    for _ in 0..sets {
        let base = bases.next() as usize;
        // SAFETY: a base lies at least a working set before the end.
        unsafe { walk_set(start.add(base)) };
        pause();
    }
    sets
}

/// One working set. The compiler can neither unroll nor merge what `opaque` counts: with gcc -O2 it does not either,
/// and each access costs a handful of instructions beside it, of which one is a jump taken.
///
/// # Safety
/// From `start` on there are 512 lines of writable memory, which nothing else refers to.
#[inline(always)]
unsafe fn walk_set(start: *mut u8) {
    let mut walk = 0;
    while walk < WALKS {
        let mut place = start;
        let mut line = 0;
        while line < SET_LINES {
            // SAFETY: it is a line of the set.
            unsafe { write_volatile(place, WRITTEN) };
            place = place.wrapping_add(LINE_BYTES as usize);
            line = opaque(line + 1);
            while line % WRITE_EACH != 0 {
                // SAFETY: as above.
                unsafe { read_volatile(place) };
                place = place.wrapping_add(LINE_BYTES as usize);
                line = opaque(line + 1);
            }
        }
        walk = opaque(walk + 1);
    }
}

/// How often memory is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accesses {
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

impl Accesses {
    /// Of walks over so many working sets.
    pub fn of(sets: u64) -> Self {
        let all = sets * WALKS * SET_LINES;
        let writes = all / WRITE_EACH;
        Self {
            reads: all - writes,
            writes,
        }
    }

    /// Both.
    pub fn all(self) -> u64 {
        self.reads + self.writes
    }
}

/// The offsets of the lines that a walk over the working set at `base` accesses, and whether it writes them.
pub fn lines(base: u64) -> impl Iterator<Item = (u64, bool)> {
    (0..SET_LINES).map(move |line| (base + line * LINE_BYTES, line % WRITE_EACH == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    #[test]
    fn the_bases_are_those_of_the_document() {
        let take = |pattern, footprint, size, count| -> Vec<u64> {
            let mut bases = Bases::new(pattern, footprint, size);
            (0..count).map(|_| bases.next()).collect()
        };
        // 256 KiB: 4096 lines, bases below 3584.
        let seq = take(Pattern::Seq, Footprint::First64th, 256 << 10, 8);
        assert_eq!(seq, [512, 1024, 1536, 2048, 2560, 3072, 0, 512]);
        let full = take(Pattern::Seq, Footprint::Full, 256 << 10, 8);
        assert_eq!(full, seq.iter().map(|base| base * 64).collect::<Vec<_>>());
        assert_eq!(take(Pattern::Seq, Footprint::Full, 64 << 10, 2), [0, 0]);
        // The first numbers that the C code in Marsaglia's paper prints.
        let drawn = [3_701_687_786_u64, 458_299_110, 2_500_872_618].map(|number| number % 3584);
        assert_eq!(
            take(Pattern::Random, Footprint::First64th, 256 << 10, 3),
            drawn
        );
        assert_eq!(
            Bases::new(Pattern::Seq, Footprint::Full, 256 << 10).cycle(),
            Some(7)
        );
    }

    #[test]
    fn the_formula_counts_what_a_counting_walk_counts() {
        let mut counted = Accesses::default();
        let mut bases = Bases::new(Pattern::Random, Footprint::Full, SIZE);
        for _ in 0..10 {
            let base = bases.next();
            for _ in 0..WALKS {
                for (_, writes) in lines(base) {
                    *(if writes {
                        &mut counted.writes
                    } else {
                        &mut counted.reads
                    }) += 1;
                }
            }
        }
        assert_eq!(Accesses::of(10), counted);
        let document = Accesses::of(1 << 20);
        assert_eq!(
            (document.reads, document.writes),
            (7_516_192_768, 1_073_741_824)
        );
        assert_eq!(document.all(), (1 << 20) * 16 * 512);
    }

    /// Every byte of the memory is as the lines say: nothing else is written, and nothing is left out.
    #[test]
    fn the_walk_writes_where_it_must_and_nowhere_else() {
        for pattern in [Pattern::Seq, Pattern::Random] {
            for footprint in [Footprint::Full, Footprint::First64th] {
                let bases = Bases::new(pattern, footprint, SIZE);
                let mut memory = vec![0_u8; SIZE as usize];
                // SAFETY: the memory is of the size that the bases were made for.
                let done = unsafe { walk(memory.as_mut_ptr(), bases.clone(), 5) };
                assert_eq!(done, 5);
                let mut expected = vec![0_u8; SIZE as usize];
                let mut bases = bases;
                for _ in 0..5 {
                    for (place, writes) in lines(bases.next()) {
                        if writes {
                            expected[place as usize] = WRITTEN;
                        }
                    }
                }
                assert!(memory == expected, "{pattern:?} {footprint:?}");
            }
        }
    }

    #[test]
    fn no_working_set_reaches_beyond_the_memory() {
        for size in [64 << 10, 68 << 10, SIZE] {
            for pattern in [Pattern::Seq, Pattern::Random] {
                let mut bases = Bases::new(pattern, Footprint::Full, size);
                for _ in 0..10_000 {
                    let last = lines(bases.next()).last().expect("there are lines").0;
                    assert!(last < size);
                }
            }
        }
    }
}
