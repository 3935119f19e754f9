//! What dd and fio have in common: a name, arguments for a reading, and an account of it.

use std::path::PathBuf;

use oscope_sys::error::Failure;
use oscope_sys::worker::program::{Name, ProgramOutput};

/// A reading that a program is to do: from the file's start, block by block, once.
#[derive(Debug)]
pub struct Reading {
    /// Where the program can open the file; without blanks or colons.
    pub path: PathBuf,
    /// Bytes asked for by one call.
    pub block_size: u64,
    /// Bytes to be read.
    pub length: u64,
}

/// What a program says that it did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Account {
    /// Bytes read.
    pub bytes: u64,
    /// How long the reading took, in seconds.
    pub time_s: f64,
    /// How far that may be off, in seconds.
    pub error_s: f64,
}

/// A program that reads files and reports how long that took.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// How to find it.
    pub name: Name,
    /// Bytes that it can read of so many, with this block size.
    pub reach: fn(length: u64, block_size: u64) -> u64,
    /// Its arguments for a reading.
    pub arguments: fn(&Reading) -> Vec<String>,
    /// Its account, from what it said.
    pub account: fn(&ProgramOutput) -> Result<Account, Failure>,
    /// What there is to know of its account.
    pub remark: Option<&'static str>,
}
