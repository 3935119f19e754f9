//! Metrics: what each figure of a repetition is, in fields from which its text follows.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// One figure that each repetition gives.
///
/// The fields say what it is; [`Metric::doc`] composes the text of them. Who reads the figures of another clock
/// composes a text of its own.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Name in the sample's `metrics` object.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Whether less or more is better.
    pub better: Better,
    /// Which kind of quantity it is.
    pub quantity: Quantity,
    /// A noun phrase. Of a time: whose it is (`the transfer`). Of an amount: of what (`bytes received`).
    pub what: Option<&'static str>,
    /// What one value is for (`iteration`, `second`); `None`: the repetition.
    pub per: Option<&'static str>,
    /// Whole sentences: what the value includes.
    pub note: Option<&'static str>,
    /// In which case there is no value (`without a counter`); `None`: in none that is foreseen.
    pub null_when: Option<&'static str>,
}

/// The kinds of quantities, as far as what a clock reads makes them differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Elapsed time.
    Time,
    /// CPU time, in user and system mode.
    CpuTime,
    /// CPU time in user mode: most kernels split it from system time by sampling at ticks.
    UserTime,
    /// CPU time in system mode.
    SystemTime,
    /// Time in which only waiting was done.
    WaitingTime,
    /// Ticks of the time-stamp counter.
    Cycles,
    /// Anything that is counted or is no time; with `per` = `second` a rate.
    Amount,
}

impl Quantity {
    /// Begins the text; an amount's begins with what it is of.
    fn head(self) -> Option<&'static str> {
        match self {
            Self::Time => Some("Time"),
            Self::CpuTime => Some("CPU time"),
            Self::UserTime => Some("User CPU time"),
            Self::SystemTime => Some("System CPU time"),
            Self::WaitingTime => Some("Waiting time"),
            Self::Cycles => Some("Cycles"),
            Self::Amount => None,
        }
    }
}

/// Which direction of a metric is an improvement.
#[derive(Debug, Clone, Copy)]
pub enum Better {
    /// Lower values are better (times, faults).
    Less,
    /// Higher values are better (rates).
    More,
    /// Neither: it says what was done or found, and is not to be compared.
    Neither,
}

impl Serialize for Better {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Less => serializer.serialize_str("less"),
            Self::More => serializer.serialize_str("more"),
            Self::Neither => serializer.serialize_none(),
        }
    }
}

/// The fields, and `doc` for readers that know only the text.
impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flat = serializer.serialize_struct("Metric", 9)?;
        flat.serialize_field("name", self.name)?;
        flat.serialize_field("unit", self.unit)?;
        flat.serialize_field("better", &self.better)?;
        flat.serialize_field("quantity", &self.quantity)?;
        flat.serialize_field("what", &self.what)?;
        flat.serialize_field("per", &self.per)?;
        flat.serialize_field("note", &self.note)?;
        flat.serialize_field("null_when", &self.null_when)?;
        flat.serialize_field("doc", &self.doc())?;
        flat.end()
    }
}

impl Metric {
    const fn new(
        name: &'static str,
        unit: &'static str,
        better: Better,
        quantity: Quantity,
        what: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            unit,
            better,
            quantity,
            what,
            per: None,
            note: None,
            null_when: None,
        }
    }

    /// A time or cycles, of which less is better.
    pub const fn time(name: &'static str, unit: &'static str, quantity: Quantity) -> Self {
        Self::new(name, unit, Better::Less, quantity, None)
    }

    /// What was done or found, and is not compared.
    pub const fn found(name: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self::new(name, unit, Better::Neither, Quantity::Amount, Some(what))
    }

    /// What was spent: less is better.
    pub const fn spent(name: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self::new(name, unit, Better::Less, Quantity::Amount, Some(what))
    }

    /// How much a second, of which more is better.
    pub const fn rate(name: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self::new(name, unit, Better::More, Quantity::Amount, Some(what)).per("second")
    }

    /// The same, of this.
    pub const fn of(self, what: &'static str) -> Self {
        Self {
            what: Some(what),
            ..self
        }
    }

    /// The same, for each of these.
    pub const fn per(self, per: &'static str) -> Self {
        Self {
            per: Some(per),
            ..self
        }
    }

    /// The same, with these sentences.
    pub const fn note(self, note: &'static str) -> Self {
        Self {
            note: Some(note),
            ..self
        }
    }

    /// The same, which has no value in this case.
    pub const fn null_when(self, case: &'static str) -> Self {
        Self {
            null_when: Some(case),
            ..self
        }
    }

    /// The same, but not compared.
    pub const fn not_compared(self) -> Self {
        Self {
            better: Better::Neither,
            ..self
        }
    }

    /// The time of one iteration, in nanoseconds.
    pub const TIME_NS: Self = Self::time("time_ns", "ns", Quantity::Time)
        .per("iteration")
        .note("The cost of reading the clock is subtracted, so that the result may be below zero.");

    /// The same in ticks of the time-stamp counter.
    pub const CYCLES: Self = Self::time("cycles", "cycles", Quantity::Cycles)
        .per("iteration")
        .note("Ticks of the time-stamp counter, whose rate is constant whatever the core's frequency.")
        .null_when("without one");

    /// The text: quantity, what it is of, what one value is for; then the note, and where it is null.
    pub fn doc(&self) -> String {
        let mut text = match (self.quantity.head(), self.what) {
            (Some(head), Some(what)) => format!("{head} of {what}"),
            (Some(head), None) => head.to_owned(),
            (None, what) => capitalized(what.unwrap_or_default()),
        };
        if let Some(per) = self.per {
            text.push_str(" per ");
            text.push_str(per);
        }
        text.push('.');
        if let Some(note) = self.note {
            text.push(' ');
            text.push_str(note);
        }
        if let Some(case) = self.null_when {
            text.push_str(" Null ");
            text.push_str(case);
            text.push('.');
        }
        text
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Metric, Quantity};

    #[test]
    fn the_text_follows_from_the_fields() {
        let cpu = Metric::time("cpu_ns", "ns", Quantity::CpuTime)
            .of("both sides")
            .per("round trip")
            .note("Polling is included.");
        assert_eq!(
            cpu.doc(),
            "CPU time of both sides per round trip. Polling is included."
        );
        let rate = Metric::rate("bytes_per_s", "B/s", "bytes received");
        assert_eq!(rate.doc(), "Bytes received per second.");
        assert_eq!(
            Metric::time("time_s", "s", Quantity::Time)
                .per("pass")
                .doc(),
            "Time per pass."
        );
        let counted = Metric::spent("cycles", "1", "core cycles").null_when("without a counter");
        assert_eq!(counted.doc(), "Core cycles. Null without a counter.");
    }

    #[test]
    fn the_description_has_fields_and_text() {
        let found =
            serde_json::to_value(Metric::found("bytes", "B", "bytes read")).expect("plain fields");
        assert_eq!(
            found,
            serde_json::json!({
                "name": "bytes", "unit": "B", "better": null, "quantity": "amount", "what": "bytes read",
                "per": null, "note": null, "null_when": null, "doc": "Bytes read."
            })
        );
        let time = serde_json::to_value(Metric::time("cpu_s", "s", Quantity::CpuTime))
            .expect("plain fields");
        assert_eq!(time["quantity"], "cpu_time");
    }
}
