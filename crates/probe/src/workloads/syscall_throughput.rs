//! `syscall.throughput`: how many system calls a second.

use std::fs::File;
use std::io::Seek;

use serde::Deserialize;

use super::calls::{Call, Entry, Make, Visitor, regular_file};
use crate::calibration::calibrate;
use crate::clock::Clock;
use crate::description::{Describe, Description, Metrics, SchedulingIsolation};
use crate::region::Region;
use crate::steps::repeat;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Bytes in the file that `read` goes through.
const FILE_BYTES: u64 = 1 << 20;
/// A chunk of calls lasts this many times what reading the clock costs, and [`SHORTEST_CHUNK_NS`] at least.
const CHUNK_OVER_CLOCK: f64 = 2000.0;
/// Least length of a chunk.
const SHORTEST_CHUNK_NS: f64 = 100_000.0;

/// Parameters of `syscall.throughput`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// read takes 1 byte from a regular file in memory; lseek goes to one place in such a file; gethostid is the C
    /// library's function.
    #[parameter(words("read", &["read", "lseek", "getpid", "gethostid"]))]
    call: String,
    /// How long a repetition lasts; it ends with the chunk under way.
    #[parameter(seconds(10.0, 0.01..=3600.0))]
    duration: f64,
}

/// The prepared workload.
#[derive(Debug)]
pub struct SyscallThroughput {
    call: Call,
    /// The file that `read` goes through; it shares its place with the one the call has.
    source: Option<File>,
    duration_ticks: f64,
    /// Calls between two readings of the clock.
    chunk: u64,
    /// Bytes that `read` has left in its file.
    left: u64,
    differing: i64,
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(rate("calls/s", "calls"))]
    calls_per_s: f64,
    #[metric(rate("B/s", "bytes moved").note("Each call counts as one byte, whatever the call: equal to calls_per_s."))]
    bytes_per_s: f64,
}

impl Workload for SyscallThroughput {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "syscall.throughput",
            version: 1,
            purpose: "How many system calls a second",
            timing_model: "calls_per_s = calls / ((raw - correction) in seconds). Inside the clock: the calls, each \
                within a function called for it, the comparison of their answers, a reading of the clock after each \
                chunk (less than 0.1 %), and for read, which goes through a file of 1 MiB in memory byte by byte, an \
                lseek to its start after each 1048576 calls (about 1e-6).",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Always,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let mut workload = Self::new(&parameters.call)?;
        workload.duration_ticks = context.clock.ticks(parameters.duration * 1e9);
        workload.size_chunk(context.clock)?;
        Ok(workload)
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    // Sizing the chunks has warmed up already, and a whole further duration would be wasted.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let clock = region.clock();
        self.differing = 0;
        let tally = region.measure(|| self.calls_for(clock, self.duration_ticks))?;
        let rate = tally.made as f64 * 1e9 / clock.nanoseconds(region.corrected()?);
        let values = Values {
            calls_per_s: rate,
            bytes_per_s: rate,
        };
        Ok(Work {
            metrics: values.values(),
            done: tally.made,
            wanted: tally.wanted,
            notes: Vec::new(),
        })
    }

    fn verify(&mut self, work: &Work) -> Result<(), Failure> {
        if self.differing != 0 {
            return Err(Failure::failed(format!(
                "a call did not answer {} as it must",
                self.call.expected
            )));
        }
        if work.done == 0 {
            return Err(Failure::failed("no call was made"));
        }
        if let Some(file) = &mut self.source {
            let place = file.stream_position();
            let place =
                place.map_err(|error| Failure::system("asking for the file's place", error))?;
            if place != FILE_BYTES - self.left {
                return Err(Failure::failed(format!(
                    "the file stands at byte {place}, not at {}",
                    FILE_BYTES - self.left
                )));
            }
        }
        Ok(())
    }
}

/// Calls made, as counted by the loop, and calls that were to be made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    made: u64,
    wanted: u64,
}

impl SyscallThroughput {
    fn new(name: &str) -> Result<Self, Failure> {
        let mut source = None;
        let call = Call::named(name, Entry::Function, || {
            let file = regular_file(FILE_BYTES as usize)?;
            let twin = file.try_clone();
            source = Some(twin.map_err(|error| Failure::system("sharing a file", error))?);
            Ok(file)
        })?;
        Ok(Self {
            call,
            source,
            duration_ticks: 0.0,
            chunk: 1,
            left: FILE_BYTES,
            differing: 0,
        })
    }

