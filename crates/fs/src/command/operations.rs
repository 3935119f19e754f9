//! `oscope-fs operations`: the table of what of FUSE is implemented, as the code has it.

use std::fmt::Write;
use std::process::ExitCode;

use super::arguments::Operations;
use super::{Ending, print};
use crate::mount::OPERATIONS;

/// Print the table.
pub fn run(arguments: &Operations) -> Result<ExitCode, Ending> {
    if arguments.json {
        let text = serde_json::to_string(OPERATIONS).unwrap_or_default();
        return print(format_args!("{text}\n"));
    }
    let width = OPERATIONS
        .iter()
        .map(|each| each.name.len())
        .max()
        .unwrap_or(0);
    let mut table = String::new();
    for each in OPERATIONS {
        let how = if each.implemented { "yes" } else { "no" };
        let _ = writeln!(table, "{:width$}  {how:3}  {}", each.name, each.what);
    }
    print(table)
}
