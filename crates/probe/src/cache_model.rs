//! A model of the data caches and data TLBs of one core, fed with addresses: what they would count.
//!
//! Its figures are simulated, not measured, and are marked so wherever they stand. An access is of one byte, and is
//! translated first:
//!
//! - the dTLB, in which a miss goes to the second-level TLB, whose miss is a walk of the page tables;
//! - then the L1D, in which a miss goes to the L2.
//!
//! Each is a set-associative store with true least-recently-used replacement, empty at first. Both caches allocate on a
//! read and on a write (write-allocate, write-back). A line leaves the L1D without touching the L2, and the L2 without
//! touching the L1D: neither inclusive nor exclusive.
//!
//! What a real core has and the model has not: the prefetchers; accesses on a mispredicted path; replacement that only
//! comes near to LRU; the accesses of the page walk itself, which load page tables into the caches; instructions, which
//! share the L2 and mostly the second-level TLB; TLB entries that stand for several adjoining pages; first-level TLBs
//! of their own for stores; physical addresses: sets are chosen by virtual ones, which is the same in an L1D whose sets
//! span no more than a page, and in the L2 only with huge pages. Write-backs are not counted.
//!
//! `valgrind --tool=cachegrind` (its manual, "Simulation details") has the same L1D, hence the same references and
//! misses. Behind it is only a last-level cache, set to that of the machine, and there is no TLB. An access that
//! straddles two lines is one reference there, and one miss though both lines are missed.

// Elsewhere no CPUID names the core; what decodes it is tested all the same.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod geometry;
mod host;
mod lru;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod tlb_leaves;

pub use geometry::Geometry;
use lru::Lru;
use oscope_sys::error::Failure;

/// What the model counted since it was made or [`Model::reset_counts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads, all of which look into the L1D.
    pub l1d_reads: u64,
    /// Writes, all of which look into the L1D.
    pub l1d_writes: u64,
    /// Reads whose line was not in the L1D.
    pub l1d_read_misses: u64,
    /// Writes whose line was not in the L1D.
    pub l1d_write_misses: u64,
    /// Misses of the L1D, of reads and writes, whose line was not in the L2 either.
    pub l2_misses: u64,
    /// Reads whose page was not in the dTLB.
    pub dtlb_read_misses: u64,
    /// Writes whose page was not in the dTLB.
    pub dtlb_write_misses: u64,
    /// Misses of the dTLB, of reads and writes, whose page was not in the second-level TLB either: page walks.
    pub stlb_misses: u64,
}

/// The caches and TLBs of one core, and what they counted.
#[derive(Debug, Clone)]
pub struct Model {
    l1d: Lru,
    l2: Lru,
    dtlb: Lru,
    /// `None` where this size of page has no second-level TLB: each dTLB miss is a walk.
    stlb: Option<Lru>,
    counts: Counts,
}

impl Model {
    /// An empty model of `geometry` for memory that is all made of pages of `page_bytes`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the geometry has no TLB for pages of that size, or has numbers that the model does
    /// not take.
    pub fn new(geometry: &Geometry, page_bytes: u64) -> Result<Self, Failure> {
        let tlbs = geometry.tlbs(page_bytes)?;
        Ok(Self {
            l1d: geometry.l1d.store("L1D")?,
            l2: geometry.l2.store("L2")?,
            dtlb: tlbs.first.store("dTLB", page_bytes)?,
            stlb: tlbs
                .second
                .map(|shape| shape.store("second-level TLB", page_bytes))
                .transpose()?,
            counts: Counts::default(),
        })
    }

    /// Reads the byte at `address`. It takes 3 to 6 ns where it hits.
    #[inline]
    pub fn read(&mut self, address: u64) {
        self.counts.l1d_reads += 1;
        if !self.dtlb.touch(address) {
            self.counts.dtlb_read_misses += 1;
            self.translate(address);
        }
        if !self.l1d.touch(address) {
            self.counts.l1d_read_misses += 1;
            self.fetch(address);
        }
    }

    /// Writes the byte at `address`. It takes 3 to 6 ns where it hits.
    #[inline]
    pub fn write(&mut self, address: u64) {
        self.counts.l1d_writes += 1;
        if !self.dtlb.touch(address) {
            self.counts.dtlb_write_misses += 1;
            self.translate(address);
        }
        if !self.l1d.touch(address) {
            self.counts.l1d_write_misses += 1;
            self.fetch(address);
        }
    }

    /// Counts from zero again; caches and TLBs keep what they hold.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// After a dTLB miss.
    fn translate(&mut self, address: u64) {
        let stlb = self.stlb.as_mut();
        let held = stlb.is_some_and(|stlb| stlb.touch(address));
        self.counts.stlb_misses += u64::from(!held);
    }

    /// After an L1D miss.
    fn fetch(&mut self, address: u64) {
        let held = self.l2.touch(address);
        self.counts.l2_misses += u64::from(!held);
    }
}

#[cfg(test)]
mod tests;
