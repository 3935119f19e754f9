//! The `environment` record: what a figure depends on besides the workload.
//!
//! It is taken at the start of every block, so it is kept to small files of `/proc` and `/sys` (about a millisecond).
//! Every key is always there; what cannot be had is `null` and is named, with reason and remedy, under `unavailable`.

use std::collections::BTreeMap;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::utsname::uname;
use serde_json::{Map, Value, json};

use crate::clock::{Clock, ClockKind};
use crate::counters::Counters;
use oscope_sys::machine::cpu::{self, hypervisor};
use oscope_sys::machine::found::{Found, Ledger, text};
use oscope_sys::machine::{cgroup, identity, memory};

/// Resource limits that a workload can run into, with the unit the kernel counts them in.
const LIMITS: [(&str, Resource); 6] = [
    ("processes", Resource::RLIMIT_NPROC),
    ("open_files", Resource::RLIMIT_NOFILE),
    ("locked_memory_bytes", Resource::RLIMIT_MEMLOCK),
    ("address_space_bytes", Resource::RLIMIT_AS),
    ("stack_bytes", Resource::RLIMIT_STACK),
    ("file_size_bytes", Resource::RLIMIT_FSIZE),
];

/// The environment as `docs/architecture.md` has it.
///
/// `self_check` is what the clock's self-check found; `offsets` the offsets between the CPUs' time-stamp counters, if
/// they were to be measured; `covariates_unavailable` the covariates that cannot be had, with the reasons.
pub fn record(
    clock: &Clock,
    counters: &Counters,
    self_check: Value,
    offsets: Option<Found<Value>>,
    covariates_unavailable: BTreeMap<String, String>,
) -> Value {
    let mut ledger = Ledger::default();
    let processor = cpu::processor();
    let machine = ledger.take("machine", identity::machine(&processor.model));
    let (kernel, host) = kernel(&mut ledger);
    let offsets = offsets.unwrap_or_else(|| Err(no_offsets(clock).to_owned()));
    let clocksource = text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let environment = json!({
        "boot_id": ledger.take("boot_id", text("/proc/sys/kernel/random/boot_id")),
        "machine": machine,
        "hostname_hash": host,
        "kernel": kernel,
        "cpu": cpu::record(processor, &mut ledger),
        "memory": memory::record(&mut ledger),
        "hypervisor": ledger.take("hypervisor", hypervisor()),
        "clocksource": ledger.take("clocksource", clocksource),
        "clock": ledger.take("clock", Ok(clock)),
        "tsc_offsets": ledger.take("tsc_offsets", offsets),
        "counters": {"available": counters.available(), "unavailable": counters.unavailable()},
        "self_check": self_check,
        "cgroup": cgroup::record(&mut ledger),
        "load": ledger.take("load", text("/proc/loadavg").and_then(|text| parse_numbers(&text, 3))),
        "uptime_s": ledger.take(
            "uptime_s",
            text("/proc/uptime")
                .and_then(|text| parse_numbers(&text, 1))
                .map(|numbers| numbers[0]),
        ),
        "uid": nix::unistd::getuid().as_raw(),
        "libc": ledger.take("libc", identity::c_library()),
        "limits": limits(&mut ledger),
    });
    ledger.extend(covariates_unavailable);
    with_unavailable(environment, ledger)
}

fn with_unavailable(mut environment: Value, ledger: Ledger) -> Value {
    environment["unavailable"] = ledger.into_value();
    environment
}

/// The `kernel` object, and the hash of the host's name.
fn kernel(ledger: &mut Ledger) -> (Value, Value) {
    let names = uname().map_err(|error| format!("uname: {error}"));
    let field = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
    let command_line = text("/proc/cmdline").map(|line| identity::public_command_line(&line));
    let kernel = json!({
        "release": ledger.take("release", names.clone().map(|names| field(names.release()))),
        "version": ledger.take("version", names.clone().map(|names| field(names.version()))),
        "cmdline": ledger.take("cmdline", command_line),
        "arch": ledger.take("arch", names.clone().map(|names| field(names.machine()))),
    });
    let host = names.map(|names| identity::digest(&[&field(names.nodename())]));
    (kernel, ledger.take("hostname_hash", host))
}

fn no_offsets(clock: &Clock) -> &'static str {
    match clock.kind {
        ClockKind::Tsc | ClockKind::Cntvct => {
            "the offsets between the CPUs' counters are measured only when a workload needs them, or by `oscope-probe \
             environment`"
        }
        ClockKind::MonotonicRaw => {
            "the clock is not the time-stamp counter; CLOCK_MONOTONIC_RAW is one clock for all CPUs and needs no \
             offsets"
        }
        ClockKind::Instructions => "the clock counts the instructions of a single CPU",
    }
}

