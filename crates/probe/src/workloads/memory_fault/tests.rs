//! Real faults of every kind, and what must not pass for one.

use std::path::Path;

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;
use oscope_sys::affinity;

const SIZE: u64 = 1 << 20;
/// Trials of a repetition: other tests of this program fork meanwhile, after which a write to this one's own stack
/// faults as well.
const TRIALS: u32 = 10;

const ALL: [FaultKind; 7] = [
    FaultKind::ZeroPage,
    FaultKind::Anonymous,
    FaultKind::File,
    FaultKind::FileMajor,
    FaultKind::CopyOnWrite,
    FaultKind::Huge,
    FaultKind::SwapIn,
];

fn parameters_of(kind: FaultKind, threads: usize) -> Parameters {
    Parameters {
        kind,
        threads,
        size: match kind {
            FaultKind::Huge => 8 << 20,
            // A piece of the page cache for each thread.
            FaultKind::File if threads > 1 => 6 << 20,
            FaultKind::FileMajor if threads > 1 => 6 << 20,
            _ => SIZE,
        },
        swap: SwapKind::Auto,
        directory: PathBuf::from("/var/tmp"),
    }
}

/// Hands `act` what preparing gave, and a clock.
fn with(parameters: Parameters, act: impl FnOnce(Result<MemoryFault, Failure>, &Clock)) {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let _pinned = affinity::Pinned::to(allowed[0]).expect("it is allowed");
    let context = Context::new(&clock, Some(allowed[0]), &allowed, &shared);
    act(MemoryFault::prepare(parameters, &context), &clock);
}

fn once(workload: &mut MemoryFault, clock: &Clock) -> Result<Work, Failure> {
    let mut last = Err(Failure::failed("never tried"));
    for _ in 0..TRIALS {
        let mut region = Region::new(clock);
        last = workload
            .run(1, &mut region)
            .and_then(|work| workload.verify(&work).map(|()| work));
        match &last {
            Err(failure) if failure.to_string().contains("not one a page") => {}
            _ => break,
        }
    }
    last
}

fn metric(work: &Work, name: &str) -> f64 {
    let found = work.metrics.iter().find(|(metric, _)| *metric == name);
    found.expect("it is given").1
}

#[test]
fn every_kind_takes_one_fault_a_page_with_one_thread_and_several() {
    for kind in ALL {
        for threads in [1, 3] {
            with(parameters_of(kind, threads), |workload, clock| {
                let mut workload = match workload {
                    // Swap needs root.
                    Err(Failure::Unavailable { .. })
                        if matches!(kind, FaultKind::Huge | FaultKind::SwapIn) =>
                    {
                        return;
                    }
                    other => other.expect("it can be prepared"),
                };
                for _ in 0..2 {
                    let work = match once(&mut workload, clock) {
                        // Memory may be fragmented.
                        Err(Failure::Unavailable { .. }) if kind == FaultKind::Huge => return,
                        other => other.unwrap_or_else(|failure| panic!("{kind:?}: {failure}")),
                    };
                    assert_eq!(work.done, work.wanted);
                    let faults = metric(&work, "faults");
                    assert_eq!(faults, workload.pages as f64, "{kind:?}");
                    let major = match kind {
                        FaultKind::FileMajor | FaultKind::SwapIn => faults,
                        _ => 0.0,
                    };
                    assert_eq!(metric(&work, "major"), major, "{kind:?}");
                    let product = metric(&work, "time_ns") * metric(&work, "faults_per_s");
                    assert!((product / 1e9 - threads as f64).abs() < 1e-6);
                }
            });
        }
    }
}

#[test]
fn pages_that_are_there_already_are_no_faults() {
    let mut mapping = oscope_sys::mapping::Mapping::new(SIZE, Pages::Base).expect("it fits");
    mapping.touch();
    let share = touch::Share {
        memory: touch::Memory::Write(mapping.as_mut_slice(), 1),
        page: 4096,
    };
    let tally = share.touch().expect("faults can be counted");
    assert_eq!(tally.touched, 256);
    let refused = tally
        .judge(256, 0, 1)
        .expect_err("nothing faulted")
        .to_string();
    assert!(refused.contains("256 pages took"), "{refused}");
}

#[test]
fn a_stray_fault_is_let_pass_where_one_may_be() {
    let tally = Tally {
        touched: 256,
        sum: 0,
        minor: 257,
        major: 0,
    };
    assert!(tally.judge(256, 0, 1).is_ok());
    assert!(tally.judge(256, 0, 0).is_err());
    assert!(tally.judge(255, 0, 1).is_err());
}

#[test]
fn the_wrong_kind_of_fault_is_refused() {
    let tally = Tally {
        touched: 256,
        sum: 0,
        minor: 255,
        major: 1,
    };
    assert!(tally.judge(256, 1, 0).is_ok());
    for major in [0, 256] {
        let refused = tally
            .judge(256, major, 0)
            .expect_err("one was major")
            .to_string();
        assert!(refused.contains("1 of 256 faults waited"), "{refused}");
    }
}

#[test]
fn a_child_that_ended_early_is_noticed_and_none_is_left() {
    let mut holder = holder::Holder::fork().expect("a child can be made");
    assert_eq!(holder.check(), Ok(()));
    let process = holder.process();
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).expect("it lives");
    while holder.check().is_ok() {
        std::thread::yield_now();
    }
    drop(holder);
    let holder = holder::Holder::fork().expect("a child can be made");
    let process = holder.process();
    assert!(Path::new(&format!("/proc/{process}")).exists());
    drop(holder);
    assert!(!Path::new(&format!("/proc/{process}")).exists());
}

#[test]
fn what_was_not_written_is_seen() {
    with(parameters_of(FaultKind::Anonymous, 1), |workload, clock| {
        let mut workload = workload.expect("it can be prepared");
        let work = once(&mut workload, clock).expect("it runs");
        // As after a repetition that writes nothing.
        workload.repetitions += 1;
        let refused = workload
            .verify(&work)
            .expect_err("another mark is due")
            .to_string();
        assert!(refused.contains("page 0 does not hold"), "{refused}");
    });
}

#[test]
fn another_file_is_seen() {
    with(parameters_of(FaultKind::File, 1), |workload, clock| {
        let mut workload = workload.expect("it can be prepared");
        workload.expected += 1;
        let refused = once(&mut workload, clock)
            .expect_err("the sum is wrong")
            .to_string();
        assert!(refused.contains("sum up to"), "{refused}");
    });
}

#[test]
fn memory_cannot_be_a_cold_file_and_a_thread_needs_a_page() {
    let mut parameters = parameters_of(FaultKind::FileMajor, 1);
    parameters.directory = PathBuf::from("/dev/shm");
    with(parameters, |workload, clock| {
        let failure = once(&mut workload.expect("it can be prepared"), clock)
            .expect_err("it is never on a device");
        assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
    });
    with(parameters_of(FaultKind::Anonymous, 257), |workload, _| {
        let failure = workload.expect_err("there are 256 pages").to_string();
        assert!(failure.starts_with("threads: "), "{failure}");
    });
}
