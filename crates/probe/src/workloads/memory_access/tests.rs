//! Real walks in real processes: what they touch, what they fault, and what must not pass for a walk.

use serde_json::{Value, json};

use super::expected::Expected;
use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::parameters::complete;
use crate::workload::Shared;
use oscope_sys::affinity;

/// Faults of a measured process on its own stack and data, which it shares with its parent until it writes to them.
const STRAYS: f64 = 64.0;
/// By how much the kernel may report the resident set too low or too high, for each CPU and reading: two readings of
/// some 100 pages, doubled.
const SLACK_KIB: f64 = 4.0 * 400.0;
/// Most of that for all CPUs together: half of the least resident set that is judged.
const MOST_SLACK_KIB: f64 = 8192.0;

/// Hands `act` what preparing with these parameters gave, and a clock.
fn with(given: Value, act: impl FnOnce(Result<MemoryAccess, Failure>, &Clock)) {
    let described = MemoryAccess::describe().parameters;
    let given = given.as_object().expect("it is an object");
    let values = complete(given, &described).expect("they are in their bounds");
    let parameters = serde_json::from_value(Value::Object(values)).expect("they fit their types");
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    act(MemoryAccess::prepare(parameters, &context), &clock);
}

fn once(workload: &mut MemoryAccess, clock: &Clock) -> Result<Work, Failure> {
    let mut region = Region::new(clock);
    let work = workload.run(1, &mut region)?;
    region.raw()?;
    workload.verify(&work).map(|()| work)
}

/// One repetition with these parameters; `metrics` of it.
fn walked(given: Value) -> impl Fn(&str) -> Option<f64> {
    let given_text = given.to_string();
    let mut metrics = Vec::new();
    with(given, |workload, clock| {
        let mut workload = workload.expect("it can be prepared");
        let work =
            once(&mut workload, clock).unwrap_or_else(|failure| panic!("{given_text}: {failure}"));
        assert_eq!(work.done, work.wanted);
        let declared = parameters::metrics();
        for (name, value) in &work.metrics {
            assert!(declared.iter().any(|metric| metric.name == *name), "{name}");
            assert!(value.is_finite(), "{name}");
        }
        metrics = work.metrics;
    });
    move |wanted| {
        let found = metrics.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| *value)
    }
}

fn refusal(given: Value) -> Failure {
    let mut refused = None;
    with(given, |workload, clock| {
        refused = match workload {
            Ok(mut workload) => once(&mut workload, clock).err(),
            Err(failure) => Some(failure),
        };
    });
    refused.expect("it is refused")
}

#[test]
fn pages_and_faults_are_those_that_the_walk_must_touch() {
    for pattern in ["seq", "random"] {
        for footprint in ["full", "first64th"] {
            let metric = walked(
                json!({"pattern": pattern, "footprint": footprint, "size": 64 << 20, "sets": 3000}),
            );
            let kind = |random| {
                if random {
                    walk::Pattern::Random
                } else {
                    walk::Pattern::Seq
                }
            };
            let reach = match footprint {
                "full" => walk::Footprint::Full,
                _ => walk::Footprint::First64th,
            };
            let bases = Bases::new(kind(pattern == "random"), reach, 64 << 20);
            let expected = Expected::of(bases, 3000, page_bytes());
            assert_eq!(metric("touched_pages"), Some(expected.touched as f64));
            let faults = metric("minflt").expect("they are counted");
            let least = expected.faults as f64;
            assert!(
                (least..least + STRAYS).contains(&faults),
                "{pattern} {footprint}: {faults} for {least}"
            );
            assert_eq!(metric("majflt"), Some(0.0));
            assert_eq!(metric("accesses"), Some(3000.0 * 8192.0));
            assert_eq!(metric("writes"), Some(3000.0 * 1024.0));
            assert_eq!(metric("reads"), Some(3000.0 * 7168.0));
            assert_eq!(metric("l1d_read_access"), None, "nobody asked for it");
        }
    }
}

