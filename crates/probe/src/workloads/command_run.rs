//! `command.run`: any program, started once a repetition and waited for.
//!
//! A process of its own, the launcher, which the probe forks once a request, starts the program each time with `vfork`
//! and `execve`. The kernel takes the largest resident set of whoever calls execve over into the program's own figure
//! (`setmax_mm_hiwater_rss` in `fs/exec.c`), so a program that is started by a large process is reported as large as
//! that one. The launcher is a fresh fork that gives back what it does not need (see [`shed`]): 1.5 to 3 MiB are left.
//! A program that is no larger has no figure: it would be the launcher's.

mod accounts;
mod child;
mod ended;
mod energy;
mod launch;
mod parameters;
mod program;
mod shed;
mod strays;
mod surroundings;
mod tail;
mod wait;
mod worker;

use std::path::Path;

use crate::clock::{Clock, ClockKind};
use crate::cpu_modes::least_split_s;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::disk::residency;
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

use ended::Ended;
use energy::{LEAST_NS, Rapl};
use launch::Launcher;
use parameters::Parameters;
use program::Program;
use strays::Strays;
use worker::{Run, Worker};

/// How often the start of a trivial program is measured in a request; its median is reported.
const START_TRIALS: usize = 5;

/// A program under measurement.
pub struct CommandRun {
    program: Program,
    prepare: Option<Program>,
    cleanup: Option<Program>,
    launcher: Launcher,
    /// The process that starts the program; `None` before the first run, and after it has died.
    worker: Option<Worker>,
    cold: Vec<String>,
    ignore_failure: bool,
    warmup: u64,
    /// Time from the start of a trivial program to its end.
    start_ns: Option<f64>,
    /// The same of a shell that does nothing.
    shell_ns: Option<f64>,
    /// The least CPU time that is split into user and system mode.
    least_split_ns: f64,
    clock: Clock,
    ended: Option<Ended>,
    strays: Strays,
    /// A note on what the setup left behind.
    left: Option<String>,
}

impl Workload for CommandRun {
    type Parameters = Parameters;

    const SHARES_COVARIATES: bool = true;

