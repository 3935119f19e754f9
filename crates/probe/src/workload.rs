//! The one trait that a workload implements.

use std::cell::OnceCell;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::clock::Clock;
use crate::clock::offsets::Offsets;
use crate::description::Description;
use crate::disk::scratch::Files;
use crate::region::Region;
use oscope_sys::error::Failure;

/// A thing the probe can measure.
///
/// The harness calls `prepare` once a request, `run` once a repetition and `verify` right after each `run`; dropping
/// the value cleans up, also after a failure, a panic or a signal. A workload never reads a clock of its own around the
/// whole repetition: it hands the work to [`Region::measure`], which brackets it with the marks and the clock.
pub trait Workload: Sized {
    /// The parameters, as deserialised from the request after its values were checked against the description and
    /// defaults filled in.
    type Parameters: DeserializeOwned;

    /// Whether repetitions in a row may share their covariates, where reading them takes long beside a repetition (see
    /// `crate::harness`).
    const SHARES_COVARIATES: bool = false;

    /// What this workload is, takes and gives.
    fn describe() -> Description;

    /// Make ready what a repetition needs (files, memory, buffers).
    ///
    /// # Errors
    /// `Failure::Unavailable` where this machine cannot do it, with the remedy; `Failure::Failed` where it went wrong;
    /// `Failure::Request` for a parameter that its description cannot rule out. What was made so far is undone by
    /// dropping it.
    fn prepare(parameters: Self::Parameters, context: &Context) -> Result<Self, Failure>;

    /// How often the inner loop runs in a repetition.
    fn iterations(&self) -> Iterations {
        Iterations::Calibrated
    }

    /// Repetitions run first and not reported, where the request does not say.
    fn warmup(&self) -> u64 {
        1
    }

    /// One repetition: do `iterations` of the work inside `region.measure`, and say what was done.
    ///
    /// A repetition that may last longer than a second polls [`oscope_sys::cancel::requested`] and returns early, with
    /// any result: it is not reported.
    ///
    /// # Errors
    /// `Failure::Failed` or `Failure::Unavailable` for a repetition that could not be done: it is a failed sample.
    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure>;

    /// Check that the work claimed was really done (child status, bytes, return values).
    ///
    /// # Errors
    /// `Failure::Failed` with what is wrong, in a line: the sample then counts as failed, never as fast.
    fn verify(&mut self, work: &Work) -> Result<(), Failure>;
}

/// Who decides how often the inner loop runs in a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iterations {
    /// The request, or the harness by calibration.
    Calibrated,
    /// The workload's meaning: a request for another number is refused.
    Fixed(u64),
}

/// What the harness lends a workload.
pub struct Context<'a> {
    /// The calibrated clock.
    pub clock: &'a Clock,
    /// The CPU the harness pinned this thread to, if it did.
    pub cpu: Option<usize>,
    /// What the requests of a session share.
    shared: &'a Shared,
    /// The CPUs allowed to the probe before it pinned itself.
    allowed: &'a [usize],
}

impl<'a> Context<'a> {
    /// What the harness lends to workloads of one request.
    pub fn new(
        clock: &'a Clock,
        cpu: Option<usize>,
        allowed: &'a [usize],
        shared: &'a Shared,
    ) -> Self {
        Self {
            clock,
            cpu,
            shared,
            allowed,
        }
    }

    /// The CPUs allowed to the probe before the harness pinned it, in rising order.
    pub fn allowed(&self) -> &'a [usize] {
        self.allowed
    }

    /// The counters that can be had of a program that the probe starts.
    pub fn program_counters(&self) -> &'a [&'static str] {
        &self.shared.program_counters
    }

    /// The session's scratch files, and what it knows of the files that were read.
    pub fn files(&self) -> &'a Rc<Files> {
        &self.shared.files
    }

    /// The offsets between the counters of the allowed CPUs, measured when first asked for; `None` with the other
    /// clocks, whose readings on different CPUs can be compared as they are, or of which there is but one.
    ///
    /// # Errors
    /// `Failure::Failed` if they cannot be measured.
    pub fn offsets(&self) -> Result<Option<&'a Offsets>, Failure> {
        if !self.clock.kind.differs_between_cpus() {
            return Ok(None);
        }
        if let Some(known) = self.shared.offsets.get() {
            return Ok(Some(known));
        }
        let measured = Offsets::measure(self.allowed)?;
        Ok(Some(self.shared.offsets.get_or_init(|| measured)))
    }
}

/// What all requests of a session share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The offsets between the CPUs' time-stamp counters, once a workload asked for them.
    pub offsets: OnceCell<Offsets>,
    /// The scratch files, and what is known of the files that were read.
    pub files: Rc<Files>,
    /// The counters that can be had of a program that the probe starts.
    pub program_counters: Vec<&'static str>,
}

/// What one repetition did: its metrics, and a tally for `verify`.
#[derive(Debug, Default, Clone)]
pub struct Work {
    /// Metric values by name; a declared metric that is absent is reported as `null`.
    pub metrics: Vec<(&'static str, f64)>,
    /// Units of work that were really done (calls, bytes, children), as counted by the workload.
    pub done: u64,
    /// Units of work that should have been done.
    pub wanted: u64,
    /// Notes for the record, once a request, such as "the call returned ENOSYS".
    pub notes: Vec<String>,
}