fn limits(ledger: &mut Ledger) -> Value {
    let limit = |resource| match getrlimit(resource) {
        Ok((RLIM_INFINITY, _)) => Ok(json!("unlimited")),
        Ok((soft, _)) => Ok(json!(soft)),
        Err(error) => Err(format!("getrlimit: {error}")),
    };
    let limits: Map<String, Value> = LIMITS
        .iter()
        .map(|(name, resource)| ((*name).to_owned(), ledger.take(name, limit(*resource))))
        .collect();
    Value::Object(limits)
}

/// The first `count` numbers of a line such as `/proc/loadavg`.
fn parse_numbers(line: &str, count: usize) -> Found<Vec<f64>> {
    let numbers: Vec<f64> = line
        .split_whitespace()
        .take(count)
        .filter_map(|word| word.parse().ok())
        .collect();
    if numbers.len() == count {
        Ok(numbers)
    } else {
        Err(format!("{line:?} does not begin with {count} numbers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_start_of_a_line() {
        assert_eq!(
            parse_numbers("0.08 0.24 0.11 1/97 6394", 3),
            Ok(vec![0.08, 0.24, 0.11])
        );
        assert!(parse_numbers("0.08 x", 2).is_err());
        assert!(parse_numbers("", 1).is_err());
    }

    /// The keys of the wire, as a nested list: `docs/architecture.md`.
    const KEYS: [(&str, &[&str]); 19] = [
        ("boot_id", &[]),
        ("machine", &[]),
        ("hostname_hash", &[]),
        ("kernel", &["release", "version", "cmdline", "arch"]),
        (
            "cpu",
            &[
                "model",
                "vendor",
                "logical",
                "allowed",
                "flags_hash",
                "microcode",
                "caches",
                "smt",
                "governor",
                "turbo",
                "mitigations",
            ],
        ),
        (
            "memory",
            &[
                "total_bytes",
                "available_bytes",
                "swap_total_bytes",
                "page_bytes",
                "thp",
                "lru_gen",
                "overcommit",
            ],
        ),
        ("hypervisor", &[]),
        ("clocksource", &[]),
        (
            "clock",
            &[
                "kind",
                "hz",
                "overhead",
                "overhead_mad",
                "resolution",
                "why",
            ],
        ),
        ("tsc_offsets", &[]),
        ("counters", &["available", "unavailable"]),
        ("self_check", &["ok"]),
        ("cgroup", &["version", "cpu_max", "memory_max"]),
        ("load", &[]),
        ("uptime_s", &[]),
        ("uid", &[]),
        ("libc", &[]),
        ("limits", &["processes", "open_files"]),
        ("unavailable", &[]),
    ];

    /// Every `null` of the record, by its last key; `cgroup.version` keeps its group, since the kernel has a version
    /// too.
    fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(if path == "cgroup.version" {
                path.to_owned()
            } else {
                path.rsplit('.').next().unwrap_or(path).to_owned()
            }),
            Value::Object(fields) => fields.iter().for_each(|(key, field)| {
                nulls(
                    field,
                    &if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    },
                    found,
                );
            }),
            _ => {}
        }
    }

    #[test]
    fn the_record_has_every_key_and_names_every_null() {
        let clock =
            Clock::open(crate::clock::RequestedClock::Auto).expect("there is always a clock");
        let record = record(
            &clock,
            &Counters::open(),
            json!({"ratio_of_double_work": 2.0, "ok": true}),
            Some(Err("CPU 1 did not answer".to_owned())),
            BTreeMap::new(),
        );
        assert_eq!(record["unavailable"]["tsc_offsets"], "CPU 1 did not answer");
        for (key, inner) in KEYS {
            assert!(record.get(key).is_some(), "{key} is missing");
            inner.iter().for_each(|name| {
                assert!(record[key].get(name).is_some(), "{key}.{name} is missing")
            });
        }
        let mut missing = Vec::new();
        nulls(&record, "", &mut missing);
        missing.retain(|name| name != "why");
        assert!(missing.contains(&"tsc_offsets".to_owned()));
        for name in missing {
            assert!(
                record["unavailable"]
                    .get(&name)
                    .is_some_and(Value::is_string),
                "{name} is null without a reason"
            );
        }
    }

    #[test]
    fn the_record_does_not_give_away_the_host() {
        let clock =
            Clock::open(crate::clock::RequestedClock::Auto).expect("there is always a clock");
        let record = record(
            &clock,
            &Counters::open(),
            Value::Null,
            None,
            BTreeMap::new(),
        );
        let hash = record["hostname_hash"]
            .as_str()
            .expect("uname reports the name");
        assert!(
            hash.len() == 16 && hash.chars().all(|digit| digit.is_ascii_hexdigit()),
            "{hash}"
        );
        if let Some(id) = text("/etc/machine-id").ok().filter(|id| !id.is_empty()) {
            assert!(!record.to_string().contains(&id));
        }
    }
}
