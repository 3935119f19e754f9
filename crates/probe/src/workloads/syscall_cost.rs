//! `syscall.cost`: what one system call costs.

use std::fs::File;

use serde::Deserialize;

use super::call_numbers;
use super::calls::{Call, Entry, Make, Visitor};
use super::null::Style;
use crate::description::{Describe, Description, Metric, SchedulingIsolation};
use crate::region::Region;
use crate::steps::repeat;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::error::Failure;

/// Untimed calls right before a single timed one.
const PRIMING: u32 = 16;
/// Calls between two looks for a signal: some 10 ms, of which the look takes less than 1e-6.
const CALLS_UNWATCHED: u64 = 1 << 16;

/// Parameters of `syscall.cost`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// read takes 1 byte from /dev/zero; lseek goes to one place in a regular file in memory; gethostid and
    /// clock_gettime are the C library's functions; my_precious is the call of a kernel built with the patch of that
    /// name, set to log nothing (kernel.my_precious_log = 0), and my_precious_logged the same with a line in the
    /// kernel's log each time (2); nr:N is the call of that number with zeroes as arguments: one that takes none,
    /// returns at once and changes nothing, or a number that is free or new.
    #[parameter(words(
        "getppid",
        &["getpid", "getppid", "read", "lseek", "gethostid", "clock_gettime", "my_precious", "my_precious_logged"],
    ).or("nr:N").within(call_numbers::accepted()))]
    call: String,
    /// Many iterations in a loop, or one timed by itself.
    #[parameter(choice("loop"))]
    style: Style,
    /// Whether the system-call instruction stands in a function that is called for it, as in the C library, or in the
    /// loop itself. Some mitigations make the return from that function mispredicted, which a program pays for too.
    #[parameter(choice("function"))]
    entry: Entry,
}

/// The prepared workload.
#[derive(Debug)]
pub struct SyscallCost {
    call: Call,
    style: Style,
    differing: i64,
}

impl Workload for SyscallCost {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "syscall.cost",
            version: 1,
            purpose: "What one system call costs",
            timing_model: "time = (raw - correction) / iterations. Inside the clock: the call, the comparison of its \
                answer, with entry=function calling a function and returning from it, and with style=loop the loop \
                counter. style=single times one call between two serialised readings; 16 untimed calls come right \
                before it, since the harness's own bookkeeping has cooled the caches: the cost of a call to a cold \
                kernel is not measured. Where the kernel evicts or mistrains branch predictions by address (Safe RET \
                on AMD Zen), the place of the loop in the program alone can move the figure by some 30 ns.",
            parameters: Parameters::parameters(),
            metrics: vec![Metric::TIME_NS, Metric::CYCLES],
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Always,
        }
    }

    fn prepare(parameters: Parameters, _context: &Context) -> Result<Self, Failure> {
        let call = Call::named(&parameters.call, parameters.entry, || {
            File::open("/dev/zero").map_err(|error| Failure::system("opening /dev/zero", error))
        })?;
        Ok(Self {
            call,
            style: parameters.style,
            differing: 0,
        })
    }

    fn iterations(&self) -> Iterations {
        match self.style {
            Style::Loop => Iterations::Calibrated,
            Style::Single => Iterations::Fixed(1),
        }
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let expected = self.call.expected;
        let tally = match self.style {
            Style::Loop => self.call.visit(InLoop {
                region,
                iterations,
                expected,
            }),
            Style::Single => self.call.visit(ByItself { region, expected }),
        };
        self.differing = tally.differing;
        Ok(Work {
            metrics: region.time_and_cycles(iterations)?,
            done: tally.calls,
            wanted: iterations,
            notes: self.call.remark().into_iter().collect(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        if self.differing != 0 {
            return Err(Failure::failed(format!(
                "a call did not answer {} as it must",
                self.call.expected
            )));
        }
        Ok(())
    }
}

/// What came of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tally {
    /// Calls made.
    calls: u64,
    /// Bits in which any answer differed from the one expected.
    differing: i64,
}

struct InLoop<'r, 'c> {
    region: &'r mut Region<'c>,
    iterations: u64,
    expected: i64,
}

impl Visitor for InLoop<'_, '_> {
    type Output = Tally;

    fn visit(self, mut call: impl Make) -> Tally {
        self.region.measure(|| {
            let mut differing = 0;
            let calls = repeat(self.iterations, CALLS_UNWATCHED, || {
                differing |= call.make() ^ self.expected;
            });
            Tally { calls, differing }
        })
    }
}

struct ByItself<'r, 'c> {
    region: &'r mut Region<'c>,
    expected: i64,
}

impl Visitor for ByItself<'_, '_> {
    type Output = Tally;

    fn visit(self, mut call: impl Make) -> Tally {
        for _ in 0..PRIMING {
            call.make();
        }
        let answer = self.region.measure(|| call.make());
        Tally {
            calls: 1,
            differing: answer ^ self.expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, RequestedClock};

    fn tally_of(answers: &[i64], expected: i64) -> Tally {
        let clock = Clock::open(RequestedClock::Monotonic).unwrap();
        let mut answers = answers.iter();
        InLoop {
            region: &mut Region::new(&clock),
            iterations: answers.len() as u64,
            expected,
        }
        .visit(|| *answers.next().expect("as many calls as iterations"))
    }

    #[test]
    fn each_call_is_counted_and_each_wrong_answer_seen() {
        assert_eq!(
            tally_of(&[7, 7, 7], 7),
            Tally {
                calls: 3,
                differing: 0
            }
        );
        assert_ne!(tally_of(&[7, -9, 7], 7).differing, 0);
        assert_ne!(tally_of(&[7, 7, 6], 7).differing, 0);
    }

    #[test]
    fn a_single_call_is_primed_and_measured_once() {
        let clock = Clock::open(RequestedClock::Monotonic).unwrap();
        let mut region = Region::new(&clock);
        let mut calls = 0;
        let tally = ByItself {
            region: &mut region,
            expected: i64::from(PRIMING) + 1,
        }
        .visit(|| {
            calls += 1;
            calls
        });
        assert_eq!(
            tally,
            Tally {
                calls: 1,
                differing: 0
            }
        );
        assert!(region.raw().is_ok());
    }

    #[test]
    fn a_wrong_answer_fails_the_sample() {
        let mut workload = SyscallCost {
            call: Call::named("getpid", Entry::Function, || unreachable!()).unwrap(),
            style: Style::Loop,
            differing: 2,
        };
        assert!(workload.verify(&Work::default()).is_err());
    }
}
