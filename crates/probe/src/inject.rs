//! `oscope-probe inject`: interferes with this machine on purpose, in phases, and reports when: known causes, to check
//! what explains variation.
//!
//! Each cause is one file and one line of [`CAUSES`]. Those that act on the machine live in a child process each, which
//! ends with this one, also after a kill (PR_SET_PDEATHSIG). They report JSON lines on standard output: `begun` once;
//! for each phase `on` when it begins and `off` with both ends; `failed`; `ended`. All times are of `CLOCK_REALTIME`,
//! as `started_ns` of a sample. Phases are of random length, from the seed. Those in the measured region (`delay`,
//! `drift`) are done by the probe that measures: field `inject` of a request.

pub mod delay;
mod drift;
mod evict;
mod hog;
mod interrupts;
mod memory;
mod migrate;
mod phases;
mod place;
mod sibling;
mod target;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use nix::poll::PollTimeout;
use nix::sys::signal::SigHandler;
use serde_json::{Value, json};

use crate::clock::reading;
use crate::names;
use oscope_sys::affinity::{self, Pinned};
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::worker::{Child, Listener, Notifier, describe_exit, notify_pipe};
use phases::Phases;
use target::Target;

/// Name and version of the events' format.
pub const SCHEMA: &str = "oscope.injection/1";
/// Milliseconds between two looks at whether all children live.
const LOOK_MS: u16 = 100;
/// How long a child may take to end its phase.
const GOODBYE: Duration = Duration::from_secs(10);

/// What a cause acts on.
pub enum Kind {
    /// The machine, from a process of its own.
    Machine(fn(&Site) -> Result<Box<dyn Disturbance>, Failure>),
    /// The measured region, by the probe that measures; it takes an amount, in this unit.
    Region(&'static str),
}

/// A line of the registry.
pub struct Cause {
    /// As it is asked for.
    pub name: &'static str,
    /// What it does.
    pub purpose: &'static str,
    /// The covariates that it raises.
    pub raises: &'static [&'static str],
    /// What it acts on.
    pub kind: Kind,
}

/// All causes.
pub const CAUSES: [Cause; 8] = [
    hog::CAUSE,
    sibling::CAUSE,
    memory::CAUSE,
    evict::CAUSE,
    interrupts::CAUSE,
    migrate::CAUSE,
    delay::CAUSE,
    drift::CAUSE,
];

/// Something that disturbs. It is made by the process that asks, which finds out whether it can be done, and lives in a
/// child.
pub trait Disturbance {
    /// The CPU that it runs on.
    fn cpu(&self) -> usize;

    /// Where it acts, for people.
    fn place(&self) -> String;

    /// Make ready in the child, before the first phase.
    ///
    /// # Errors
    /// `Failure::Unavailable` or `Failure::Failed` if memory, a file or a permission is missing. The child then reports
    /// it and ends.
    fn ready(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Disturb for some milliseconds at most, or as long as `left` is of the phase where that needs no CPU; how much
    /// was done, in units that mean something for this cause. Waits are waits for the end of the injection.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason: the injection ends.
    fn step(&mut self, stop: &Listener, left: Duration) -> Result<u64, Failure>;
}

/// Disturbances by the names of their causes.
type Found = Vec<(&'static str, Box<dyn Disturbance>)>;

/// Where and on what to act.
pub struct Site {
    /// The CPU that is measured on.
    pub cpu: usize,
    /// The CPUs allowed, in rising order.
    pub allowed: Vec<usize>,
    /// Files to evict.
    pub paths: Vec<PathBuf>,
    /// Threads to move.
    pub target: Option<Target>,
}

/// What `inject` takes.
#[derive(Args)]
pub struct Arguments {
    /// What to inject; see `oscope-probe describe`.
    #[arg(value_name = "CAUSE", required = true)]
    causes: Vec<String>,
    /// The CPU that is measured on [default: the highest allowed].
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Seconds to go on [default: until a signal comes].
    #[arg(long = "for", value_name = "S", value_parser = seconds)]
    length: Option<Duration>,
    /// Decides the lengths of all phases.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Mean seconds of a phase with the disturbance.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    on: Duration,
    /// Mean seconds of a phase without.
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = seconds)]
    off: Duration,
    /// Disturb all the time.
    #[arg(long)]
    steady: bool,
    /// A file to evict from the page cache; repeatable.
    #[arg(long, value_name = "FILE")]
    path: Vec<PathBuf>,
    /// The thread to move between CPUs.
    #[arg(long, value_name = "TID", conflicts_with = "probes_of")]
    thread: Option<i32>,
    /// Move the measuring threads of the probes that this process started.
    #[arg(long, value_name = "PID")]
    probes_of: Option<i32>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse().map(Duration::try_from_secs_f64) {
        Ok(Ok(time)) if time >= Duration::from_millis(1) => Ok(time),
        _ => Err("a number of seconds, 0.001 or more".into()),
    }
}

