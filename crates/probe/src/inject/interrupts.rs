//! `interrupts`: a storm of timer interrupts on the CPU that is measured on. Nobody is woken by them.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Clock, clock_gettime};

use super::{Cause, Disturbance, Kind, Site};
use oscope_sys::error::Failure;
use oscope_sys::worker::Listener;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "interrupts",
    purpose: "A timer interrupt every 40 us on the CPU that is measured on, which wakes nobody",
    raises: &["timer_interrupts", "interrupts"],
    kind: Kind::Machine(make),
};

/// Between two interrupts.
const SPACING: Duration = Duration::from_micros(40);
/// Timers at most: 0.3 s of interrupts. They are armed together, so that this process runs on the CPU for some ms at
/// the begin of a phase, and not again before they have all expired.
const MOST: u64 = 8192;
/// Descriptors left for everything else.
const SPARE: u64 = 64;
/// Timers that make a storm.
const FEWEST: u64 = 16;

/// One-shot timers. The kernel arms a timer on the CPU that asks for it (`hrtimer_start_range_ns` in
/// `kernel/time/hrtimer.c`), unless that is isolated (`nohz_full`).
struct Storm {
    cpu: usize,
    timers: Vec<TimerFd>,
}

fn make(site: &Site) -> Result<Box<dyn Disturbance>, Failure> {
    Ok(Box::new(Storm {
        cpu: site.cpu,
        timers: Vec::new(),
    }))
}

impl Disturbance for Storm {
    fn cpu(&self) -> usize {
        self.cpu
    }

    fn place(&self) -> String {
        format!("on CPU {}, where it is measured", self.cpu)
    }

    fn ready(&mut self) -> Result<(), Failure> {
        let limit = |error| Failure::system("the limit of open files", error);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit)?;
        let count = MOST.min(hard.saturating_sub(SPARE));
        if count < FEWEST {
            return Err(Failure::unavailable(
                format!("{hard} open files are too few for a storm of timers"),
                "raise ulimit -n",
            ));
        }
        setrlimit(
            Resource::RLIMIT_NOFILE,
            count + SPARE,
            hard.max(count + SPARE),
        )
        .map_err(limit)?;
        for _ in 0..count {
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC);
            self.timers
                .push(timer.map_err(|error| Failure::system("timerfd_create", error))?);
        }
        Ok(())
    }

    /// Timers that were armed, and have expired unless it is to stop.
    fn step(&mut self, stop: &Listener, left: Duration) -> Result<u64, Failure> {
        let wanted = (left.as_nanos() / SPACING.as_nanos()) as usize;
        let armed = &self.timers[..wanted.clamp(1, self.timers.len())];
        let now = clock_gettime(Clock::CLOCK_MONOTONIC)
            .map_err(|error| Failure::system("clock_gettime", error))?;
        for (number, timer) in armed.iter().enumerate() {
            let after = SPACING * (number as u32 + 1);
            let at = Expiration::OneShot(now + TimeSpec::from_duration(after));
            timer
                .set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)
                .map_err(|error| Failure::system("timerfd_settime", error))?;
        }
        let over = stop.is_closed_within((SPACING * (armed.len() as u32 + 1)).min(left));
        if over {
            for timer in armed {
                timer
                    .unset()
                    .map_err(|error| Failure::system("timerfd_settime", error))?;
            }
        }
        Ok(armed.len() as u64)
    }
}
