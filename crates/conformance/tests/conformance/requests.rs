//! Requests, right and wrong, to every workload.

use serde_json::{Value, json};

use crate::support::{Probe, parameters, short_request, text, workloads};

/// Panics unless the request was done with sound samples, or is reported as impossible here. Returns which.
fn assert_done_or_unavailable(workload: &Value, request: &Value, events: &[Value]) {
    let end = events.last().expect("an end");
    if end["event"] == "error" {
        assert_eq!(end["kind"], "unavailable", "{request} gave {end}");
        assert!(end["remedy"].is_string(), "{end}");
        println!(
            "not available here: {request}: {} ({})",
            end["message"], end["remedy"]
        );
        return;
    }
    assert_eq!(end["interrupted"], false);
    let samples: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "sample")
        .collect();
    assert_eq!(
        samples.len(),
        request["reps"].as_u64().unwrap_or(1) as usize
    );
    assert_eq!(end["samples"], samples.len());
    for sample in samples {
        assert!(sample["failed"].is_null(), "{request} gave {sample}");
        assert_eq!(sample["iterations"], end["iterations"]);
        let metrics = sample["metrics"].as_object().expect("an object");
        let declared = workload["metrics"].as_array().expect("a list");
        assert_eq!(metrics.len(), declared.len());
        for metric in declared {
            assert!(
                metrics.contains_key(metric["name"].as_str().unwrap()),
                "{sample}"
            );
        }
        assert!(metrics.values().any(Value::is_number));
    }
}

