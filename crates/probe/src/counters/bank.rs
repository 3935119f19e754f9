//! A group of open perf events, which count together or not at all, and its proof by known work.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use perf_event::events::Event;
use perf_event::{Builder, Counter, ReadFormat};

use super::judgement::{Reading, Trial, active, judge};
use super::known_work::{KNOWN, Known};
use oscope_sys::error::Failure;

/// How often a counter may try to prove itself: an interrupt can spoil one trial.
const ATTEMPTS: usize = 3;

const GROUP_FORMAT: ReadFormat = ReadFormat::GROUP
    .union(ReadFormat::TOTAL_TIME_ENABLED)
    .union(ReadFormat::TOTAL_TIME_RUNNING)
    .union(ReadFormat::ID);

/// The counters that opened, as one group: all of them count, or none does. The first leads.
pub struct Bank {
    members: Vec<(&'static str, Counter)>,
    /// Totals when counting was last switched on; `None` while what they show is not to be trusted.
    started: Option<Totals>,
}

/// What the group has counted since it was opened.
struct Totals {
    counts: Vec<u64>,
    enabled_ns: u64,
    running_ns: u64,
}

/// Which modes are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that happens on behalf of the thread.
    UserAndKernel,
    /// What the thread does itself.
    UserOnly,
}

