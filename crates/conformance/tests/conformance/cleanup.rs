//! However a probe ends, it leaves nothing behind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Probe, program, short_request, workloads};

/// The probe in the midst of a request without end, or `None` where the workload is not available.
fn busy(mut probe: Probe, workload: &Value) -> Option<Probe> {
    let mut request = short_request(workload);
    request["reps"] = json!(1_000_000_000);
    probe.say(&request.to_string());
    loop {
        let event = probe.event().expect("an answer");
        match event["event"].as_str() {
            Some("sample") => return Some(probe),
            Some("note") => {}
            _ => {
                assert_eq!(event["kind"], "unavailable", "{event}");
                return None;
            }
        }
    }
}

/// The event that ends the request under way.
fn end_of_request(probe: &mut Probe) -> Value {
    let latest = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < latest, "the request goes on");
        let event = probe.event().expect("an end");
        if event["event"] != "sample" && event["event"] != "note" {
            return event;
        }
    }
}

#[test]
fn signals_end_the_request_and_the_probe() {
    for workload in workloads() {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let Some(mut probe) = busy(Probe::start(), &workload) else {
                continue;
            };
            probe.signal(signal);
            let end = end_of_request(&mut probe);
            assert_eq!(
                (&end["event"], &end["interrupted"]),
                (&json!("done"), &json!(true))
            );
            assert!(probe.ends_clean().success());
        }
    }
}

#[test]
fn sigkill_leaves_no_file_and_no_process() {
    for workload in workloads() {
        let Some(probe) = busy(Probe::start(), &workload) else {
            continue;
        };
        probe.signal(libc::SIGKILL);
        assert!(!probe.ends_clean().success());
    }
}

/// By name: these may be asked for a single repetition of an hour or more.
#[test]
fn a_long_repetition_is_given_up() {
    for mut request in [
        json!({"workload": "syscall.throughput", "params": {"duration": 3600}}),
        json!({"workload": "syscall.cost", "iterations": 1_000_000_000_000_000_u64}),
        json!({"workload": "null", "iterations": 1_000_000_000_000_000_u64}),
        json!({"workload": "null", "params": {"work": 1_000_000}, "iterations": 1_000_000_000_000_u64}),
        json!({"workload": "memory.bandwidth", "params": {"threads": 0}, "iterations": 1_000_000_000_000_u64}),
    ] {
        let mut probe = Probe::start();
        request["id"] = json!(1);
        request["warmup"] = json!(0);
        probe.say(&request.to_string());
        // There is no event to wait for. Should the signal come first, the request is not begun, and the end of output
        // says so.
        std::thread::sleep(Duration::from_millis(300));
        probe.signal(libc::SIGTERM);
        if let Some(end) = probe.event() {
            assert_eq!(
                (&end["event"], &end["samples"], &end["interrupted"]),
                (&json!("done"), &json!(0), &json!(true)),
                "{request} gave {end}"
            );
        }
        assert!(probe.ends_clean().success());
    }
}

/// Its pipes stay open here, so that the probe sees nothing but the death itself.
#[test]
fn a_parent_that_is_killed_takes_the_probe_with_it() {
    for workload in workloads() {
        let Some(mut probe) = busy(Probe::start_below_a_parent(), &workload) else {
            continue;
        };
        probe.signal(libc::SIGKILL);
        assert_eq!(end_of_request(&mut probe)["interrupted"], true);
        assert!(!probe.ends_clean().success(), "the parent's own status");
    }
    let idle = Probe::start_below_a_parent();
    idle.signal(libc::SIGKILL);
    assert!(!idle.ends_clean().success(), "the parent's own status");
}

/// The kernel's parent-death signal is sent at the end of the parent's thread already.
#[test]
fn a_thread_of_the_parent_may_end() {
    let started = std::thread::spawn(Probe::start);
    let mut probe = started.join().expect("the probe starts");
    let end = probe.ask(&json!({"id": 1, "workload": "null"})).pop();
    assert_eq!(end.expect("an end")["interrupted"], false);
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn signals_that_the_parent_ignored_or_blocked_work() {
    for workload in workloads() {
        let mut probe = Probe::start_with_signals_off();
        let events = probe.ask(&short_request(&workload));
        let failed = events
            .iter()
            .find(|event| event["event"] == "sample" && !event["failed"].is_null());
        assert!(failed.is_none(), "{failed:?}");
        probe.signal(libc::SIGTERM);
        assert!(probe.ends_clean().success());
    }
}

#[test]
fn a_signal_ends_an_idle_probe() {
    let probe = Probe::start();
    probe.signal(libc::SIGTERM);
    assert!(probe.ends_clean().success());
}

#[test]
fn a_reader_that_goes_away_ends_the_probe() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new(program())
        .arg("run")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // The probe may be gone already, having failed to say hello.
    let _ = writeln!(
        input,
        "{}",
        json!({"id": 1, "workload": "null", "reps": 1_000_000_000})
    );
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
