//! `oscope-fs`, the networked file system: in this package because a wheel has the programs of one, and one
//! installation gives both.

use std::process::ExitCode;

fn main() -> ExitCode {
    oscope_fs::run()
}
