//! Doing one request: check, pin, prepare, calibrate, warm up, repeat, verify, report.

mod instrument;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::calibration::{Calibrated, calibrate};
use crate::clock::{Clock, ClockKind, instructions, reading};
use crate::covariates::Covariates;
use crate::description::Metric;
use crate::inject::delay::Injected;
use crate::parameters;
use crate::protocol::{Event, Request, Sample};
use crate::region::{Mark, Region};
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::affinity::{self, Pinned};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

pub use instrument::Instrument;

/// Longest time spent on calibration before the trials are taken as they are.
const CALIBRATION_LIMIT: Duration = Duration::from_secs(30);
/// Iterations of a workload of any number of them, where instructions are counted, and how long one may be for that.
const COUNTED: u64 = 1000;
const LONG_NS: f64 = 1e6;

/// Part of the time of repetitions that reading the covariates may take. Where it would take more, and the workload
/// allows it, repetitions in a row share one reading: each gets what was counted for all of them, with the time for
/// which that was (`counted_ns`).
const READING_SHARE: f64 = 0.02;
/// Repetitions that share one reading at most.
const MOST_SHARING: usize = 50;

/// What a sample of a request with `inject` has beside the covariates: the delay of all its iterations together that
/// was in the measured region.
pub const INJECTED_NS: &str = "injected_ns";

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Samples reported.
    pub samples: u64,
    /// Inner loop count.
    pub iterations: u64,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

/// Do one request with workload `W`, handing every sample and note to `emit`.
///
/// # Errors
/// `Failure::Request` for a wrong request; `Failure::Unavailable` where this machine cannot do it; `Failure::Failed` if
/// the preparation or the calibration failed. A repetition that fails is a failed sample, not an error.
pub fn run<W: Workload>(
    request: &Request,
    instrument: &Instrument,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, Failure> {
    if instrument.clock.kind == ClockKind::Instructions {
        instructions::settle_long();
    }
    let started = Instant::now();
    let description = W::describe();
    let values = parameters::complete(&request.params, &description.parameters)?;
    let typed = serde_json::from_value(Value::Object(values))
        .map_err(|error| Failure::request("params", error.to_string()))?;
    let cpu = instrument.place(request.cpu)?;
    let _pinned = cpu.map(Pinned::to).transpose()?;
    let context = Context::new(
        &instrument.clock,
        cpu,
        &instrument.allowed,
        &instrument.shared,
    );
    let injected = request
        .inject
        .as_ref()
        .map(|wanted| Injected::new(wanted, &instrument.clock))
        .transpose()?;
    let workload = W::prepare(typed, &context)?;
    // Where the workload has given this thread other CPUs, what happens on the first is not what happens to it.
    let allowed = affinity::allowed()?;
    let cpu = cpu.filter(|&cpu| allowed == [cpu]);
    let mut bench = Bench {
        workload,
        metrics: description.metrics,
        covariates: Covariates::open(cpu, &instrument.counters, instrument.canary.as_ref()),
        clock: &instrument.clock,
        injected,
        request,
        deadline: deadline(started, request.time_limit_s),
        reading: Duration::MAX,
        sharing: None,
        own: Map::new(),
        held: Vec::new(),
        noted: BTreeSet::new(),
        emit,
    };
    let iterations = bench.iterations()?;
    let samples = bench.repeat(iterations)?;
    Ok(Outcome {
        samples,
        iterations,
        interrupted: cancel::requested(),
    })
}

fn deadline(started: Instant, limit_s: Option<f64>) -> Option<Instant> {
    limit_s.map(|limit| started + Duration::from_secs_f64(limit))
}

/// One request under way.
struct Bench<'a, W> {
    workload: W,
    metrics: Vec<Metric>,
    covariates: Covariates<'a>,
    clock: &'a Clock,
    injected: Option<Injected>,
    request: &'a Request,
    deadline: Option<Instant>,
    /// The least time that reading the covariates took so far, before repetitions and after them.
    reading: Duration,
    /// When the repetitions that share a reading began; `None` between them.
    sharing: Option<Instant>,
    /// The covariates of a repetition that shares them with no other.
    own: Map<String, Value>,
    /// Repetitions that have ended and are not reported yet, by their numbers.
    held: Vec<(u64, Repetition)>,
    noted: BTreeSet<String>,
    emit: &'a mut dyn FnMut(Event),
}

