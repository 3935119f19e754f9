//! The measuring instrument of Oscope, as the program `oscope-probe`.
//!
//! It describes itself (`describe`), measures on request over a pipe (`run`), and describes the machine it is on
//! (`environment`). Standard output is data, standard error is for people. Exit status: 0 done, 1 failed, 2 usage.

mod cache_model;
mod calibration;
mod clock;
mod counters;
mod covariates;
mod cpu_modes;
mod description;
mod disk;
mod environment;
mod guest_init;
mod harness;
mod inject;
mod input;
mod names;
mod parameters;
mod pressure;
mod program_files;
mod protocol;
mod region;
mod registry;
mod renewal;
mod self_check;
mod session;
mod shared_folder;
mod steps;
mod tune;
mod workload;
mod workloads;
mod xor;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};

use clock::offsets::Offsets;
use clock::{Clock, ClockKind, RequestedClock};
use harness::Instrument;
use input::Wait;
use oscope_sys::diagnostics;
use oscope_sys::error::Failure;
use oscope_transfer::verbs::{ReceiveVerb, SendVerb};
use protocol::{Probe, SCHEMA};
use workloads::ipc_throughput;

/// Measures one workload at a time and reports samples as JSON lines.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print what this probe can measure, as one JSON object.
    Describe,
    /// Read one JSON request a line, answer one JSON event a line.
    Run(RunArguments),
    /// Print what is known of this machine, as one JSON object.
    Environment(ClockChoice),
    /// Undo what probes that were killed left behind; one JSON object a line says what was, or could not be.
    Restore,
    /// Transfer bytes once through a pipe or a pair of sockets, and print how fast: what to trace from outside.
    Ipc(ipc_throughput::verb::Arguments),
    /// Find what may be DHCP in the packet capture at standard input; prints one JSON object a line, one for each
    /// packet.
    Dhcp,
    /// Send files to a receiver, each verified; progress is one JSON object a line.
    Send(SendVerb),
    /// Receive files into a folder, each verified before it gets its name; progress is one JSON object a line.
    Receive(ReceiveVerb),
    /// Send or receive as `oscope transfer` does, for a person at a terminal.
    #[command(disable_help_flag = true)]
    Transfer {
        /// Its words.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Hold settings of this machine until standard input ends, then restore them; without any, list what there is.
    Tune {
        /// Settings, as NAME=VALUE.
        settings: Vec<String>,
    },
    /// Interfere with this machine on purpose, in phases; one JSON object a line reports each phase.
    Inject(inject::Arguments),
    /// Interpret what a terminal got, in frames, and write the text that a person saw.
    Screen(oscope_transcript::Arguments),
}

#[derive(Args)]
struct RunArguments {
    #[command(flatten)]
    choice: ClockChoice,
    /// Take over the environment that this process found before it renewed itself: the descriptor of a file that has
    /// it.
    #[arg(long, hide = true, value_name = "FD")]
    renewed: Option<RawFd>,
}

#[derive(Args)]
struct ClockChoice {
    /// Which clock to read.
    #[arg(long, value_enum, default_value_t = RequestedClock::Auto)]
    clock: RequestedClock,
}

/// Carry out the command line of this process, whose program was built from `commit`; `None` where that is not known.
pub fn run(commit: Option<&'static str>) -> ExitCode {
    diagnostics::set_program("oscope-probe");
    protocol::set_commit(commit);
    if guest_init::is_wanted() {
        guest_init::run();
    }
    let verb = match Cli::parse().verb {
        Verb::Send(arguments) => return oscope_transfer::verbs::run_send(&arguments),
        Verb::Receive(arguments) => return oscope_transfer::verbs::run_receive(&arguments),
        Verb::Transfer { words } => return oscope_transfer::command::run(words),
        Verb::Screen(arguments) => return oscope_transcript::run(&arguments),
        verb => verb,
    };
    match act(verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            diagnostics::warn(failure.explained());
            ExitCode::FAILURE
        }
    }
}

fn act(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Describe => print(&description()),
        Verb::Run(RunArguments { choice, renewed }) => serve(choice.clock, renewed),
        Verb::Environment(choice) => {
            let instrument = Instrument::new(Clock::open(choice.clock)?)?;
            let offsets = instrument
                .clock
                .kind
                .differs_between_cpus()
                .then(|| Offsets::measure(&instrument.allowed));
            print(&session::environment(&instrument, offsets))
        }
        Verb::Restore => restore(),
        Verb::Ipc(arguments) => ipc_throughput::verb::run(&arguments),
        Verb::Dhcp => oscope_capture::run(),
        Verb::Inject(arguments) => inject::run(&arguments),
        Verb::Tune { settings } => tune::run(&settings),
        Verb::Send(_) | Verb::Receive(_) | Verb::Transfer { .. } | Verb::Screen(_) => {
            unreachable!("they end with their own status")
        }
    }
}

/// Serve requests from standard input until it ends, or until a fresh process is to take this one's place.
fn serve(wanted: RequestedClock, renewed: Option<RawFd>) -> Result<(), Failure> {
    oscope_sys::cancel::install()?;
    let input = io::stdin();
    let mut lines = input::Lines::new(&input, Wait::Asleep);
    let (instrument, environment) = match renewed {
        Some(descriptor) => {
            let left = renewal::take_over(descriptor)?;
            lines = lines.after(left.unused_input);
            // What the process before this had is free by now. Taken at once, it would be the same pages again for the
            // length of a run.
            if !lines.wait()? {
                return Ok(());
            }
            let (clock, environment) = renewal::read(&left.environment, wanted)?;
            (Instrument::new(clock)?, environment)
        }
        None => {
            let instrument = Instrument::new(Clock::open(wanted)?)?;
            let environment = session::environment(&instrument, None);
            (instrument, environment)
        }
    };
    if instrument.clock.kind == ClockKind::Instructions {
        lines.wait_busily();
    }
    let served = session::serve(&instrument, &environment, &mut lines, &mut io::stdout());
    match served? {
        session::End::Over => Ok(()),
        session::End::Renewal(program) => {
            let unused = lines.take_unused();
            Err(renewal::replace_process(
                &environment,
                &unused,
                wanted,
                program,
            ))
        }
    }
}

/// Undo what dead processes left, and report each.
fn restore() -> Result<(), Failure> {
    let mut reported = Ok(());
    let clean = oscope_sys::cleanup::restore(&mut |line| {
        if reported.is_ok() {
            reported = writeln!(io::stdout(), "{line}");
        }
    })?;
    reported.map_err(unwritten)?;
    match clean {
        true => Ok(()),
        false => Err(Failure::failed("not all could be undone, see above")),
    }
}

/// Everything the probe says about itself.
fn description() -> Value {
    let workloads: Vec<_> = registry::REGISTRY
        .iter()
        .map(|entry| (entry.describe)())
        .collect();
    json!({
        "schema": SCHEMA,
        "probe": Probe::this(),
        "workloads": workloads,
        "covariates": covariates::describe(),
        "causes": inject::describe(),
    })
}

fn print(value: &Value) -> Result<(), Failure> {
    writeln!(io::stdout(), "{value:#}").map_err(unwritten)
}

/// What is printed could not be written.
fn unwritten(error: io::Error) -> Failure {
    Failure::system("standard output", error)
}
