//! Every operation in the server's own folder, and what goes wrong with the files.
//!
//! Mounts are left to tests of the whole probe: processes that other tests fork here would hold files that are open in
//! them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::description::Kind;
use crate::parameters::complete;
use crate::workload::Shared;
use oscope_sys::affinity;

const SIZE: u64 = 300_000;
const FILES: u64 = 12;

fn parameters(given: &Value) -> Parameters {
    let mut all = json!({"size": SIZE, "files": FILES, "system": "local"});
    let all = all.as_object_mut().expect("an object");
    all.extend(given.as_object().expect("an object").clone());
    let all = complete(all, &FsCompare::describe().parameters).expect("they are right");
    serde_json::from_value(Value::Object(all)).expect("they fit")
}

/// Prepares, and hands `act` the workload and a clock. Where this machine cannot, the test says so.
fn with(given: &Value, act: impl FnOnce(&mut FsCompare, &Clock)) {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    match FsCompare::prepare(parameters(given), &context) {
        Err(Failure::Unavailable {
            message, remedy, ..
        }) => {
            eprintln!("skipped: {given}: {message} ({remedy:?})");
        }
        Err(failure) => panic!("{given}: {failure}"),
        Ok(mut workload) => act(&mut workload, &clock),
    }
}

fn choices(name: &str) -> Vec<&'static str> {
    let all = FsCompare::describe().parameters;
    let one = all.into_iter().find(|each| each.name == name);
    match one.expect("it is described").kind {
        Kind::Choice { choices, .. } => choices,
        other => panic!("{other:?}"),
    }
}

fn metric(work: &Work, name: &str) -> Option<f64> {
    let given = work.metrics.iter().find(|each| each.0 == name);
    given.map(|each| each.1)
}

/// One repetition, which must be true.
fn good(workload: &mut FsCompare, clock: &Clock) -> Work {
    let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
    assert_eq!(work.done, work.wanted);
    workload.verify(&work).expect("it is true");
    work
}

#[test]
fn every_operation_is_done_again_and_again_and_nothing_is_left() {
    for operation in choices("operation") {
        let mut served = None;
        with(&json!({"operation": operation}), |workload, clock| {
            served = Some(workload.folder.served().to_owned());
            for _ in 0..3 {
                let work = good(workload, clock);
                assert_eq!(metric(&work, "received_packets"), None, "{operation}");
            }
        });
        assert!(served.is_none_or(|folder| !folder.exists()));
    }
}

#[test]
fn bytes_and_files_are_those_of_the_operation() {
    let small = (FILES * 4096) as f64;
    let expected = [
        ("read-first", Some(SIZE as f64), 1),
        ("read-again", Some(SIZE as f64), 1),
        ("read-random", Some(1000.0 * 4096.0), 1),
        ("change-block", Some(4096.0), 1),
        ("append", Some(4096.0), 1),
        ("create", Some(small), FILES),
        ("read-small", Some(small), FILES),
        ("list", Some(0.0), FILES),
        ("git-status", None, FILES),
        ("unpack", Some(small), FILES),
    ];
    assert_eq!(expected.map(|each| each.0), choices("operation")[..]);
    for (operation, bytes, files) in expected {
        with(&json!({"operation": operation}), |workload, clock| {
            let work = good(workload, clock);
            assert_eq!(metric(&work, "bytes"), bytes, "{operation}");
            assert_eq!(metric(&work, "files"), Some(files as f64), "{operation}");
            let rate = bytes.is_some_and(|bytes| bytes > 0.0);
            assert_eq!(metric(&work, "bytes_per_s").is_some(), rate, "{operation}");
            for name in ["open_ns", "close_ns"] {
                let whole = ["read-first", "read-again", "change-block", "append"];
                let has = whole.contains(&operation);
                assert_eq!(metric(&work, name).is_some(), has, "{operation}: {name}");
            }
        });
    }
}

/// Another byte at this place.
fn spoil(file: &Path, offset: u64) {
    let open = File::options().read(true).write(true).open(file);
    let open = open.expect("it is ours");
    let mut byte = [0];
    open.read_exact_at(&mut byte, offset).expect("it is long");
    open.write_all_at(&[!byte[0]], offset).expect("it is ours");
}

#[test]
fn a_big_file_that_is_read_wrong_is_seen() {
    for operation in ["read-first", "read-again", "read-random"] {
        with(&json!({"operation": operation}), |workload, clock| {
            good(workload, clock);
            let file = workload.folder.served().join("big");
            spoil(&file, 77_777);
            let work = workload.run(1, &mut Region::new(clock));
            let failure = work.and_then(|work| workload.verify(&work));
            let reported = failure.expect_err("a byte is wrong").to_string();
            assert!(
                reported.contains("XOR") || reported.contains("77777"),
                "{reported}"
            );
            spoil(&file, 77_777);
            good(workload, clock);
        });
    }
}

