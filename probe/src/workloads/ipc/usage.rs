//! What a thread has used of its CPU.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::error::Failure;

/// Times and switches of a thread (getrusage(2), RUSAGE_THREAD). Their sum is exact; kernels without full accounting split user from system
/// time by sampling at ticks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
    /// Times the thread gave up its CPU to wait.
    pub voluntary: f64,
    /// Times the thread was taken off its CPU, or yielded it.
    pub involuntary: f64,
}

impl Usage {
    /// Of the calling thread, since it began.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not tell.
    pub fn now() -> Result<Self, Failure> {
        let told = getrusage(UsageWho::RUSAGE_THREAD)
            .map_err(|error| Failure::system("getrusage", error))?;
        Ok(Self {
            user_s: told.user_time().num_microseconds() as f64 / 1e6,
            system_s: told.system_time().num_microseconds() as f64 / 1e6,
            voluntary: told.voluntary_context_switches() as f64,
            involuntary: told.involuntary_context_switches() as f64,
        })
    }

    /// What was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
        }
    }

    /// Seconds in both modes.
    pub fn cpu_s(self) -> f64 {
        self.user_s + self.system_s
    }
}
