//! Reading a file through the page cache in the way that is faster where the pass is: stretch by stretch through the
//! mapping or by pread(2).
//!
//! Which one wins depends on how the page cache holds the file. Of large folios a mapping takes one fault for many
//! pages and spares the copy; of single pages mapping costs more than copying (twice as fast the one way, 1.5 times the
//! other, on one machine and one file written twice). So both are tried on stretches of the file itself, whose bytes
//! count, and the slower one again now and then, as a file may have parts of either kind.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::blocks;
use super::mapped::Mapped;
use super::pass::{Pass, Tally};
use oscope_sys::error::Failure;

/// Bytes that one pread(2) asks for at most: its buffer stays in the second cache of most cores.
pub const BLOCK: u64 = 256 << 10;
/// Every so many stretches of a worker the slower way is tried again.
const AGAIN: u64 = 64;
/// Stretches, since the other way became the faster one, at which it is tried again before that: a single trial may
/// have met an interruption.
const SOON: [u64; 2] = [4, 16];

/// How a stretch is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Mapping,
    Copying,
}

/// What each way cost where it was tried last, for all workers of a pass: picoseconds a byte, 0 before the first trial.
#[derive(Debug, Default)]
pub struct Race {
    mapping: AtomicU64,
    copying: AtomicU64,
}

impl Race {
    fn cost(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::Mapping => &self.mapping,
            Way::Copying => &self.copying,
        }
    }

    /// The faster way, and the one for a worker's stretch, the `count`-th since that became the faster one.
    fn choose(&self, count: u64) -> (Way, Way) {
        let mapping = self.mapping.load(Ordering::Relaxed);
        let copying = self.copying.load(Ordering::Relaxed);
        let (faster, slower) = if mapping <= copying {
            (Way::Mapping, Way::Copying)
        } else {
            (Way::Copying, Way::Mapping)
        };
        let again = count % AGAIN == 0 || SOON.contains(&count);
        (faster, if again { slower } else { faster })
    }

    fn tell(&self, way: Way, bytes: u64, began: Instant) {
        let picoseconds = began.elapsed().as_nanos() as u64 * 1000;
        self.cost(way)
            .store((picoseconds / bytes.max(1)).max(1), Ordering::Relaxed);
    }
}

/// Read stretch after stretch, each of a pass's block.
///
/// # Errors
/// `Failure::Failed` with the offset of a page or block that cannot be had.
pub fn read(
    pass: &Pass,
    race: &Race,
    mapped: &Mapped,
    file: &File,
    buffer: &mut [u8],
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let (mut known, mut count) = (Way::Mapping, 1);
    while let Some(stretch) = pass.next_block() {
        let began = Instant::now();
        let (faster, way) = race.choose(count);
        if faster != known {
            (known, count) = (faster, 1);
        }
        match way {
            Way::Mapping => mapped.look_at_all(pass, file, stretch, &mut tally)?,
            Way::Copying => blocks::pread_one(pass, file, stretch, buffer, &mut tally)?,
        }
        race.tell(way, stretch.1 - stretch.0, began);
        count += 1;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ago(milliseconds: u64) -> Instant {
        Instant::now()
            .checked_sub(Duration::from_millis(milliseconds))
            .unwrap()
    }

    #[test]
    fn both_are_tried_then_the_faster_one_is_taken_and_the_other_tried_again() {
        for (fast, slow) in [(Way::Mapping, Way::Copying), (Way::Copying, Way::Mapping)] {
            let race = Race::default();
            for _ in 0..2 {
                let (_, way) = race.choose(1);
                race.tell(way, 1 << 20, ago(if way == fast { 10 } else { 2000 }));
            }
            let slower: Vec<u64> = (1..=2 * AGAIN)
                .filter(|&count| race.choose(count) == (fast, slow))
                .collect();
            assert_eq!(slower, [4, 16, AGAIN, 2 * AGAIN]);
        }
    }

    #[test]
    fn what_became_slower_is_left() {
        let race = Race::default();
        race.tell(Way::Mapping, 1 << 20, ago(10));
        race.tell(Way::Copying, 1 << 20, ago(2000));
        race.tell(Way::Mapping, 1 << 20, ago(60_000));
        assert_eq!(race.choose(1), (Way::Copying, Way::Copying));
    }
}
