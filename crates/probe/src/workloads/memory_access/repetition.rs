//! One repetition, as the measured process does it.

use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

use super::area::{Area, AreaSpec, Flushed};
use super::presence::Presence;
use super::reclaim::Reclaim;
use super::simulation::Addresses;
use super::usage::Usage;
use super::walk::{Bases, WRITTEN, lines, walk, walk_with_pauses};
use crate::counters::{Counters, MEMORY_EVENTS};
use crate::pressure::{Pressure, Turns};
use crate::region::Region;
use oscope_sys::error::Failure;
use oscope_sys::mapping::Pages;

/// Of the first working sets so many, and of the last, are checked to have been written.
const FIRST_CHECKED: u64 = 1024;
const LAST_CHECKED: u64 = 64;
/// Bytes of stack written before faults are counted: after a fork, the first write to each page of it is one.
const STACK_BYTES: usize = 16 << 10;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The memory.
    pub wanted: AreaSpec,
    /// The walk over it.
    pub bases: Bases,
    /// Working sets to be walked.
    pub sets: u64,
}

/// What was done and found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Seconds from the first mapping until the caches were flushed.
    pub init_time_s: f64,
    /// What that used.
    pub init: Usage,
    /// What the walk used.
    pub function: Usage,
    /// What the machine reclaimed meanwhile.
    pub reclaimed: Reclaim,
    /// What was there after the walk.
    pub presence: Presence,
    /// Working sets walked.
    pub done: u64,
    /// Lines that do not hold what must have been written to them.
    pub wrong: u64,
    /// Where it was.
    pub at: Addresses,
    /// What the hardware counted in the walk, in the order of `MEMORY_EVENTS`.
    pub counted: [Option<f64>; MEMORY_EVENTS],
}

/// What a repetition is lent.
#[derive(Clone, Copy)]
pub struct Lent<'a> {
    /// The file that is mapped, unless memory is anonymous.
    pub file: Option<&'a File>,
    /// The pressure to be under.
    pub pressure: Option<&'a Pressure>,
    /// The turns that the competitor is to be given, unless it runs freely.
    pub turns: Option<&'a Turns>,
    /// The hardware counters that were proved, if they are wanted.
    pub counters: Option<&'a Counters>,
}

impl Plan {
    /// Do the repetition in the calling process, which ends afterwards.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this machine has no such memory; `Failure::Failed` with the kernel's reason for the
    /// rest.
    pub fn carry_out(&self, lent: Lent, region: &mut Region) -> Result<Found, Failure> {
        if let Some(pressure) = lent.pressure {
            pressure.join()?;
        }
        if self.wanted.pages == Pages::Base {
            forbid_huge_pages()?;
        }
        let counters = lent.counters.map(Counters::opened_again).transpose()?;
        dirty_stack();
        let start = Usage::now()?;
        let began = Instant::now();
        let mut area = Area::make(&self.wanted, lent.file)?;
        let flushed = Flushed::write()?;
        let init_time_s = began.elapsed().as_secs_f64();
        let first = area.start();
        let reclaimed = Reclaim::now()?;
        let before = Usage::now()?;
        if let Some(counters) = &counters {
            counters.enable();
        }
        let bases = self.bases.clone();
        let done = region.measure(|| match lent.turns {
            // SAFETY: the bases were made for memory of this size.
            None => unsafe { walk(first, bases, self.sets) },
            // SAFETY: as above.
            Some(turns) => unsafe { walk_with_pauses(first, bases, self.sets, || turns.give()) },
        });
        if let Some(counters) = &counters {
            counters.disable();
        }
        let after = Usage::now()?;
        let reclaimed = Reclaim::now()?.since(reclaimed);
        Ok(Found {
            init_time_s,
            init: before.since(start),
            function: after.since(before),
            reclaimed,
            presence: Presence::of(area.bytes())?,
            done,
            wrong: self.wrong_lines(area.bytes()),
            at: Addresses {
                walked: first as u64,
                flushed: flushed.address(),
            },
            counted: counters.map_or([None; MEMORY_EVENTS], |counters| counters.memory_counts()),
        })
    }

    /// Lines that must have been written and were not, of the first working sets and of the last.
    pub fn wrong_lines(&self, memory: &[u8]) -> u64 {
        let mut bases = self.bases.clone();
        let sets = (0..self.sets).filter_map(|number| {
            let base = bases.next();
            (number < FIRST_CHECKED || self.sets - number <= LAST_CHECKED).then_some(base)
        });
        let wrong = |base| {
            lines(base)
                .filter(|&(place, writes)| writes && memory[place as usize] != WRITTEN)
                .count() as u64
        };
        sets.map(wrong).sum()
    }
}

/// Have this process be given base pages, also where the kernel gives huge ones unasked (`PR_SET_THP_DISABLE`,
/// prctl(2)). Advice against them would come after MAP_POPULATE.
fn forbid_huge_pages() -> Result<(), Failure> {
    nix::sys::prctl::set_thp_disable(true)
        .map_err(|error| Failure::system("forbidding huge pages (PR_SET_THP_DISABLE)", error))
}

#[inline(never)]
fn dirty_stack() {
    black_box([1_u8; STACK_BYTES]);
}
