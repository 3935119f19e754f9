//! What all requests of a session have in common.

use crate::clock::{Clock, ClockKind};
use crate::counters::Counters;
use crate::covariates::canary::Canary;
use crate::protocol::Placement;
use crate::workload::Shared;
use oscope_sys::affinity;
use oscope_sys::error::Failure;

/// What all requests of a session share.
pub struct Instrument {
    /// The calibrated clock.
    pub clock: Clock,
    /// The hardware counters that proved themselves.
    pub counters: Counters,
    /// Measures how long loads wait; `None` with the clock of instructions, which does not count waiting.
    pub canary: Option<Canary>,
    /// The CPUs allowed to the probe when it started, in rising order.
    pub allowed: Vec<usize>,
    /// What is measured or made once, for all requests.
    pub shared: Shared,
}

impl Instrument {
    /// Prove the counters; take the rest as given.
    ///
    /// # Errors
    /// `Failure::Failed` if the allowed CPUs cannot be read; `Failure::Unavailable` where there is no memory for the
    /// canary.
    pub fn new(clock: Clock) -> Result<Self, Failure> {
        let canary = match clock.kind {
            ClockKind::Instructions => None,
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::MonotonicRaw => Some(Canary::new()?),
        };
        let counters = Counters::open();
        let shared = Shared {
            program_counters: counters.of_programs(),
            ..Shared::default()
        };
        Ok(Self {
            clock,
            canary,
            counters,
            allowed: affinity::allowed()?,
            shared,
        })
    }

    /// The CPU a request is to be pinned to.
    pub fn place(&self, placement: Placement) -> Result<Option<usize>, Failure> {
        match placement {
            Placement::Free => Ok(None),
            Placement::Highest => Ok(self.allowed.last().copied()),
            Placement::Cpu(cpu) if self.allowed.contains(&cpu) => Ok(Some(cpu)),
            Placement::Cpu(cpu) => Err(Failure::request(
                "cpu",
                format!(
                    "must be one of the allowed CPUs {:?}, -1 or null, not {cpu}",
                    self.allowed
                ),
            )),
        }
    }
}