#[test]
fn the_document_s_resident_sets_come_out() {
    let cpus = affinity::allowed().expect("they can be read").len() as f64;
    let near = |value: Option<f64>, wanted: f64| {
        let value = value.expect("it is given");
        assert!(
            (value - wanted).abs() < (SLACK_KIB * cpus).min(MOST_SLACK_KIB),
            "{value} KiB, not {wanted}"
        );
    };
    let metric = walked(json!({"footprint": "first64th", "sets": 32768}));
    // 1/64 of 1 GiB, and the reach of the last set.
    assert_eq!(metric("touched_pages"), Some(4104.0));
    assert_eq!(metric("resident_kib"), Some(16416.0));
    near(metric("maxrss_kib"), 16416.0);
    near(metric("init_maxrss_kib"), 16384.0);
    let metric = walked(json!({"populate": true, "size": 256 << 20, "sets": 10}));
    assert_eq!(metric("touched_pages"), Some(65536.0));
    near(metric("init_maxrss_kib"), 262_144.0 + 16384.0);
    near(metric("maxrss_kib"), 0.0);
    assert!(metric("minflt").expect("they are counted") < STRAYS);
}

#[test]
fn every_mapping_is_walked_and_what_is_written_to_a_shared_one_is_counted() {
    for mapping in ["anonymous", "private", "shared"] {
        for initialise in ["none", "memset", "memset+msync"] {
            for populate in [false, true] {
                let metric = walked(json!({
                    "mapping": mapping, "initialise": initialise, "populate": populate, "size": 4 << 20, "sets": 200,
                }));
                assert!(metric("resident_kib").expect("it is given") >= 4096.0 - 32.0);
                assert_eq!(metric("accesses"), Some(200.0 * 8192.0));
                let counted = metric("oublock").is_some();
                if mapping == "shared" && counted {
                    let which = if initialise == "none" {
                        "oublock"
                    } else {
                        "init_oublock"
                    };
                    assert!(
                        metric(which).expect("it is counted") > 0.0,
                        "{initialise} {populate}"
                    );
                }
                if mapping == "anonymous" && counted {
                    assert_eq!(metric("init_oublock"), Some(0.0));
                }
            }
        }
    }
}

#[test]
fn huge_pages_are_huge_or_refused() {
    with(
        json!({"pages": "huge", "footprint": "first64th", "size": 256 << 20, "sets": 1000}),
        |workload, clock| {
            let mut workload = match workload {
                Err(Failure::Unavailable {
                    remedy: Some(_), ..
                }) => return,
                other => other.expect("it can be prepared"),
            };
            match once(&mut workload, clock) {
                // Memory may be fragmented.
                Err(Failure::Unavailable {
                    remedy: Some(_), ..
                }) => {}
                other => {
                    let work = other.expect("it is walked");
                    let touched = work
                        .metrics
                        .iter()
                        .find(|(name, _)| *name == "touched_pages");
                    assert_eq!(touched.expect("it is given").1 % 512.0, 0.0);
                }
            }
        },
    );
}

#[test]
fn what_cannot_be_is_refused_with_its_field_or_remedy() {
    let request = |given, field: &str| {
        let failure = refusal(given);
        assert!(failure.to_string().starts_with(field), "{failure}");
        assert!(matches!(failure, Failure::Request { .. }), "{failure}");
    };
    request(json!({"size": (1 << 20) + 1}), "size: must be a multiple");
    request(json!({"pages": "huge", "mapping": "shared"}), "pages: ");
    let unavailable = |given: Value| match refusal(given) {
        Failure::Unavailable {
            remedy: Some(_),
            message,
            ..
        } => message,
        other => panic!("{other:?}"),
    };
    assert!(
        unavailable(json!({"mapping": "private", "directory": "/proc", "size": 1 << 20}))
            .contains("scratch file")
    );
    if Counters::memory().available().is_empty() {
        assert!(
            unavailable(json!({"counters": "hardware", "size": 1 << 20}))
                .contains("hardware counts nothing")
        );
    }
    for bad in [
        json!({"size": 0}),
        json!({"sets": 0}),
        json!({"populate": 1}),
    ] {
        let described = MemoryAccess::describe().parameters;
        let bad = bad.as_object().expect("it is an object");
        assert!(complete(bad, &described).is_err(), "{bad:?}");
    }
}

