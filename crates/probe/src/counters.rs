//! Hardware counters of the calling thread, by `perf_event_open`, each proved before it is believed.
//!
//! A counter that does not open, reads 0, stands still, is absurd or was active for part of the time only is *not
//! measured*, and the reason and remedy are reported ([`judgement`]). Sources: `perf_event_open(2)`,
//! `Documentation/admin-guide/perf-security.rst` of Linux.

mod bank;
pub mod inherited;
mod judgement;
mod known_work;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};

use oscope_sys::error::Failure;

use bank::{Bank, Scope, permission_reason, refusal};
use judgement::LEAST_ACTIVE;

/// Key under which [`Counters::unavailable`] says that the kernel's part is not counted.
pub const KERNEL_MODE: &str = "kernel_mode";

const EVENTS: [(&str, Hardware); 4] = [
    ("instructions", Hardware::INSTRUCTIONS),
    ("cpu_cycles", Hardware::CPU_CYCLES),
    ("cache_misses", Hardware::CACHE_MISSES),
    ("branch_misses", Hardware::BRANCH_MISSES),
];

/// Number of [`MEMORY_NAMES`].
pub const MEMORY_EVENTS: usize = 5;

/// The counters of [`Counters::memory`].
pub const MEMORY_NAMES: [&str; MEMORY_EVENTS] = [
    "l1d_read_access",
    "l1d_write_access",
    "l1d_read_miss",
    "dtlb_read_miss",
    "dtlb_write_miss",
];

