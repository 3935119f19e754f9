//! What a workload declares, and how it is described.

use crate::Workload;
use serde_json::{Map, Value, json};

/// The schema of the description and of all answers.
pub const SCHEMA: &str = "oscope.probe/1";

/// Which of two values of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
    /// Neither: the figure says what was done. It is shown, and not compared.
    Neither,
}

/// A figure that each repetition gives besides its time.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Its name, such as `filled_bytes`.
    pub name: &'static str,
    /// Its unit, such as `B` or `1/s`.
    pub unit: &'static str,
    /// Which value is better.
    pub better: Better,
    /// What it is, in a sentence.
    pub doc: &'static str,
}

/// A factor that may be varied: made by [`integer`], [`bytes`], [`duration`], [`boolean`], [`choice`], [`path`].
#[derive(Clone, Debug)]
pub struct Parameter {
    name: &'static str,
    kind: &'static str,
    default: Value,
    choices: &'static [&'static str],
    doc: &'static str,
}

fn parameter(name: &'static str, kind: &'static str, default: Value, doc: &'static str) -> Parameter {
    Parameter { name, kind, default, choices: &[], doc }
}

/// A whole number.
pub fn integer(name: &'static str, default: i64, doc: &'static str) -> Parameter {
    parameter(name, "integer", json!(default), doc)
}

/// A number of bytes: the command line takes `4K` and `1MiB` for it.
pub fn bytes(name: &'static str, default: u64, doc: &'static str) -> Parameter {
    parameter(name, "bytes", json!(default), doc)
}

/// A duration in seconds: the command line takes `10ms` and `2s` for it.
pub fn duration(name: &'static str, default: f64, doc: &'static str) -> Parameter {
    parameter(name, "duration", json!(default), doc)
}

/// True or false.
pub fn boolean(name: &'static str, default: bool, doc: &'static str) -> Parameter {
    parameter(name, "boolean", json!(default), doc)
}

/// One of several texts, the first of which is the default.
///
/// # Panics
/// There is no choice.
pub fn choice(name: &'static str, choices: &'static [&'static str], doc: &'static str) -> Parameter {
    let default = json!(choices.first().expect("a choice has at least one text"));
    Parameter { choices, ..parameter(name, "choice", default, doc) }
}

/// A path, which arrives absolute; empty where none is given.
pub fn path(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    parameter(name, "path", json!(default), doc)
}

/// Why a point is not measured.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// This machine cannot: the point is shown as skipped, with the remedy.
    Unavailable {
        /// What is missing.
        reason: String,
        /// How to fix it.
        remedy: Option<String>,
    },
    /// It went wrong.
    Failed(String),
}

/// The levels of the point being measured.
#[derive(Debug)]
pub struct Levels(Map<String, Value>);

impl Levels {
    /// Takes the defaults of `workload` and the levels that a request gives.
    ///
    /// # Errors
    /// The name of a parameter that is not declared.
    pub(crate) fn new(workload: &dyn Workload, params: Option<&Value>) -> Result<Self, String> {
        let mut levels: Map<String, Value> =
            workload.parameters().into_iter().map(|each| (each.name.to_owned(), each.default)).collect();
        for (name, value) in params.and_then(Value::as_object).into_iter().flatten() {
            match levels.get_mut(name) {
                Some(level) => *level = value.clone(),
                None => return Err(name.clone()),
            }
        }
        Ok(Self(levels))
    }

    fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("the workload declares no parameter {name}"))
    }

    /// The level of an `integer` or of `bytes`.
    ///
    /// # Panics
    /// No such parameter is declared, as in all of these.
    pub fn integer(&self, name: &str) -> i64 {
        self.get(name).as_i64().unwrap_or_else(|| panic!("{name} is no whole number"))
    }

    /// The level of a `duration`, in seconds.
    pub fn seconds(&self, name: &str) -> f64 {
        self.get(name).as_f64().unwrap_or_else(|| panic!("{name} is no number"))
    }

    /// The level of a `boolean`.
    pub fn boolean(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or_else(|| panic!("{name} is neither true nor false"))
    }

    /// The level of a `choice` or a `path`.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_else(|| panic!("{name} is no text"))
    }
}

/// The version that descriptions and greetings name.
pub fn build() -> Value {
    json!({"version": concat!("rust-kit ", env!("CARGO_PKG_VERSION")), "commit": null})
}

/// What `describe` prints.
pub fn describe(workloads: &[&mut dyn Workload]) -> Value {
    let described: Vec<Value> = workloads.iter().map(|each| describe_one(&**each)).collect();
    json!({"schema": SCHEMA, "probe": build(), "workloads": described, "covariates": []})
}

fn describe_one(workload: &dyn Workload) -> Value {
    let mut metrics = vec![json!({
        "name": "time_ns", "unit": "ns", "better": "less",
        "quantity": "time", "per": "iteration", "note": "The cost of reading the clock is subtracted.",
        "doc": "Time per iteration. The cost of reading the clock is subtracted.",
    })];
    for each in workload.metrics() {
        let better = match each.better {
            Better::Less => json!("less"),
            Better::More => json!("more"),
            Better::Neither => Value::Null,
        };
        metrics.push(json!({"name": each.name, "unit": each.unit, "better": better, "doc": each.doc}));
    }
    let parameters: Vec<Value> = workload
        .parameters()
        .into_iter()
        .map(|each| {
            json!({"name": each.name, "type": each.kind, "default": each.default, "choices": each.choices,
                   "doc": each.doc})
        })
        .collect();
    json!({
        "name": workload.name(),
        "version": workload.version(),
        "purpose": workload.purpose(),
        "timing_model": "time = (raw - correction) / iterations; raw is CLOCK_MONOTONIC_RAW in ns around all \
                         iterations of a repetition, called once; correction is one reading of the clock",
        "parameters": parameters,
        "metrics": metrics,
        "alone": if workload.has_threads() { Value::Null } else { json!({}) },
    })
}