#[test]
fn what_the_machine_reclaimed_is_reported_beside_the_walk() {
    let metric = walked(json!({"size": 1 << 20, "sets": 50}));
    for name in reclaim::NAMES {
        if let Some(value) = metric(name) {
            assert!(value >= 0.0 && value.fract() == 0.0, "{name}: {value}");
        }
    }
    assert!(metric("activations").is_some());
    let cpu = metric("utime_s").expect("the kernel reports it")
        + metric("stime_s").expect("the kernel reports it");
    assert_eq!(metric("cpu_s"), Some(cpu));
}

#[test]
fn a_policy_of_another_kernel_is_unavailable_with_the_one_that_has_it() {
    if std::path::Path::new(oscope_sys::cleanup::setting::RECLAIM_REFERENCED).exists() {
        return;
    }
    for policy in ["reclaim-active", "reclaim-referenced"] {
        match refusal(json!({"size": 1 << 20, "sets": 1, "policy": policy})) {
            Failure::Unavailable {
                remedy: Some(remedy),
                ..
            } => assert!(remedy.contains("oscope run kernel.reclaim"), "{remedy}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_walk_in_turns_is_the_same_walk() {
    with(json!({"size": 1 << 20, "sets": 50}), |workload, _| {
        let workload = workload.expect("it can be prepared");
        let mut memory = vec![0; 1 << 20];
        let pauses = std::cell::Cell::new(0);
        let pause = || pauses.set(pauses.get() + 1);
        let bases = workload.plan.bases.clone();
        // SAFETY: the memory is of the size that the bases were made for.
        let done = unsafe { walk::walk_with_pauses(memory.as_mut_ptr(), bases, 50, pause) };
        assert_eq!((done, pauses.get()), (50, 50));
        assert_eq!(workload.plan.wrong_lines(&memory), 0);
    });
}

#[test]
fn a_simulation_is_made_once_and_counts_every_access() {
    with(
        json!({"counters": "both", "geometry": "zen3", "size": 16 << 20, "sets": 100}),
        |workload, clock| {
            let mut workload = workload.expect("it can be prepared");
            let counts = |work: &Work| -> Vec<(&'static str, f64)> {
                let all = work.metrics.iter().copied();
                all.filter(|(name, _)| name.starts_with("simulat"))
                    .collect()
            };
            let first = counts(&once(&mut workload, clock).expect("it is walked"));
            assert_eq!(first.len(), simulation::NAMES.len());
            assert_eq!(first[0], ("simulated_l1d_read_access", 716_800.0));
            assert_eq!(first[1], ("simulated_l1d_write_access", 102_400.0));
            let (at, _) = workload.simulated.expect("it was made");
            let second = counts(&once(&mut workload, clock).expect("it is walked"));
            // The rate too, since it is the same simulation, unless the memory lay elsewhere.
            assert_eq!(
                workload.simulated.expect("it was made").0 == at,
                first == second
            );
        },
    );
}

#[test]
fn a_walk_that_was_not_done_is_refused() {
    let given = json!({"size": 1 << 20, "sets": 50});
    with(given, |workload, clock| {
        let mut workload = workload.expect("it can be prepared");
        assert!(
            workload.verify(&Work::default()).is_err(),
            "nothing was walked"
        );
        let work = once(&mut workload, clock).expect("it is walked");
        assert_eq!(workload.touched, Some(248));
        let found = workload.found.expect("it was walked");
        let broken = |change: fn(&mut Found)| {
            let mut found = found;
            change(&mut found);
            Some(found)
        };
        for found in [
            broken(|found| found.wrong = 1),
            broken(|found| found.presence.touched -= 1),
            broken(|found| found.presence.huge_kib = 2048),
        ] {
            workload.found = found;
            assert!(workload.verify(&work).is_err(), "{found:?}");
        }
    });
}

#[test]
fn lines_that_were_not_written_are_found() {
    with(json!({"size": 1 << 20, "sets": 50}), |workload, _| {
        let workload = workload.expect("it can be prepared");
        let mut memory = vec![0; 1 << 20];
        assert_eq!(workload.plan.wrong_lines(&memory), 50 * 64);
        // SAFETY: the memory is of the size that the bases were made for.
        unsafe { walk::walk(memory.as_mut_ptr(), workload.plan.bases.clone(), 50) };
        assert_eq!(workload.plan.wrong_lines(&memory), 0);
    });
}
