//! Truth of `memory.bandwidth`: broken memory and passes left out are refused.

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;
use oscope_sys::affinity;

fn parameters_of(operation: Operation, threads: usize, window: u64) -> Parameters {
    Parameters {
        operation,
        threads,
        size: 300_000,
        window,
        pages: Pages::Base,
    }
}

/// Hands `act` a prepared workload and the region of its next repetition.
fn with(parameters: Parameters, act: impl FnOnce(&mut MemoryBandwidth, &mut Region)) {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let _pinned = affinity::Pinned::to(allowed[0]).expect("it is allowed");
    let context = Context::new(&clock, Some(allowed[0]), &allowed, &shared);
    let mut workload = MemoryBandwidth::prepare(parameters, &context).expect("it can be prepared");
    act(&mut workload, &mut Region::new(&clock));
}

const ALL: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Copy];

#[test]
fn each_operation_does_its_work_with_one_thread_and_several() {
    for operation in ALL {
        for (threads, window) in [(1, 0), (3, 0), (2, 5000)] {
            with(
                parameters_of(operation, threads, window),
                |workload, region| {
                    let work = workload.run(5, region).expect("it runs");
                    assert_eq!((work.done, work.wanted), (1_500_000, 1_500_000));
                    assert_eq!(workload.verify(&work), Ok(()));
                    let metric = |name| work.metrics.iter().find(|each| each.0 == name);
                    let (_, rate) = metric("throughput").expect("it is given");
                    let (_, time) = metric("time_s").expect("it is given");
                    assert!((rate * time * MIB - 300_000.0).abs() < 1e-6);
                },
            );
        }
    }
}

#[test]
fn a_bit_that_tips_is_seen_by_a_reader() {
    with(parameters_of(Operation::Read, 2, 0), |workload, region| {
        workload.buffers.tip(299_999);
        let work = workload.run(3, region).expect("it runs");
        assert_eq!(workload.tally.wrong, 3);
        let failure = workload.verify(&work).expect_err("a bit is wrong");
        assert!(failure.to_string().contains("3 times"), "{failure}");
    });
}

#[test]
fn what_was_not_written_or_copied_is_seen() {
    for operation in [Operation::Write, Operation::Copy] {
        with(parameters_of(operation, 2, 0), |workload, region| {
            // Nothing but zeros is there yet, or what the memory was filled with.
            assert!(workload.verify(&Work::default()).is_err());
            let work = workload.run(2, region).expect("it runs");
            assert_eq!(workload.verify(&work), Ok(()));
            // As after a repetition that writes nothing.
            workload.repetitions += 1;
            let mark = mark(workload.repetitions);
            let mut shares = workload.buffers.shares(&workload.layout, mark);
            shares.iter_mut().for_each(Share::spoil);
            drop(shares);
            assert!(workload.verify(&work).is_err());
        });
    }
}

#[test]
fn marks_are_not_zero_and_change_with_each_repetition() {
    for repetition in 0..1000 {
        assert_ne!(mark(repetition), 0);
        assert_ne!(mark(repetition), mark(repetition + 1));
    }
}

#[test]
fn no_rate_comes_from_no_time() {
    assert!(metrics(4096, 0.0).is_err() && metrics(4096, -1e-9).is_err());
    assert_eq!(
        metrics(2 << 20, 0.5),
        Ok(vec![("throughput", 4.0), ("time_s", 0.5)])
    );
}

#[test]
fn more_threads_than_cpus_are_reported() {
    assert_eq!(cpu_sharing(3, 2), ["3 threads share 2 CPUs"]);
    assert!(cpu_sharing(2, 2).is_empty());
}

#[test]
fn without_a_pinned_cpu_several_threads_get_theirs_and_it_is_given_back() {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let workload = MemoryBandwidth::prepare(parameters_of(Operation::Write, 2, 0), &context);
    assert_eq!(affinity::allowed(), Ok(vec![allowed[0]]));
    drop(workload);
    assert_eq!(affinity::allowed(), Ok(allowed));
}