/// Causes as `describe` shows them. `amount` is the unit of what has to be named with it.
#[must_use]
pub fn describe() -> Vec<Value> {
    let shown = |cause: &Cause| {
        let amount = match cause.kind {
            Kind::Machine(_) => None,
            Kind::Region(unit) => Some(unit),
        };
        json!({"name": cause.name, "purpose": cause.purpose, "raises": cause.raises, "amount": amount})
    };
    CAUSES.iter().map(shown).collect()
}

/// Run the verb: disturb until a signal comes or the time is over.
///
/// # Errors
/// `Failure::Request` for a wrong argument and `Failure::Unavailable` for what this machine cannot do, before anything
/// is changed; `Failure::Failed` if an injection ended early, or standard output cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    cancel::install()?;
    let site = arguments.site()?;
    let found = arguments.disturbances(&site)?;
    // What waits here shall not disturb what is measured.
    let elsewhere: Vec<usize> = (site.allowed.iter().copied())
        .filter(|&cpu| cpu != site.cpu)
        .collect();
    let _apart = match elsewhere[..] {
        [] => None,
        _ => Some(Pinned::over(&elsewhere)?),
    };
    let until = arguments.length.map(|length| Instant::now() + length);
    report(&arguments.begun(&site, &found))?;
    let (stop, hold) = notify_pipe()?;
    let mut living = Living {
        children: Vec::new(),
        hold: Some(hold),
    };
    for (cause, disturbance) in found {
        let phases = Phases::new(arguments.seed, cause, arguments.means());
        living.add(cause, disturbance, &stop, phases)?;
    }
    let ended = living.watch(until);
    living.end();
    report(&json!({"event": "ended", "at_ns": reading::realtime()}))?;
    ended
}

impl Arguments {
    fn site(&self) -> Result<Site, Failure> {
        let allowed = affinity::allowed()?;
        let cpu = self.cpu.or(allowed.last().copied());
        let cpu = cpu.ok_or_else(|| Failure::failed("no CPU is allowed"))?;
        if !allowed.contains(&cpu) {
            return Err(Failure::request(
                "--cpu",
                format!("must be one of the allowed CPUs {allowed:?}, not {cpu}"),
            ));
        }
        Ok(Site {
            cpu,
            allowed,
            paths: self.path.clone(),
            target: Target::of(self.thread, self.probes_of),
        })
    }

    /// Each cause once, in the order named.
    fn disturbances(&self, site: &Site) -> Result<Found, Failure> {
        let mut found: Found = Vec::new();
        for name in &self.causes {
            let cause = CAUSES.iter().find(|cause| cause.name == name);
            let cause = cause.ok_or_else(|| {
                let known = CAUSES.iter().map(|cause| cause.name);
                Failure::request("CAUSE", names::unknown("cause", name, known))
            })?;
            if found.iter().any(|(known, _)| *known == cause.name) {
                return Err(Failure::request("CAUSE", format!("{name} is named twice")));
            }
            let Kind::Machine(make) = cause.kind else {
                return Err(Failure::request(
                    "CAUSE",
                    format!(
                        "{name} is injected by the probe that measures: oscope run --inject {name}=AMOUNT"
                    ),
                ));
            };
            found.push((cause.name, make(site)?));
        }
        Ok(found)
    }

    /// Mean lengths of the phases; `None`: all the time.
    fn means(&self) -> Option<(Duration, Duration)> {
        (!self.steady).then_some((self.on, self.off))
    }

