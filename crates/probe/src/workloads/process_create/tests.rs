//! Truth of `process.create`: broken children are refused, and the figures are what the stamps say.

use std::cell::OnceCell;

use nix::sys::resource::{UsageWho, getrusage};

use super::stamp::Stamp;
use super::*;
use crate::clock::offsets::Offsets;
use crate::clock::{ClockKind, RequestedClock};
use crate::workload::Shared;
use oscope_sys::affinity;

fn life() -> Life {
    let stamp = |ticks| Stamp { ticks, cpu: 0 };
    Life {
        called: stamp(1000),
        began: Some(stamp(51_000)),
        returned: stamp(31_000),
        reaped: stamp(101_000),
        end: End::Exit(0),
    }
}

fn verdict(life: &Life, comparison: &Comparison) -> Result<(), String> {
    judge(life, &Spans::of(life, comparison)).map_err(|failure| failure.to_string())
}

fn clock(kind: ClockKind) -> Clock {
    Clock {
        kind,
        hz: 2e9,
        overhead: 40.0,
        overhead_mad: 0.0,
        resolution: 1,
        why: None,
    }
}

#[test]
fn a_sound_life_is_believed() {
    assert_eq!(verdict(&life(), &Comparison::Unknown), Ok(()));
}

#[test]
fn resident_memory_is_as_much_as_asked_for_or_refused() {
    assert!(matches!(ballast(0, Pages::Base), Ok(None)));
    let some = ballast(8192, Pages::Base).expect("8 KiB can be had");
    let mut some = some.expect("it is not empty");
    assert_eq!(some.as_mut_slice().len(), 8192);
    let odd = ballast(4096, Pages::Huge).expect_err("it is not a whole huge page");
    assert!(
        matches!(odd, Failure::Request { .. } | Failure::Unavailable { .. }),
        "{odd}"
    );
}

#[test]
fn broken_lives_are_refused() {
    let at = |ticks| Stamp { ticks, cpu: 0 };
    for (broken, word) in [
        (
            Life {
                end: End::Exit(1),
                ..life()
            },
            "status 1",
        ),
        (
            Life {
                end: End::Signal(9),
                ..life()
            },
            "signal 9",
        ),
        (
            Life {
                began: None,
                ..life()
            },
            "no stamp",
        ),
        (
            Life {
                began: Some(at(999)),
                ..life()
            },
            "before the call",
        ),
        (
            Life {
                began: Some(at(101_001)),
                ..life()
            },
            "after the child was reaped",
        ),
        (
            Life {
                returned: at(101_001),
                ..life()
            },
            "after the child was reaped",
        ),
    ] {
        let refused = verdict(&broken, &Comparison::OneClock).expect_err(word);
        assert!(refused.contains(word), "{refused}");
    }
}

#[test]
fn the_error_of_the_offset_is_allowed_for() {
    let offsets = |error| {
        Comparison::Measured(Offsets {
            cpus: vec![0, 1],
            ticks: vec![0.0, 0.0],
            error_ticks: vec![0.0, error],
        })
    };
    let early = Life {
        began: Some(Stamp { ticks: 990, cpu: 1 }),
        ..life()
    };
    assert_eq!(verdict(&early, &offsets(10.0)), Ok(()));
    assert!(verdict(&early, &offsets(9.0)).is_err());
}

#[test]
fn a_time_within_its_own_error_is_left_out() {
    let offsets = |ticks, error| {
        Comparison::Measured(Offsets {
            cpus: vec![0, 1],
            ticks: vec![0.0, ticks],
            error_ticks: vec![0.0, error],
        })
    };
    let elsewhere = Life {
        began: Some(Stamp {
            ticks: 51_000,
            cpu: 1,
        }),
        ..life()
    };
    // A round of the offset that waited for a CPU: 12 million ticks, and as many of error.
    for (ticks, error, left) in [
        (0.0, 150.0, true),
        (0.0, 5001.0, false),
        (12_000_000.0, 12_500_000.0, false),
    ] {
        let spans = Spans::of(&elsewhere, &offsets(ticks, error));
        let metrics = spans.values(&clock(ClockKind::Tsc)).values();
        assert_eq!(
            metrics.iter().any(|(name, _)| *name == "child_ns"),
            left,
            "{metrics:?}"
        );
        assert_eq!(spans.remark().is_none(), left);
    }
}

#[test]
fn metrics_are_the_spans_less_the_readings_they_hold() {
    let metrics = Spans::of(&life(), &Comparison::Unknown)
        .values(&clock(ClockKind::Tsc))
        .values();
    let expected = [
        ("child_ns", 24_980.0),
        ("parent_ns", 14_980.0),
        ("total_ns", 49_960.0),
        ("child_cycles", 49_960.0),
        ("parent_cycles", 29_960.0),
        ("total_cycles", 99_920.0),
    ];
    assert_eq!(metrics, expected);
}

#[test]
fn without_a_counter_there_are_no_cycles() {
    let metrics = Spans::of(&life(), &Comparison::OneClock)
        .values(&clock(ClockKind::MonotonicRaw))
        .values();
    assert!(
        metrics.iter().all(|(name, _)| name.ends_with("_ns")),
        "{metrics:?}"
    );
    assert_eq!(metrics.len(), 3);
}

