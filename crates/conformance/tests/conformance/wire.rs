//! The description and the events fit the wire's schema.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{
    PATIENCE, Probe, description, fits_the_wire, parameters, program, text, workloads,
};

#[test]
fn the_description_fits_and_names_are_unique() {
    let description = description();
    fits_the_wire(&description);
    for list in [&description["workloads"], &description["covariates"]] {
        let mut names: Vec<&Value> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["name"])
            .collect();
        let all = names.len();
        names.sort_by_key(|name| name.to_string());
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

#[test]
fn each_parameter_says_all_that_is_needed_to_check_a_value() {
    for workload in workloads() {
        for parameter in parameters(&workload) {
            let default = &parameter["default"];
            match parameter["type"].as_str().unwrap() {
                "choice" => assert!(parameter["choices"].as_array().unwrap().contains(default)),
                "boolean" => assert!(default.is_boolean(), "{parameter}"),
                "arguments" => assert!(default.is_array(), "{parameter}"),
                "path" => {
                    assert!(!text(default).contains('\0'), "{parameter}");
                    for name in ["choices", "pattern", "minimum", "maximum"] {
                        assert!(parameter[name].is_null(), "{parameter}");
                    }
                }
                _ => {
                    let number = |name: &str| parameter[name].as_f64().unwrap();
                    assert!(number("minimum") <= number("default"), "{parameter}");
                    assert!(number("default") <= number("maximum"), "{parameter}");
                }
            }
        }
    }
}

#[test]
fn a_workload_is_alone_by_parameters_and_values_that_it_has() {
    for workload in workloads() {
        let none = serde_json::Map::new();
        for (name, values) in workload["alone"].as_object().unwrap_or(&none) {
            let parameter = parameters(&workload)
                .into_iter()
                .find(|parameter| parameter["name"] == **name)
                .unwrap_or_else(|| panic!("{name} is no parameter"));
            for value in values.as_array().unwrap() {
                let is_there = match parameter["choices"].as_array() {
                    Some(choices) => choices.contains(value),
                    None => {
                        let bound = |end: &str| parameter[end].as_f64().unwrap();
                        (bound("minimum")..=bound("maximum")).contains(&value.as_f64().unwrap())
                    }
                };
                assert!(is_there, "{name}={value}");
            }
        }
    }
}

#[test]
fn the_fixtures_fit() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/wire");
    for name in ["hello", "sample", "note", "done", "error"] {
        let lines = std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
        assert!(!lines.is_empty());
        for line in lines.lines() {
            fits_the_wire(&serde_json::from_str(line).unwrap());
        }
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let refuse = |value: Value| {
        assert!(std::panic::catch_unwind(|| fits_the_wire(&value)).is_err());
    };
    refuse(json!({"event": "note", "request": 1}));
    refuse(json!({"event": "note", "request": 1, "text": "a\nb"}));
    let mut sample = json!({"event": "sample", "request": 1, "rep": 0, "started_ns": 1, "raw": 5, "iterations": 1,
        "correction": 0.0, "metrics": {"time_ns": 1.0}, "covariates": {}, "failed": null});
    fits_the_wire(&sample);
    sample["failed"] = json!("a failed sample with a figure");
    refuse(sample);
}

#[test]
fn hello_reports_who_measures_where_and_with_which_clock() {
    let mut probe = Probe::start();
    assert_eq!(probe.hello["event"], "hello");
    let clock = &probe.hello["environment"]["clock"];
    assert!(["tsc", "cntvct", "monotonic_raw"].contains(&clock["kind"].as_str().unwrap()));
    probe.close();
    assert!(probe.ends_clean().success());
}

/// Where the kernel put the program, its heap and its stack: the addresses of a process that was placed anew differ.
fn placement(pid: &Value) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let address = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    maps.lines().map(address).collect()
}

