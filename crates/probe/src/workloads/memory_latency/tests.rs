//! Truth of `memory.latency`: what cannot be chased is refused, and every load asked for is done.

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;
use oscope_sys::affinity;

fn parameters_of(size: u64, stride: u64, order: Order) -> Parameters {
    Parameters {
        size,
        stride,
        pages: Pages::Base,
        order,
    }
}

/// Prepare the workload, and hand it to `act` with a clock if that went well.
fn with<T>(
    parameters: Parameters,
    act: impl FnOnce(&mut MemoryLatency, &Clock) -> T,
) -> Result<T, Failure> {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let mut workload = MemoryLatency::prepare(parameters, &context)?;
    Ok(act(&mut workload, &clock))
}

#[test]
fn every_load_asked_for_is_done_whatever_the_size_and_the_stride() {
    for (size, stride) in [
        (16, 8),
        (4096, 8),
        (65536, 64),
        (1 << 20, 4096 + 64),
        (100_000, 24),
    ] {
        for order in [Order::Random, Order::Forward] {
            with(parameters_of(size, stride, order), |workload, clock| {
                // Multiples of the unrolled loads and others, less than a round and more.
                for iterations in [1, 63, 64, 65, 10_000, 70_001] {
                    let mut region = Region::new(clock);
                    let work = workload.run(iterations, &mut region).expect("it runs");
                    assert_eq!((work.done, work.wanted), (iterations, iterations));
                    assert_eq!(workload.verify(&work), Ok(()));
                    assert!(work.metrics.iter().any(|(name, _)| *name == "time_ns"));
                }
            })
            .expect("it can be prepared");
        }
    }
}

#[test]
fn slots_that_make_no_ring_are_refused() {
    for (size, stride) in [(65536, 12), (65536, 65536), (127, 64), (1 << 40, 8)] {
        match with(parameters_of(size, stride, Order::Random), |_, _| ()) {
            Err(Failure::Request { field, message, .. }) => {
                assert_eq!(field, "stride");
                assert!(message.contains("must be"), "{message}");
            }
            other => panic!("{size} B by {stride} B: {other:?}"),
        }
    }
}

#[test]
fn more_memory_than_there_is_is_unavailable() {
    let failure = with(parameters_of(1 << 40, 1 << 20, Order::Random), |_, _| ());
    assert!(
        matches!(failure, Err(Failure::Unavailable { .. })),
        "{failure:?}"
    );
}

#[test]
fn huge_pages_are_chased_or_unavailable() {
    let parameters = Parameters {
        pages: Pages::Huge,
        ..parameters_of(3 << 20, 4096, Order::Random)
    };
    let chased = with(parameters, |workload, clock| {
        let work = workload.run(5000, &mut Region::new(clock));
        workload.verify(&work.expect("it runs"))
    });
    match chased {
        Ok(verified) => assert_eq!(verified, Ok(())),
        Err(failure) => assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}"),
    }
}
