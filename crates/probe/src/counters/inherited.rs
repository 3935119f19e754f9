//! Counters of a program that the calling thread starts: `perf_event_open` with `inherit`, whose counts the kernel adds
//! to the parent's at the child's end. They count user mode only, so that what starting the program costs the kernel is
//! not in them.

use std::io;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, ReadFormat};

use super::Counters;
use super::judgement::LEAST_ACTIVE;

/// What is counted of a program, as [`Counters::available`] names it.
const PROGRAM_EVENTS: [(&str, Hardware); 2] = [
    ("instructions", Hardware::INSTRUCTIONS),
    ("cpu_cycles", Hardware::CPU_CYCLES),
];

/// The open counters of the calling thread and of all that it starts.
///
/// Each is an event of its own: Linux before 6.12 opens no group that is inherited.
pub struct Inherited(Vec<(&'static str, Counter)>);

impl Inherited {
    /// Open those of a program's counters that have proved themselves in `proved`.
    ///
    /// # Errors
    /// The errno of perf_event_open(2), such as `EACCES` where `kernel.perf_event_paranoid` forbids it.
    pub fn open(proved: &[&str]) -> io::Result<Self> {
        let events: Vec<_> = PROGRAM_EVENTS
            .into_iter()
            .filter(|(name, _)| proved.contains(name))
            .collect();
        Self::of(&events)
    }

    fn of<E: Event + Clone>(events: &[(&'static str, E)]) -> io::Result<Self> {
        let open = |(name, event): &(&'static str, E)| {
            let mut builder = Builder::new(event.clone());
            builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
            builder.inherit(true).exclude_kernel(true).enabled(false);
            Ok((*name, builder.build()?))
        };
        events.iter().map(open).collect::<io::Result<_>>().map(Self)
    }

    /// Start counting.
    ///
    /// # Errors
    /// The errno of ioctl(2), `PERF_EVENT_IOC_ENABLE`.
    pub fn enable(&mut self) -> io::Result<()> {
        self.0
            .iter_mut()
            .try_for_each(|(_, counter)| counter.enable())
    }

    /// Stop counting.
    ///
    /// # Errors
    /// The errno of ioctl(2), `PERF_EVENT_IOC_DISABLE`.
    pub fn disable(&mut self) -> io::Result<()> {
        self.0
            .iter_mut()
            .try_for_each(|(_, counter)| counter.disable())
    }

    /// The count called `name`; `None` where it is not open, or counted for part of the time only.
    pub fn read(&mut self, name: &str) -> Option<f64> {
        let (_, counter) = self.0.iter_mut().find(|(known, _)| *known == name)?;
        let data = counter.read_full().ok()?;
        let (enabled, running) = (data.time_enabled()?, data.time_running()?);
        let active = running.as_secs_f64() / enabled.as_secs_f64();
        (active >= LEAST_ACTIVE).then(|| data.count() as f64)
    }
}

impl Counters {
    /// Whether a program's counters can be had, as far as this process's own counters show.
    #[must_use]
    pub fn of_programs(&self) -> Vec<&'static str> {
        let available = self.available();
        PROGRAM_EVENTS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| available.contains(name))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use perf_event::events::Software;

    use super::*;

    /// A software event stands in for a unit, so that inheritance itself is tested where there is none.
    #[test]
    fn what_a_started_program_did_is_counted_once_it_has_ended() {
        let events = [("page_faults", Software::PAGE_FAULTS)];
        let Ok(mut counters) = Inherited::of(&events) else {
            return eprintln!("skipped: perf_event_open is refused");
        };
        counters.enable().expect("it is open");
        let status = Command::new("head")
            .args(["-c", "20000000", "/dev/zero"])
            .stdout(std::process::Stdio::null())
            .status()
            .expect("it starts");
        assert!(status.success());
        counters.disable().expect("it is open");
        let faults = counters.read("page_faults").expect("it counted");
        assert!(faults > 20.0, "{faults}");
        assert_eq!(counters.read("instructions"), None);
    }
}