#[test]
fn defaults_and_every_choice_run() {
    let mut probe = Probe::start();
    for workload in workloads() {
        let request = short_request(&workload);
        let events = probe.ask(&request);
        assert_done_or_unavailable(&workload, &request, &events);
        for parameter in parameters(&workload) {
            let values = match parameter["type"].as_str().unwrap() {
                "choice" => parameter["choices"].as_array().unwrap().clone(),
                "boolean" => vec![json!(false), json!(true)],
                "path" | "arguments" => vec![parameter["default"].clone()],
                _ => vec![parameter["minimum"].clone()],
            };
            for value in values {
                let mut request = request.clone();
                request["params"][text(&parameter["name"])] = value;
                let events = probe.ask(&request);
                assert_done_or_unavailable(&workload, &request, &events);
            }
        }
    }
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn repeated_runs_in_one_probe_give_all_their_samples() {
    let mut probe = Probe::start();
    for workload in workloads() {
        for id in 0..3 {
            let mut request = short_request(&workload);
            request["id"] = json!(id);
            request["reps"] = json!(4);
            request["warmup"] = json!(1);
            let events = probe.ask(&request);
            assert!(events.iter().all(|event| event["request"] == id));
            assert_done_or_unavailable(&workload, &request, &events);
        }
    }
    probe.close();
    assert!(probe.ends_clean().success());
}

/// Values that a parameter must refuse.
fn wrong_values(parameter: &Value) -> Vec<Value> {
    match parameter["type"].as_str().unwrap() {
        "choice" => vec![json!("no such choice"), json!(1), json!(null)],
        "boolean" => vec![json!("true"), json!(1), json!(null)],
        "path" => vec![json!("/a\0b"), json!(1), json!(null)],
        "arguments" => vec![json!("true"), json!([1]), json!(["a\0b"]), json!(null)],
        _ => vec![
            json!("10s"),
            json!(parameter["maximum"].as_f64().unwrap() * 2.0 + 1.0),
            json!(-1),
        ],
    }
}

#[test]
fn wrong_parameters_are_named_and_the_probe_lives_on() {
    let mut probe = Probe::start();
    for workload in workloads() {
        for parameter in parameters(&workload) {
            for value in wrong_values(&parameter) {
                let mut request = short_request(&workload);
                request["params"][text(&parameter["name"])] = value;
                let events = probe.ask(&request);
                assert_eq!(events.len(), 1);
                assert_eq!(events[0]["kind"], "request", "{request}");
                assert_eq!(events[0]["field"], parameter["name"], "{request}");
            }
        }
        let mut request = short_request(&workload);
        request["params"]["no_such_parameter"] = json!(1);
        assert_eq!(probe.ask(&request)[0]["field"], "no_such_parameter");
        let request = short_request(&workload);
        let events = probe.ask(&request);
        assert_done_or_unavailable(&workload, &request, &events);
    }
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn broken_lines_and_wrong_fields_are_answered_and_the_probe_lives_on() {
    let mut probe = Probe::start();
    for line in ["{", "nonsense", "[]", "{\"id\": 1} x"] {
        probe.say(line);
        let error = probe.event().unwrap();
        assert_eq!(error["kind"], "request");
        assert!(error["request"].is_null() && error["field"].is_null());
    }
    probe.say("");
    let error = probe.ask(&json!({"id": 5, "workload": "nul"})).remove(0);
    assert_eq!(error["field"], "workload");
    assert!(text(&error["message"]).contains("\"null\""), "{error}");
    for (field, value) in [
        ("reps", json!(0)),
        ("cpu", json!(99_999)),
        ("repetitions", json!(3)),
    ] {
        let mut request = json!({"id": 6, "workload": "null"});
        request[field] = value;
        let error = probe.ask(&request).remove(0);
        assert_eq!(
            (&error["request"], &error["field"]),
            (&json!(6), &json!(field))
        );
    }
    let last = probe
        .ask(&json!({"id": 7, "workload": "null"}))
        .pop()
        .unwrap();
    assert_eq!(last["event"], "done");
    probe.close();
    assert!(probe.ends_clean().success());
}

/// `syscall.cost` and `null` by name: what a single iteration means is theirs.
#[test]
fn single_style_has_one_iteration_and_takes_no_other() {
    let mut probe = Probe::start();
    for workload in ["null", "syscall.cost"] {
        let mut request = json!({"id": 1, "workload": workload, "params": {"style": "single"}});
        assert_eq!(probe.ask(&request).pop().unwrap()["iterations"], 1);
        request["iterations"] = json!(2);
        assert_eq!(probe.ask(&request).pop().unwrap()["field"], "iterations");
    }
    probe.close();
    assert!(probe.ends_clean().success());
}

/// `syscall.cost` by name: numbers of calls that do not exist, and of calls that must not be made.
#[test]
fn call_numbers_are_measured_or_refused() {
    let mut probe = Probe::start();
    let mut ask = |call: &str| {
        probe.ask(&json!({"id": 1, "workload": "syscall.cost", "params": {"call": call}, "min_time_ns": 1000}))
    };
    for call in ["nr:1000", "nr:999999"] {
        let events = ask(call);
        let note = events
            .iter()
            .find(|event| event["event"] == "note")
            .unwrap();
        assert!(text(&note["text"]).contains("ENOSYS"));
        assert_eq!(events.last().unwrap()["event"], "done");
    }
    for call in ["nr:57", "nr:60", "nr:335", "nr:1073741881"] {
        let error = ask(call).remove(0);
        assert_eq!(
            (&error["kind"], &error["field"]),
            (&json!("request"), &json!("call")),
            "{error}"
        );
    }
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn the_time_limit_ends_a_request_between_repetitions() {
    let mut probe = Probe::start();
    for workload in workloads() {
        let mut request = short_request(&workload);
        request["reps"] = json!(1_000_000_000);
        request["time_limit_s"] = json!(0.05);
        let end = probe.ask(&request).pop().unwrap();
        if end["event"] == "done" {
            assert_eq!(end["interrupted"], false);
            assert!(end["samples"].as_u64().unwrap() < 1_000_000_000);
        } else {
            assert_eq!(end["kind"], "unavailable", "{end}");
        }
    }
    probe.close();
    assert!(probe.ends_clean().success());
}
