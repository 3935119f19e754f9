//! The clock: what it reads, how fast it ticks, and what reading it costs.
//!
//! The time-stamp counter is read as Intel's white paper "How to Benchmark Code Execution Times on Intel IA-32 and
//! IA-64" (2010) and the SDM (volume 2, RDTSC and RDTSCP) have it, with `lfence` in the place of `cpuid`: `lfence;
//! rdtsc; lfence` before the work and `rdtscp; lfence` after it. On arm64 the counter is `cntvct_el0`. Where there is
//! no trustworthy counter, `CLOCK_MONOTONIC_RAW` serves, in nanoseconds.

pub mod choice;
pub mod counter;
pub mod instructions;
pub mod offsets;
pub mod reading;

use serde::{Deserialize, Serialize};

pub use choice::RequestedClock;
use oscope_sys::error::Failure;

/// Empty pairs of readings taken to learn what a pair costs.
const OVERHEAD_PAIRS: usize = 4001;
/// Over how long the counter is compared with the kernel's clock. The readings are good to some 20 ns, so 10 ms give
/// 4e-6.
const FREQUENCY_SPAN_NS: u64 = 10_000_000;
/// By how much the measured frequency may differ from the one that the processor declares: a tick of the slowest
/// counters (1 MHz) at either end of the span.
const DECLARED_SHARE: f64 = 2e-4;
/// Bracketed readings tried at either end of the span; the tightest is kept.
const BRACKETS: usize = 64;

/// Which clock is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// The time-stamp counter of x86-64; its ticks are its own.
    Tsc,
    /// The virtual counter of the generic timer of arm64; its ticks are its own, and no cycles.
    Cntvct,
    /// The time-stamp counter of an emulated processor that advances by one with each instruction (`-icount shift=0` of
    /// QEMU). A tick is an instruction, and passes for a nanosecond wherever a duration is wanted.
    Instructions,
    /// `clock_gettime(CLOCK_MONOTONIC_RAW)`; a tick is a nanosecond.
    MonotonicRaw,
}

impl ClockKind {
    /// Whether each CPU has a counter of its own, so that readings on two CPUs are compared by measured offsets.
    pub fn differs_between_cpus(self) -> bool {
        match self {
            Self::Tsc | Self::Cntvct => true,
            Self::Instructions | Self::MonotonicRaw => false,
        }
    }
}

/// A calibrated clock. Serialises as `environment.clock` of the wire.
#[derive(Debug, Clone, Serialize)]
pub struct Clock {
    /// Which clock it is.
    pub kind: ClockKind,
    /// Ticks in a second.
    pub hz: f64,
    /// Ticks that an empty begin/end pair shows: the median of several thousand pairs.
    pub overhead: f64,
    /// Median absolute deviation of the same pairs, in ticks.
    pub overhead_mad: f64,
    /// Ticks in one step of the counter: every reading is a multiple of it away from any other. A CPU may advance its
    /// counter by many ticks at once, and a single short call is then known to a step at best.
    pub resolution: u64,
    /// Why it is not the clock one would expect, if so.
    pub why: Option<String>,
}

impl Clock {
    /// Choose the clock, measure its frequency (about 10 ms) and what reading it costs.
    ///
    /// # Errors
    /// `Failure::Unavailable` if a clock was asked for that this machine does not have.
    pub fn open(wanted: RequestedClock) -> Result<Self, Failure> {
        let (kind, why) = choice::of_this_machine(wanted)?;
        if kind == ClockKind::Instructions {
            counter::prove_instructions()?;
        }
        Ok(Self::calibrated(kind, why))
    }

