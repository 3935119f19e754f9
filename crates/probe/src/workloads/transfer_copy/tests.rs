//! Transfers by every method and meeting, over both networks, and what goes wrong with them.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::parameters::complete;
use crate::workload::Shared;
use oscope_sys::affinity;

fn parameters(given: &Value) -> Parameters {
    let given = given.as_object().expect("an object").clone();
    let all = complete(&given, &TransferCopy::describe().parameters).expect("they are right");
    serde_json::from_value(Value::Object(all)).expect("they fit")
}

/// Prepares, and hands `act` the workload and a clock. Where this machine cannot, the test says so.
fn with(given: &Value, act: impl FnOnce(&mut TransferCopy, &Clock)) {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    match TransferCopy::prepare(parameters(given), &context) {
        Err(Failure::Unavailable {
            message, remedy, ..
        }) => {
            eprintln!("skipped: {given}: {message} ({remedy:?})");
        }
        Err(failure) => panic!("{given}: {failure}"),
        Ok(mut workload) => act(&mut workload, &clock),
    }
}

fn metric(work: &Work, name: &str) -> Option<f64> {
    let given = work.metrics.iter().find(|each| each.0 == name);
    given.map(|each| each.1)
}

/// Two repetitions, of which all must be true.
fn repeat(given: &Value) {
    with(given, |workload, clock| {
        for _ in 0..2 {
            let work = workload.run(1, &mut Region::new(clock));
            let work = work.unwrap_or_else(|failure| panic!("{given}: {failure}"));
            workload
                .verify(&work)
                .unwrap_or_else(|failure| panic!("{given}: {failure}"));
            let bytes: u64 = workload.folder.files().iter().map(|one| one.length).sum();
            assert_eq!(metric(&work, "bytes"), Some(bytes as f64), "{given}");
            assert_eq!(metric(&work, "cpu_s_per_gib").is_some(), bytes > 0);
            for name in ["calls", "receiver_calls"] {
                let least = 2 * workload.folder.files().len();
                assert!(metric(&work, name) >= Some(least as f64), "{given}: {name}");
            }
        }
    });
}

