//! The command line of `oscope-fs`: its verbs, its errors, and the process of a mount.

mod arguments;
mod daemon;
mod held;
mod life;
mod mountinfo;
mod mounting;
mod mountpoint;
mod operations;
mod place;
mod process;
mod record;
mod recovery;
mod refreshing;
mod signals;
mod socket;
mod ssh;
mod status;
mod umount;
mod values;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::log;
use arguments::{Cli, Verb};
use oscope_sys::error::Failure;

/// Exit status of a request that is wrong.
const WRONG: u8 = 2;

/// Why a command was not carried out.
enum Ending {
    /// The request is wrong (exit status 2).
    Wrong(Failure),
    /// Something failed (exit status 1).
    Failed(Failure),
}

impl From<Failure> for Ending {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Carry out the command line of this process.
pub fn run() -> ExitCode {
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(error) => return explain(&error),
    };
    let done = match verb {
        Verb::Mount(arguments) => mounting::run(arguments),
        Verb::Umount(arguments) => umount::run(&arguments),
        Verb::Status(arguments) => status::run(&arguments),
        Verb::Refresh(arguments) => refreshing::run(&arguments),
        Verb::Recover(arguments) => recovery::run(&arguments),
        Verb::Operations(arguments) => operations::run(&arguments),
        Verb::Serve => return crate::serve::run(),
    };
    match done {
        Ok(code) => code,
        Err(Ending::Failed(failure)) => {
            log::note(&failure.explained());
            ExitCode::FAILURE
        }
        Err(Ending::Wrong(failure)) => {
            log::note(&failure.explained());
            ExitCode::from(WRONG)
        }
    }
}

/// A failure of the command itself.
fn failed(message: impl Into<String>, remedy: impl Into<String>) -> Failure {
    Failure::remediable(message, remedy)
}

/// Print data; a reader that left, or a full disk, is a failure.
fn print(data: impl Display) -> Result<ExitCode, Ending> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{data}").and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::FAILURE),
        Err(error) => Err(failed(
            format!("standard output: {error}"),
            "make room, or print elsewhere",
        )
        .into()),
    }
}

/// The help and the version as they are; what is wrong with a request in one line.
fn explain(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match print(error.render()) {
            Ok(code) => code,
            Err(_) => ExitCode::FAILURE,
        };
    }
    log::note(&format!(
        "{}; see {} --help",
        wrong(&error.render().to_string()),
        asked()
    ));
    ExitCode::from(WRONG)
}

/// What clap says before its usage: `error: `, what is wrong, and on further lines which or what else.
fn wrong(text: &str) -> String {
    let message = text.split("\n\nUsage:").next().unwrap_or_default();
    let message = message
        .split("\n\nFor more information")
        .next()
        .unwrap_or_default();
    // With no word at all, clap begins with the help.
    message.strip_prefix("error:").map_or_else(
        || "no verb is given".to_owned(),
        oscope_sys::error::one_line,
    )
}

/// The command with its verb, where that is one.
fn asked() -> String {
    let verb = std::env::args_os()
        .nth(1)
        .and_then(|word| word.into_string().ok());
    let known = <Cli as clap::CommandFactory>::command();
    match verb.filter(|verb| known.find_subcommand(verb).is_some()) {
        Some(verb) => format!("oscope-fs {verb}"),
        None => "oscope-fs".to_owned(),
    }
}
