//! `oscope-probe`, the measuring instrument.

use std::process::ExitCode;

fn main() -> ExitCode {
    oscope_probe::run(option_env!("OSCOPE_COMMIT"))
}
