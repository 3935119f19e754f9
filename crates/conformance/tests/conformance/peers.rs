//! Other programs end with the probe, however it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Probe;

/// A probe whose child is reading: by small blocks, so that hardly anything else is ever under way. `None` where the
/// tool is missing.
fn reading(mut probe: Probe, tool: &str) -> Option<Probe> {
    let params = json!({"tool": tool, "size": 64 << 20, "block_size": 128, "cache": "warm", "count": 200_000});
    let request =
        json!({"id": 1, "workload": "disk.peers", "params": params, "reps": 1_000_000_000});
    probe.say(&request.to_string());
    loop {
        let event = probe.event().expect("an answer");
        match event["event"].as_str() {
            Some("sample") => break,
            Some("note") => {}
            _ => {
                assert_eq!(event["kind"], "unavailable", "{event}");
                return None;
            }
        }
    }
    // Into the next reading.
    std::thread::sleep(Duration::from_millis(100));
    Some(probe)
}

fn end_of_request(probe: &mut Probe) -> Value {
    loop {
        let event = probe.event().expect("an end");
        if event["event"] != "sample" && event["event"] != "note" {
            return event;
        }
    }
}

#[test]
fn a_signal_ends_the_other_program_and_then_the_probe() {
    for tool in ["dd", "fio"] {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let Some(mut probe) = reading(Probe::start(), tool) else {
                continue;
            };
            probe.signal(signal);
            let end = end_of_request(&mut probe);
            assert_eq!(
                (&end["event"], &end["interrupted"]),
                (&json!("done"), &json!(true)),
                "{end}"
            );
            assert!(probe.ends_clean().success());
        }
    }
}

#[test]
fn a_probe_that_is_killed_takes_the_other_program_with_it() {
    for tool in ["dd", "fio"] {
        let Some(probe) = reading(Probe::start(), tool) else {
            continue;
        };
        probe.signal(libc::SIGKILL);
        assert!(!probe.ends_clean().success());
    }
}

#[test]
fn signals_that_the_parent_ignored_or_blocked_work() {
    for tool in ["dd", "fio"] {
        let Some(mut probe) = reading(Probe::start_with_signals_off(), tool) else {
            continue;
        };
        probe.signal(libc::SIGTERM);
        assert_eq!(end_of_request(&mut probe)["interrupted"], true);
        assert!(probe.ends_clean().success());
    }
}
