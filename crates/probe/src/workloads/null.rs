//! `null`: work of known size, or none. It measures the instrument.

use serde::Deserialize;

use crate::description::{Describe, Description, Metric, SchedulingIsolation};
use crate::region::Region;
use crate::steps::{destination, lcg_steps, repeat};
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::error::Failure;

/// Where the steps start; any number would do.
const START: u64 = 42;

/// Steps between two looks for a signal, about 0.1 ms.
const STEPS_UNWATCHED: u64 = 1 << 16;

/// One iteration after the other, or a single one timed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Many, in a loop.
    Loop,
    /// One, timed by itself.
    Single,
}

/// Parameters of `null`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// Many iterations in a loop, or one timed by itself.
    #[parameter(choice("loop"))]
    style: Style,
    /// Dependent multiply-and-add steps in an iteration; 0 is the empty workload.
    #[parameter(integer(0, 0..=1_000_000_000).unit("steps"))]
    work: u64,
}

/// The prepared workload.
#[derive(Debug)]
pub struct Null {
    parameters: Parameters,
    end: u64,
    expected: u64,
}

impl Workload for Null {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "null",
            version: 1,
            purpose: "Work of known size, or none at all: what the instrument itself adds",
            timing_model: "time = (raw - correction) / iterations, with raw = iterations * (loop counter + work \
                steps). A step is one multiplication and one addition, each needing the one before. style=single has \
                no loop counter.",
            parameters: Parameters::parameters(),
            metrics: vec![Metric::TIME_NS, Metric::CYCLES],
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Always,
        }
    }

    fn prepare(parameters: Parameters, _context: &Context) -> Result<Self, Failure> {
        Ok(Self {
            parameters,
            end: START,
            expected: START,
        })
    }

    fn iterations(&self) -> Iterations {
        match self.parameters.style {
            Style::Loop => Iterations::Calibrated,
            Style::Single => Iterations::Fixed(1),
        }
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let steps = self.parameters.work;
        let (done, end) = match (self.parameters.style, steps) {
            (Style::Single, 0) => region.measure(|| (1, START)),
            (Style::Single, _) => region.measure(|| (1, lcg_steps(START, steps))),
            (Style::Loop, 0) => region.measure(|| (count(iterations), START)),
            (Style::Loop, _) => region.measure(|| count_walks(iterations, steps)),
        };
        self.end = end;
        self.expected = destination(START, steps.wrapping_mul(iterations));
        Ok(Work {
            metrics: region.time_and_cycles(iterations)?,
            done,
            wanted: iterations,
            notes: Vec::new(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        if self.end != self.expected {
            return Err(Failure::failed(format!(
                "the steps ended at {}, not at {}",
                self.end, self.expected
            )));
        }
        Ok(())
    }
}

#[inline(always)]
fn count(iterations: u64) -> u64 {
    repeat(iterations, STEPS_UNWATCHED, || ())
}

#[inline(always)]
fn count_walks(iterations: u64, steps: u64) -> (u64, u64) {
    let mut value = START;
    let done = repeat(iterations, STEPS_UNWATCHED.div_ceil(steps), || {
        value = lcg_steps(value, steps);
    });
    (done, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_count_and_walk_as_requested() {
        assert_eq!(count(0), 0);
        assert_eq!(count(1000), 1000);
        assert_eq!(count_walks(10, 7), (10, destination(START, 70)));
    }

    #[test]
    fn steps_left_out_are_rejected() {
        let mut null = Null {
            parameters: Parameters {
                style: Style::Loop,
                work: 5,
            },
            end: lcg_steps(START, 49),
            expected: destination(START, 50),
        };
        assert!(null.verify(&Work::default()).is_err());
        null.end = lcg_steps(START, 50);
        assert!(null.verify(&Work::default()).is_ok());
    }
}
