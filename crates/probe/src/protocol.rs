//! The wire, `oscope.probe/1`: requests read and events written, one JSON object a line (see `docs/architecture.md`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::inject::delay::DelaySpec;
use crate::names;
use oscope_sys::error::{Failure, one_line};

/// Name and version of the wire.
pub const SCHEMA: &str = "oscope.probe/1";

const FIELDS: [&str; 10] = [
    "id",
    "workload",
    "params",
    "reps",
    "warmup",
    "iterations",
    "min_time_ns",
    "cpu",
    "time_limit_s",
    "inject",
];
/// The only field of a line that asks for a fresh process.
const RENEW: &str = "renew";
const PROGRAM: &str = "program";
/// Longest calibration target: ten minutes.
const LONGEST_MIN_TIME_NS: u64 = 600_000_000_000;

/// What a line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A measurement.
    Request(Box<Request>),
    /// `{"renew": true}`: a fresh process in the place of this one, which executes the build of the probe at
    /// `"program"`, this one where that is left out.
    Renewal(Option<PathBuf>),
}

/// What is asked of the probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Comes back in each event of this request.
    pub id: u64,
    /// Name of the workload.
    pub workload: String,
    /// Parameters of the workload; those left out have their defaults.
    pub params: Map<String, Value>,
    /// Samples wanted.
    pub reps: u64,
    /// Repetitions run first and not reported; `None`: as many as the workload wants.
    pub warmup: Option<u64>,
    /// Inner loop count; `None`: calibrate.
    pub iterations: Option<u64>,
    /// Calibration target of one repetition.
    pub min_time_ns: u64,
    /// Where to run.
    pub cpu: Placement,
    /// Stop between repetitions after this many seconds.
    pub time_limit_s: Option<f64>,
    /// A delay to inject into the measured region on purpose.
    pub inject: Option<DelaySpec>,
}

/// Which CPU a request runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The highest CPU allowed (`null` on the wire).
    Highest,
    /// This CPU.
    Cpu(usize),
    /// Wherever the scheduler likes (`-1` on the wire).
    Free,
}

/// A request that cannot be understood: its number, if that much could be read, and what is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The request's number, if it could be read.
    pub id: Option<u64>,
    /// The field that is wrong; `None` if the line is no JSON object.
    pub field: Option<String>,
    /// What is wrong, in one line.
    pub message: String,
}

/// The program of the renewal that is asked for; `None` if something else is.
fn renewal(fields: &Map<String, Value>) -> Option<Option<PathBuf>> {
    match (fields.len(), fields.get(RENEW)?, fields.get(PROGRAM)) {
        (1, Value::Bool(true), None) => Some(None),
        (2, Value::Bool(true), Some(Value::String(path))) if Path::new(path).is_absolute() => {
            Some(Some(path.into()))
        }
        _ => None,
    }
}

/// Read what one line asks for.
///
/// # Errors
/// [`Refused`] with the request's number and the wrong field, as far as they are known.
pub fn parse(line: &[u8]) -> Result<Asked, Refused> {
    let mut fields: Map<String, Value> = serde_json::from_slice(line).map_err(|error| Refused {
        id: None,
        field: None,
        message: format!("a request is one JSON object a line: {error}"),
    })?;
    if let Some(program) = renewal(&fields) {
        return Ok(Asked::Renewal(program));
    }
    let id = fields.get("id").and_then(Value::as_u64);
    let read = from_fields(&mut fields).map(|request| Asked::Request(Box::new(request)));
    read.map_err(|failure| match failure {
        Failure::Request { ref field, .. } => Refused {
            id,
            field: Some(field.clone()),
            message: failure.to_string(),
        },
        other => Refused {
            id,
            field: None,
            message: other.to_string(),
        },
    })
}

fn from_fields(fields: &mut Map<String, Value>) -> Result<Request, Failure> {
    if let Some(unknown) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(Failure::request(
            unknown,
            names::unknown("field", unknown, FIELDS),
        ));
    }
    let request = Request {
        id: required(fields, "id", "a whole number from 0")?,
        workload: required(fields, "workload", "a workload's name")?,
        params: optional(fields, "params", "an object")?.unwrap_or_default(),
        reps: optional(fields, "reps", "a whole number from 1")?.unwrap_or(1),
        warmup: optional(fields, "warmup", "a whole number from 0")?,
        iterations: optional(fields, "iterations", "a whole number from 1, or null")?,
        min_time_ns: optional(fields, "min_time_ns", "a whole number of nanoseconds")?
            .unwrap_or(1_000_000),
        cpu: placement(optional(fields, "cpu", "a CPU number, -1 or null")?)?,
        time_limit_s: optional(fields, "time_limit_s", "a number of seconds, or null")?,
        inject: optional(
            fields,
            "inject",
            "an object of delay_ns, drift_ns_per_s, since_ns, seed, on and off",
        )?,
    };
    within_bounds(&request)?;
    Ok(request)
}

fn required<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
    wanted: &str,
) -> Result<T, Failure> {
    optional(fields, name, wanted)?
        .ok_or_else(|| Failure::request(name, format!("is missing; it must be {wanted}")))
}

