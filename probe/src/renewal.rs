//! What a probe takes over from an earlier one of the same run, so that a fresh process costs milliseconds.
//!
//! The frequency of the clock, the self-check and the survey of the machine take some 20 ms and are the same for each process of a boot.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock::{Clock, ClockKind, Wanted};
use crate::error::Failure;

/// The greeting of an earlier probe, as far as it is looked at.
#[derive(Deserialize)]
struct Greeting {
    environment: Value,
}

#[derive(Deserialize)]
struct Known {
    boot_id: Option<String>,
    clock: KnownClock,
}

#[derive(Deserialize)]
struct KnownClock {
    kind: ClockKind,
    hz: f64,
}

/// The clock, with what reading it costs measured anew, and the environment to greet with.
///
/// # Errors
/// `Failure::Request` if `line` is no greeting, or one of another boot or clock.
pub fn read(line: &[u8], wanted: Wanted) -> Result<(Clock, Value), Failure> {
    let wrong = |error: serde_json::Error| Failure::request("prepared", error.to_string());
    let Greeting { mut environment } = serde_json::from_slice(line).map_err(wrong)?;
    let known = Known::deserialize(&environment).map_err(wrong)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    if known.boot_id.as_deref() != boot.as_deref().map(str::trim) {
        return Err(Failure::request(
            "prepared",
            "is the greeting of a probe of another boot",
        ));
    }
    let clock = Clock::reopen(wanted, known.clock.kind, known.clock.hz)?;
    environment["clock"] = json!(clock);
    Ok((clock, environment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(clock: &Clock, boot_id: &str) -> Vec<u8> {
        let environment = json!({"boot_id": boot_id, "clock": clock, "uid": 7});
        serde_json::to_vec(&json!({"event": "hello", "environment": environment})).expect("JSON")
    }

    fn this_boot() -> String {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        text.trim().to_owned()
    }

    #[test]
    fn the_frequency_is_taken_over_and_the_cost_of_reading_is_not() {
        let mut former = Clock::open(Wanted::Monotonic).expect("there is always one");
        former.overhead = 1e6;
        let line = greeting(&former, &this_boot());
        let (clock, environment) = read(&line, Wanted::Monotonic).expect("a greeting");
        assert_eq!((clock.kind, clock.hz), (former.kind, former.hz));
        assert!(clock.overhead < 1e5);
        assert_eq!(environment["clock"], json!(clock));
        assert_eq!(environment["uid"], 7);
    }

    #[test]
    fn figures_are_taken_over_to_the_last_bit() {
        let clock = Clock::open(Wanted::Monotonic).expect("there is always one");
        for number in 0..200 {
            let ratio = 1.0 + f64::from(number) / 3e9;
            let environment = json!({"boot_id": this_boot(), "clock": clock, "ratio": ratio});
            let line = serde_json::to_vec(&json!({"environment": environment})).expect("JSON");
            let (_, environment) = read(&line, Wanted::Monotonic).expect("a greeting");
            assert_eq!(environment["ratio"].as_f64(), Some(ratio));
        }
    }

    #[test]
    fn what_is_no_greeting_of_this_boot_and_clock_is_refused() {
        let clock = Clock::open(Wanted::Monotonic).expect("there is always one");
        for (line, word) in [
            (b"{}".to_vec(), "environment"),
            (greeting(&clock, "of another boot"), "another boot"),
        ] {
            let failure = read(&line, Wanted::Monotonic).expect_err("it is none");
            assert!(failure.to_string().contains(word), "{failure}");
        }
        let other = Clock {
            hz: f64::NAN,
            ..clock
        };
        assert!(read(&greeting(&other, &this_boot()), Wanted::Monotonic).is_err());
    }
}
