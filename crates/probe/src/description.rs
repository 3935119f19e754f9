//! What the probe says about itself: workloads, their parameters and metrics.
//!
//! Everything above the probe (help, lists, checks, documentation) is derived from these types, as printed by
//! `oscope-probe describe`.

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::Value;

pub mod declared;
mod metric;

pub use metric::{Metric, Quantity};
pub use oscope_derive::{Describe, Metrics};

/// What a struct of parameters says of them: derived from it.
pub trait Describe {
    /// The parameters, in the order in which help shows them.
    fn parameters() -> Vec<Parameter>;
}

/// The metrics of a workload, declared once: derived from the struct that has the values of a repetition.
pub trait Metrics {
    /// The metrics, in the order in which they are described.
    fn described() -> Vec<Metric>;
    /// The names and values of those that have a value.
    fn values(&self) -> Vec<(&'static str, f64)>;
}

/// A workload as it describes itself.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// `lab.workload`, the name scripts rely on.
    pub name: &'static str,
    /// Version of the meaning: raised whenever a figure would no longer be comparable with an older one.
    pub version: u32,
    /// One line.
    pub purpose: &'static str,
    /// What lies inside the clock and what does not, as a formula and a sentence.
    pub timing_model: &'static str,
    /// Parameters, in the order in which help shows them.
    pub parameters: Vec<Parameter>,
    /// Metrics, the headline one first.
    pub metrics: Vec<Metric>,
    /// What the machine must offer, such as `root` or `/dev/fuse`.
    pub needs: Vec<&'static str>,
    /// Programs that it may run: a guest is given them, as files of its own.
    pub programs: Vec<&'static str>,
    /// Whether a wait for a CPU is others' doing.
    pub alone: SchedulingIsolation,
}

/// Whether the measured thread is alone in the workload: nothing of the workload itself takes its CPU or wakes it, so
/// that what it waits for a CPU is the doing of others.
#[derive(Debug, Clone)]
pub enum SchedulingIsolation {
    /// It works with another thread or process, sleeps, or waits for input and output.
    Never,
    /// Whatever the parameters are.
    Always,
    /// Where each of these parameters has one of these values.
    With(Vec<(&'static str, Vec<Value>)>),
}

/// `null`, or an object of the parameters' values; an empty one puts no condition.
impl Serialize for SchedulingIsolation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let conditions: &[_] = match self {
            Self::Never => return serializer.serialize_none(),
            Self::Always => &[],
            Self::With(conditions) => conditions,
        };
        let mut map = serializer.serialize_map(Some(conditions.len()))?;
        for (parameter, values) in conditions {
            map.serialize_entry(parameter, values)?;
        }
        map.end()
    }
}

/// A parameter, with all that is needed to check a value.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Name in the request's `params` object.
    pub name: &'static str,
    /// What kind of value it takes, with its bounds.
    pub kind: Kind,
    /// Unit of the value, where it has one.
    pub unit: Option<&'static str>,
    /// Where it has a meaning: all conditions hold. Elsewhere it is neither shown nor varied.
    pub applies: Vec<Condition>,
    /// One or two sentences.
    pub doc: &'static str,
}

/// What another parameter has to be for one to have a meaning.
#[derive(Debug, Clone, Serialize)]
pub struct Condition {
    /// The other parameter.
    pub parameter: &'static str,
    /// Values of it.
    pub levels: Vec<Value>,
    /// Whether it has to be one of them, or none of them.
    pub within: bool,
}

/// The kinds of parameter values.
#[derive(Debug, Clone)]
pub enum Kind {
    /// One of a list of words, or a word that fits `pattern` (`nr:N`: the word, a colon, a number).
    Choice {
        /// Value when the request has none.
        default: &'static str,
        /// Allowed words.
        choices: Vec<&'static str>,
        /// A further allowed form, such as `nr:N`.
        pattern: Option<&'static str>,
        /// First and last of each range that the `N` of the pattern may be in; none where any number may be asked for.
        numbers: Vec<(u32, u32)>,
    },
    /// A whole number.
    Integer {
        /// Value when the request has none.
        default: u64,
        /// Least value allowed.
        minimum: u64,
        /// Greatest value allowed.
        maximum: u64,
    },
    /// A number of bytes.
    Bytes {
        /// Value when the request has none.
        default: u64,
        /// Least value allowed.
        minimum: u64,
        /// Greatest value allowed.
        maximum: u64,
    },
    /// A length of time in seconds.
    Duration {
        /// Value when the request has none.
        default: f64,
        /// Least value allowed.
        minimum: f64,
        /// Greatest value allowed.
        maximum: f64,
    },
    /// Yes or no.
    Boolean {
        /// Value when the request has none.
        default: bool,
    },
    /// A file or folder by its path; the empty path means that none is given.
    Path {
        /// Value when the request has none.
        default: &'static str,
    },
    /// A list of texts, such as the arguments of a program; empty when the request has none. It is no level of a
    /// factor.
    Arguments,
}

impl Kind {
    /// Value when the request has none.
    pub fn default(&self) -> Value {
        match *self {
            Self::Choice { default, .. } | Self::Path { default } => default.into(),
            Self::Integer { default, .. } | Self::Bytes { default, .. } => default.into(),
            Self::Duration { default, .. } => default.into(),
            Self::Boolean { default } => default.into(),
            Self::Arguments => Value::Array(Vec::new()),
        }
    }

    /// The kind's name on the wire.
    fn name(&self) -> &'static str {
        match self {
            Self::Choice { .. } => "choice",
            Self::Integer { .. } => "integer",
            Self::Bytes { .. } => "bytes",
            Self::Duration { .. } => "duration",
            Self::Boolean { .. } => "boolean",
            Self::Path { .. } => "path",
            Self::Arguments => "arguments",
        }
    }

    /// Least and greatest value, `null` where there is no order.
    fn bounds(&self) -> (Value, Value) {
        match *self {
            Self::Integer {
                minimum, maximum, ..
            }
            | Self::Bytes {
                minimum, maximum, ..
            } => (minimum.into(), maximum.into()),
            Self::Duration {
                minimum, maximum, ..
            } => (minimum.into(), maximum.into()),
            Self::Choice { .. } | Self::Boolean { .. } | Self::Path { .. } | Self::Arguments => {
                (Value::Null, Value::Null)
            }
        }
    }
}

/// Flat, with every key of the wire present whatever the kind.
impl Serialize for Parameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (choices, pattern, numbers) = match &self.kind {
            Kind::Choice {
                choices,
                pattern,
                numbers,
                ..
            } => (Some(choices), *pattern, Some(numbers)),
            _ => (None, None, None),
        };
        let numbers = numbers.filter(|numbers| !numbers.is_empty());
        let (minimum, maximum) = self.kind.bounds();
        let mut flat = serializer.serialize_struct("Parameter", 11)?;
        flat.serialize_field("name", self.name)?;
        flat.serialize_field("type", self.kind.name())?;
        flat.serialize_field("default", &self.kind.default())?;
        flat.serialize_field("choices", &choices)?;
        flat.serialize_field("pattern", &pattern)?;
        flat.serialize_field("numbers", &numbers)?;
        flat.serialize_field("minimum", &minimum)?;
        flat.serialize_field("maximum", &maximum)?;
        flat.serialize_field("unit", &self.unit)?;
        flat.serialize_field("applies", &self.applies)?;
        flat.serialize_field("doc", self.doc)?;
        flat.end()
    }
}