    fn describe() -> Description {
        Description {
            name: "command.run",
            version: 2,
            purpose: "Start a program, wait for its end, and report what it used.",
            timing_model: "time = vfork + execve + the program's run + wait. A launcher process, forked before the \
                first run, starts the program without a shell and waits for it; the clock stops when the kernel \
                reports the end, before the program is reaped.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        if context.clock.kind == ClockKind::Instructions {
            return Err(Failure::unavailable(
                "a program is measured in time, not by the clock of instructions",
                "measure with --clock wall",
            ));
        }
        let launcher = Launcher::new(&parameters, context)?;
        let program = Program::named(&parameters.program, &parameters.arguments)?;
        let mut this = Self {
            program,
            prepare: Program::of("prepare", &parameters.prepare)?,
            cleanup: Program::of("cleanup", &parameters.cleanup)?,
            launcher,
            worker: None,
            cold: parameters.cold.clone(),
            ignore_failure: parameters.ignore_failure,
            warmup: parameters.warmup,
            start_ns: None,
            shell_ns: None,
            least_split_ns: least_split_s()? * 1e9,
            clock: context.clock.clone(),
            ended: None,
            strays: Strays::adopt()?,
            left: None,
        };
        if let Some(setup) = Program::of("setup", &parameters.setup)? {
            this.left = this.aside("--setup", &setup)?;
        }
        this.start_ns = this.start_of(&parameters.reference)?;
        this.shell_ns = this.start_of(&parameters.shell)?;
        Ok(this)
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn warmup(&self) -> u64 {
        self.warmup
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.ended = None;
        let mut notes = Vec::from_iter(self.left.take());
        if let Some(prepare) = &self.prepare {
            notes.extend(self.aside("--prepare", prepare)?);
        }
        for path in &self.cold {
            residency::evict(Path::new(path))?;
        }
        let (ended, said, left) = self.launched(region)?;
        ended.judge(&said, self.ignore_failure, self.launcher.timeout_s())?;
        self.ended = Some(ended);
        notes.extend(left);
        let elapsed_ns = self.clock.nanoseconds(region.corrected()?);
        Ok(Work {
            metrics: self.values(&ended, elapsed_ns).values(),
            done: 1,
            wanted: 1,
            notes,
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        let ended = self
            .ended
            .ok_or_else(|| Failure::failed("no program was run"))?;
        // Nothing that was not started can have used time.
        let used = ended.usage.cpu_ns + ended.usage.minor_faults;
        if used > 0.0 {
            Ok(())
        } else {
            Err(Failure::failed("the kernel reports no use of resources"))
        }
    }
}

impl Drop for CommandRun {
    fn drop(&mut self) {
        if let Some(cleanup) = &self.cleanup {
            if let Err(failure) = self.launcher.run_aside("--cleanup", cleanup, || false) {
                eprintln!("oscope-probe: {failure}");
            }
        }
        self.worker = None;
        if let Some(problem) = self.strays.end(None).problem() {
            eprintln!("oscope-probe: {problem}");
        }
    }
}

impl CommandRun {
    /// Have the launcher run the program.
    fn launched(&mut self, region: &mut Region) -> Result<Run, Failure> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::fork(&self.launcher, &self.program, region)?,
        };
        let run = worker.run(&self.program, region);
        match run {
            Ok(_) => self.worker = Some(worker),
            // Whatever has failed, the next run has a launcher of its own.
            Err(_) => {
                drop(worker);
                self.strays.end(None);
            }
        }
        run
    }

    /// Run a program outside the clock.
    ///
    /// Returns a note on processes that it left behind and that cannot be ended.
    fn aside(&self, option: &str, program: &Program) -> Result<Option<String>, Failure> {
        let done = self.launcher.run_aside(option, program, cancel::requested);
        let left = self.strays.end(self.worker.as_ref().map(Worker::process));
        done.map(|()| left.problem())
    }

    /// The median time from the start to the end of a program that does nothing; `None` for none.
    fn start_of(&self, arguments: &[String]) -> Result<Option<f64>, Failure> {
        let Some(program) = Program::of("reference", arguments)? else {
            return Ok(None);
        };
        let mut times = Vec::with_capacity(START_TRIALS);
        let mut worker = Worker::fork(&self.launcher, &program, &Region::new(&self.clock))?;
        // The first one warms up.
        for trial in 0..=START_TRIALS {
            let mut region = Region::new(&self.clock);
            let (ended, said, _) = worker.run(&program, &mut region)?;
            ended.judge(&said, false, self.launcher.timeout_s())?;
            if trial > 0 {
                times.push(self.clock.nanoseconds(region.corrected()?));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(Some(times[START_TRIALS / 2]))
    }

    fn values(&self, ended: &Ended, elapsed_ns: f64) -> Values {
        let (usage, bytes) = (&ended.usage, ended.accounts.bytes());
        let is_split = usage.cpu_ns >= self.least_split_ns;
        Values {
            time_ns: elapsed_ns,
            net_ns: self.shell_ns.map(|shell_ns| elapsed_ns - shell_ns),
            cpu_ns: usage.cpu_ns,
            user_ns: is_split.then_some(usage.user_ns),
            system_ns: is_split.then_some(usage.system_ns),
            max_rss_bytes: ended.max_rss_bytes(),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            blocks_in: usage.blocks_in,
            blocks_out: usage.blocks_out,
            read_bytes: bytes.map(|bytes| bytes.read),
            written_bytes: bytes.map(|bytes| bytes.written),
            instructions_user: ended.instructions,
            cycles_user: ended.cycles,
            energy_j: ended.energy_j.filter(|_| elapsed_ns >= LEAST_NS),
            idle_w: self.launcher.rapl().map(Rapl::idle_w),
            start_ns: self.start_ns,
            shell_ns: self.shell_ns,
            exit_code: ended.exit_code(),
        }
    }
}

const NO_SHELL: &str = "without a shell";
const FEW_TICKS: &str = "where the CPU time is less than 10 ticks";

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(time("ns", Quantity::Time)
        .of("the program from its start to its end")
        .note("The shell's start is included where there is a shell."))]
    time_ns: f64,
    #[metric(time("ns", Quantity::Time)
        .of("the program without the shell's start")
        .note("It is time_ns less shell_ns, and may be below zero.")
        .null_when(NO_SHELL))]
    net_ns: Option<f64>,
    #[metric(time("ns", Quantity::CpuTime)
        .of("the program")
        .note("User and system, with that of the children that the program waited for (wait4(2))."))]
    cpu_ns: f64,
    #[metric(time("ns", Quantity::UserTime)
        .of("the program")
        .note("Most kernels sample the mode at ticks.")
        .null_when(FEW_TICKS))]
    user_ns: Option<f64>,
    #[metric(time("ns", Quantity::SystemTime).of("the program").null_when(FEW_TICKS))]
    system_ns: Option<f64>,
    #[metric(spent("B", "largest resident set of a single process")
        .note("The program, or a child that it waited for.")
        .null_when("where it is no larger than the launcher that starts the program, 1.5 to 3 MiB"))]
    max_rss_bytes: Option<f64>,
    #[metric(spent("1", "page faults without input or output"))]
    minor_faults: f64,
    #[metric(spent("1", "page faults that waited for a device"))]
    major_faults: f64,
    #[metric(spent("1", "voluntary context switches").note("The program gave up the CPU to wait."))]
    voluntary_switches: f64,
    #[metric(spent("1", "involuntary context switches").note("The scheduler took the CPU from the program."))]
    involuntary_switches: f64,
    #[metric(spent("1", "blocks of 512 B read from devices"))]
    blocks_in: f64,
    #[metric(spent("1", "blocks of 512 B written to devices").note("Counted when the pages become dirty."))]
    blocks_out: f64,
    #[metric(spent("B", "bytes read, by read(2) and its like, and by execve(2) of the program's file")
        .note("rchar of /proc/PID/io, see proc_pid_io(5).")
        .null_when("where the kernel does not count them"))]
    read_bytes: Option<f64>,
    #[metric(spent("B", "bytes accepted by write system calls").note("wchar of /proc/PID/io."))]
    written_bytes: Option<f64>,
    #[metric(spent("1", "instructions in user mode")
        .note("By perf_event_open(2), inherited by children.")
        .null_when("without a counter"))]
    instructions_user: Option<f64>,
    #[metric(spent("1", "core cycles in user mode").null_when("without a counter"))]
    cycles_user: Option<f64>,
    #[metric(spent("J", "energy of the processor packages")
        .note("By RAPL, from the start of the program to its end. The work of other programs and the idle power are \
               included.")
        .null_when("without a counter, or for a run below 20 ms"))]
    energy_j: Option<f64>,
    #[metric(found("W", "power of the processor packages when nothing is measured")
        .note("Measured before the repetitions of each block. It is the floor of the energy.")
        .null_when("without a counter"))]
    idle_w: Option<f64>,
    #[metric(time("ns", Quantity::Time)
        .of("a trivial program from its start to its end")
        .note("The median, measured before the repetitions of each block.")
        .not_compared())]
    start_ns: Option<f64>,
    #[metric(time("ns", Quantity::Time)
        .of("a shell that runs nothing, from its start to its end")
        .note("The median, measured likewise.")
        .null_when(NO_SHELL)
        .not_compared())]
    shell_ns: Option<f64>,
    #[metric(found("1", "exit code of the program").note("128 plus the signal's number where a signal ended it."))]
    exit_code: f64,
}

#[cfg(test)]
mod tests;