#[test]
fn an_unknown_offset_leaves_the_metric_out_and_says_so() {
    let elsewhere = Life {
        began: Some(Stamp {
            ticks: 51_000,
            cpu: 1,
        }),
        ..life()
    };
    let spans = Spans::of(&elsewhere, &Comparison::Unknown);
    let metrics = spans.values(&clock(ClockKind::Tsc)).values();
    assert!(
        !metrics.iter().any(|(name, _)| name.starts_with("child")),
        "{metrics:?}"
    );
    assert!(spans.remark().is_some());
    assert_eq!(judge(&elsewhere, &spans), Ok(()));
}

#[test]
fn a_limit_of_the_machine_has_a_remedy() {
    for number in [libc::EAGAIN, libc::ENOMEM, libc::ENOSYS] {
        let failure = refused(io::Error::from_raw_os_error(number));
        assert!(
            matches!(
                failure,
                Failure::Unavailable {
                    remedy: Some(_),
                    ..
                }
            ),
            "{failure}"
        );
    }
    assert!(matches!(
        refused(io::Error::from_raw_os_error(libc::EPERM)),
        Failure::Failed { .. }
    ));
}

#[test]
fn every_way_gives_every_metric_in_both_placements() {
    let clock = Clock::open(RequestedClock::Auto).expect("there is always a clock");
    let allowed = affinity::allowed().expect("some CPU is allowed");
    let cpu = allowed.last().copied();
    let _pinned =
        cpu.map(|cpu| affinity::Pinned::to(cpu).expect("an allowed CPU can be pinned to"));
    let declared = if clock.kind == ClockKind::Tsc { 6 } else { 3 };
    for how in How::ALL {
        for placement in [Placement::Same, Placement::Free] {
            // On a busy machine the offset of two CPUs may be known too badly for the child's time: until it is known.
            let found = (0..50).find_map(|_| {
                let shared = Shared::default();
                let context = Context::new(&clock, cpu, &allowed, &shared);
                let metrics = one_child(how, placement, &context, &clock);
                (metrics == declared).then_some(metrics)
            });
            assert!(found.is_some(), "{how:?} {placement:?}");
        }
    }
    assert_eq!(
        affinity::allowed().expect("it can be read"),
        cpu.into_iter().collect::<Vec<_>>()
    );
}

/// A page of which a child had a copy is write-protected; the first write to it after that faults.
#[test]
fn each_repetition_finds_the_resident_memory_writable() {
    let clock = Clock::open(RequestedClock::Auto).expect("there is always a clock");
    let allowed = affinity::allowed().expect("some CPU is allowed");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let parameters = Parameters {
        how: How::Fork,
        resident: 4 << 20,
        pages: Pages::Base,
        placement: Placement::Same,
    };
    let mut workload = ProcessCreate::prepare(parameters, &context).expect("4 MiB can be had");
    for repetition in 0..3 {
        let usage = || getrusage(UsageWho::RUSAGE_THREAD).expect("it is reported");
        let before = usage().minor_page_faults();
        let mut region = Region::new(&clock);
        workload.run(1, &mut region).expect("a child can be made");
        let faults = usage().minor_page_faults() - before;
        assert!(repetition == 0 || faults >= 1024, "{faults}");
    }
}

/// Make and check a child; how many metrics it has.
fn one_child(how: How, placement: Placement, context: &Context, clock: &Clock) -> usize {
    let parameters = Parameters {
        how,
        resident: 1 << 20,
        pages: Pages::Base,
        placement,
    };
    let mut workload = ProcessCreate::prepare(parameters, context).expect("1 MiB can be had");
    let mut region = Region::new(clock);
    let work = workload.run(1, &mut region).expect("a child can be made");
    assert_eq!((work.done, work.wanted), (1, 1), "{how:?}");
    workload
        .verify(&work)
        .unwrap_or_else(|failure| panic!("{how:?} {placement:?}: {failure}"));
    work.metrics.len()
}

#[test]
fn offsets_are_reported_where_they_are_used_and_matter() {
    let clock = clock(ClockKind::Tsc);
    let reported = |cpu, ticks| {
        let shared = Shared {
            offsets: OnceCell::from(Offsets {
                cpus: vec![0, 1],
                ticks: vec![0.0, ticks],
                error_ticks: vec![0.0, 10.0],
            }),
            ..Shared::default()
        };
        let mut notes = Vec::new();
        let context = Context::new(&clock, cpu, &[0, 1], &shared);
        comparison(Placement::Same, &context, &mut notes);
        notes
    };
    assert_eq!(reported(None, 11.0).len(), 1);
    assert!(reported(None, 9.0).is_empty());
    assert!(reported(Some(0), 11.0).is_empty());
}

#[test]
fn a_preparation_that_fails_leaves_the_affinity_alone() {
    let clock = Clock::open(RequestedClock::Auto).expect("there is always a clock");
    let allowed = affinity::allowed().expect("some CPU is allowed");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let parameters = Parameters {
        how: How::Fork,
        resident: 1 << 50,
        pages: Pages::Base,
        placement: Placement::Free,
    };
    assert!(ProcessCreate::prepare(parameters, &context).is_err());
    assert_eq!(affinity::allowed().expect("it can be read"), allowed);
}
