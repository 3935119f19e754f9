//! What a person saw of a terminal: the verb `screen` has a terminal emulator interpret a stream, and writes the text.
//!
//! Standard input is a sequence of frames: a kind (one byte), the length of the rest (four bytes, little-endian), and
//! the rest.
//!
//! | kind | rest |
//! |---|---|
//! | `n` | columns, rows (two bytes each, little-endian): a new terminal; what the one before shows is written first |
//! | `o` | what the terminal got, at most [`LONGEST`] bytes; may end in the middle of a character or sequence |
//! | `r` | columns, rows: the window changes its size |
//!
//! The emulator is that of Alacritty. Memory is bounded: lines are written as they leave the top of the screen.

mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod watched;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nix::sys::signal::{SigHandler, Signal};

use oscope_sys::cancel;
use oscope_sys::error::Failure;
use terminal::{Size, Terminal};
use text::Text;

/// Bytes of a frame at most.
const LONGEST: usize = 1 << 20;
/// Columns and rows at most: with more, a damaged header would take all memory.
const LARGEST: u16 = 500;
/// The emulator knows no terminal of one column.
const NARROWEST: u16 = 2;

/// The options of `oscope-probe screen`.
#[derive(Args)]
pub struct Arguments {
    /// Whether a full-screen program's last screen stands between two lines that say what it is.
    #[arg(long, value_enum, default_value_t = Marks::Lines)]
    marks: Marks,
}

/// What frames the last screen of a full-screen program.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Marks {
    /// A line before it and a line after it.
    Lines,
    /// Nothing.
    None,
}

/// Interpret the frames on standard input and write the text to standard output.
pub fn run(arguments: &Arguments) -> ExitCode {
    let text = Text::new(io::stdout(), arguments.marks);
    // A reader that leaves ends this process, as it does any filter.
    let done = cancel::handle(Signal::SIGPIPE, SigHandler::SigDfl)
        .and_then(|()| interpret(&mut io::stdin().lock(), text));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oscope-probe: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Interpret all frames of `input`, and write out the last terminal's screen once they end.
fn interpret<W: Write>(input: &mut impl Read, text: Text<W>) -> Result<(), Failure> {
    let mut terminal = Terminal::new(Size::default(), text);
    let mut rest = Vec::new();
    while let Some(kind) = next_frame(input, &mut rest)? {
        match kind {
            b'n' => terminal.renew(size(&rest)?),
            b'o' => terminal.feed(&rest),
            b'r' => terminal.resize(size(&rest)?),
            _ => {
                return Err(Failure::failed(format!(
                    "standard input: no frame is of kind {kind}"
                )));
            }
        }
        terminal.check()?;
    }
    terminal.finish()
}

/// Read a frame's rest into `rest` and return its kind; `None` where the frames end.
fn next_frame(input: &mut impl Read, rest: &mut Vec<u8>) -> Result<Option<u8>, Failure> {
    let unread =
        |error: io::Error| Failure::failed(format!("standard input: {error}")).because_of(error);
    let mut kind = [0];
    if input.read(&mut kind).map_err(unread)? == 0 {
        return Ok(None);
    }
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(unread)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(Failure::failed(format!(
            "standard input: a frame of {length} bytes is longer than {LONGEST}"
        )));
    }
    rest.resize(length, 0);
    input.read_exact(rest).map_err(unread)?;
    Ok(Some(kind[0]))
}

/// The size in a frame.
fn size(rest: &[u8]) -> Result<Size, Failure> {
    let &[c0, c1, r0, r1] = rest else {
        return Err(Failure::failed(format!(
            "standard input: a size has 4 bytes, not {}",
            rest.len()
        )));
    };
    let (columns, rows) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([r0, r1]));
    if !(1..=LARGEST).contains(&columns) || !(1..=LARGEST).contains(&rows) {
        return Err(Failure::failed(format!(
            "standard input: {columns} columns and {rows} rows are not within 1 and {LARGEST}"
        )));
    }
    Ok(Size {
        columns: columns.max(NARROWEST).into(),
        rows: rows.into(),
    })
}