#[test]
fn a_renewed_probe_is_a_fresh_process_that_greets_with_what_it_found() {
    let mut probe = Probe::start();
    let request = json!({"id": 1, "workload": "null", "min_time_ns": 1000});
    assert_eq!(probe.hello["renews"], true);
    assert_eq!(probe.hello["renews_into"], true);
    let (mut before, mut places) = (probe.hello.clone(), vec![placement(&probe.hello["pid"])]);
    for _ in 0..3 {
        assert_eq!(probe.ask(&request).last().unwrap()["event"], "done");
        probe.say(r#"{"renew": true}"#);
        probe.say("");
        let mut after = probe.event().unwrap();
        // What reading the clock costs is measured by each process; the rest is taken over.
        assert_eq!(
            before["environment"]["clock"]["hz"],
            after["environment"]["clock"]["hz"]
        );
        before["environment"]["clock"] = Value::Null;
        after["environment"]["clock"] = before["environment"]["clock"].clone();
        assert_eq!(before, after);
        places.push(placement(&after["pid"]));
        let open = std::fs::read_dir(format!("/proc/{}/fd", after["pid"])).unwrap();
        let renewed = open.filter(|entry| {
            let target = std::fs::read_link(entry.as_ref().unwrap().path());
            target.is_ok_and(|target| target.to_string_lossy().contains("oscope-environment"))
        });
        assert_eq!(renewed.count(), 0);
        before = after;
        before["environment"]["clock"] = probe.hello["environment"]["clock"].clone();
    }
    let distinct: std::collections::BTreeSet<_> = places.iter().collect();
    assert_eq!(distinct.len(), places.len());
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn a_renewed_probe_keeps_its_clock_and_its_manners() {
    let mut probe = Probe::start_with(&["--clock", "monotonic"]);
    probe.say(r#"{"renew": true}"#);
    probe.say("");
    let hello = probe.event().unwrap();
    assert_eq!(hello["environment"]["clock"]["kind"], "monotonic_raw");
    probe.signal(libc::SIGTERM);
    assert!(probe.ends_clean().success());
}

#[test]
fn a_renewed_probe_takes_no_memory_until_it_is_spoken_to() {
    let resident = |pid: &Value| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
        pages
    };
    let mut probe = Probe::start();
    let pid = probe.hello["pid"].clone();
    let before = resident(&pid);
    probe.say(r#"{"renew": true}"#);
    let latest = std::time::Instant::now() + PATIENCE;
    // The memory of the old process is gone once the new one waits for a line.
    while resident(&pid) + 256 > before {
        assert!(
            std::time::Instant::now() < latest,
            "{} pages",
            resident(&pid)
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    probe.say("");
    assert_eq!(probe.event().unwrap()["event"], "hello");
    assert!(resident(&pid) + 256 > before);
    // The end of the input ends one that waits, too.
    probe.say(r#"{"renew": true}"#);
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn the_monotonic_clock_gives_times_and_no_cycles() {
    let mut probe = Probe::start_with(&["--clock", "monotonic"]);
    let clock = &probe.hello["environment"]["clock"];
    assert_eq!(clock["kind"], "monotonic_raw");
    assert!(clock["why"].is_string());
    let events = probe.ask(&json!({"id": 1, "workload": "null", "min_time_ns": 1000}));
    assert!(events[0]["metrics"]["time_ns"].is_number());
    assert!(events[0]["metrics"]["cycles"].is_null());
    probe.close();
    assert!(probe.ends_clean().success());
}

#[test]
fn the_environment_verb_prints_one_object() {
    let output = Command::new(program()).arg("environment").output().unwrap();
    assert!(output.status.success());
    let environment: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = environment["tsc_offsets"].is_object();
    let kind = environment["clock"]["kind"].as_str().unwrap();
    assert_eq!(measured, ["tsc", "cntvct"].contains(&kind));
}

#[test]
fn wrong_usage_is_status_2_and_prints_nothing_on_standard_output() {
    for arguments in [&["measure"][..], &["run", "--clock", "sundial"], &[]] {
        let output = Command::new(program()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        assert!(!output.stderr.is_empty());
    }
}