#[test]
fn what_was_not_written_or_also_changed_is_seen_and_mended() {
    let middle = SIZE / 2 / 4096 * 4096;
    for (operation, offset) in [("change-block", middle), ("append", SIZE)] {
        with(&json!({"operation": operation}), |workload, clock| {
            let file = workload.folder.served().join("big");
            for place in [0, offset - 1, offset, offset + 4095, SIZE - 1] {
                let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
                workload.verify(&work).expect("it is true");
                spoil(&file, place);
                let reported = workload.verify(&work).expect_err("a byte is wrong");
                let words = format!("from byte {place} on");
                assert!(
                    reported.to_string().contains(&words),
                    "{operation}: {reported}"
                );
                spoil(&file, place);
            }
            let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
            let open = File::options().write(true).open(&file);
            open.and_then(|file| file.set_len(SIZE - 1))
                .expect("it is ours");
            let reported = workload.verify(&work).expect_err("it is short").to_string();
            assert!(reported.contains("299999 B, and should have"), "{reported}");
            // That one failed, and the next begins with a whole file.
            good(workload, clock);
        });
    }
}

/// What is done to the last repetition's files, and what is then said.
type Spoil = (fn(&Path), &'static str);

const SPOILS: [Spoil; 3] = [
    (|file| spoil(file, 4000), "is not what was written"),
    (
        |file| fs::remove_file(file).expect("the file can be removed"),
        "entries, and should have",
    ),
    (
        |file| fs::write(file.with_file_name("more"), "x").expect("it is ours"),
        "entries, and should have",
    ),
];

#[test]
fn small_files_that_are_not_there_as_they_should_are_seen() {
    for (operation, file) in [
        ("create", "file-000003"),
        ("unpack", "folder-3/file-000003"),
    ] {
        for (number, (spoil, words)) in (1..).zip(SPOILS) {
            with(&json!({"operation": operation}), |workload, clock| {
                for _ in 0..number {
                    good(workload, clock);
                }
                let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
                let made = format!("new-{}", number + 1);
                spoil(&workload.folder.served().join(made).join(file));
                let reported = workload.verify(&work).expect_err(words).to_string();
                assert!(reported.contains(words), "{operation}: {reported}");
                good(workload, clock);
            });
        }
    }
}

#[test]
fn small_files_that_are_read_or_listed_wrong_are_seen() {
    let refused = |operation: &str, act: &dyn Fn(&Path), words: &str| {
        with(&json!({"operation": operation}), |workload, clock| {
            good(workload, clock);
            act(&workload.folder.served().join("small/file-000007"));
            let work = workload.run(1, &mut Region::new(clock));
            let reported = match work {
                Err(failure) => failure.to_string(),
                Ok(work) => format!("{} of {}", work.done, work.wanted),
            };
            assert!(reported.contains(words), "{operation}: {reported}");
        });
    };
    refused("read-small", &|file| spoil(file, 9), "another file");
    refused(
        "list",
        &|file| fs::remove_file(file).expect("the file can be removed"),
        "11 of 12",
    );
    refused(
        "list",
        &|file| fs::write(file, "short").expect("it is ours"),
        "another file",
    );
}

#[test]
fn what_git_says_is_judged() {
    with(&json!({"operation": "git-status"}), |workload, clock| {
        good(workload, clock);
        let more = workload.folder.served().join("repository/more");
        fs::write(&more, "x").expect("it is ours");
        let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
        let reported = workload
            .verify(&work)
            .expect_err("it says more")
            .to_string();
        assert!(reported.contains("?? more"), "{reported}");
        fs::remove_file(&more).expect("it is ours");
        good(workload, clock);
    });
}

#[test]
fn a_delay_without_a_network_and_a_place_that_is_none_are_refused() {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let refused = |given: &Value| match FsCompare::prepare(parameters(given), &context) {
        Ok(_) => panic!("{given} cannot be"),
        Err(failure) => failure,
    };
    for (name, value) in [
        ("directory", json!("/proc/version")),
        ("directory", json!("/nowhere")),
        ("delay", json!(0.001)),
    ] {
        match refused(&json!({name: value})) {
            Failure::Request { field, .. } => assert_eq!(field, name),
            other => panic!("{other}"),
        }
    }
    // More than any machine of these tests has of memory.
    let large = refused(&json!({"directory": "/dev/shm", "files": 100_000, "size": 64_u64 << 30}));
    assert!(matches!(large, Failure::Unavailable { .. }), "{large}");
}
