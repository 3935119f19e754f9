//! The devices of a link, and the programs that configure them.

use std::time::{Duration, Instant};

use crate::error::Failure;
use crate::worker::program::Program;

/// What both devices are called, each in its own namespace.
pub const DEVICE: &str = "oscope0";
/// Longest time that one command may take, or a device to come up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Run a program to its end and give what it said on standard output.
///
/// # Errors
/// `Failure::Failed` with its last words.
pub fn run<'a>(
    program: &Program,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<String, Failure> {
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let mut run = program.run(&arguments)?;
    let ended = run.finish(Instant::now() + PATIENCE)?;
    Ok(run.checked_output(ended)?.output)
}
