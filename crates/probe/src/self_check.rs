//! Does no work take no time, twice the work twice the time, and a second a second? An instrument that fails this is
//! not believed.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::clock::{Clock, median, median_and_mad};
use crate::region::Region;
use crate::steps::lcg_steps;

/// Steps of the smaller piece of work: some 50 µs.
const STEPS: u64 = 40_000;
/// Pairs of the smaller and the larger piece, taken in turn so that a change of the core's frequency meets both.
const PAIRS: usize = 9;
/// How often the pairs are taken at most: a busy machine may stretch most of one try, a broken clock fails in each.
const TRIES: usize = 5;
/// What twice the work may take of the work's time.
const TWICE: RangeInclusive<f64> = 1.9..=2.1;
/// Empty regions measured: some 50 µs.
const EMPTY: usize = 1001;
/// For how long the clock is compared with the kernel's; readings are good to some 20 ns, so this gives 1e-5.
const KERNEL_SPAN_NS: u64 = 2_000_000;
/// By how much the two may differ. The kernel's own frequency is adjusted by less.
const KERNEL_SHARE: f64 = 1e-3;

/// What came out. Serialises as `environment.self_check` of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SelfCheck {
    /// Time of twice the work over time of the work; medians of several, of the first try that passes.
    pub ratio_of_double_work: f64,
    /// What an empty measured region shows once the clock's own cost is taken off, in ticks: the median of many, which
    /// shall be 0.
    pub empty_ticks: f64,
    /// Median absolute deviation of the same.
    pub empty_mad_ticks: f64,
    /// See [`Clock::against_kernel`].
    pub kernel_clock_ratio: Option<f64>,
    /// Whether the ratio of work lies in 1.9..2.1, the empty region within half of the clock's own cost (or a step of
    /// it) of 0, and the ratio of clocks within 0.1 % of 1.
    pub ok: bool,
}

impl SelfCheck {
    /// Check the clock against work of known size, none among it, and against the kernel's clock (about 4 ms).
    pub fn of(clock: &Clock) -> Self {
        let ratio = ratio_of_double_work(|steps| {
            let begin = clock.begin();
            std::hint::black_box(lcg_steps(begin, steps));
            clock.end().wrapping_sub(begin) as f64 - clock.overhead
        });
        Self::judged(
            clock,
            ratio,
            &empty_regions(clock),
            clock.against_kernel(KERNEL_SPAN_NS),
        )
    }

    /// What was found, judged.
    fn judged(clock: &Clock, ratio: f64, empty: &[f64], kernel_clock_ratio: Option<f64>) -> Self {
        let (empty_ticks, empty_mad_ticks) = median_and_mad(empty);
        let most = (clock.overhead / 2.0).max(clock.resolution as f64);
        Self {
            ratio_of_double_work: ratio,
            empty_ticks,
            empty_mad_ticks,
            kernel_clock_ratio,
            ok: TWICE.contains(&ratio)
                && empty.iter().all(|ticks| ticks.is_finite())
                && empty_ticks.abs() <= most
                && kernel_clock_ratio.is_none_or(|ratio| (ratio - 1.0).abs() <= KERNEL_SHARE),
        }
    }
}

/// What twice the work takes over what the work takes, tried again where it is not twice as much. `time` does so many
/// steps and says how long they took.
fn ratio_of_double_work(mut time: impl FnMut(u64) -> f64) -> f64 {
    time(2 * STEPS);
    let mut ratio = ratio_of_pairs(&mut time);
    for _ in 1..TRIES {
        if TWICE.contains(&ratio) {
            break;
        }
        ratio = ratio_of_pairs(&mut time);
    }
    ratio
}

fn ratio_of_pairs(time: &mut impl FnMut(u64) -> f64) -> f64 {
    let (single, double): (Vec<f64>, Vec<f64>) =
        (0..PAIRS).map(|_| (time(STEPS), time(2 * STEPS))).unzip();
    median(&double) / median(&single)
}

/// What measured regions without work in them show, corrected, in ticks; infinite where the clock went backwards.
fn empty_regions(clock: &Clock) -> Vec<f64> {
    (0..EMPTY)
        .map(|_| {
            let mut region = Region::new(clock);
            region.measure(|| ());
            region.corrected().unwrap_or(f64::INFINITY)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ClockKind, RequestedClock};

    fn clock() -> Clock {
        Clock {
            kind: ClockKind::Tsc,
            hz: 2e9,
            overhead: 70.0,
            overhead_mad: 1.0,
            resolution: 1,
            why: None,
        }
    }

    fn judged(ratio: f64, empty: &[f64], against_kernel: Option<f64>) -> SelfCheck {
        SelfCheck::judged(&clock(), ratio, empty, against_kernel)
    }

    #[test]
    fn a_true_clock_passes() {
        let ratio = ratio_of_double_work(|steps| steps as f64 * 1.3 + 20.0);
        assert!((ratio - 2.0).abs() < 0.01);
        let check = judged(ratio, &[-2.0, 0.0, 3.0], Some(1.00001));
        assert!(check.ok);
        assert_eq!((check.empty_ticks, check.empty_mad_ticks), (0.0, 2.0));
    }

    #[test]
    fn a_few_interrupted_timings_do_not_matter() {
        let mut timings = 0;
        let ratio = ratio_of_double_work(|steps| {
            timings += 1;
            steps as f64 + if timings % 5 == 0 { 1e7 } else { 0.0 }
        });
        assert!(judged(ratio, &[0.0], None).ok);
    }

    #[test]
    fn a_machine_that_is_busy_for_a_while_does_not_matter() {
        let mut timings = 0;
        let ratio = ratio_of_double_work(|steps| {
            timings += 1;
            let busy = timings <= 3 * PAIRS && steps > STEPS;
            steps as f64 * if busy { 4.0 } else { 1.0 }
        });
        assert!(judged(ratio, &[0.0], None).ok, "{ratio}");
    }

    #[test]
    fn broken_clocks_fail() {
        let fails =
            |time: &dyn Fn(u64) -> f64| !judged(ratio_of_double_work(time), &[0.0], None).ok;
        assert!(fails(&|_| 1000.0), "a clock that ignores the work");
        assert!(fails(&|_| 0.0), "a clock that stands still");
        assert!(fails(&|steps| (steps as f64).powi(2)), "a clock that races");
        assert!(
            fails(&|steps| steps as f64 + 1e5),
            "a large cost not taken off"
        );
        assert!(
            !judged(2.0, &[40.0, 41.0, 39.0], None).ok,
            "a cost that the correction leaves"
        );
        assert!(
            !judged(2.0, &[0.0, 0.0, f64::INFINITY], None).ok,
            "a clock that goes backwards once"
        );
        assert!(!judged(2.0, &[0.0], Some(1.002)).ok, "a wrong frequency");
    }

    #[test]
    fn this_machines_clock_finds_nothing_where_nothing_is_and_runs_as_the_kernels() {
        let clock = Clock::open(RequestedClock::Auto).unwrap();
        let empty = empty_regions(&clock);
        assert_eq!(empty.len(), EMPTY);
        assert!(median(&empty).abs() <= clock.overhead.max(clock.resolution as f64));
        if let Some(ratio) = clock.against_kernel(KERNEL_SPAN_NS) {
            assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
        }
    }
}
