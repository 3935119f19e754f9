//! Whether a hardware counter is believed: it has counted work of known size, twice, and has to have got it right.
//!
//! Counters of virtual machines have been seen to open and read 0, to stand still, or to be absurd; a counter that
//! shares the unit with others is active for part of the time only, and what it gives then is an estimate. None of
//! these is a measurement.

use oscope_sys::error::Failure;

/// What to do where the hypervisor shows a counter that cannot be believed.
const ANOTHER_MACHINE: &str = "use a bare machine or another virtual PMU";

/// What a counter showed over one piece of known work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Events counted.
    pub count: u64,
    /// Time for which the counter was asked to count, in ns.
    pub enabled_ns: u64,
    /// Time for which it did, in ns.
    pub running_ns: u64,
}

/// A piece of known work and what the counter showed over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Events that the work causes.
    pub expected: u64,
    /// What was read.
    pub reading: Reading,
}

/// Part of the time for which a counter must have been active. It is 1 exactly unless the kernel had to multiplex
/// counters.
pub const LEAST_ACTIVE: f64 = 0.99;

/// The part of the enabled time for which the counter counted; 0 if it was never enabled.
#[must_use]
pub fn active(enabled_ns: u64, running_ns: u64) -> f64 {
    if enabled_ns == 0 {
        0.0
    } else {
        running_ns as f64 / enabled_ns as f64
    }
}

/// Judges a counter by a small and a larger piece of work; the counts may be off by `tolerance` times either way.
///
/// # Errors
/// `Failure::Unavailable`: why the counter is not believed, and what may fix that.
pub fn judge(small: Trial, large: Trial, tolerance: f64) -> Result<(), Failure> {
    let trials = [small, large];
    let active = trials.map(|trial| active(trial.reading.enabled_ns, trial.reading.running_ns));
    let least = active[0].min(active[1]);
    let counts = trials.map(|trial| trial.reading.count);
    if least < LEAST_ACTIVE && least > 0.0 {
        return Err(Failure::unavailable(
            format!(
                "it was active for {:.0} % of the time, so its counts would be estimates",
                least * 100.0
            ),
            "stop other users of the counters (perf, nmi_watchdog)",
        ));
    }
    if counts == [0, 0] {
        return Err(Failure::unavailable(
            format!("it reads 0 for work of {} events", large.expected),
            "the hypervisor shows a counter that does not count: use a bare machine or a virtual PMU",
        ));
    }
    if counts[1] <= counts[0] {
        return Err(Failure::unavailable(
            format!(
                "it does not follow the work: it reads {} for {} events and {} for {}",
                counts[0], small.expected, counts[1], large.expected
            ),
            ANOTHER_MACHINE,
        ));
    }
    match trials
        .iter()
        .find(|trial| !within(trial.reading.count, trial.expected, tolerance))
    {
        None => Ok(()),
        Some(trial) => Err(Failure::unavailable(
            format!(
                "it is absurd: it reads {} for work of {} events",
                trial.reading.count, trial.expected
            ),
            ANOTHER_MACHINE,
        )),
    }
}

fn within(count: u64, expected: u64, tolerance: f64) -> bool {
    let ratio = count as f64 / expected as f64;
    ratio <= tolerance && ratio >= 1.0 / tolerance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(expected: u64, count: u64, active_percent: u64) -> Trial {
        Trial {
            expected,
            reading: Reading {
                count,
                enabled_ns: 100_000,
                running_ns: 1_000 * active_percent,
            },
        }
    }

    #[test]
    fn a_right_counter_is_believed() {
        assert_eq!(
            judge(trial(1000, 1010, 100), trial(2000, 2013, 100), 2.0),
            Ok(())
        );
    }

    #[test]
    fn zero_is_not_a_measurement() {
        let reason = judge(trial(1000, 0, 100), trial(2000, 0, 100), 2.0).expect_err("it reads 0");
        assert!(reason.to_string().contains("reads 0"), "{reason}");
        let never =
            judge(trial(1000, 0, 0), trial(2000, 0, 0), 2.0).expect_err("it was never active");
        assert!(never.to_string().contains("reads 0"), "{never}");
    }

    #[test]
    fn an_estimate_is_not_a_measurement() {
        let reason =
            judge(trial(1000, 181, 18), trial(2000, 362, 18), 2.0).expect_err("it was multiplexed");
        assert!(reason.to_string().contains("18 %"), "{reason}");
        assert!(judge(trial(1000, 1000, 100), trial(2000, 2000, 18), 2.0).is_err());
    }

    #[test]
    fn a_constant_is_not_a_measurement() {
        let reason = judge(trial(1000, 1500, 100), trial(2000, 1500, 100), 2.0)
            .expect_err("it stands still");
        assert!(reason.to_string().contains("does not follow"), "{reason}");
    }

    #[test]
    fn absurd_counts_are_not_measurements() {
        for factor in [3, 1000] {
            let reason = judge(
                trial(1000, 1000 * factor, 100),
                trial(2000, 2000 * factor, 100),
                2.0,
            )
            .expect_err("it is too large");
            assert!(reason.to_string().contains("absurd"), "{reason}");
        }
        assert!(judge(trial(1000, 400, 100), trial(2000, 800, 100), 2.0).is_err());
    }

    #[test]
    fn a_counter_that_was_never_enabled_was_never_active() {
        assert!(active(0, 0).abs() < f64::EPSILON);
    }
}
