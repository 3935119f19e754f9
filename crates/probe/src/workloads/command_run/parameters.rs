//! What `command.run` takes.

use serde::Deserialize;

use crate::description::{Kind, Parameter};

/// The parameters, as deserialised.
#[derive(Debug, Clone, Deserialize)]
pub struct Parameters {
    pub program: String,
    pub arguments: Vec<String>,
    pub setup: Vec<String>,
    pub prepare: Vec<String>,
    pub cleanup: Vec<String>,
    pub reference: Vec<String>,
    pub shell: Vec<String>,
    pub environment: Vec<String>,
    pub folder: String,
    pub input: String,
    pub output: String,
    pub cold: Vec<String>,
    pub cpu: String,
    pub warmup: u64,
    pub timeout: f64,
    pub ignore_failure: bool,
}

/// They, as `describe` shows them.
pub fn described() -> Vec<Parameter> {
    [commands(), conditions()].concat()
}

const fn parameter(
    name: &'static str,
    kind: Kind,
    unit: Option<&'static str>,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        kind,
        unit,
        applies: Vec::new(),
        doc,
    }
}

/// What is executed, and when.
fn commands() -> Vec<Parameter> {
    vec![
        parameter(
            "program",
            Kind::Path {
                default: "/bin/true",
            },
            None,
            "The file to execute: an absolute path. PATH is not searched, and no shell is used.",
        ),
        parameter(
            "arguments",
            Kind::Arguments,
            None,
            "Its arguments, from its own name (argv[0]) on; empty: its path alone.",
        ),
        parameter(
            "setup",
            Kind::Arguments,
            None,
            "Run before the repetitions of a block, outside the clock: an absolute path and its arguments.",
        ),
        parameter(
            "prepare",
            Kind::Arguments,
            None,
            "Run before each repetition, outside the clock.",
        ),
        parameter(
            "cleanup",
            Kind::Arguments,
            None,
            "Run after the repetitions of a block, outside the clock; also after a failure or a signal.",
        ),
        parameter(
            "reference",
            Kind::Arguments,
            None,
            "A trivial program; start_ns is the time from its start to its end.",
        ),
        parameter(
            "shell",
            Kind::Arguments,
            None,
            "A shell that runs nothing; shell_ns is the time from its start to its end.",
        ),
        parameter(
            "environment",
            Kind::Arguments,
            None,
            "Variables beside those of the probe: NAME=VALUE.",
        ),
    ]
}

/// Where, how often and how long it runs.
fn conditions() -> Vec<Parameter> {
    let path = || Kind::Path { default: "" };
    vec![
        parameter(
            "folder",
            path(),
            None,
            "Working folder; empty for the probe's.",
        ),
        parameter(
            "input",
            path(),
            None,
            "File on standard input; empty for /dev/null.",
        ),
        parameter(
            "output",
            path(),
            None,
            "File that takes standard output, emptied before each repetition; empty for /dev/null.",
        ),
        parameter(
            "cold",
            Kind::Arguments,
            None,
            "Files that are evicted from the page cache before each repetition (proved).",
        ),
        parameter(
            "cpu",
            Kind::Choice {
                default: "free",
                choices: vec!["free"],
                pattern: Some("cpu:N"),
            },
            None,
            "The CPU that the program may use; free: all those allowed to the probe.",
        ),
        parameter(
            "warmup",
            Kind::Integer {
                default: 1,
                minimum: 0,
                maximum: 1_000_000,
            },
            None,
            "Runs before the repetitions of a block that are not reported.",
        ),
        parameter(
            "timeout",
            Kind::Duration {
                default: 600.0,
                minimum: 0.1,
                maximum: 604_800.0,
            },
            Some("s"),
            "After this time the program is killed, and the point is given up.",
        ),
        parameter(
            "ignore_failure",
            Kind::Boolean { default: false },
            None,
            "Count runs that end with another exit code than 0 or by a signal, too.",
        ),
    ]
}
