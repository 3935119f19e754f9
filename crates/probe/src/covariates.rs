//! What else happened during a repetition: the quantities that may explain why it was slow.
//!
//! All are differences over one repetition, of the measuring thread or of its CPU. The files are opened once and read
//! at offset 0, so that the kernel makes their text afresh. The expensive ones are read first before the repetition and
//! last after it, so that their own cost falls outside of what the cheap ones count.
//!
//! Migrations come from `/proc/thread-self/sched`, not from perf's software event: an open perf event makes every
//! context switch of the thread more expensive (a pipe round trip by some 15 %), and would so change what is measured.

pub mod canary;
mod descriptions;
mod parse;
mod sources;

use std::collections::BTreeMap;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Map, Value, json};

use crate::clock::reading::{self, current_cpu};
use crate::counters::Counters;
use canary::{Canary, core_loads};
use descriptions::DESCRIPTIONS;
use oscope_sys::affinity;
use sources::Sources;

/// Covariates as `describe` shows them: name, unit, doc.
#[must_use]
pub fn describe() -> Vec<Value> {
    DESCRIPTIONS
        .iter()
        .map(|(name, unit, doc)| json!({"name": name, "unit": unit, "doc": doc}))
        .collect()
}

/// Covariates that cannot be had on this machine, with reason and remedy. Hardware counters report theirs themselves.
#[must_use]
pub fn unavailable() -> BTreeMap<String, String> {
    let cpu = affinity::allowed()
        .ok()
        .and_then(|allowed| allowed.last().copied());
    Sources::open(cpu).1
}

/// The open sources of one request. Must be used on the thread that opened it.
pub struct Covariates<'a> {
    cpu: Option<usize>,
    sources: Sources,
    counters: &'a Counters,
    canary: Option<&'a Canary>,
    core_loads_ns: Option<u64>,
    memory_wait_ns: Option<u64>,
    before: Option<Snapshot>,
}

/// The state of all sources at one moment; `None` where a source is not to be had.
#[derive(Debug, Default, Clone)]
struct Snapshot {
    at_ns: Option<u64>,
    interrupts: Option<parse::Interrupts>,
    steal: Option<u64>,
    busy_elsewhere_ns: Option<u64>,
    runnable_others: Option<u64>,
    memory_pressure_us: Option<u64>,
    io_pressure_us: Option<u64>,
    run_delay: Option<u64>,
    migrations: Option<u64>,
    usage: Option<Usage>,
    cpu: usize,
}

impl<'a> Covariates<'a> {
    /// Open the sources for the calling thread, pinned to `cpu` or to none, with `counters` that this thread opened,
    /// and the canary if one is to be walked.
    #[must_use]
    pub fn open(cpu: Option<usize>, counters: &'a Counters, canary: Option<&'a Canary>) -> Self {
        let (sources, _) = Sources::open(cpu);
        Self {
            cpu,
            sources,
            counters,
            canary,
            core_loads_ns: None,
            memory_wait_ns: None,
            before: None,
        }
    }

    /// Take the state before a repetition; the hardware counters are switched on last.
    pub fn before(&mut self) {
        self.core_loads_ns = self.canary.is_some().then(core_loads);
        self.memory_wait_ns = self.canary.map(Canary::walk);
        let mut snapshot = Snapshot::default();
        self.read_tables(&mut snapshot);
        self.read_thread(&mut snapshot);
        self.before = Some(snapshot);
        self.counters.enable();
    }

