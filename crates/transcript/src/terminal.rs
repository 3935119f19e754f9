//! A terminal: the parser of the stream before the watched emulator.

use std::io::Write;

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::vte::ansi::Processor;

use super::text::Text;
use super::watched::Watched;
use oscope_sys::error::Failure;

/// Bytes without an end that a sequence may have. The parser keeps titles and the like until they end.
const ENDLESS: usize = 16 << 20;
/// Ends a sequence that has none (CAN), and is nothing elsewhere.
const CANCEL: u8 = 0x18;

/// Size of a terminal, in cells.
#[derive(Clone, Copy)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            columns: 80,
            rows: 24,
        }
    }
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }

    fn screen_lines(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

/// A terminal whose text is written.
pub struct Terminal<W> {
    parser: Processor,
    watched: Watched<W>,
    /// Bytes since something that ends a sequence.
    endless: usize,
}

impl<W: Write> Terminal<W> {
    pub fn new(size: Size, text: Text<W>) -> Self {
        Self {
            parser: Processor::new(),
            watched: Watched::new(size, text),
            endless: 0,
        }
    }

    /// Give the terminal these bytes; they may end anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.watched, bytes);
        match bytes.iter().rposition(|&byte| ends_sequence(byte)) {
            Some(last) => self.endless = bytes.len() - last,
            None => self.endless += bytes.len(),
        }
        // Not within a character.
        if self.endless > ENDLESS && bytes.last().is_some_and(u8::is_ascii) {
            self.parser.advance(&mut self.watched, &[CANCEL]);
            self.endless = 0;
        }
    }

    /// Change the window's size.
    pub fn resize(&mut self, size: Size) {
        self.parser.stop_sync(&mut self.watched);
        self.watched.resize(size);
    }

    /// Write what is shown, and begin anew with an empty terminal.
    pub fn renew(&mut self, size: Size) {
        self.parser.stop_sync(&mut self.watched);
        self.watched.renew(size);
        self.parser = Processor::new();
        self.endless = 0;
    }

    /// # Errors
    /// What the writer failed with, the first time.
    pub fn check(&self) -> Result<(), Failure> {
        self.watched.check()
    }

    /// Write what is shown.
    ///
    /// # Errors
    /// What the writer failed with.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.parser.stop_sync(&mut self.watched);
        self.watched.finish()
    }
}

fn ends_sequence(byte: u8) -> bool {
    matches!(byte, 0x07 | CANCEL | 0x1a | 0x1b)
}
