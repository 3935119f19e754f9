//! `oscope-fs`: whole files over SFTP, cached and served locally, copied back on close.
//!
//! `remote` speaks SFTP, `serve` answers it, `store` keeps the cache folder, `mount` is the file system over both,
//! `command` is the command line. Standard output is data, standard error is for people. Exit status: 0 done, 1 failed,
//! 2 the request is wrong.

mod blocks;
mod command;
mod digest;
mod hex;
mod log;
mod mount;
mod remote;
mod serve;
mod store;
#[cfg(test)]
mod testing;

use std::process::ExitCode;

/// Carry out the command line of this process: what the program `oscope-fs` is.
pub fn run() -> ExitCode {
    command::run()
}
