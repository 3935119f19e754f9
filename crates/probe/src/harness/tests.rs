//! The harness with workloads that are broken on purpose: none of them may come out as a believable figure.

use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::clock::RequestedClock;
use crate::description::{Description, Kind, Parameter, SchedulingIsolation};
use crate::protocol;
use crate::steps::lcg_steps;
use oscope_sys::affinity;

/// A workload with the fault that its parameter names.
struct Broken {
    fault: String,
    dropped: Dropped,
    _freed: Option<Pinned>,
}

/// Counts the clean-ups of this thread.
struct Dropped;

thread_local! {
    static CLEANED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Drop for Dropped {
    fn drop(&mut self) {
        CLEANED.set(CLEANED.get() + 1);
    }
}

#[derive(Deserialize)]
struct Parameters {
    fault: String,
}

impl Workload for Broken {
    type Parameters = Parameters;

    fn describe() -> Description {
        let faults = vec![
            "none",
            "idle",
            "twice",
            "short",
            "unverified",
            "infinite",
            "undeclared",
            "failing",
            "unavailable",
            "unprepared",
            "panicking",
            "fixed",
            "freed",
        ];
        Description {
            name: "broken",
            version: 1,
            purpose: "For tests",
            timing_model: "none",
            parameters: vec![Parameter {
                name: "fault",
                kind: Kind::Choice {
                    default: "none",
                    choices: faults,
                    pattern: None,
                    numbers: Vec::new(),
                },
                unit: None,
                applies: Vec::new(),
                doc: "What is wrong",
            }],
            metrics: vec![Metric::TIME_NS, Metric::CYCLES],
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let dropped = Dropped;
        if parameters.fault == "unprepared" {
            return Err(Failure::failed("half-way"));
        }
        let freed = (parameters.fault == "freed").then(|| Pinned::over(context.allowed()));
        Ok(Self {
            fault: parameters.fault,
            dropped,
            _freed: freed.transpose()?,
        })
    }

    fn iterations(&self) -> Iterations {
        match self.fault.as_str() {
            "fixed" => Iterations::Fixed(3),
            _ => Iterations::Calibrated,
        }
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let _ = &self.dropped;
        match self.fault.as_str() {
            "failing" => return Err(Failure::failed("reading: EIO")),
            "unavailable" => return Err(Failure::unavailable("no such thing", "buy one")),
            "panicking" => panic!("on purpose"),
            _ => {}
        }
        if self.fault != "idle" {
            region.measure(|| std::hint::black_box(lcg_steps(1, iterations)));
        }
        if self.fault == "twice" {
            region.measure(|| ());
        }
        let metrics = match self.fault.as_str() {
            "infinite" => vec![("time_ns", f64::INFINITY)],
            "undeclared" => vec![("time_ns", 1.0), ("speed", 1.0)],
            _ => vec![("time_ns", -1.0)],
        };
        Ok(Work {
            metrics,
            done: iterations - u64::from(self.fault == "short"),
            wanted: iterations,
            notes: vec!["the same each time".into()],
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        if self.fault == "unverified" {
            return Err(Failure::failed("it was not done"));
        }
        Ok(())
    }
}

fn instrument() -> Instrument {
    Instrument::new(Clock::open(RequestedClock::Monotonic).unwrap()).unwrap()
}

fn ask(mut fields: Value) -> (Result<Outcome, Failure>, Vec<Event>) {
    fields["id"] = json!(1);
    fields["workload"] = json!("broken");
    let protocol::Asked::Request(request) = protocol::parse(fields.to_string().as_bytes()).unwrap()
    else {
        panic!("no request");
    };
    let mut events = Vec::new();
    let outcome = run::<Broken>(&request, &instrument(), &mut |event| events.push(event));
    (outcome, events)
}

fn samples(events: &[Event]) -> Vec<&Sample> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Sample(sample) => Some(sample),
            _ => None,
        })
        .collect()
}

#[test]
fn sound_work_gives_every_declared_metric_and_each_note_once() {
    let (outcome, events) = ask(json!({"reps": 3, "iterations": 100}));
    let expected = Outcome {
        samples: 3,
        iterations: 100,
        interrupted: false,
    };
    assert_eq!(outcome, Ok(expected));
    let samples = samples(&events);
    assert_eq!(samples.len(), 3);
    for (number, sample) in samples.iter().enumerate() {
        assert_eq!(sample.rep, number as u64);
        assert_eq!(sample.failed, None);
        assert_eq!(
            Value::Object(sample.metrics.clone()),
            json!({"time_ns": -1.0, "cycles": null})
        );
    }
    assert_eq!(events.len() - samples.len(), 1, "one note");
}

#[test]
fn broken_repetitions_are_failed_samples_without_metrics() {
    for (fault, reason) in [
        ("idle", "measured nothing"),
        ("twice", "2 times"),
        ("short", "did 9 of 10"),
        ("unverified", "not done"),
        ("infinite", "inf"),
        ("undeclared", "speed"),
        ("failing", "EIO"),
    ] {
        let (outcome, events) =
            ask(json!({"params": {"fault": fault}, "reps": 2, "iterations": 10}));
        assert_eq!(outcome.unwrap().samples, 2, "{fault}");
        for sample in samples(&events) {
            let failed = sample.failed.as_deref().unwrap_or("believed");
            assert!(failed.contains(reason), "{fault}: {failed}");
            assert!(sample.metrics.is_empty());
        }
    }
}

#[test]
fn failed_warm_ups_are_reported_in_one_note() {
    let (outcome, events) =
        ask(json!({"params": {"fault": "failing"}, "reps": 1, "iterations": 10, "warmup": 3}));
    assert_eq!(outcome.unwrap().samples, 1);
    let notes = events.iter().filter_map(|event| match event {
        Event::Note { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let expected = ["3 of 3 warm-up repetitions failed: reading: EIO"];
    assert_eq!(notes.collect::<Vec<_>>(), expected);
}

#[test]
fn what_cannot_be_done_ends_the_request() {
    let (outcome, events) = ask(json!({"params": {"fault": "unavailable"}, "iterations": 1}));
    assert!(matches!(outcome, Err(Failure::Unavailable { .. })));
    assert!(events.is_empty());
    let (outcome, _) = ask(json!({"params": {"fault": "failing"}}));
    assert_eq!(
        outcome,
        Err(Failure::failed("reading: EIO")),
        "in calibration"
    );
}

#[test]
fn iterations_that_the_workload_fixes_cannot_be_asked_otherwise() {
    let (outcome, _) = ask(json!({"params": {"fault": "fixed"}}));
    assert_eq!(outcome.unwrap().iterations, 3);
    let (outcome, _) = ask(json!({"params": {"fault": "fixed"}, "iterations": 3}));
    assert_eq!(outcome.unwrap().iterations, 3);
    let (outcome, _) = ask(json!({"params": {"fault": "fixed"}, "iterations": 4}));
    assert!(matches!(outcome, Err(Failure::Request { field, .. }) if field == "iterations"));
}

#[test]
fn cpus_that_are_not_allowed_are_refused_and_affinity_is_given_back() {
    let before = affinity::allowed().unwrap();
    let (outcome, _) = ask(json!({"cpu": 100_000}));
    assert!(matches!(outcome, Err(Failure::Request { field, .. }) if field == "cpu"));
    for cpu in [json!(-1), json!(null), json!(before[0])] {
        assert!(ask(json!({"cpu": cpu, "iterations": 1})).0.is_ok());
        assert_eq!(affinity::allowed().unwrap(), before);
    }
}

/// The busy time of the other CPUs is known only where one is known to be the thread's.
#[test]
fn covariates_are_of_the_pinned_cpu_only_where_the_workload_stays_there() {
    let several = affinity::allowed().unwrap().len() > 1;
    for (fault, pinned) in [("none", true), ("freed", !several)] {
        let (outcome, events) = ask(json!({"params": {"fault": fault}, "iterations": 1}));
        outcome.unwrap();
        let [.., Event::Sample(sample)] = &events[..] else {
            panic!("{events:?}");
        };
        let known = !sample.covariates["neighbour_ns"].is_null();
        let online = affinity::online().unwrap().len();
        assert_eq!(known, pinned && online > 1, "{fault}");
    }
}

#[test]
fn the_workload_is_cleaned_up_however_it_ends() {
    for fault in ["none", "unprepared", "failing", "unavailable", "panicking"] {
        CLEANED.set(0);
        let attempt =
            std::panic::catch_unwind(|| ask(json!({"params": {"fault": fault}, "iterations": 1})));
        assert_eq!(attempt.is_err(), fault == "panicking");
        assert_eq!(CLEANED.get(), 1, "{fault}");
    }
}

#[test]
fn a_time_limit_that_has_passed_leaves_no_sample_and_no_error() {
    let (outcome, events) = ask(json!({"reps": 5, "iterations": 10, "time_limit_s": 1e-9}));
    let outcome = outcome.unwrap();
    assert_eq!((outcome.samples, outcome.interrupted), (0, false));
    assert!(events.is_empty());
}
