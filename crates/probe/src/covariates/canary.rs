//! Loads that are timed right before a repetition: how long they wait for the caches and the memory that all CPUs
//! share, and how long those take that find what they want in the core's own first cache.

use std::cell::Cell;

use crate::clock::reading;
use crate::pressure::xorshift::Xorshift;
use oscope_sys::error::Failure;
use oscope_sys::machine::cpu;
use oscope_sys::mapping::{Mapping, Pages};

/// Loads of a walk, each of which needs the one before.
pub const LOADS: usize = 64;
/// Loads from the first cache, each of which needs the one before: some 6 µs, of which the clock's step is a
/// five-hundredth part.
pub const CORE_LOADS: usize = 4096;
/// How many times the cache of one core the memory is.
const TIMES_L2: u64 = 2;
/// Bytes, where the kernel reports no cache of the second level.
const DEFAULT_BYTES: u64 = 2 << 20;
/// Bytes at most: one of each session's costs.
const MOST_BYTES: u64 = 8 << 20;
/// Bytes between the places of the walk: they are in every sixteenth set of a cache, more of them than it has room for
/// there. So all places are walked within a few repetitions, and the figure is of now: where more were walked, a load
/// that is over had its share in the walks of the next half second.
const STRIDE: usize = 1024;

/// Memory of twice the size of a core's second-level cache, in which every place names the next of a random order. It
/// is made and touched once for all requests: each walk goes on where the last one ended, so that its loads are not in
/// the core's own caches, unless a run is short.
///
/// No child has a copy (MADV_DONTFORK of madvise(2)): a copy would make forks more expensive, and forks are measured.
#[derive(Debug)]
pub struct Canary {
    places: Mapping,
    here: Cell<u64>,
}

impl Canary {
    /// Make it ready.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn new() -> Result<Self, Failure> {
        let mut places = Mapping::new(bytes(), Pages::Base)?;
        let memory = places.as_mut_slice();
        // SAFETY: the range is this mapping.
        let kept = unsafe {
            libc::madvise(
                memory.as_mut_ptr().cast(),
                memory.len(),
                libc::MADV_DONTFORK,
            )
        };
        if kept != 0 {
            return Err(Failure::system(
                "madvise(MADV_DONTFORK)",
                std::io::Error::last_os_error(),
            ));
        }
        // At once it takes half as long as a fault for each page; where this kernel (before 5.14) cannot, the faults
        // come. SAFETY: the range is this mapping.
        unsafe {
            libc::madvise(
                memory.as_mut_ptr().cast(),
                memory.len(),
                libc::MADV_POPULATE_WRITE,
            );
        }
        link(memory);
        Ok(Self {
            places,
            here: Cell::new(0),
        })
    }

    /// Walk, and give the time that it took in ns, reading the clock included.
    pub fn walk(&self) -> u64 {
        let memory = self.places.as_slice();
        let mut here = self.here.get() as usize;
        let began = reading::monotonic_raw();
        for _ in 0..LOADS {
            here = next(memory, here);
        }
        // The clock is not read before the last load has come.
        std::hint::black_box(here);
        let took = reading::monotonic_raw() - began;
        self.here.set(here as u64);
        took
    }
}

/// Load what one word holds, again and again, and give the time that it took in ns, reading the clock included.
///
/// A load from the first cache takes a fixed number of the core's cycles (4 or 5). So this is the duration of a cycle,
/// where no counter shows it: it follows the core's frequency, and what another thread of the same core takes away.
/// Between runs, other work slows down by as much.
pub fn core_loads() -> u64 {
    // A compiler that knew the words, or that only one index is allowed, would make no chain of it.
    let words = [0_usize; 8];
    let words = std::hint::black_box(&words[..]);
    let mut here = 0;
    let began = reading::monotonic_raw();
    for _ in 0..CORE_LOADS {
        here = words[here];
    }
    std::hint::black_box(here);
    reading::monotonic_raw() - began
}

fn bytes() -> u64 {
    let l2 = cpu::caches().ok().and_then(|caches| {
        let found = caches.into_iter().find(|cache| cache.level == 2);
        found.map(|cache| cache.size_bytes)
    });
    l2.map_or(DEFAULT_BYTES, |bytes| {
        (TIMES_L2 * bytes).clamp(DEFAULT_BYTES / 2, MOST_BYTES)
    })
}

/// Have every place name the next of one circle through all of them (S. Sattolo, "An algorithm to generate a random
/// cyclic permutation", 1986).
fn link(memory: &mut [u8]) {
    let count = memory.len() / STRIDE;
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = Xorshift::new();
    for last in (1..count).rev() {
        order.swap(last, random.draw() as usize % last);
    }
    for (place, next) in order.into_iter().enumerate() {
        let start = place * STRIDE;
        memory[start..start + size_of::<u64>()]
            .copy_from_slice(&((next * STRIDE) as u64).to_ne_bytes());
    }
}

#[inline(always)]
fn next(memory: &[u8], place: usize) -> usize {
    let mut number = [0; size_of::<u64>()];
    number.copy_from_slice(&memory[place..place + size_of::<u64>()]);
    u64::from_ne_bytes(number) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_to_every_place_before_it_repeats_one() {
        let mut memory = vec![0; 1000 * STRIDE];
        link(&mut memory);
        let (mut here, mut seen) = (0, std::collections::BTreeSet::new());
        while seen.insert(here) {
            here = next(&memory, here);
        }
        assert_eq!((seen.len(), here), (1000, 0));
    }

    #[test]
    fn walks_go_on_where_the_last_one_ended_and_take_time() {
        let canary = Canary::new().expect("there is the memory");
        assert!(canary.walk() > 0);
        let first = canary.here.get();
        canary.walk();
        assert_ne!(canary.here.get(), first);
    }

    #[test]
    fn each_load_from_the_first_cache_waits_for_the_one_before() {
        // A chain takes a cycle a load at least, 4096 of them a microsecond at 4 GHz; loads side by side, or none,
        // would not.
        let least = (0..100).map(|_| core_loads()).min().expect("some ran");
        assert!(least > 1000, "{least} ns for {CORE_LOADS} loads");
    }

    #[test]
    fn no_child_has_a_copy() {
        let canary = Canary::new().expect("there is the memory");
        let address = canary.places.as_slice().as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel reports it");
        let begins = |line: &&str| {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            range.is_some_and(|(start, end)| {
                let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
                (number(start)..number(end)).contains(&address)
            })
        };
        let flags = smaps
            .lines()
            .skip_while(|line| !begins(line))
            .find(|line| line.starts_with("VmFlags"));
        assert!(
            flags.is_some_and(|flags| flags.contains(" dc")),
            "{flags:?}"
        );
    }
}
