//! `syscall.uring-nop`: what a request through io_uring costs, by how many one system call submits.

use io_uring::{IoUring, opcode};
use serde::Deserialize;

use crate::description::{Describe, Description, Metric, SchedulingIsolation};
use crate::region::Region;
use crate::workload::{Context, Work, Workload};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Most requests of a batch: what the ring of most kernels holds at least (`IORING_MAX_ENTRIES` is 32768).
const MOST: u64 = 4096;

/// Parameters of `syscall.uring-nop`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// Requests that one io_uring_enter(2) submits and waits for; the last batch of a repetition may be smaller.
    #[parameter(integer(1, 1..=MOST))]
    batch: u64,
}

/// The prepared workload.
pub struct UringNop {
    ring: IoUring,
    batch: u64,
    tally: Tally,
}

/// What came of the requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    /// Requests completed.
    completed: u64,
    /// Sum of the numbers that came back with them.
    sum: u64,
    /// Results other than 0.
    refused: u64,
}

impl Workload for UringNop {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "syscall.uring-nop",
            version: 1,
            purpose: "What a request through io_uring costs, by how many one system call submits",
            timing_model: "time = (raw - correction) / iterations. An iteration is one IORING_OP_NOP, which the \
                kernel completes as it is submitted (io_uring/nop.c). Inside the clock: writing the requests of a \
                batch into the submission queue, one io_uring_enter(2) that submits and waits for all of them, and \
                reading their completions, each of which is counted. Outside: making the ring, which is the default \
                one: no polling thread, and no flag that says who submits.",
            parameters: Parameters::parameters(),
            metrics: vec![Metric::TIME_NS, Metric::CYCLES],
            needs: vec!["io_uring"],
            programs: vec![],
            alone: SchedulingIsolation::Always,
        }
    }

    fn prepare(parameters: Parameters, _context: &Context) -> Result<Self, Failure> {
        let ring = IoUring::new(parameters.batch as u32).map_err(|error| {
            Failure::unavailable(
                format!("io_uring cannot be used: {error}"),
                "set /proc/sys/kernel/io_uring_disabled to 0, or have the container's filter allow io_uring_setup(2)",
            )
            .because_of(error)
        })?;
        Ok(Self {
            ring,
            batch: parameters.batch,
            tally: Tally::default(),
        })
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let tally = region.measure(|| go(&mut self.ring, iterations, self.batch));
        self.tally = tally.map_err(|error| Failure::system("io_uring_enter", error))?;
        Ok(Work {
            metrics: region.time_and_cycles(iterations)?,
            done: self.tally.completed,
            wanted: iterations,
            notes: Vec::new(),
        })
    }

    fn verify(&mut self, work: &Work) -> Result<(), Failure> {
        verify(self.tally, work.done)
    }
}

/// Submit and complete so many requests, a batch at a time, or until a signal comes.
fn go(ring: &mut IoUring, iterations: u64, batch: u64) -> std::io::Result<Tally> {
    let mut tally = Tally::default();
    while tally.completed < iterations && !cancel::requested() {
        let end = iterations.min(tally.completed + batch);
        let mut queue = ring.submission();
        for number in tally.completed..end {
            let request = opcode::Nop::new().build().user_data(number);
            // SAFETY: a no-op refers to no memory; the queue has as many places as a batch has requests.
            unsafe { queue.push(&request) }.map_err(std::io::Error::other)?;
        }
        drop(queue);
        while tally.completed < end {
            ring.submit_and_wait((end - tally.completed) as usize)?;
            for completion in ring.completion() {
                tally.completed += 1;
                tally.sum = tally.sum.wrapping_add(completion.user_data());
                tally.refused += u64::from(completion.result() != 0);
            }
        }
    }
    Ok(tally)
}

/// Each request came back once, and none was refused.
fn verify(tally: Tally, done: u64) -> Result<(), Failure> {
    if tally.refused > 0 {
        return Err(Failure::failed(format!(
            "{} of {done} requests were refused",
            tally.refused
        )));
    }
    let expected = (u128::from(done) * u128::from(done.saturating_sub(1)) / 2) as u64;
    if tally.sum != expected {
        return Err(Failure::failed(
            "the numbers that came back are not those of the requests",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_comes_back_once_whatever_the_batch() {
        for (iterations, batch) in [(1, 1), (7, 1), (7, 3), (4096, 4096), (10, 64)] {
            let mut ring = IoUring::new(batch).expect("io_uring");
            let tally = go(&mut ring, iterations, u64::from(batch)).expect("a ring");
            assert_eq!(tally.completed, iterations);
            verify(tally, iterations).expect("all came back");
        }
    }

    #[test]
    fn what_is_refused_or_comes_back_twice_is_seen() {
        let tally = Tally {
            completed: 3,
            sum: 3,
            refused: 0,
        };
        verify(tally, 3).expect("0 + 1 + 2");
        assert!(verify(Tally { sum: 4, ..tally }, 3).is_err());
        assert!(
            verify(
                Tally {
                    refused: 1,
                    ..tally
                },
                3
            )
            .is_err()
        );
    }
}
