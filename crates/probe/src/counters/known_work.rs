//! Work whose events are known, to prove counters with.

/// One kind of work, and the counters it proves.
pub struct Known {
    /// Does the work `times` times.
    pub work: fn(times: u64),
    /// How often in the small trial; the large one does it twice as often.
    pub times: u64,
    /// Counter, events for each time, and the factor by which the count may be off.
    pub proves: &'static [(&'static str, f64, f64)],
}

/// The kinds of work that this architecture has; none where they have not been written.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const KNOWN: [Known; 0] = [];

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod memory;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as instructions;
#[cfg(target_arch = "x86_64")]
use x86_64 as instructions;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use instructions::{branch_at_random, multiply, read_one_line, write_one_line};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use memory::{MANY_PAGES, read_cold_lines, read_many_pages, write_many_pages};

/// The kinds of work of x86-64 and arm64.
///
/// A multiplication takes 3 cycles on processors since 2008, 5 on some small cores (Agner Fog, Instruction tables), and
/// 2 to 5 on cores of arm64 (their software optimization guides). Of random branches half are mispredicted. Cold reads
/// may come two lines at a time (spatial prefetch), hence the wider factor.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub const KNOWN: [Known; 7] = [
    Known {
        work: multiply,
        times: 50_000,
        proves: &[("instructions", 3.0, 2.0), ("cpu_cycles", 3.0, 2.0)],
    },
    Known {
        work: branch_at_random,
        times: 5_000,
        proves: &[("branch_misses", 0.5, 2.0)],
    },
    Known {
        work: read_cold_lines,
        times: 512,
        proves: &[("cache_misses", 1.0, 3.0), ("l1d_read_miss", 1.0, 3.0)],
    },
    Known {
        work: read_one_line,
        times: 50_000,
        proves: &[("l1d_read_access", 1.0, 2.0)],
    },
    Known {
        work: write_one_line,
        times: 50_000,
        proves: &[("l1d_write_access", 1.0, 2.0)],
    },
    Known {
        work: read_many_pages,
        times: MANY_PAGES as u64,
        proves: &[("dtlb_read_miss", 1.0, 3.0)],
    },
    Known {
        work: write_many_pages,
        times: MANY_PAGES as u64,
        proves: &[("dtlb_write_miss", 1.0, 3.0)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_ends_and_each_counter_is_proved_once() {
        let mut names = Vec::new();
        for known in &KNOWN {
            (known.work)(known.times);
            names.extend(known.proves.iter().map(|(name, ..)| *name));
        }
        names.sort_unstable();
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!(
                names,
                [
                    "branch_misses",
                    "cache_misses",
                    "cpu_cycles",
                    "dtlb_read_miss",
                    "dtlb_write_miss",
                    "instructions",
                    "l1d_read_access",
                    "l1d_read_miss",
                    "l1d_write_access"
                ]
            );
        }
    }
}
