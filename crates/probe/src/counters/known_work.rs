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
#[cfg(not(target_arch = "x86_64"))]
pub const KNOWN: [Known; 0] = [];

#[cfg(target_arch = "x86_64")]
pub use x86::KNOWN;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Known;
    use std::arch::asm;
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    use std::cell::Cell;

    use memmap2::{Advice, MmapMut};

    /// A multiplication takes 3 cycles on processors since 2008, 5 on some small cores (Agner Fog, Instruction tables).
    /// Of random branches half are mispredicted. Cold reads may come two lines at a time (spatial prefetch), hence the wider factor.
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

    /// Three instructions a time, in a chain of multiplications.
    fn multiply(times: u64) {
        // SAFETY: only the named registers are written.
        unsafe {
            asm!(
                "2:", "imul {value}, {value}", "dec {left}", "jnz 2b",
                value = inout(reg) 3_u64 => _, left = inout(reg) times => _, options(nomem, nostack)
            );
        }
    }

    /// One branch a time that is taken or not by a bit of a xorshift generator (Marsaglia 2003), which no predictor can learn.
    fn branch_at_random(times: u64) {
        thread_local! { static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) } }
        let mut state = STATE.get();
        // SAFETY: only the named registers are written.
        unsafe {
            asm!(
                "2:",
                "mov {shifted}, {state}", "shl {shifted}, 13", "xor {state}, {shifted}",
                "mov {shifted}, {state}", "shr {shifted}, 7", "xor {state}, {shifted}",
                "mov {shifted}, {state}", "shl {shifted}, 17", "xor {state}, {shifted}",
                "bt {state}, 40", "jc 3f", "inc {taken}", "3:", "dec {left}", "jnz 2b",
                state = inout(reg) state, shifted = out(reg) _, taken = inout(reg) 0_u64 => _, left = inout(reg) times => _,
                options(nomem, nostack)
            );
        }
        STATE.set(state);
    }

    /// One load a time.
    fn read_one_line(times: u64) {
        let value = 1_u64;
        // SAFETY: it reads a local variable.
        unsafe {
            asm!(
                "2:", "mov {loaded}, [{place}]", "dec {left}", "jnz 2b",
                place = in(reg) &raw const value, loaded = out(reg) _, left = inout(reg) times => _, options(readonly, nostack)
            );
        }
    }

    /// One store a time.
    fn write_one_line(times: u64) {
        let mut value = 1_u64;
        // SAFETY: it writes a local variable.
        unsafe {
            asm!(
                "2:", "mov [{place}], {left}", "dec {left}", "jnz 2b",
                place = in(reg) &raw mut value, left = inout(reg) times => _, options(nostack)
            );
        }
        std::hint::black_box(value);
    }

    /// More than a second-level TLB holds (4096 in 2024).
    const MANY_PAGES: usize = 8192;

    /// One load a time of another page than the last thousands.
    fn read_many_pages(times: u64) {
        touch_many_pages(times, |place| {
            // SAFETY: it is handed places that can be read.
            std::hint::black_box(unsafe { place.read_volatile() });
        });
    }

    /// One store a time likewise.
    fn write_many_pages(times: u64) {
        // SAFETY: it is handed places that can be written.
        touch_many_pages(times, |place| unsafe { place.write_volatile(2) });
    }

    /// Without memory there are no touches, and the counter does not prove itself.
    fn touch_many_pages(times: u64, touch: impl Fn(*mut u8)) {
        let Ok(mut memory) = MmapMut::map_anon(MANY_PAGES * PAGE) else {
            return;
        };
        // A kernel without huge pages refuses, and needs no advice.
        let _ = memory.advise(Advice::NoHugePage);
        // The kernel makes the pages, whose misses are not counted. Before Linux 5.14 it refuses, and stores as many as are counted below make them.
        if memory.advise(Advice::PopulateWrite).is_err() {
            memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        }
        for time in 0..times as usize {
            // 2897 is odd, so all pages are visited, far from each other.
            touch(&raw mut memory[time * 2897 % MANY_PAGES * PAGE]);
        }
    }

    const PAGE: usize = 4096;
    const PAGES: usize = 64;

    /// One read a time of a line just flushed from all caches; each in another page, so that no prefetcher fetches it first.
    fn read_cold_lines(times: u64) {
        let memory = vec![1_u8; PAGE * PAGES];
        for time in 0..times as usize {
            // 37 is odd, so the pages are visited in a scattered order that covers them all.
            let place = time * 37 % PAGES * PAGE + time / PAGES % (PAGE / 64) * 64;
            // SAFETY: `place` lies within `memory`.
            unsafe {
                let line = memory.as_ptr().add(place);
                _mm_clflush(line);
                _mm_mfence();
                std::ptr::read_volatile(line);
            }
        }
    }
}

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
        if cfg!(target_arch = "x86_64") {
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