fn optional<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
    wanted: &str,
) -> Result<Option<T>, Failure> {
    let Some(value) = fields.remove(name) else {
        return Ok(None);
    };
    let shown = value.to_string();
    serde_json::from_value(value)
        .map_err(|_| Failure::request(name, format!("must be {wanted}, not {shown}")))
}

fn placement(cpu: Option<i64>) -> Result<Placement, Failure> {
    match cpu {
        None => Ok(Placement::Highest),
        Some(-1) => Ok(Placement::Free),
        Some(number) => usize::try_from(number).map(Placement::Cpu).map_err(|_| {
            Failure::request(
                "cpu",
                format!("must be a CPU number, -1 or null, not {number}"),
            )
        }),
    }
}

fn within_bounds(request: &Request) -> Result<(), Failure> {
    if request.reps == 0 {
        return Err(Failure::request("reps", "must be at least 1, not 0"));
    }
    if request.iterations == Some(0) {
        return Err(Failure::request("iterations", "must be at least 1, not 0"));
    }
    if request.min_time_ns > LONGEST_MIN_TIME_NS {
        return Err(Failure::request(
            "min_time_ns",
            format!(
                "must be at most {LONGEST_MIN_TIME_NS}, not {}",
                request.min_time_ns
            ),
        ));
    }
    if let Some(limit) = request
        .time_limit_s
        .filter(|&limit| !(limit > 0.0 && limit <= 1e9))
    {
        return Err(Failure::request(
            "time_limit_s",
            format!("must be above 0 and at most 1e9, not {limit}"),
        ));
    }
    request.inject.as_ref().map_or(Ok(()), DelaySpec::check)
}

/// Who is measuring.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// Version of the probe.
    pub version: &'static str,
    /// The git commit it was built from, `-dirty` where the probe differed from it; `None` where that is not known.
    pub commit: Option<&'static str>,
}

/// What [`set_commit`] was given.
static COMMIT: OnceLock<Option<&'static str>> = OnceLock::new();

/// Set the commit that the program reports, once.
pub fn set_commit(commit: Option<&'static str>) {
    COMMIT.get_or_init(|| commit);
}

impl Probe {
    /// This program.
    pub fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.get().copied().flatten(),
        }
    }
}

/// What the probe reports.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The first line, once.
    Hello {
        /// [`SCHEMA`].
        schema: &'static str,
        /// Who is measuring.
        probe: Probe,
        /// Process number of the probe.
        pid: u32,
        /// Whether it can be asked for a fresh process in its place; left out where not.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        renews: bool,
        /// Whether that process may execute another build of the probe; left out where not.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        renews_into: bool,
        /// The machine, as far as it can be known.
        environment: Value,
    },
    /// One repetition.
    Sample(Sample),
    /// A note for the record, once a request.
    Note {
        /// Number of the request.
        request: u64,
        /// One line.
        text: String,
    },
    /// The end of a request that was understood and could be done.
    Done {
        /// Number of the request.
        request: u64,
        /// Samples reported, the failed ones included.
        samples: u64,
        /// Inner loop count of these samples.
        iterations: u64,
        /// Whether a signal ended it early.
        interrupted: bool,
    },
    /// The end of a request that could not be done.
    Error {
        /// Number of the request, if it could be read.
        request: Option<u64>,
        /// Whose fault it is.
        kind: ErrorKind,
        /// The field or parameter that is wrong.
        field: Option<String>,
        /// One line.
        message: String,
        /// What would fix it, in one line.
        remedy: Option<String>,
    },
}

/// One repetition: what the clock said and what follows from it.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Number of the request.
    pub request: u64,
    /// Number of the repetition, from 0.
    pub rep: u64,
    /// `CLOCK_REALTIME` before the repetition, in nanoseconds.
    pub started_ns: u64,
    /// What the clock said, in its ticks; `None` only in a failed sample that measured nothing.
    pub raw: Option<u64>,
    /// How often the inner loop ran.
    pub iterations: u64,
    /// What reading the clock adds to `raw`, in its ticks.
    pub correction: f64,
    /// Every metric the workload declares; `None` where this machine cannot give it. Empty in a failed sample.
    pub metrics: Map<String, Value>,
    /// What happened to the machine meanwhile.
    pub covariates: Map<String, Value>,
    /// Why the sample is worthless, if it is.
    pub failed: Option<String>,
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The request is wrong.
    Request,
    /// This machine cannot do it.
    Unavailable,
    /// It went wrong.
    Failed,
}

impl Event {
    /// The event that ends request `id` with this failure.
    pub fn of_failure(id: u64, failure: Failure) -> Self {
        let (message, remedy) = (failure.to_string(), failure.remedy().map(one_line));
        let (kind, field) = match failure {
            Failure::Request { field, .. } => (
                ErrorKind::Request,
                Some(field).filter(|field| !field.is_empty()),
            ),
            Failure::Unavailable { .. } => (ErrorKind::Unavailable, None),
            Failure::Failed { .. } => (ErrorKind::Failed, None),
        };
        Self::Error {
            request: Some(id),
            kind,
            field,
            message: one_line(&message),
            remedy,
        }
    }
}

impl From<Refused> for Event {
    fn from(refused: Refused) -> Self {
        Self::Error {
            request: refused.id,
            kind: ErrorKind::Request,
            field: refused.field,
            message: one_line(&refused.message),
            remedy: None,
        }
    }
}

#[cfg(test)]
mod tests;