/// What one repetition gave.
struct Repetition {
    started_ns: u64,
    raw: Option<u64>,
    iterations: u64,
    correction: f64,
    injected_ns: Option<f64>,
    result: Result<Work, Failure>,
}

impl<W: Workload> Bench<'_, W> {
    /// How often the inner loop is to run: as the workload means it, as asked, or as calibrated.
    fn iterations(&mut self) -> Result<u64, Failure> {
        match (self.workload.iterations(), self.request.iterations) {
            (Iterations::Fixed(fixed), Some(asked)) if asked != fixed => Err(Failure::request(
                "iterations",
                format!("must be {fixed} or null with these parameters, not {asked}"),
            )),
            (Iterations::Fixed(fixed), _) => Ok(fixed),
            (Iterations::Calibrated, Some(asked)) => Ok(asked),
            (Iterations::Calibrated, None) if self.clock.kind == ClockKind::Instructions => {
                self.counted()
            }
            (Iterations::Calibrated, None) => self.calibrated(),
        }
    }

    /// The same on every kernel, whose figures shall differ by the kernel alone and not by how the loop's own cost is
    /// spread; once for what is so long that the loop's own cost does not show.
    fn counted(&mut self) -> Result<u64, Failure> {
        let mut region = Region::new(self.clock);
        self.workload.run(1, &mut region)?;
        let cost_ns = self.clock.nanoseconds(region.corrected()?);
        Ok(if cost_ns < LONG_NS { COUNTED } else { 1 })
    }

    fn calibrated(&mut self) -> Result<u64, Failure> {
        let latest = Instant::now() + CALIBRATION_LIMIT;
        let latest = self
            .deadline
            .map_or(latest, |deadline| deadline.min(latest));
        let (workload, clock) = (&mut self.workload, self.clock);
        let Calibrated {
            iterations,
            reached,
        } = calibrate(
            self.request.min_time_ns as f64,
            |iterations| {
                let mut region = Region::new(clock);
                workload.run(iterations, &mut region)?;
                Ok(clock.nanoseconds(region.corrected()?))
            },
            || cancel::requested() || Instant::now() >= latest,
        )?;
        if !reached && !cancel::requested() {
            self.note(format!(
                "calibration was cut short at {iterations} iterations: a repetition may not last {} ns",
                self.request.min_time_ns
            ));
        }
        Ok(iterations)
    }

    /// Warm up, then report the repetitions asked for; the number reported.
    fn repeat(&mut self, iterations: u64) -> Result<u64, Failure> {
        let warmup = self.request.warmup.unwrap_or(self.workload.warmup());
        let mut failed = 0;
        let mut reason = None;
        for _ in 0..warmup {
            if self.is_over() {
                return Ok(0);
            }
            if let Some(Err(failure)) = self.once(Mark::NONE, iterations)?.map(|done| done.result) {
                failed += 1;
                reason.get_or_insert(failure);
            }
            self.read();
        }
        if let Some(reason) = reason {
            self.note(format!(
                "{failed} of {warmup} warm-up repetitions failed: {reason}"
            ));
        }
        let ended = self.repeat_all(iterations);
        // Those that were measured before it ended are reported in any case.
        self.share();
        ended
    }

    fn repeat_all(&mut self, iterations: u64) -> Result<u64, Failure> {
        let mark = Mark::of(self.request.id);
        for number in 0..self.request.reps {
            if self.is_over() {
                return Ok(number);
            }
            let Some(repetition) = self.once(mark, iterations)? else {
                return Ok(number);
            };
            self.held.push((number, repetition));
            if self.sharing.is_none_or(|began| self.is_long(began)) {
                self.share();
            }
        }
        Ok(self.request.reps)
    }

    /// Whether reading the covariates takes little beside what has been measured since then.
    fn is_long(&self, began: Instant) -> bool {
        began.elapsed().mul_f64(READING_SHARE) >= self.reading || self.held.len() >= MOST_SHARING
    }

    /// Report the repetitions that have ended, with the covariates of all of them.
    fn share(&mut self) {
        let covariates = self.read();
        for (number, repetition) in std::mem::take(&mut self.held) {
            self.report(number, repetition, covariates.clone());
        }
    }

    /// The covariates since they were read last, before the repetitions.
    fn read(&mut self) -> Map<String, Value> {
        match self.sharing.take() {
            Some(_) => self.covariates.after(),
            None => std::mem::take(&mut self.own),
        }
    }

    fn is_over(&self) -> bool {
        cancel::requested()
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// One repetition, judged; `None` if a signal came meanwhile, since its figures are then invalid.
    fn once(&mut self, mark: Mark, iterations: u64) -> Result<Option<Repetition>, Failure> {
        if self.clock.kind == ClockKind::Instructions {
            instructions::settle();
        }
        let started_ns = reading::realtime();
        let mut region = Region::marked(self.clock, mark);
        if let Some(injected) = &mut self.injected {
            region.delay(injected.next_ticks(started_ns, iterations));
        }
        if self.sharing.is_none() {
            self.begin_reading();
        }
        let ran = self.workload.run(iterations, &mut region);
        if self.sharing.is_none() {
            self.own = self.covariates.after();
        }
        if cancel::requested() {
            return Ok(None);
        }
        let result = match ran.and_then(|work| self.judge(work, &region)) {
            Err(failure @ (Failure::Unavailable { .. } | Failure::Request { .. })) => {
                return Err(failure);
            }
            other => other,
        };
        Ok(Some(Repetition {
            started_ns,
            raw: region.raw().ok(),
            iterations,
            correction: region.correction(),
            injected_ns: region
                .injected()
                .map(|ticks| self.clock.nanoseconds(ticks as f64)),
            result,
        }))
    }

    /// Read the covariates for the first time, for one repetition or for those that share them.
    fn begin_reading(&mut self) {
        if !W::SHARES_COVARIATES {
            return self.covariates.before();
        }
        let began = Instant::now();
        self.covariates.before();
        let now = Instant::now();
        // They are read again afterwards.
        self.reading = self.reading.min(2 * (now - began));
        self.sharing = Some(now);
    }

    /// Believe the work only if it was measured once, done in full, verified, and gave the metrics declared.
    fn judge(&mut self, work: Work, region: &Region) -> Result<Work, Failure> {
        region.raw()?;
        if work.done != work.wanted {
            return Err(Failure::failed(format!(
                "did {} of {} units of work",
                work.done, work.wanted
            )));
        }
        self.workload.verify(&work)?;
        for (name, value) in &work.metrics {
            if !self.metrics.iter().any(|metric| metric.name == *name) {
                return Err(Failure::failed(format!(
                    "gave the undeclared metric {name}"
                )));
            }
            if !value.is_finite() {
                return Err(Failure::failed(format!("the metric {name} is {value}")));
            }
        }
        Ok(work)
    }

    fn report(&mut self, number: u64, repetition: Repetition, mut covariates: Map<String, Value>) {
        if let Some(injected_ns) = repetition.injected_ns {
            covariates.insert(INJECTED_NS.to_owned(), Value::from(injected_ns));
        }
        let (metrics, failed) = match repetition.result {
            Ok(work) => {
                let metrics = declared(&self.metrics, &work);
                for note in work.notes {
                    self.note(note);
                }
                (metrics, None)
            }
            Err(failure) => (Map::new(), Some(failure.explained())),
        };
        (self.emit)(Event::Sample(Sample {
            request: self.request.id,
            rep: number,
            started_ns: repetition.started_ns,
            raw: repetition.raw,
            iterations: repetition.iterations,
            correction: repetition.correction,
            metrics,
            covariates,
            failed,
        }));
    }

    /// Report a note, once a request.
    fn note(&mut self, text: String) {
        if self.noted.insert(text.clone()) {
            (self.emit)(Event::Note {
                request: self.request.id,
                text,
            });
        }
    }
}

/// Every declared metric, `null` where the work gave none.
fn declared(metrics: &[Metric], work: &Work) -> Map<String, Value> {
    metrics
        .iter()
        .map(|metric| {
            let given = work.metrics.iter().find(|(name, _)| *name == metric.name);
            (
                metric.name.to_owned(),
                given.map_or(Value::Null, |(_, value)| Value::from(*value)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