    /// Take the state after the repetition, and give every covariate: its difference, or `null` where it is not to be
    /// had.
    #[must_use]
    pub fn after(&mut self) -> Map<String, Value> {
        self.counters.disable();
        let mut snapshot = Snapshot::default();
        self.read_thread(&mut snapshot);
        self.read_tables(&mut snapshot);
        let mut values: Map<String, Value> = DESCRIPTIONS
            .iter()
            .map(|(name, ..)| ((*name).to_owned(), Value::Null))
            .collect();
        let before = self.before.take().unwrap_or_default();
        values.extend(
            snapshot
                .since(&before)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), json!(value))),
        );
        values.insert("core_loads_ns".to_owned(), json!(self.core_loads_ns));
        values.insert("memory_wait_ns".to_owned(), json!(self.memory_wait_ns));
        values.insert("frequency_khz".to_owned(), json!(self.sources.frequency()));
        values.extend(
            self.counters
                .read()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), json!(value))),
        );
        values
    }

    /// The system's tables: some 10 µs each, more on machines with many CPUs.
    fn read_tables(&self, snapshot: &mut Snapshot) {
        snapshot.interrupts = self.sources.interrupts(self.cpu);
        snapshot.at_ns = Some(reading::monotonic_raw());
        (snapshot.steal, snapshot.busy_elsewhere_ns) = self.sources.stat(self.cpu);
        (snapshot.memory_pressure_us, snapshot.io_pressure_us) = self.sources.pressure_us();
        snapshot.runnable_others = self.sources.runnable_others();
        snapshot.migrations = self.sources.migrations();
    }

    /// What the kernel keeps of this thread: about a microsecond each.
    fn read_thread(&self, snapshot: &mut Snapshot) {
        snapshot.run_delay = self.sources.run_delay();
        snapshot.cpu = current_cpu();
        snapshot.usage = getrusage(UsageWho::RUSAGE_THREAD).ok();
    }
}

impl Snapshot {
    /// Every difference that both snapshots allow; a count that went backwards is none.
    fn since(&self, before: &Self) -> Vec<(&'static str, Option<u64>)> {
        let mut differences = self.thread_since(before);
        differences.extend(self.system_since(before));
        differences
    }

    fn usage_since(&self, before: &Self, field: fn(&Usage) -> i64) -> Option<u64> {
        difference(
            before.usage.as_ref().map(field),
            self.usage.as_ref().map(field),
        )
    }

    /// What the kernel keeps of this thread.
    fn thread_since(&self, before: &Self) -> Vec<(&'static str, Option<u64>)> {
        let usage = |field| self.usage_since(before, field);
        let cpu_changed = before.usage.as_ref();
        let cpu_changed = cpu_changed.map(|_| u64::from(self.cpu != before.cpu));
        vec![
            ("counted_ns", difference(before.at_ns, self.at_ns)),
            ("run_delay_ns", difference(before.run_delay, self.run_delay)),
            (
                "voluntary_switches",
                usage(Usage::voluntary_context_switches),
            ),
            (
                "involuntary_switches",
                usage(Usage::involuntary_context_switches),
            ),
            ("minor_faults", usage(Usage::minor_page_faults)),
            ("major_faults", usage(Usage::major_page_faults)),
            (
                "user_us",
                usage(|usage| usage.user_time().num_microseconds()),
            ),
            (
                "system_us",
                usage(|usage| usage.system_time().num_microseconds()),
            ),
            ("migrations", difference(before.migrations, self.migrations)),
            ("cpu", Some(self.cpu as u64)),
            ("cpu_changed", cpu_changed),
        ]
    }

    /// What the kernel keeps of the CPU and of the whole system, and the thread's reads of block devices.
    fn system_since(&self, before: &Self) -> Vec<(&'static str, Option<u64>)> {
        let interrupts = |kind: fn(&parse::Interrupts) -> Option<u64>| {
            difference(
                before.interrupts.as_ref().and_then(kind),
                self.interrupts.as_ref().and_then(kind),
            )
        };
        let others = before.runnable_others.zip(self.runnable_others);
        let block_inputs = self.usage_since(before, Usage::block_reads);
        vec![
            ("interrupts", interrupts(|counts| Some(counts.all))),
            ("timer_interrupts", interrupts(|counts| counts.timer)),
            (
                "reschedule_interrupts",
                interrupts(|counts| counts.other_cpus),
            ),
            (
                "device_interrupts",
                interrupts(|counts| Some(counts.devices)),
            ),
            ("steal_ticks", difference(before.steal, self.steal)),
            (
                "neighbour_ns",
                difference(before.busy_elsewhere_ns, self.busy_elsewhere_ns),
            ),
            ("runnable_others", others.map(|(one, other)| one + other)),
            ("block_inputs", block_inputs),
            (
                "memory_pressure_us",
                difference(before.memory_pressure_us, self.memory_pressure_us),
            ),
            (
                "io_pressure_us",
                difference(before.io_pressure_us, self.io_pressure_us),
            ),
        ]
    }
}

