//! `delay` and `drift` in the measured region: a busy wait after the workload's work and before the clock is read for
//! the second time.
//!
//! The wait of a repetition is the delay times the loop count, so that the time of one iteration grows by the delay,
//! whatever the loop count is. Only a repetition of a request that asks for it goes that way: others run the very code
//! that they would run without.

use serde::Deserialize;

use super::drift::Drift;
use super::phases::Random;
use super::{Cause, Kind};
use crate::clock::{Clock, ClockKind};
use oscope_sys::error::Failure;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "delay",
    purpose: "A busy wait in the measured region, by which each iteration gets longer",
    raises: &["injected_ns"],
    kind: Kind::Region("duration"),
};

/// Longest delay of an iteration, and longest phase in repetitions.
const MOST: f64 = 1e9;

/// The field `inject` of a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelaySpec {
    /// What an iteration is to be delayed by in phases with the delay, in ns.
    pub delay_ns: f64,
    /// What is added to the delay of an iteration with each second, in all phases.
    pub drift_ns_per_s: f64,
    /// `CLOCK_REALTIME` at which the drift is 0; needed for a drift.
    pub since_ns: Option<u64>,
    /// Decides the phases.
    pub seed: u64,
    /// Mean repetitions of a phase with the delay; without, it never pauses.
    pub on: Option<f64>,
    /// Mean repetitions of a phase without the delay.
    pub off: Option<f64>,
}

impl Default for DelaySpec {
    fn default() -> Self {
        Self {
            delay_ns: 0.0,
            drift_ns_per_s: 0.0,
            since_ns: None,
            seed: 0,
            on: None,
            off: None,
        }
    }
}

impl DelaySpec {
    /// Check the numbers.
    ///
    /// # Errors
    /// `Failure::Request` that says which is wrong.
    pub fn check(&self) -> Result<(), Failure> {
        let bounds = [
            ("delay_ns", Some(self.delay_ns), 0.0),
            ("drift_ns_per_s", Some(self.drift_ns_per_s), 0.0),
            ("on", self.on, 1.0),
            ("off", self.off, 1.0),
        ];
        for (name, value, least) in bounds {
            if value.is_some_and(|value| !(least..=MOST).contains(&value)) {
                return Err(Failure::request(
                    "inject",
                    format!("{name} must be from {least} to {MOST:e}"),
                ));
            }
        }
        if self.on.is_some() != self.off.is_some() {
            return Err(Failure::request("inject", "on and off go together"));
        }
        if self.drift_ns_per_s > 0.0 && self.since_ns.is_none() {
            return Err(Failure::request("inject", "a drift needs since_ns"));
        }
        Ok(())
    }
}

/// What one request injects.
#[derive(Debug)]
pub struct Injected {
    delay_ns: f64,
    drift: Drift,
    hz: f64,
    random: Random,
    means: Option<(f64, f64)>,
    is_on: bool,
    /// Repetitions left of this phase.
    left: u64,
}

impl Injected {
    /// Begin with a phase of either kind, each with the share that it has of all time.
    ///
    /// # Errors
    /// `Failure::Request` where instructions are counted: a wait by that clock would end by what it counts.
    pub fn new(wanted: &DelaySpec, clock: &Clock) -> Result<Self, Failure> {
        if clock.kind == ClockKind::Instructions {
            return Err(Failure::request(
                "inject",
                "nothing can be injected where instructions are counted; measure time",
            ));
        }
        let mut random = Random::new(wanted.seed, CAUSE.name);
        let means = wanted.on.zip(wanted.off);
        let is_on = means.is_none_or(|(on, off)| random.share() < on / (on + off));
        let mut injected = Self {
            delay_ns: wanted.delay_ns,
            drift: Drift {
                ns_per_s: wanted.drift_ns_per_s,
                since_ns: wanted.since_ns.unwrap_or(0),
            },
            hz: clock.hz,
            random,
            means,
            is_on,
            left: 0,
        };
        injected.left = injected.length();
        Ok(injected)
    }

    /// How long the next repetition is to wait, in ticks of the clock.
    pub fn next_ticks(&mut self, started_ns: u64, iterations: u64) -> u64 {
        if self.left == 0 {
            self.is_on = !self.is_on;
            self.left = self.length();
        }
        self.left -= 1;
        let delay_ns = if self.is_on { self.delay_ns } else { 0.0 };
        let each_ns = delay_ns + self.drift.delay_ns(started_ns);
        (each_ns * iterations as f64 * self.hz / 1e9).round() as u64
    }

    fn length(&mut self) -> u64 {
        match self.means {
            None => u64::MAX,
            Some((on, off)) => {
                let mean = if self.is_on { on } else { off };
                (self.random.exponential(mean).round() as u64).max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock {
            kind: ClockKind::MonotonicRaw,
            hz: 2e9,
            overhead: 0.0,
            overhead_mad: 0.0,
            resolution: 1,
            why: None,
        }
    }

    fn ticks(wanted: &DelaySpec, count: usize) -> Vec<u64> {
        let mut injected = Injected::new(wanted, &clock()).expect("it can be");
        (0..count).map(|_| injected.next_ticks(0, 100)).collect()
    }

    #[test]
    fn the_wait_is_the_delay_of_all_iterations() {
        let wanted = DelaySpec {
            delay_ns: 1.5,
            ..DelaySpec::default()
        };
        assert_eq!(ticks(&wanted, 3), [300, 300, 300]);
    }

    #[test]
    fn phases_are_of_the_mean_length_and_come_from_the_seed() {
        let wanted = |seed| DelaySpec {
            delay_ns: 1.0,
            seed,
            on: Some(20.0),
            off: Some(60.0),
            ..DelaySpec::default()
        };
        let taken = ticks(&wanted(1), 100_000);
        assert_eq!(taken, ticks(&wanted(1), 100_000));
        assert_ne!(taken, ticks(&wanted(2), 100_000));
        assert!(taken.iter().all(|&one| one == 0 || one == 200));
        let share = taken.iter().filter(|&&one| one > 0).count() as f64 / 100_000.0;
        // Some 1250 pairs of phases: the standard error of the share is 0.25 * sqrt(2 / 1250) = 0.01.
        assert!((share - 0.25).abs() < 0.05, "{share}");
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        let check = |text: &str| {
            let wanted: DelaySpec = serde_json::from_str(text).expect("it can be read");
            wanted.check().map_err(|failure| failure.to_string())
        };
        assert_eq!(check(r#"{"delay_ns": 5}"#), Ok(()));
        for (text, word) in [
            (r#"{"delay_ns": -1}"#, "delay_ns"),
            (r#"{"on": 5}"#, "together"),
            (r#"{"on": 0.5, "off": 1}"#, "on must"),
            (r#"{"drift_ns_per_s": 3}"#, "since_ns"),
        ] {
            let refused = check(text).expect_err(text);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