impl Bank {
    /// Opens what can be opened. Refused permission is an error, so that the caller can ask for less; all else is a
    /// reason.
    ///
    /// The leader is a hardware counter itself: a dummy leader would be opened in vain where there is no unit, and the
    /// first perf event of a system takes some milliseconds to switch the scheduler's hooks on.
    pub fn open<E: Event + Clone>(
        events: &[(&'static str, E)],
        scope: Scope,
        unavailable: &mut BTreeMap<String, String>,
    ) -> io::Result<Self> {
        let mut members: Vec<(&'static str, Counter)> = Vec::new();
        for (name, event) in events {
            let mut builder = Builder::new(event.clone());
            builder.exclude_kernel(scope == Scope::UserOnly);
            let opened = match members.first_mut() {
                Some((_, leader)) => builder.build_with_group(leader),
                None => builder.read_format(GROUP_FORMAT).enabled(false).build(),
            };
            match opened {
                Ok(counter) => members.push((*name, counter)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(error) => drop(unavailable.insert((*name).to_owned(), refusal(&error))),
            }
        }
        Ok(Self {
            members,
            started: None,
        })
    }

    fn leader(&mut self) -> io::Result<&mut Counter> {
        self.members
            .first_mut()
            .map(|(_, leader)| leader)
            .ok_or_else(|| io::Error::other("no counter is open"))
    }

    fn totals(&mut self) -> io::Result<Totals> {
        let data = self.leader()?.read_group()?;
        let nanoseconds = |time: Option<Duration>| time.map_or(0, |time| time.as_nanos() as u64);
        let counts = self
            .members
            .iter()
            .map(|(_, counter)| data.get(counter).map_or(0, |entry| entry.value()))
            .collect();
        Ok(Totals {
            counts,
            enabled_ns: nanoseconds(data.time_enabled()),
            running_ns: nanoseconds(data.time_running()),
        })
    }

    /// Switch counting on.
    pub fn enable(&mut self) {
        self.started = self.totals().ok();
        if self.leader().and_then(Counter::enable_group).is_err() {
            self.started = None;
        }
    }

    /// Switch counting off.
    pub fn disable(&mut self) {
        if self.leader().and_then(Counter::disable_group).is_err() {
            self.started = None;
        }
    }

    /// Each member's reading since `enable`, and the part of the time for which the group was active.
    pub fn read(&mut self) -> Option<(Vec<(&'static str, Reading)>, f64)> {
        let now = self.totals().ok()?;
        let started = self.started.as_ref()?;
        let enabled_ns = now.enabled_ns - started.enabled_ns;
        let running_ns = now.running_ns - started.running_ns;
        let counts = now
            .counts
            .iter()
            .zip(&started.counts)
            .map(|(now, before)| now - before);
        let reading = |count| Reading {
            count,
            enabled_ns,
            running_ns,
        };
        let readings = self
            .members
            .iter()
            .zip(counts)
            .map(|((name, _), count)| (*name, reading(count)))
            .collect();
        Some((readings, active(enabled_ns, running_ns)))
    }

    /// Tries each member with the work known for it, and names those that do not count it rightly.
    ///
    /// # Errors
    /// The errno of ioctl(2) or read(2) on the group of counters (perf_event_open(2)).
    pub fn prove(&mut self, unavailable: &mut BTreeMap<String, String>) -> io::Result<()> {
        let unproved = "no work of known count is written for this processor";
        let mut verdicts: BTreeMap<&str, Result<(), Failure>> = BTreeMap::new();
        for (name, _) in &self.members {
            verdicts.insert(name, Err(Failure::unavailable(unproved, "use x86-64")));
        }
        for known in &KNOWN {
            for _ in 0..ATTEMPTS {
                let doubted =
                    |(name, ..): &(&str, f64, f64)| verdicts.get(name).is_some_and(Result::is_err);
                if known.proves.iter().any(doubted) {
                    self.attempt(known, &mut verdicts)?;
                }
            }
        }
        let doubts = verdicts
            .into_iter()
            .filter_map(|(name, verdict)| Some((name.to_owned(), verdict.err()?.explained())));
        unavailable.extend(doubts);
        Ok(())
    }

    /// Does known work and the double of it, and judges the members that it proves and that are not judged yet.
    fn attempt(
        &mut self,
        known: &Known,
        verdicts: &mut BTreeMap<&str, Result<(), Failure>>,
    ) -> io::Result<()> {
        let small = self.trial(known, known.times)?;
        let large = self.trial(known, 2 * known.times)?;
        for (name, each, tolerance) in known.proves {
            if let Some(verdict) = verdicts.get_mut(name).filter(|verdict| verdict.is_err()) {
                let expected = (known.times as f64 * each) as u64;
                let small = Trial {
                    expected,
                    reading: small[name],
                };
                let large = Trial {
                    expected: 2 * expected,
                    reading: large[name],
                };
                *verdict = judge(small, large, *tolerance);
            }
        }
        Ok(())
    }

    fn trial(&mut self, known: &Known, times: u64) -> io::Result<BTreeMap<&'static str, Reading>> {
        self.enable();
        (known.work)(times);
        self.disable();
        let readings = self.read().map(|(readings, _)| readings);
        readings
            .map(|readings| readings.into_iter().collect())
            .ok_or_else(|| io::Error::other("the counters cannot be switched or read"))
    }
}

/// Why the kernel refused to open a counter, and what may fix it.
pub fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => "this machine shows no \
            performance-monitoring unit for it (as most virtual machines); switch on a virtual PMU (QEMU: -cpu \
            host,pmu=on) or use a bare machine"
            .to_owned(),
        Some(libc::ENOSYS) => "this kernel has no perf_event_open; build it with CONFIG_PERF_EVENTS".to_owned(),
        Some(libc::EACCES | libc::EPERM) => permission_reason(),
        Some(libc::EBUSY) => "another user holds the counter; stop it (perf, or sysctl \
            kernel.nmi_watchdog=0)".to_owned(),
        Some(libc::EMFILE) => "this process has no file descriptor left; raise ulimit -n".to_owned(),
        Some(libc::EINVAL) => "the unit does not know it, or has no room for it beside the others; sysctl \
            kernel.nmi_watchdog=0 frees a counter".to_owned(),
        _ => format!("perf_event_open: {error}; see perf_event_open(2)"),
    }
}

/// Why permission was refused, and what gives it.
pub fn permission_reason() -> String {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    format!(
        "permission is refused (kernel.perf_event_paranoid is {paranoid}); run sysctl kernel.perf_event_paranoid=1 as \
         root, or give CAP_PERFMON; in a container allow perf_event_open"
    )
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    /// Software events stand in for a unit, so that the group itself is tested where there is none.
    #[test]
    fn a_group_counts_between_enable_and_disable_only() {
        let events = [
            ("task_clock", Software::TASK_CLOCK),
            ("page_faults", Software::PAGE_FAULTS),
        ];
        let mut unavailable = BTreeMap::new();
        let Ok(mut bank) = Bank::open(&events, Scope::UserAndKernel, &mut unavailable) else {
            return eprintln!(
                "skipped: perf_event_open is refused; {}",
                permission_reason()
            );
        };
        assert!(bank.read().is_none(), "nothing was started");
        let fault = || {
            let mut memory = vec![0_u8; 64 * 4096];
            memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            std::hint::black_box(memory);
        };
        bank.enable();
        (0..20).for_each(|_| fault());
        bank.disable();
        let (first, active) = bank.read().expect("it was started");
        fault();
        assert_eq!(
            bank.read().expect("it was started").0,
            first,
            "it went on counting"
        );
        let first: BTreeMap<&str, Reading> = first.into_iter().collect();
        assert!(first["task_clock"].count > 0 && first["page_faults"].enabled_ns > 0);
        assert!(active > 0.0 && active <= 1.0);
        bank.enable();
        bank.disable();
        let second: BTreeMap<&str, Reading> =
            bank.read().expect("it was started").0.into_iter().collect();
        assert!(
            second["page_faults"].count <= first["page_faults"].count,
            "it did not begin again"
        );
    }

    /// Another event in the place of the counters has to be found out.
    #[test]
    fn counters_that_count_something_else_are_not_believed() {
        let events = [
            "instructions",
            "cpu_cycles",
            "cache_misses",
            "branch_misses",
        ]
        .map(|name| (name, Software::CONTEXT_SWITCHES));
        let mut unavailable = BTreeMap::new();
        let Ok(mut bank) = Bank::open(&events, Scope::UserAndKernel, &mut unavailable) else {
            return eprintln!(
                "skipped: perf_event_open is refused; {}",
                permission_reason()
            );
        };
        bank.prove(&mut unavailable).expect("the group can be read");
        let named: Vec<&str> = unavailable.keys().map(String::as_str).collect();
        assert_eq!(
            named,
            [
                "branch_misses",
                "cache_misses",
                "cpu_cycles",
                "instructions"
            ]
        );
    }

    #[test]
    fn refusals_have_remedies() {
        for (number, word) in [
            (libc::ENOENT, "virtual PMU"),
            (libc::EOPNOTSUPP, "virtual PMU"),
            (libc::EACCES, "perf_event_paranoid"),
            (libc::ENOSYS, "CONFIG_PERF_EVENTS"),
            (libc::EBUSY, "nmi_watchdog"),
            (libc::EINVAL, "no room"),
            (libc::EIO, "perf_event_open(2)"),
        ] {
            assert!(
                refusal(&io::Error::from_raw_os_error(number)).contains(word),
                "{number}"
            );
        }
    }
}