fn choices(name: &str) -> Vec<&'static str> {
    let all = TransferCopy::describe().parameters;
    let one = all.into_iter().find(|each| each.name == name);
    match one.expect("it is described").kind {
        crate::description::Kind::Choice { choices, .. } => choices,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_pair_of_methods_moves_every_file() {
    for sender in choices("sender") {
        for receiver in choices("receiver") {
            repeat(&json!({"sender": sender, "receiver": receiver, "files": 3, "size": 1_502_860}));
        }
        repeat(&json!({"sender": sender, "receiver": "auto", "files": 25, "sizes": "document"}));
        repeat(&json!({"sender": sender, "size": 0, "files": 2}));
    }
}

#[test]
fn every_digest_and_content_will_do() {
    for digest in choices("digest") {
        for content in choices("content") {
            repeat(&json!({"digest": digest, "content": content, "size": 3_000_001}));
        }
    }
}

#[test]
fn small_writes_move_every_file_over_either_network() {
    for network in choices("where") {
        for writes in ["small", "nodelay"] {
            repeat(&json!({"writes": writes, "files": 5, "sizes": "document", "where": network}));
        }
        repeat(&json!({"writes": "nodelay", "files": 2, "size": 300_000, "where": network}));
        repeat(&json!({"writes": "nodelay", "size": 0, "where": network}));
        repeat(&json!({"files": 5, "size": 100_000, "where": network}));
    }
}

#[test]
fn who_comes_late_is_waited_for_with_a_sleep() {
    for writes in choices("writes") {
        let given = json!({"meeting": "retry", "late": 0.5, "writes": writes, "size": 100});
        with(&given, |workload, clock| {
            let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
            workload.verify(&work).expect("it is true");
            // Less than a sleep it cannot be.
            assert!(metric(&work, "wait_ns") >= Some(1e9), "{work:?}");
        });
    }
}

#[test]
fn a_receiver_that_is_refused_sleeps_whatever_the_lateness() {
    for network in choices("where") {
        for writes in choices("writes") {
            let given = json!({
                "meeting": "receiver-retry", "late": 0.5, "writes": writes, "size": 100, "where": network,
            });
            with(&given, |workload, clock| {
                for _ in 0..2 {
                    let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
                    workload.verify(&work).expect("it is true");
                    // The whole sleep of the receiver is in its own time, and in the sender's.
                    for name in ["receiver_time_ns", "wait_ns", "time_ns"] {
                        assert!(metric(&work, name) >= Some(1e9), "{name}: {work:?}");
                    }
                }
            });
        }
    }
}

#[test]
fn a_repetition_that_failed_reports_why_and_the_next_is_whole() {
    for meeting in ["ready", "receiver-retry"] {
        for writes in choices("writes") {
            let given =
                json!({"files": 3, "size": 100, "writes": writes, "meeting": meeting, "late": 0});
            with(&given, |workload, clock| {
                let file = workload.folder.source().join("file-000001");
                let aside = workload.folder.source().join("aside");
                fs::rename(&file, &aside).expect("it is ours");
                for _ in 0..2 {
                    let failure = workload
                        .run(1, &mut Region::new(clock))
                        .expect_err("a file is missing");
                    let reported = failure.to_string();
                    assert!(reported.contains("No such file"), "{given}: {reported}");
                }
                fs::rename(&aside, &file).expect("it is ours");
                let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
                workload.verify(&work).expect("it is true");
            });
        }
    }
}

#[test]
fn a_receiver_that_died_is_replaced_for_the_next_repetition() {
    for meeting in choices("meeting") {
        let given = json!({"size": 10, "meeting": meeting, "late": 0});
        with(&given, |workload, clock| {
            let receiver = workload.receiver.as_ref().and_then(MeasuredPeer::process);
            kill(receiver.expect("it is a process"), Signal::SIGKILL).expect("it lives");
            let failure = workload
                .run(1, &mut Region::new(clock))
                .expect_err("it died");
            assert!(failure.to_string().contains("SIGKILL"), "{failure}");
            let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
            workload.verify(&work).expect("it is true");
        });
    }
}

#[test]
fn a_folder_that_passes_its_group_on_is_cleared_all_the_same() {
    let place = std::env::temp_dir().join(format!("transfer-copy-{}", std::process::id()));
    fs::create_dir(&place).expect("there is room");
    fs::set_permissions(&place, Permissions::from_mode(0o2775)).expect("it is ours");
    repeat(&json!({"folder": place, "size": 10}));
    fs::remove_dir(&place).expect("nothing is left in it");
}

#[test]
fn what_auto_used_is_reported_of_both_sides() {
    let given = json!({"sender": "auto", "receiver": "auto", "size": 1000});
    with(&given, |workload, clock| {
        let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
        let reported = work.notes.join("\n");
        assert!(reported.contains("sender=auto used"), "{reported}");
        assert!(reported.contains("receiver=auto used"), "{reported}");
    });
}

#[test]
fn what_is_wrong_with_a_file_is_reported() {
    type Spoil = fn(&Path);
    let spoils: [(Spoil, &str); 6] = [
        (|file| change(file, 99_999), "byte at offset 99999"),
        (
            |file| open(file).set_len(99_999).expect("it is ours"),
            "length",
        ),
        (
            |file| fs::set_permissions(file, Permissions::from_mode(0o600)).expect("it is ours"),
            "mode is 600",
        ),
        (
            |file| {
                let now = FileTimes::new().set_modified(SystemTime::now());
                open(file).set_times(now).expect("it is ours");
            },
            "time of change",
        ),
        (
            |file| fs::remove_file(file).expect("the file can be removed"),
            "No such file",
        ),
        (
            |file| fs::write(file.with_file_name("more"), "x").expect("it is ours"),
            "4 files are in the destination",
        ),
    ];
    with(
        &json!({"files": 3, "size": 100_000, "writes": "nodelay"}),
        |workload, clock| {
            for (spoil, words) in spoils {
                let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
                workload.verify(&work).expect("it is true");
                spoil(&workload.folder.destination().join("file-000001"));
                let failure = workload.verify(&work).expect_err(words).to_string();
                assert!(failure.contains(words), "{failure}");
            }
        },
    );
}

fn open(file: &Path) -> File {
    fs::set_permissions(file, Permissions::from_mode(0o644)).expect("it is ours");
    let open = File::options()
        .write(true)
        .open(file)
        .expect("the file can be opened");
    fs::set_permissions(file, Permissions::from_mode(0o444)).expect("it is ours");
    open
}

/// Another byte, and the old time.
fn change(file: &Path, offset: u64) {
    let modified = fs::metadata(file).and_then(|metadata| metadata.modified());
    let open = open(file);
    let mut byte = [0];
    File::open(file)
        .and_then(|file| file.read_exact_at(&mut byte, offset))
        .expect("it is that long");
    open.write_all_at(&[!byte[0]], offset).expect("it is ours");
    let times = FileTimes::new().set_modified(modified.expect("the kernel reports it"));
    open.set_times(times).expect("it is ours");
}

#[test]
fn a_receiver_that_dies_is_reported_and_nothing_is_left() {
    let mut root = PathBuf::new();
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    with(&json!({"writes": "nodelay", "size": 10}), |workload, _| {
        root = workload.folder.source();
        let receiver = workload
            .receiver
            .as_ref()
            .and_then(MeasuredPeer::process)
            .expect("it is a process");
        kill(receiver, Signal::SIGKILL).expect("it lives");
        let failure = workload
            .run(1, &mut Region::new(&clock))
            .expect_err("it died");
        assert!(failure.to_string().contains("SIGKILL"), "{failure}");
    });
    assert!(!root.exists(), "{}", root.display());
}

#[test]
fn the_networks_of_others_are_left_alone() {
    for (name, value) in [
        ("rate", json!(1)),
        ("delay", json!(0.001)),
        ("loss", json!(1)),
    ] {
        match parameters(&json!({name: value})).shape() {
            Err(Failure::Request { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    parameters(&json!({"rate": 1, "where": "namespaces"}))
        .shape()
        .expect("that network is ours");
}

#[test]
fn a_folder_that_is_none_or_too_small_is_refused() {
    let refused = |given: &Value| {
        let Parameters { folder, files, .. } = parameters(given);
        Folder::make(&folder, files).expect_err("it cannot be")
    };
    let none = refused(&json!({"folder": "/proc/version"}));
    assert!(
        matches!(none, Failure::Request { ref field, .. } if field == "folder"),
        "{none}"
    );
    let large = refused(&json!({"files": 100_000, "size": 60_u64 << 30}));
    assert!(matches!(large, Failure::Unavailable { .. }), "{large}");
}
