//! Does twice the work take twice the time? An instrument that fails this is not believed.

use serde::Serialize;

use crate::clock::{Clock, median};
use crate::steps::walk;

/// Steps of the smaller piece of work: some 50 µs.
const STEPS: u64 = 40_000;
/// Pairs of the smaller and the larger piece, taken in turn so that a change of the core's frequency meets both.
const PAIRS: usize = 9;

/// What came out. Serialises as `environment.self_check` of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SelfCheck {
    /// Time of twice the work over time of the work; medians of several.
    pub ratio_of_double_work: f64,
    /// Whether the ratio lies in 1.9..2.1.
    pub ok: bool,
}

impl SelfCheck {
    /// Check the clock against work of known size (about 1.5 ms).
    pub fn of(clock: &Clock) -> Self {
        Self::by(|steps| {
            let begin = clock.begin();
            std::hint::black_box(walk(begin, steps));
            clock.end().wrapping_sub(begin) as f64 - clock.overhead
        })
    }

    /// The check itself; `time` does so many steps and says how long they took.
    fn by(mut time: impl FnMut(u64) -> f64) -> Self {
        time(2 * STEPS);
        let (single, double): (Vec<f64>, Vec<f64>) =
            (0..PAIRS).map(|_| (time(STEPS), time(2 * STEPS))).unzip();
        let ratio = median(&double) / median(&single);
        Self {
            ratio_of_double_work: ratio,
            ok: (1.9..=2.1).contains(&ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_clock_passes() {
        let check = SelfCheck::by(|steps| steps as f64 * 1.3 + 20.0);
        assert!(check.ok);
        assert!((check.ratio_of_double_work - 2.0).abs() < 0.01);
    }

    #[test]
    fn a_few_interrupted_timings_do_not_matter() {
        let mut timings = 0;
        let check = SelfCheck::by(|steps| {
            timings += 1;
            steps as f64 + if timings % 5 == 0 { 1e7 } else { 0.0 }
        });
        assert!(check.ok);
    }

    #[test]
    fn broken_clocks_fail() {
        assert!(
            !SelfCheck::by(|_| 1000.0).ok,
            "a clock that ignores the work"
        );
        assert!(!SelfCheck::by(|_| 0.0).ok, "a clock that stands still");
        assert!(
            !SelfCheck::by(|steps| (steps as f64).powi(2)).ok,
            "a clock that races"
        );
        assert!(
            !SelfCheck::by(|steps| steps as f64 + 1e5).ok,
            "a large cost not taken off"
        );
    }
}