    /// The clock of an earlier process of this boot, with its frequency, and `why` it chose that one. What reading it
    /// costs is measured anew: that may differ from process to process.
    ///
    /// # Errors
    /// `Failure::Request` if it is not the clock that this process would choose.
    pub fn reopen(
        wanted: RequestedClock,
        kind: ClockKind,
        hz: f64,
        why: Option<String>,
    ) -> Result<Self, Failure> {
        let (chosen, _) = choice::assuming_no_skew(wanted)?;
        // The kernel may come to trust the counter while the session goes on, as a second after the boot; or the
        // earlier process found a skew.
        let is_possible =
            chosen == kind || (wanted == RequestedClock::Auto && kind == ClockKind::MonotonicRaw);
        if !(is_possible && hz.is_finite() && hz > 0.0) {
            return Err(Failure::request(
                "clock",
                format!("was {kind:?} of {hz} Hz, which this process would not choose: {chosen:?}"),
            ));
        }
        Ok(Self::of(kind, hz, why))
    }

    fn calibrated(kind: ClockKind, why: Option<String>) -> Self {
        let hz = match kind {
            ClockKind::Tsc | ClockKind::Cntvct => {
                counter_hz(counter_frequency(FREQUENCY_SPAN_NS), counter::declared_hz())
            }
            ClockKind::MonotonicRaw | ClockKind::Instructions => 1e9,
        };
        Self::of(kind, hz, why)
    }

    fn of(kind: ClockKind, hz: f64, why: Option<String>) -> Self {
        let pairs = empty_pairs(kind);
        let (overhead, overhead_mad) = median_and_mad(&pairs);
        Self {
            kind,
            hz,
            overhead,
            overhead_mad,
            resolution: match kind {
                // Empty pairs all show the same few instructions: they do not show the step.
                ClockKind::Instructions => 1,
                _ => step_of(&pairs),
            },
            why,
        }
    }

    /// A reading that opens an interval: earlier work is finished, later work has not begun.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        match self.kind {
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => counter::begin(),
            ClockKind::MonotonicRaw => reading::monotonic_raw(),
        }
    }

    /// A reading that closes an interval: the work is finished, later work has not begun.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        match self.kind {
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => counter::end(),
            ClockKind::MonotonicRaw => reading::monotonic_raw(),
        }
    }

    /// A reading like [`Clock::end`] with the number of the CPU on which it was taken.
    ///
    /// With the TSC both come from one `rdtscp`, so that they belong together. On arm64 and with the monotonic clock
    /// the CPU is asked for after the reading; with the latter it does not matter for comparing readings.
    #[inline(always)]
    pub fn end_with_cpu(&self) -> (u64, usize) {
        match self.kind {
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => counter::end_with_cpu(),
            ClockKind::MonotonicRaw => (reading::monotonic_raw(), reading::current_cpu()),
        }
    }

    /// Ticks as nanoseconds.
    pub fn nanoseconds(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hz
    }

    /// Nanoseconds as ticks.
    pub fn ticks(&self, nanoseconds: f64) -> f64 {
        nanoseconds * self.hz / 1e9
    }

    /// How fast this clock runs beside the kernel's, for so long: 1 if its frequency is what it was found to be. `None`
    /// where the clock is the kernel's own, or counts no time.
    pub fn against_kernel(&self, span_ns: u64) -> Option<f64> {
        self.kind
            .differs_between_cpus()
            .then(|| counter_frequency(span_ns) / self.hz)
    }

    /// Ticks as cycles of the time-stamp counter; `None` where the clock is another.
    pub fn cycles(&self, ticks: f64) -> Option<f64> {
        (self.kind == ClockKind::Tsc).then_some(ticks)
    }
}

/// Differences of empty begin/end pairs, in ticks.
fn empty_pairs(kind: ClockKind) -> Vec<f64> {
    let mut pairs = vec![0.0; OVERHEAD_PAIRS];
    match kind {
        ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => {
            for pair in &mut pairs {
                let begin = counter::begin();
                *pair = counter::end().wrapping_sub(begin) as f64;
            }
        }
        ClockKind::MonotonicRaw => {
            for pair in &mut pairs {
                let begin = reading::monotonic_raw();
                *pair = reading::monotonic_raw().wrapping_sub(begin) as f64;
            }
        }
    }
    pairs
}

