//! What a program says on standard error by itself, under its name.

use std::fmt::Display;
use std::sync::OnceLock;

static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Says what this process's program is called. To be called once, at its start.
pub fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// What this process's program is called.
#[must_use]
pub fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("oscope")
}

/// Prints what went wrong where no caller takes an error: one line on standard error, led by the program's name.
pub fn warn(text: impl Display) {
    eprintln!("{}: {text}", program());
}