fn difference<N: TryInto<u64>>(before: Option<N>, after: Option<N>) -> Option<u64> {
    after?
        .try_into()
        .ok()?
        .checked_sub(before?.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscope_sys::mapping::{Mapping, Pages};

    fn taken(cpu: Option<usize>, work: impl FnOnce()) -> Map<String, Value> {
        let counters = Counters::open();
        let canary = Canary::new().expect("there is the memory");
        let mut covariates = Covariates::open(cpu, &counters, Some(&canary));
        covariates.before();
        work();
        covariates.after()
    }

    #[test]
    fn every_described_covariate_is_there_and_no_other() {
        let values = taken(None, || ());
        let mut names: Vec<&str> = DESCRIPTIONS.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        assert_eq!(values.keys().map(String::as_str).collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_null_has_a_reason() {
        let cpu = affinity::allowed()
            .expect("some CPU is allowed")
            .last()
            .copied();
        let _pinned =
            cpu.map(|cpu| affinity::Pinned::to(cpu).expect("an allowed CPU can be pinned to"));
        let values = taken(cpu, || ());
        let missing = unavailable();
        let counters = Counters::open();
        for (name, _) in values.iter().filter(|(_, value)| value.is_null()) {
            let counted = counters.unavailable().contains_key(name)
                || (name == "counters_active" && counters.available().is_empty());
            assert!(
                missing.contains_key(name) || counted,
                "{name} is null without a reason"
            );
        }
    }

    #[test]
    fn faults_are_counted_for_the_work_alone() {
        let pages = 512;
        // Fresh from the kernel: the allocator may give memory that was touched before.
        let touch = || {
            let mut memory = Mapping::new(pages * 4096, Pages::Base).expect("there is the memory");
            let bytes = memory.as_mut_slice();
            bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            std::hint::black_box(bytes);
        };
        let faults = taken(None, touch)["minor_faults"]
            .as_u64()
            .expect("getrusage is always there");
        assert!(faults >= 1, "{faults}");
        // A fork by another test makes this thread's pages shared, and the next write to one a fault: not each time,
        // though.
        let alone = (0..100).any(|_| taken(None, || ())["minor_faults"] == json!(0));
        assert!(alone, "what reads the covariates faults by itself");
    }

    #[test]
    fn what_is_counted_lasts_at_least_as_long_as_the_work() {
        let mut worked = 0;
        let values = taken(None, || {
            let began = reading::monotonic_raw();
            std::thread::sleep(std::time::Duration::from_millis(3));
            worked = reading::monotonic_raw() - began;
        });
        let counted = values["counted_ns"]
            .as_u64()
            .expect("a clock is always there");
        assert!(counted > worked, "{counted} ns beside {worked} ns");
    }

    #[test]
    fn a_move_is_seen() {
        let allowed = affinity::allowed().expect("some CPU is allowed");
        let [first, second, ..] = allowed[..] else {
            return eprintln!("skipped: one CPU is allowed; run with two");
        };
        let pinned = affinity::Pinned::to(first).expect("an allowed CPU can be pinned to");
        let values = taken(None, || {
            affinity::pin(second).expect("an allowed CPU can be pinned to")
        });
        drop(pinned);
        assert_eq!(values["cpu_changed"], json!(1));
        assert_eq!(values["cpu"], json!(second));
        assert!(
            values["migrations"].is_null() || values["migrations"] == json!(1),
            "{}",
            values["migrations"]
        );
    }

    #[test]
    fn a_count_that_went_backwards_is_none() {
        assert_eq!(difference(Some(5_u64), Some(3)), None);
        assert_eq!(difference(Some(3_i64), Some(5)), Some(2));
        assert_eq!(difference(None, Some(3_u64)), None);
    }
}
