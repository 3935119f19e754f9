//! Requests, and the events as the fixtures shared with the laboratory have them.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn refused(line: &str) -> Refused {
    parse(line.as_bytes()).expect_err(line)
}

fn request(line: &[u8]) -> Result<Request, Refused> {
    parse(line).map(|asked| match asked {
        Asked::Request(request) => *request,
        Asked::Renewal(_) => panic!("no request"),
    })
}

#[test]
fn a_fresh_process_is_asked_for_by_one_field() {
    assert_eq!(parse(br#"{"renew": true}"#), Ok(Asked::Renewal(None)));
    assert_eq!(
        parse(br#"{"renew": true, "program": "/opt/oscope-probe"}"#),
        Ok(Asked::Renewal(Some("/opt/oscope-probe".into())))
    );
    // A name without a folder would be looked for along the search path.
    let relative = refused(r#"{"renew": true, "program": "oscope-probe"}"#);
    assert_eq!(relative.field.as_deref(), Some("program"));
    assert_eq!(
        refused(r#"{"renew": false}"#).field.as_deref(),
        Some("renew")
    );
    let both = refused(r#"{"id": 1, "workload": "null", "renew": true}"#);
    assert_eq!(both.field.as_deref(), Some("renew"));
}

#[test]
fn defaults_are_filled_in() {
    let request = request(br#"{"id": 7, "workload": "null"}"#).unwrap();
    assert_eq!(request.reps, 1);
    assert_eq!(request.warmup, None);
    assert_eq!(request.iterations, None);
    assert_eq!(request.min_time_ns, 1_000_000);
    assert_eq!(request.cpu, Placement::Highest);
    assert_eq!(request.time_limit_s, None);
    assert!(request.params.is_empty());
}

#[test]
fn null_means_the_default() {
    let line = br#"{"id": 0, "workload": "null", "params": null, "reps": null, "cpu": null}"#;
    assert_eq!(request(line).unwrap().reps, 1);
}

#[test]
fn placements() {
    let cpu = |value: i64| {
        let line = json!({"id": 1, "workload": "null", "cpu": value}).to_string();
        request(line.as_bytes()).map(|request| request.cpu)
    };
    assert_eq!(cpu(-1), Ok(Placement::Free));
    assert_eq!(cpu(3), Ok(Placement::Cpu(3)));
    assert_eq!(cpu(-2).unwrap_err().field.as_deref(), Some("cpu"));
}

#[test]
fn each_wrong_field_is_named() {
    for (field, value) in [
        ("id", json!("seven")),
        ("workload", json!(3)),
        ("params", json!([1])),
        ("reps", json!(0)),
        ("reps", json!(-1)),
        ("reps", json!(1.5)),
        ("warmup", json!("two")),
        ("iterations", json!(0)),
        ("min_time_ns", json!(u64::MAX)),
        ("cpu", json!("first")),
        ("time_limit_s", json!(0.0)),
        ("time_limit_s", json!(-3)),
    ] {
        let mut request = json!({"id": 1, "workload": "null"});
        request[field] = value;
        let refused = refused(&request.to_string());
        assert_eq!(refused.field.as_deref(), Some(field));
        assert_eq!(refused.id, (field != "id").then_some(1));
    }
}

#[test]
fn missing_and_unknown_fields_are_named() {
    assert_eq!(
        refused(r#"{"workload": "null"}"#).field.as_deref(),
        Some("id")
    );
    assert_eq!(refused(r#"{"id": 4}"#).field.as_deref(), Some("workload"));
    let unknown = refused(r#"{"id": 4, "workload": "null", "rep": 3}"#);
    assert_eq!(unknown.field.as_deref(), Some("rep"));
    assert!(unknown.message.contains("reps"), "{}", unknown.message);
}

#[test]
fn what_is_no_object_has_no_number_and_no_field() {
    for line in ["", "{", "[]", "7", "{\"id\": 1} trailing", "\u{0}"] {
        let refused = refused(line);
        assert_eq!((refused.id, refused.field), (None, None));
    }
}

proptest! {
    #[test]
    fn no_line_makes_the_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&line);
    }

    #[test]
    fn messages_are_one_line(text in "[a-z\n\r\t ]{0,40}") {
        prop_assert!(!one_line(&text).contains(['\n', '\r']));
    }
}

fn sample() -> Sample {
    let object = |value: Value| value.as_object().cloned().expect("an object");
    Sample {
        request: 7,
        rep: 0,
        started_ns: 1_790_000_000_123_456_789,
        raw: Some(2_600_123),
        iterations: 10_000,
        correction: 38.0,
        metrics: object(json!({"time_ns": 98.1, "cycles": 255.0})),
        covariates: object(json!({"run_delay_ns": 0, "steal_ticks": null})),
        failed: None,
    }
}

/// Every kind of event, by the name of the fixture that holds it.
fn events() -> Vec<(&'static str, Vec<Event>)> {
    let environment = json!({"clock": {"kind": "tsc", "hz": 2.6e9, "overhead": 38.0, "overhead_mad": 1.0,
        "resolution": 1, "why": null}});
    let hello = Event::Hello {
        schema: SCHEMA,
        probe: Probe {
            version: "0.1.0",
            commit: None,
        },
        pid: 123,
        renews: false,
        renews_into: false,
        environment,
    };
    let slow = Sample {
        rep: 1,
        metrics: [
            ("time_ns".to_owned(), json!(-0.25)),
            ("cycles".to_owned(), Value::Null),
        ]
        .into_iter()
        .collect(),
        ..sample()
    };
    let failed = Sample {
        rep: 2,
        raw: None,
        metrics: Map::new(),
        failed: Some("did 9 of 10 units of work".into()),
        ..sample()
    };
    let done = |interrupted| Event::Done {
        request: 7,
        samples: 3,
        iterations: 10_000,
        interrupted,
    };
    let unavailable = Failure::unavailable("no huge pages", "sysctl vm.nr_hugepages=64");
    vec![
        ("hello", vec![hello]),
        (
            "sample",
            vec![
                Event::Sample(sample()),
                Event::Sample(slow),
                Event::Sample(failed),
            ],
        ),
        (
            "note",
            vec![Event::Note {
                request: 7,
                text: "system call 470 does not exist".into(),
            }],
        ),
        ("done", vec![done(false), done(true)]),
        (
            "error",
            vec![
                refused("{").into(),
                refused(r#"{"id": 7, "workload": "null", "reps": 0}"#).into(),
                Event::of_failure(7, unavailable),
                Event::of_failure(7, Failure::failed("reading /dev/zero: EIO")),
            ],
        ),
    ]
}

/// The laboratory's tests read the same files. `OSCOPE_WRITE_FIXTURES=1 cargo test fixtures` writes them anew.
#[test]
fn events_are_written_as_the_fixtures_have_them() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wire");
    for (name, events) in events() {
        let written: String = events
            .iter()
            .map(|event| serde_json::to_string(event).unwrap() + "\n")
            .collect();
        let path = folder.join(name).with_extension("jsonl");
        if std::env::var_os("OSCOPE_WRITE_FIXTURES").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &written).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, kept, "{}", path.display());
    }
}
