//! `process.create`: what it costs to make a process or a thread.

mod stamp;
mod ways;

use std::io;
use std::time::Duration;

use serde::Deserialize;

use crate::clock::Clock;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::affinity::Pinned;
use oscope_sys::error::Failure;
use oscope_sys::mapping::{Mapping, Pages};
use oscope_sys::worker::TimeLimit;
use stamp::{Comparison, Span};
use ways::{End, How, Life, Maker};

/// A child that lives for longer hangs.
const LONGEST_LIFE: Duration = Duration::from_secs(60);

/// Parameters of `process.create`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// fork, posix_spawn (of this program) and thread (pthread_create) are the C library's; clone3 is the system call
    /// with nothing shared; vfork shares memory and holds the parent.
    #[parameter(choice("fork"))]
    how: How,
    /// Anonymous memory that the parent has written to before, beside its own few MiB; proved resident by smaps.
    #[parameter(bytes(0, 0..=64 << 30))]
    resident: u64,
    /// What the resident memory is made of: base pages (MADV_NOHUGEPAGE) or transparent huge pages (MADV_HUGEPAGE),
    /// proved by smaps.
    #[parameter(choice("4K"))]
    pages: Pages,
    /// same: the child inherits the CPU the parent is pinned to, and one waits for the other. free: both may use every
    /// CPU allowed to the probe; the covariates of a CPU are then those of the requested one only, or of all with cpu
    /// -1.
    #[parameter(choice("free"))]
    placement: Placement,
}

/// Where parent and child may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Placement {
    Same,
    Free,
}

/// The prepared workload.
pub struct ProcessCreate {
    maker: Maker,
    comparison: Comparison,
    clock: Clock,
    life: Option<Life>,
    notes: Vec<String>,
    ballast: Option<Mapping>,
    /// Whether a child gets page tables of its own.
    copies: bool,
    _spread: Option<Pinned>,
}

impl Workload for ProcessCreate {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "process.create",
            version: 2,
            purpose: "What it costs to create a process or a thread: until it runs, until its parent continues, until \
                it is reaped",
            timing_model: "child = began - called - o; parent = returned - called - o; total = reaped - called - 2 o, \
                where o is what a reading of the clock costs. Inside: the call by the C library (clone3: by its \
                number), the child's reading, three stores and _exit, and waitpid or pthread_join. vfork asks the \
                kernel for CLONE_VM|CLONE_VFORK on a stack of its own, since vfork() cannot be called soundly here; \
                its parent returns after the child has ended. posix_spawn starts this program, whose child_ns thus \
                holds exec and the dynamic loader, up to the program's first constructor. With the TSC, readings on \
                two CPUs are compared by measured offsets; unknown offsets leave the metric out. The C library keeps a \
                thread's stack for the next one: only the warm-up maps one. fork and clone3 copy what the parent has \
                mapped, and write-protect what it has written since the fork before: each page of the resident \
                memory, which is written to before each repetition of theirs, outside the clock, and is what the \
                caches then hold. At resident=0 this program's own 30 mappings and 0.3 MiB written, in caches that \
                the harness's reading of /proc has cooled, make them some 1.5 times as expensive as in a bare C \
                program that forks again and again, and 1.15 times as in one that sleeps 2 ms in between.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let ballast = ballast(parameters.resident, parameters.pages)?;
        let mut notes = Vec::new();
        let comparison = comparison(parameters.placement, context, &mut notes);
        let spread = match parameters.placement {
            Placement::Same => None,
            Placement::Free => Some(Pinned::over(context.allowed())?),
        };
        Ok(Self {
            maker: Maker::new(parameters.how, context.clock)?,
            comparison,
            clock: context.clock.clone(),
            life: None,
            notes,
            ballast,
            copies: matches!(parameters.how, How::Fork | How::Clone3),
            _spread: spread,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.life = None;
        // Of no use to the other ways, which would find the caches full of it.
        if let Some(ballast) = self.ballast.as_ref().filter(|_| self.copies) {
            ballast.touch();
        }
        let (maker, clock) = (&mut self.maker, &self.clock);
        let limit = TimeLimit::start(LONGEST_LIFE)?;
        let life = region.measure(|| maker.live(clock)).map_err(refused)?;
        drop(limit);
        let spans = Spans::of(&life, &self.comparison);
        self.life = Some(life);
        let mut notes = self.notes.clone();
        notes.extend(spans.remark());
        Ok(Work {
            metrics: spans.values(&self.clock).values(),
            done: u64::from(life.end == End::Exit(0)),
            wanted: iterations,
            notes,
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        let life = self
            .life
            .as_ref()
            .ok_or_else(|| Failure::failed("no child was made"))?;
        judge(life, &Spans::of(life, &self.comparison))
    }
}

/// Memory that the parent has touched before it makes a child, which is what page tables to copy come from.
fn ballast(bytes: u64, pages: Pages) -> Result<Option<Mapping>, Failure> {
    if bytes == 0 {
        return Ok(None);
    }
    let granule = pages.granule()?;
    if bytes % granule != 0 {
        return Err(Failure::request(
            "resident",
            format!("is a multiple of {granule} B with pages=huge, not {bytes}"),
        ));
    }
    let mapping = Mapping::new(bytes, pages)?;
    mapping.touch();
    mapping.prove()?;
    Ok(Some(mapping))
}

const CHILD: &str = "creation until the first instruction of the child";
const PARENT: &str = "creation until the call returns in the parent";
const TOTAL: &str = "creation until the child has ended and been reaped or joined";
const TICKS: &str = "Ticks of the time-stamp counter.";

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(time("ns", Quantity::Time).of(CHILD))]
    child_ns: Option<f64>,
    #[metric(time("ns", Quantity::Time).of(PARENT))]
    parent_ns: Option<f64>,
    #[metric(time("ns", Quantity::Time).of(TOTAL))]
    total_ns: Option<f64>,
    #[metric(time("cycles", Quantity::Cycles).of(CHILD).note(TICKS))]
    child_cycles: Option<f64>,
    #[metric(time("cycles", Quantity::Cycles).of(PARENT).note(TICKS))]
    parent_cycles: Option<f64>,
    #[metric(time("cycles", Quantity::Cycles).of(TOTAL).note(TICKS))]
    total_cycles: Option<f64>,
}

/// How readings will compare. Where parent and child share one CPU no offset is needed, and none is measured.
fn comparison(placement: Placement, context: &Context, notes: &mut Vec<String>) -> Comparison {
    if placement == Placement::Same && context.cpu.is_some() {
        return Comparison::Unknown;
    }
    match context.offsets() {
        Ok(Some(offsets)) => {
            // The run's record has them; where they matter, a note names them.
            if offsets.apart() {
                notes.push(offsets.to_string());
            }
            Comparison::Measured(offsets.clone())
        }
        Ok(None) => Comparison::OneClock,
        Err(failure) => {
            notes.push(format!("times between two CPUs are left out: {failure}"));
            Comparison::Unknown
        }
    }
}

/// The kernel's refusal to make a child; a limit is the machine's, and has a remedy.
fn refused(error: io::Error) -> Failure {
    let remedy = match error.raw_os_error() {
        Some(libc::EAGAIN) => "raise ulimit -u, kernel.pid_max or the control group's pids.max",
        Some(libc::ENOMEM) => "ask for less resident memory, or set vm.overcommit_memory=1 as root",
        Some(libc::ENOSYS) => "use Linux 5.3 or later; in a container allow clone3",
        _ => return Failure::system("making a child", error),
    };
    Failure::unavailable(format!("the kernel makes no child: {error}"), remedy).because_of(error)
}

/// Greatest error of a span, as a share of it. On a busy machine the offset of two CPUs may be known only within
/// milliseconds.
const MOST_ERROR: f64 = 0.1;

/// What lies between the moments of a child's life; `None` where the clocks of two CPUs do not compare.
struct Spans {
    child: Option<Span>,
    parent: Option<Span>,
    total: Option<Span>,
}

impl Spans {
    fn of(life: &Life, comparison: &Comparison) -> Self {
        let since_call = |to| comparison.span(life.called, to);
        Self {
            child: life.began.and_then(since_call),
            parent: since_call(life.returned),
            total: since_call(life.reaped),
        }
    }

