//! A value that was found, or the reason and remedy where it was not; and the ledger of what was not.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

/// A value, or one line that says why it cannot be had and what would fix that.
pub type Found<T> = Result<T, String>;

/// Most bytes read of any one file: `/proc/cpuinfo` grows with the number of CPUs, and its first CPU is all that is
/// wanted.
const MOST_BYTES: u64 = 16 * 1024;

/// The text of a small file of `/proc` or `/sys`, without white space around it.
///
/// # Errors
/// The path and the system's reason.
pub fn text(path: &str) -> Found<String> {
    let mut bytes = Vec::with_capacity(512);
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The number a small file holds.
///
/// # Errors
/// The path, and the system's reason or the text that is not a number.
pub fn number<T: FromStr>(path: &str) -> Found<T> {
    let text = text(path)?;
    text.parse()
        .map_err(|_| format!("{path} holds {text:?}, which is not a number"))
}

/// Adds what the user can do about a missing value.
pub trait Remedy<T> {
    /// The same result, its reason followed by `remedy`.
    ///
    /// # Errors
    /// Those of the result itself.
    fn or_remedy(self, remedy: &str) -> Found<T>;
}

impl<T, E: Display> Remedy<T> for Result<T, E> {
    fn or_remedy(self, remedy: &str) -> Found<T> {
        self.map_err(|reason| format!("{reason}; {remedy}"))
    }
}

/// Collects the names of values that could not be had, with reason and remedy.
#[derive(Debug, Default)]
pub struct Ledger {
    missing: BTreeMap<String, String>,
}

impl Ledger {
    /// The value as JSON, or `null` and an entry under `key`.
    pub fn take<T: Serialize>(&mut self, key: &str, found: Found<T>) -> Value {
        let value =
            found.and_then(|value| serde_json::to_value(value).map_err(|error| error.to_string()));
        value.unwrap_or_else(|reason| {
            self.missing.insert(key.to_owned(), reason);
            Value::Null
        })
    }

    /// Adds entries that another module collected.
    pub fn extend(&mut self, entries: BTreeMap<String, String>) {
        self.missing.extend(entries);
    }

    /// The entries as a JSON object.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.missing
            .into_iter()
            .map(|(key, reason)| (key, Value::String(reason)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_is_null_and_named() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.take("smt", Ok(true)), Value::Bool(true));
        assert_eq!(
            ledger.take(
                "governor",
                text("/nonexistent/governor").or_remedy("load cpufreq")
            ),
            Value::Null
        );
        let missing = ledger.into_value();
        let reason = missing["governor"].as_str().expect("the reason is text");
        assert!(
            reason.contains("/nonexistent/governor") && reason.ends_with("; load cpufreq"),
            "{reason}"
        );
        assert!(missing.get("smt").is_none());
    }

    #[test]
    fn a_file_that_holds_no_number_is_quoted() {
        let reason = number::<u64>("/proc/self/comm").expect_err("a program's name is no number");
        assert!(reason.contains("not a number"), "{reason}");
    }
}