/// The step of a counter: the greatest common divisor of the differences seen, at least 1.
fn step_of(differences: &[f64]) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    differences
        .iter()
        .fold(0, |step, difference| divisor(step, *difference as u64))
        .max(1)
}

/// The median, and the median absolute deviation from it. `values` must not be empty.
pub fn median_and_mad(values: &[f64]) -> (f64, f64) {
    let median = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    (median, self::median(&deviations))
}

/// The median of finite numbers, of which there must be one at least.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// The frequency of the counter: the declared one where the measured one confirms it, since it is exact. Firmware may
/// declare a wrong one, which the kernel knows from the device tree.
fn counter_hz(measured: f64, declared: Option<f64>) -> f64 {
    declared
        .filter(|declared| (measured / declared - 1.0).abs() < DECLARED_SHARE)
        .unwrap_or(measured)
}

/// Ticks of the counter in a second, by comparison with `CLOCK_MONOTONIC_RAW` for so long.
fn counter_frequency(span_ns: u64) -> f64 {
    let first = bracketed_reading();
    while reading::monotonic_raw() - first.nanoseconds < span_ns {
        std::hint::spin_loop();
    }
    let last = bracketed_reading();
    (last.ticks - first.ticks) as f64 * 1e9 / (last.nanoseconds - first.nanoseconds) as f64
}

/// The same moment on both clocks.
struct Moment {
    ticks: u64,
    nanoseconds: u64,
}

/// A reading of the counter between two readings of the kernel's clock: the closest of several, taken at the middle of
/// its bracket.
fn bracketed_reading() -> Moment {
    let bracket = || {
        let before = reading::monotonic_raw();
        let ticks = counter::begin();
        let after = reading::monotonic_raw();
        let width = after - before;
        (
            width,
            Moment {
                ticks,
                nanoseconds: before + width / 2,
            },
        )
    };
    let mut tightest = bracket();
    for _ in 1..BRACKETS {
        let next = bracket();
        if next.0 < tightest.0 {
            tightest = next;
        }
    }
    tightest.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median_and_mad(&[1.0, 1.0, 2.0, 9.0, 2.0]), (2.0, 1.0));
    }

    #[test]
    fn the_step_is_what_all_differences_are_multiples_of() {
        assert_eq!(step_of(&[52.0, 26.0, 78.0, 0.0]), 26);
        assert_eq!(step_of(&[52.0, 27.0]), 1);
        assert_eq!(step_of(&[0.0]), 1);
    }

    #[test]
    fn a_declared_frequency_is_taken_where_it_is_confirmed() {
        assert_eq!(counter_hz(62_500_100.0, Some(62.5e6)), 62.5e6);
        assert_eq!(counter_hz(24e6, Some(62.5e6)), 24e6);
        assert_eq!(counter_hz(24e6, None), 24e6);
    }

    #[test]
    fn ticks_convert_both_ways_and_keep_their_sign() {
        let clock = Clock {
            kind: ClockKind::Tsc,
            hz: 2.5e9,
            overhead: 40.0,
            overhead_mad: 0.0,
            resolution: 1,
            why: None,
        };
        assert_eq!(clock.nanoseconds(-5.0), -2.0);
        assert_eq!(clock.ticks(-2.0), -5.0);
        assert_eq!(clock.cycles(-5.0), Some(-5.0));
    }

    #[test]
    fn the_monotonic_clock_counts_nanoseconds_and_no_cycles() {
        let clock = Clock::calibrated(ClockKind::MonotonicRaw, Some("test".into()));
        assert_eq!(clock.hz, 1e9);
        assert_eq!(clock.cycles(1.0), None);
        let begin = clock.begin();
        assert!(clock.end() >= begin);
    }

    #[test]
    fn this_machines_clock_opens_with_a_finite_overhead() {
        let clock = Clock::open(RequestedClock::Auto).expect("auto always finds a clock");
        assert!(clock.hz.is_finite() && clock.hz > 0.0);
        assert!(clock.overhead.is_finite() && clock.overhead >= 0.0);
    }
}