    /// Find a chunk long enough for the clock not to matter.
    fn size_chunk(&mut self, clock: &Clock) -> Result<(), Failure> {
        let reading_ns = clock.nanoseconds(clock.overhead);
        let target_ns = (CHUNK_OVER_CLOCK * reading_ns).max(SHORTEST_CHUNK_NS);
        let trial = |calls| {
            let begin = clock.begin();
            self.chunk_of(calls)?;
            Ok(clock.nanoseconds(clock.end().wrapping_sub(begin) as f64))
        };
        self.chunk = calibrate(target_ns, trial, cancel::requested)?.iterations;
        Ok(())
    }

    /// Make calls, chunk by chunk, for so many ticks or until a signal comes.
    #[inline(always)]
    fn calls_for(&mut self, clock: &Clock, ticks: f64) -> Result<Tally, Failure> {
        let begin = clock.begin();
        let mut tally = Tally::default();
        loop {
            let chunk = self.chunk_of(self.chunk)?;
            tally.made += chunk.made;
            tally.wanted += chunk.wanted;
            let spent = clock.end().wrapping_sub(begin) as f64;
            if spent >= ticks || cancel::requested() {
                return Ok(tally);
            }
        }
    }

    /// Make `calls` calls, or fewer where the file of `read` ends; it then starts anew.
    fn chunk_of(&mut self, calls: u64) -> Result<Tally, Failure> {
        let wanted = match &self.source {
            Some(_) => calls.min(self.left),
            None => calls,
        };
        let (made, differing) = self.call.visit(Chunk {
            calls: wanted,
            expected: self.call.expected,
        });
        self.differing |= differing;
        if let Some(file) = &mut self.source {
            self.left -= made;
            if self.left == 0 {
                file.rewind()
                    .map_err(|error| Failure::system("going back to the file's start", error))?;
                self.left = FILE_BYTES;
            }
        }
        Ok(Tally { made, wanted })
    }
}

/// Makes so many calls; gives their count and the bits in which any answer differed from the one expected.
struct Chunk {
    calls: u64,
    expected: i64,
}

impl Visitor for Chunk {
    type Output = (u64, i64);

    #[inline(always)]
    fn visit(self, mut call: impl Make) -> (u64, i64) {
        let mut differing = 0;
        let made = repeat(self.calls, self.calls, || {
            differing |= call.make() ^ self.expected;
        });
        (made, differing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RequestedClock;

    fn prepared(name: &str) -> SyscallThroughput {
        let mut workload = SyscallThroughput::new(name).unwrap();
        workload.chunk = FILE_BYTES / 4 + 1;
        workload
    }

    #[test]
    fn reading_starts_anew_at_the_end_of_the_file() {
        let mut workload = prepared("read");
        let chunks: Vec<u64> = (0..5)
            .map(|_| workload.chunk_of(workload.chunk).unwrap().made)
            .collect();
        let quarter = FILE_BYTES / 4;
        assert_eq!(
            chunks,
            [
                quarter + 1,
                quarter + 1,
                quarter + 1,
                quarter - 3,
                quarter + 1
            ]
        );
        assert_eq!(workload.differing, 0);
        let work = Work {
            done: 1,
            ..Work::default()
        };
        assert_eq!(workload.verify(&work), Ok(()));
    }

    #[test]
    fn a_file_that_was_not_read_is_rejected() {
        let mut workload = prepared("read");
        workload.chunk_of(1000).unwrap();
        workload.left += 1;
        let work = Work {
            done: 1000,
            ..Work::default()
        };
        assert!(workload.verify(&work).is_err());
    }

    #[test]
    fn no_calls_and_wrong_answers_are_rejected() {
        let mut workload = prepared("getpid");
        assert!(workload.verify(&Work::default()).is_err());
        workload.differing = 1;
        let work = Work {
            done: 1,
            ..Work::default()
        };
        assert!(workload.verify(&work).is_err());
    }

    #[test]
    fn the_duration_ends_the_calls_and_all_are_counted() {
        let clock = Clock::open(RequestedClock::Monotonic).unwrap();
        let mut workload = prepared("lseek");
        workload.chunk = 10;
        let tally = workload.calls_for(&clock, 1e6).unwrap();
        assert_eq!(tally.made, tally.wanted);
        assert!(tally.made > 0 && tally.made % 10 == 0);
    }
}
