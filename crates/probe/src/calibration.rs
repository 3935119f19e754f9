//! Finding how often the inner loop must run for a repetition to last long enough.

use oscope_sys::error::Failure;

/// Trials at most: a hundredfold growth each would exceed 64 bits long before.
const TRIALS: u32 = 40;
/// Greatest growth from one trial to the next: a first trial that took next to no time says little.
const GREATEST_GROWTH: f64 = 100.0;
/// Aimed at beyond the target, so that the next trial is usually the last.
const MARGIN: f64 = 1.2;

/// The inner loop count found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibrated {
    /// How often the inner loop is to run.
    pub iterations: u64,
    /// Whether a repetition then lasts as long as asked: two trials running did.
    pub reached: bool,
}

/// Find the iterations with which a repetition lasts `target_ns` at least.
///
/// `time` runs a trial and says how many nanoseconds it took; `give_up` is asked between trials. A count is accepted
/// when two trials running reach the target, since a single one may have been long only because something interrupted
/// it. Calibration looks at trials only, never at samples, so it selects none.
///
/// # Errors
/// That of the first trial that fails.
pub fn calibrate(
    target_ns: f64,
    mut time: impl FnMut(u64) -> Result<f64, Failure>,
    mut give_up: impl FnMut() -> bool,
) -> Result<Calibrated, Failure> {
    let mut iterations = 1;
    let mut confirming = false;
    for _ in 0..TRIALS {
        let elapsed = time(iterations)?;
        let long_enough = elapsed >= target_ns;
        if long_enough && confirming {
            return Ok(Calibrated {
                iterations,
                reached: true,
            });
        }
        if give_up() {
            break;
        }
        confirming = long_enough;
        if !long_enough {
            iterations = grown(iterations, elapsed, target_ns);
        }
    }
    Ok(Calibrated {
        iterations,
        reached: false,
    })
}

fn grown(iterations: u64, elapsed_ns: f64, target_ns: f64) -> u64 {
    let growth = (MARGIN * target_ns / elapsed_ns.max(1.0)).clamp(MARGIN, GREATEST_GROWTH);
    // A float beyond 64 bits becomes the greatest number when cast.
    ((iterations as f64 * growth).ceil() as u64).max(iterations.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEVER: fn() -> bool = || false;

    proptest! {
        #[test]
        fn steady_work_reaches_the_target_and_not_far_beyond(cost in 0.3f64..1e6, target in 1e3f64..1e8) {
            let found = calibrate(target, |n| Ok(n as f64 * cost), NEVER).unwrap();
            prop_assert!(found.reached);
            prop_assert!(found.iterations as f64 * cost >= target);
            prop_assert!(found.iterations as f64 * cost <= MARGIN * target + 2.0 * cost);
        }
    }

    #[test]
    fn one_long_trial_by_mischance_is_not_believed() {
        let mut trial = 0;
        let time = |n: u64| {
            trial += 1;
            Ok(if trial == 1 { 5e6 } else { n as f64 * 100.0 })
        };
        assert!(calibrate(1e6, time, NEVER).unwrap().iterations >= 10_000);
    }

    #[test]
    fn work_that_takes_no_time_ends_the_search() {
        let found = calibrate(1e6, |_| Ok(-3.0), NEVER).unwrap();
        assert!(!found.reached);
    }

    #[test]
    fn giving_up_ends_the_search() {
        let mut trials = 0;
        let time = |_| {
            trials += 1;
            Ok(1.0)
        };
        assert!(!calibrate(1e6, time, || true).unwrap().reached);
        assert_eq!(trials, 1);
    }

    #[test]
    fn a_failed_trial_fails_the_search() {
        let failure = calibrate(1e6, |_| Err(Failure::failed("broken")), NEVER);
        assert_eq!(failure, Err(Failure::failed("broken")));
    }
}