    fn begun(&self, site: &Site, found: &Found) -> Value {
        let causes: Vec<Value> = found
            .iter()
            .map(|(name, one)| json!({"cause": name, "cpu": one.cpu(), "place": one.place()}))
            .collect();
        let means = self.means();
        json!({
            "event": "begun",
            "schema": SCHEMA,
            "at_ns": reading::realtime(),
            "cpu": site.cpu,
            "seed": self.seed,
            "on_s": means.map(|(on, _)| on.as_secs_f64()),
            "off_s": means.map(|(_, off)| off.as_secs_f64()),
            "causes": causes,
        })
    }
}

/// The children that disturb. Those that still live when it is dropped are killed.
struct Living {
    children: Vec<(&'static str, Child)>,
    /// Closing it stops them all.
    hold: Option<Notifier>,
}

impl Living {
    fn add(
        &mut self,
        cause: &'static str,
        mut disturbance: Box<dyn Disturbance>,
        stop: &Listener,
        phases: Phases,
    ) -> Result<(), Failure> {
        let hold = &mut self.hold;
        let child = Child::fork(move || {
            // The parent alone holds it, and alone is asked to stop.
            drop(hold.take());
            let lived = live(cause, &mut *disturbance, stop, phases);
            // What it has in the journal is struck; a child leaves without running what is left on its stack.
            drop(disturbance);
            if let Err(failure) = lived {
                let remedy = match &failure {
                    Failure::Unavailable { remedy, .. } => remedy.as_deref(),
                    _ => None,
                };
                // Where nobody listens any more, nobody needs to know.
                let _ = report(&json!({
                    "event": "failed", "cause": cause, "message": failure.to_string(), "remedy": remedy
                }));
            }
        })?;
        self.children.push((cause, child));
        Ok(())
    }

    /// Wait until it is to end; the error names a child that ended before.
    fn watch(&mut self, until: Option<Instant>) -> Result<(), Failure> {
        while !cancel::requested() && until.is_none_or(|until| Instant::now() < until) {
            for (cause, child) in &mut self.children {
                if let Some(status) = child.ended()? {
                    return Err(Failure::failed(format!(
                        "{} before its time",
                        describe_exit(cause, status)
                    )));
                }
            }
            pause(until);
        }
        Ok(())
    }

    /// Stop them, and wait until each has reported its last phase.
    fn end(&mut self) {
        drop(self.hold.take());
        let latest = Instant::now() + GOODBYE;
        let living = |children: &mut Vec<(&str, Child)>| {
            (children.iter_mut()).any(|(_, child)| matches!(child.ended(), Ok(None)))
        };
        while living(&mut self.children) && Instant::now() < latest {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.children.clear();
    }
}

/// Sleep for a moment, or until a signal comes.
fn pause(until: Option<Instant>) {
    let left = until.map_or(Duration::MAX, |until| until - Instant::now());
    let look = PollTimeout::from(LOOK_MS);
    let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    // A signal ends it early, which is looked for anyway.
    let _ = nix::poll::poll(&mut [], left.min(look));
}

/// The life of a child: phases, each reported when it has begun and when it has ended.
fn live(
    cause: &str,
    disturbance: &mut dyn Disturbance,
    stop: &Listener,
    mut phases: Phases,
) -> Result<(), Failure> {
    for signal in cancel::SIGNALS {
        cancel::handle(signal, SigHandler::SigIgn)?;
    }
    affinity::pin(disturbance.cpu())?;
    disturbance.ready()?;
    while !stop.is_closed_within(phases.off()) {
        let length = phases.on();
        let began = Instant::now();
        let from_ns = reading::realtime();
        report(&json!({"event": "on", "cause": cause, "from_ns": from_ns}))?;
        let mut done = 0;
        while let Some(left) = length
            .checked_sub(began.elapsed())
            .filter(|_| !stop.is_closed())
        {
            done += disturbance.step(stop, left)?;
        }
        let to_ns = reading::realtime();
        report(
            &json!({"event": "off", "cause": cause, "from_ns": from_ns, "to_ns": to_ns, "done": done}),
        )?;
    }
    Ok(())
}

/// Write one line, at once and whole: several processes write to the same place.
fn report(value: &Value) -> Result<(), Failure> {
    let line = format!("{value}\n");
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::system("writing to standard output", error))
}

#[cfg(test)]
mod tests;