    /// Each span less the readings it holds: one, and in the total also the one on return.
    fn values(&self, clock: &Clock) -> Values {
        let ticks = |span: Option<Span>, readings: f64| {
            let span = span.filter(is_known)?;
            Some(span.ticks - readings * clock.overhead)
        };
        let (child, parent, total) = (
            ticks(self.child, 1.0),
            ticks(self.parent, 1.0),
            ticks(self.total, 2.0),
        );
        let time = |ticks: Option<f64>| ticks.map(|ticks| clock.nanoseconds(ticks));
        let cycles = |ticks: Option<f64>| ticks.and_then(|ticks| clock.cycles(ticks));
        Values {
            child_ns: time(child),
            parent_ns: time(parent),
            total_ns: time(total),
            child_cycles: cycles(child),
            parent_cycles: cycles(parent),
            total_cycles: cycles(total),
        }
    }

    fn remark(&self) -> Option<String> {
        let known = |span: Option<Span>| span.as_ref().is_some_and(is_known);
        let every = [self.child, self.parent, self.total].into_iter().all(known);
        (!every).then(|| {
            "some times lie between two CPUs whose offset is not known well enough, and are left out"
                .to_owned()
        })
    }
}

/// Whether a span is known well enough to be a figure.
fn is_known(span: &Span) -> bool {
    span.error <= MOST_ERROR * span.ticks
}

/// The child ended well, left its stamp, and its moments follow each other.
fn judge(life: &Life, spans: &Spans) -> Result<(), Failure> {
    match life.end {
        End::Exit(0) => {}
        End::Exit(status) => {
            return Err(Failure::failed(format!(
                "the child exited with status {status}"
            )));
        }
        End::Signal(signal) => {
            return Err(Failure::failed(format!(
                "the child was ended by signal {signal}"
            )));
        }
    }
    if life.began.is_none() {
        return Err(Failure::failed("the child left no stamp"));
    }
    for (name, span) in [
        ("child began", spans.child),
        ("parent returned", spans.parent),
    ] {
        let Some(Span { ticks, error }) = span else {
            continue;
        };
        if ticks < -error {
            return Err(Failure::failed(format!(
                "the {name} {} ticks before the call (error {error})",
                -ticks
            )));
        }
        let total = spans
            .total
            .filter(|total| ticks > total.ticks + total.error + error);
        if let Some(total) = total {
            return Err(Failure::failed(format!(
                "the {name} {} ticks after the child was reaped",
                ticks - total.ticks
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
