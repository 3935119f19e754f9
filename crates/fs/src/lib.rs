//! `oscope-fs`: whole files over SFTP, cached and served locally, copied back on close.
//!
//! `remote` speaks SFTP, `serve` answers it, `store` keeps the cache folder, `mount` is the file system over both,
//! `command` is the command line. Standard output is data, standard error is for people. Exit status: 0 done, 1 failed,
//! 2 the request is wrong.
//!
//! Threads are std's and not `oscope_sys::worker`'s, whose workers do a job at a given moment and end: here each serves
//! for as long as the process lives (signals, the status socket), its connection (`remote::link`, and the answers and
//! last words of its ssh), or its mount (`mount::workers`, `mount::maintenance`). Two are left to end by themselves,
//! since what they wait for cannot be broken off: who uses a mount (`command::mountinfo`), and the kernel's names
//! (`mount::unresolved_rename`). `command::daemon` forks because the mount's process outlives the one that started it.
//! ssh is no `worker::program` either: it needs the user's environment, and pipes or a process group of its own.

mod blocks;
mod command;
mod digest;
mod errno;
mod hex;
mod lease;
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
    oscope_sys::diagnostics::set_program("oscope-fs");
    command::run()
}