/// They, as the kernel has them.
fn memory_events() -> [(&'static str, Cache); MEMORY_EVENTS] {
    let event = |which, operation, result| Cache {
        which,
        operation,
        result,
    };
    let [read, write] = [CacheOp::READ, CacheOp::WRITE];
    let [access, miss] = [CacheResult::ACCESS, CacheResult::MISS];
    let events = [
        event(CacheId::L1D, read, access),
        event(CacheId::L1D, write, access),
        event(CacheId::L1D, read, miss),
        event(CacheId::DTLB, read, miss),
        event(CacheId::DTLB, write, miss),
    ];
    std::array::from_fn(|number| (MEMORY_NAMES[number], events[number].clone()))
}

/// The proved counters of one thread.
pub struct Counters {
    names: Vec<&'static str>,
    bank: Option<RefCell<Bank>>,
    unavailable: BTreeMap<String, String>,
}

impl Counters {
    /// Open the counters of the calling thread and prove each (about 1 ms; some 10 µs where there is no unit).
    #[must_use]
    pub fn open() -> Self {
        let mut unavailable = BTreeMap::new();
        let bank = match Bank::open(&EVENTS, Scope::UserAndKernel, &mut unavailable) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                unavailable.insert(
                    KERNEL_MODE.to_owned(),
                    format!("counters count user mode only: {}", permission_reason()),
                );
                Bank::open(&EVENTS, Scope::UserOnly, &mut unavailable)
            }
            opened => opened,
        };
        Self::proved(EVENTS.map(|(name, _)| name).to_vec(), bank, unavailable)
    }

    /// Open and prove (some 100 ms where there is a unit) those that count accesses to memory. They count user mode
    /// only, as those of CS380L lab 2 do, whose count of writes is exact.
    #[must_use]
    pub fn memory() -> Self {
        let mut unavailable = BTreeMap::new();
        let bank = Bank::open(&memory_events(), Scope::UserOnly, &mut unavailable);
        Self::proved(MEMORY_NAMES.to_vec(), bank, unavailable)
    }

    fn proved(
        names: Vec<&'static str>,
        bank: io::Result<Bank>,
        mut unavailable: BTreeMap<String, String>,
    ) -> Self {
        let proved = bank.and_then(|mut bank| bank.prove(&mut unavailable).map(|()| bank));
        if let Err(error) = &proved {
            for name in &names {
                unavailable
                    .entry((*name).to_owned())
                    .or_insert_with(|| refusal(error));
            }
        }
        let believed = names.iter().any(|name| !unavailable.contains_key(*name));
        let bank = proved.ok().filter(|_| believed).map(RefCell::new);
        if bank.is_none() {
            unavailable.remove(KERNEL_MODE);
        }
        Self {
            names,
            bank,
            unavailable,
        }
    }

    /// Of [`Counters::memory`], those that proved themselves, opened for the calling thread: a forked process has none
    /// of its parent's.
    ///
    /// # Errors
    /// `Failure::Failed` where one of them does not open any more.
    pub fn opened_again(&self) -> Result<Self, Failure> {
        let names = self.available();
        let mut events = memory_events().to_vec();
        events.retain(|(name, _)| names.contains(name));
        let mut unavailable = BTreeMap::new();
        let bank = Bank::open(&events, Scope::UserOnly, &mut unavailable)
            .map_err(|error| Failure::failed(refusal(&error)))?;
        if let Some((name, reason)) = unavailable.pop_first() {
            return Err(Failure::failed(format!("{name}: {reason}")));
        }
        Ok(Self {
            names,
            bank: Some(RefCell::new(bank)),
            unavailable,
        })
    }

    /// What [`Counters::read`] gives, in the order of [`MEMORY_NAMES`].
    #[must_use]
    pub fn memory_counts(&self) -> [Option<f64>; MEMORY_EVENTS] {
        let counts = self.read();
        MEMORY_NAMES.map(|wanted| {
            let found = counts.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, count)| *count)
        })
    }

    /// Names of the counters that proved themselves.
    #[must_use]
    pub fn available(&self) -> Vec<&'static str> {
        self.names
            .iter()
            .copied()
            .filter(|name| !self.unavailable.contains_key(*name))
            .collect()
    }

    /// Counters that are not measured, each with reason and remedy; [`KERNEL_MODE`] where only user mode is counted.
    #[must_use]
    pub fn unavailable(&self) -> &BTreeMap<String, String> {
        &self.unavailable
    }

    /// Start counting.
    pub fn enable(&self) {
        if let Some(bank) = &self.bank {
            bank.borrow_mut().enable();
        }
    }

    /// Stop counting.
    pub fn disable(&self) {
        if let Some(bank) = &self.bank {
            bank.borrow_mut().disable();
        }
    }

    /// Events between the last [`Counters::enable`] and [`Counters::disable`], and `counters_active`, the part of that
    /// time for which they counted. Where that is below 1 the counts would be estimates, and are left out; nothing is
    /// ever scaled up.
    #[must_use]
    pub fn read(&self) -> Vec<(&'static str, f64)> {
        let Some(bank) = &self.bank else {
            return Vec::new();
        };
        let Some((readings, active)) = bank.borrow_mut().read() else {
            return Vec::new();
        };
        let believed = if active < LEAST_ACTIVE {
            Vec::new()
        } else {
            readings
        };
        let names: Vec<&str> = self.available();
        let counts = believed
            .into_iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(name, reading)| (name, reading.count as f64));
        counts.chain([("counters_active", active)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_proved_or_has_a_reason() {
        let counters = Counters::open();
        for (name, _) in EVENTS {
            let reason = counters.unavailable().get(name);
            assert_ne!(
                counters.available().contains(&name),
                reason.is_some(),
                "{name}: {reason:?}"
            );
            assert!(
                reason.is_none_or(|reason| reason.contains(';')),
                "{name} has no remedy: {reason:?}"
            );
        }
    }

    #[test]
    fn each_memory_counter_is_proved_or_has_a_reason() {
        let counters = Counters::memory();
        for name in MEMORY_NAMES {
            let reason = counters.unavailable().get(name);
            assert_ne!(counters.available().contains(&name), reason.is_some());
            assert!(
                reason.is_none_or(|reason| reason.contains(';')),
                "{reason:?}"
            );
        }
        if counters.available().is_empty() {
            assert_eq!(counters.memory_counts(), [None; MEMORY_EVENTS]);
            return;
        }
        let again = counters.opened_again().expect("it was open before");
        again.enable();
        std::hint::black_box([1_u8; 4096]);
        again.disable();
        let counts = again.memory_counts();
        for (name, count) in MEMORY_NAMES.iter().zip(counts) {
            assert!(count.is_none() || counters.available().contains(name));
        }
    }

    #[test]
    fn what_is_read_is_what_is_available() {
        let counters = Counters::open();
        counters.enable();
        assert_eq!(std::hint::black_box(7), 7);
        counters.disable();
        let names: Vec<&str> = counters.read().into_iter().map(|(name, _)| name).collect();
        let active = counters
            .read()
            .iter()
            .any(|(name, active)| *name == "counters_active" && *active >= LEAST_ACTIVE);
        for name in counters.available() {
            assert_eq!(names.contains(&name), active, "{name}");
        }
        assert!(!counters.available().is_empty() || names.is_empty());
    }
}
