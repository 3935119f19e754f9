//! What the model of the caches counts for the very addresses of a walk.

use std::time::Instant;

use super::area::FLUSHED_BYTES;
use super::walk::{Accesses, Bases, LINE_BYTES, WALKS, lines};
use crate::cache_model::{Counts, Geometry, Model};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// The metrics of [`Simulated`].
pub const NAMES: [&str; 9] = [
    "simulated_l1d_read_access",
    "simulated_l1d_write_access",
    "simulated_l1d_read_miss",
    "simulated_l1d_write_miss",
    "simulated_l2_miss",
    "simulated_dtlb_read_miss",
    "simulated_dtlb_write_miss",
    "simulated_stlb_miss",
    "simulation_rate",
];

/// Where what is simulated lay, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The memory that was walked.
    pub walked: u64,
    /// The buffer that flushed the caches.
    pub flushed: u64,
}

/// What the model counted for the walk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// The counts.
    pub counts: Counts,
    /// Accesses simulated in a second.
    pub rate: f64,
}

impl Simulated {
    /// Feed an empty model with the flush, uncounted, and with the walk over `sets` working sets.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is no model of this geometry; `Failure::Failed` after a signal, or if an
    /// access was not counted.
    pub fn of(
        geometry: &Geometry,
        page: u64,
        at: Addresses,
        mut bases: Bases,
        sets: u64,
    ) -> Result<Self, Failure> {
        let mut model = Model::new(geometry, page)?;
        for place in (0..FLUSHED_BYTES).step_by(LINE_BYTES as usize) {
            model.write(at.flushed + place);
        }
        model.reset_counts();
        let began = Instant::now();
        for _ in 0..sets {
            if cancel::requested() {
                return Err(Failure::failed("interrupted by a signal"));
            }
            walk_set(&mut model, at.walked + bases.next());
        }
        let seconds = began.elapsed().as_secs_f64();
        let counts = model.counts();
        let accesses = Accesses::of(sets);
        if (counts.l1d_reads, counts.l1d_writes) != (accesses.reads, accesses.writes) {
            return Err(Failure::failed(format!(
                "the model counted {} reads and {} writes, not {} and {}",
                counts.l1d_reads, counts.l1d_writes, accesses.reads, accesses.writes
            )));
        }
        Ok(Self {
            counts,
            rate: accesses.all() as f64 / seconds,
        })
    }

    /// Its metrics.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let counts = self.counts;
        let values = [
            counts.l1d_reads,
            counts.l1d_writes,
            counts.l1d_read_misses,
            counts.l1d_write_misses,
            counts.l2_misses,
            counts.dtlb_read_misses,
            counts.dtlb_write_misses,
            counts.stlb_misses,
        ];
        let values = values.map(|value| value as f64).into_iter();
        NAMES.into_iter().zip(values.chain([self.rate]))
    }
}

/// One working set, in the order in which it is walked.
#[inline(never)]
fn walk_set(model: &mut Model, base: u64) {
    for _ in 0..WALKS {
        for (address, writes) in lines(base) {
            if writes {
                model.write(address);
            } else {
                model.read(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::{Footprint, Pattern};
    use super::*;

    #[test]
    fn the_misses_of_a_walk_are_those_that_reason_gives() {
        let geometry = Geometry::named("zen3").expect("it is in the table");
        let at = Addresses {
            walked: 1 << 30,
            flushed: 1 << 40,
        };
        let bases = Bases::new(Pattern::Seq, Footprint::Full, 16 << 20);
        let simulated = Simulated::of(&geometry, 4096, at, bases, 100).expect("it works");
        // A working set at a multiple of its length fits exactly into 32 KiB: it misses in its first walk only.
        assert_eq!(simulated.counts.l1d_read_misses, 100 * 448);
        assert_eq!(simulated.counts.l1d_write_misses, 100 * 64);
        assert_eq!(simulated.counts.l2_misses, 100 * 512);
        let tlb = simulated.counts.dtlb_read_misses + simulated.counts.dtlb_write_misses;
        assert_eq!(tlb, 100 * 8, "a miss for each page");
        assert_eq!(simulated.metrics().count(), NAMES.len());
        assert!(simulated.rate > 0.0);
    }
}
