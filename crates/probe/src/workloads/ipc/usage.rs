//! What a thread has used of its CPU.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use crate::cpu_modes::least_split_s;
use oscope_sys::error::Failure;

/// CPU time and switches of a thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID; getrusage(2), RUSAGE_THREAD).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds on a CPU, exact.
    pub cpu_s: f64,
    /// Times the thread gave up its CPU to wait.
    pub voluntary: f64,
    /// Times the thread was taken off its CPU, or yielded it.
    pub involuntary: f64,
    user_s: f64,
    system_s: f64,
    least_split_s: f64,
}

impl Usage {
    /// Of the calling thread, since it began.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn now() -> Result<Self, Failure> {
        // First, since it brings up to date what getrusage reports of a thread that runs.
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
            .map_err(|error| Failure::system("reading the thread's CPU time", error))?;
        let usage = getrusage(UsageWho::RUSAGE_THREAD)
            .map_err(|error| Failure::system("getrusage", error))?;
        Ok(Self {
            cpu_s: cpu.num_nanoseconds() as f64 / 1e9,
            voluntary: usage.voluntary_context_switches() as f64,
            involuntary: usage.involuntary_context_switches() as f64,
            user_s: usage.user_time().num_microseconds() as f64 / 1e6,
            system_s: usage.system_time().num_microseconds() as f64 / 1e6,
            least_split_s: least_split_s()?,
        })
    }

    /// What was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu_s: self.cpu_s - before.cpu_s,
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            least_split_s: self.least_split_s,
        }
    }

    /// Seconds in user mode and in the kernel, which most kernels sample at ticks (kernel/sched/cputime.c): `None`
    /// where there were too few.
    pub fn modes_s(self) -> Option<(f64, f64)> {
        (self.cpu_s >= self.least_split_s).then_some((self.user_s, self.system_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(at_least_s: f64) -> Usage {
        let before = Usage::now().expect("the kernel reports it");
        loop {
            let used = Usage::now().expect("the kernel reports it").since(before);
            if used.cpu_s >= at_least_s {
                return used;
            }
        }
    }

    #[test]
    fn time_between_two_ticks_is_seen_and_is_not_split() {
        let used = work(1e-5);
        assert!(used.cpu_s >= 1e-5);
        assert_eq!(used.modes_s().is_some(), used.cpu_s >= used.least_split_s);
    }

    #[test]
    fn the_modes_of_a_long_time_add_up() {
        let tick_s = Usage::now().expect("the kernel reports it").least_split_s / 10.0;
        let used = work(20.0 * tick_s);
        let (user_s, system_s) = used.modes_s().expect("it is long enough");
        assert!((user_s + system_s - used.cpu_s).abs() < tick_s, "{used:?}");
    }
}
