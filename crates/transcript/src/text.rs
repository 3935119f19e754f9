//! The text of a terminal: rows become lines, soft wraps are joined, blank ends are left out.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;

use alacritty_terminal::grid::Row;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags};

use super::Marks;
use oscope_sys::error::Failure;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;
/// Last screens that wait for their place at most. With more, the first comes before lines that are still on the
/// screen.
const WAITING: usize = 64;
const BEFORE: &str = "[full-screen program: its last screen]\n";
const AFTER: &str = "[end]\n";

/// Where a row leaves the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At its top, or at the end of all.
    Top,
    /// Below rows that stay.
    Within,
}

/// Writes lines. What is blank is only counted until something follows it, so that the end of a line, and of all, has
/// none of it.
pub struct Text<W> {
    out: W,
    marks: Marks,
    buffer: String,
    failed: Option<io::Error>,
    /// Lines that have ended.
    lines: u64,
    /// Whether the line under way has no row yet.
    fresh: bool,
    /// Where the last row left the screen.
    place: Place,
    /// Whether the line under way shows something.
    shown: bool,
    blank_cells: u64,
    blank_lines: u64,
    screens: VecDeque<LastScreen>,
}

/// What a full-screen program showed last.
struct LastScreen {
    /// The number of the line that it comes before.
    before: u64,
    rows: Vec<String>,
}

impl<W: Write> Text<W> {
    pub fn new(out: W, marks: Marks) -> Self {
        Self {
            out,
            marks,
            buffer: String::new(),
            failed: None,
            lines: 0,
            fresh: true,
            place: Place::Top,
            shown: false,
            blank_cells: 0,
            blank_lines: 0,
            screens: VecDeque::new(),
        }
    }

    /// How many lines have ended.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Add a row of the terminal to the line under way. Rows that leave at different places are of different lines.
    pub fn add(&mut self, row: &Row<Cell>, place: Place) {
        if mem::replace(&mut self.place, place) != place {
            self.break_line();
        }
        if self.fresh {
            self.place_screens(self.lines);
            self.fresh = false;
        }
        let last = row.len() - 1;
        for (character, combining) in shown(row) {
            self.add_character(character, combining);
        }
        if !row[Column(last)].flags.contains(Flags::WRAPLINE) {
            self.end_line();
        }
    }

    /// Keep the last screen of a full-screen program until the line `before` comes. One that shows nothing is left out.
    pub fn add_screen(&mut self, before: u64, mut rows: Vec<String>) {
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        if rows.is_empty() {
            return;
        }
        self.screens.push_back(LastScreen { before, rows });
        if self.screens.len() > WAITING {
            // The line under way goes on below.
            if mem::take(&mut self.shown) {
                self.buffer.push('\n');
            }
            let first = self.screens[0].before;
            self.place_screens(first);
        }
    }

    /// End the line under way, if there is one.
    pub fn break_line(&mut self) {
        if !self.fresh {
            self.end_line();
        }
    }

    /// End the line under way, and write the screens that wait.
    pub fn end_terminal(&mut self) {
        self.break_line();
        self.place_screens(u64::MAX);
        self.blank_lines = 0;
    }

    /// Write out what is left.
    ///
    /// # Errors
    /// It, or something before, could not be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.write_out();
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
        self.check()
    }

    /// # Errors
    /// Something could not be written.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.failed {
            Some(error) => {
                Err(Failure::failed(format!("standard output: {error}")).because_of(error))
            }
            None => Ok(()),
        }
    }

    fn add_character(&mut self, character: char, combining: &[char]) {
        if character == ' ' && combining.is_empty() {
            self.blank_cells += 1;
            return;
        }
        self.write_blanks();
        self.buffer.push(character);
        self.buffer.extend(combining);
        self.shown = true;
    }

    fn end_line(&mut self) {
        if self.shown {
            self.buffer.push('\n');
        } else {
            self.blank_lines += 1;
        }
        self.shown = false;
        self.fresh = true;
        self.blank_cells = 0;
        self.lines += 1;
        if self.buffer.len() >= CHUNK {
            self.write_out();
        }
    }

    fn write_blanks(&mut self) {
        for (count, character) in [
            (mem::take(&mut self.blank_lines), '\n'),
            (mem::take(&mut self.blank_cells), ' '),
        ] {
            for _ in 0..count {
                self.buffer.push(character);
                if self.buffer.len() >= CHUNK {
                    self.write_out();
                }
            }
        }
        if self.buffer.len() >= CHUNK {
            self.write_out();
        }
    }

    /// Write the screens that come before line `line`, or before one that is already written.
    fn place_screens(&mut self, line: u64) {
        while self
            .screens
            .front()
            .is_some_and(|screen| screen.before <= line)
        {
            let Some(screen) = self.screens.pop_front() else {
                return;
            };
            self.write_blanks();
            let framed = self.marks == Marks::Lines;
            if framed {
                self.buffer.push_str(BEFORE);
            }
            for row in screen.rows {
                self.buffer.push_str(&row);
                self.buffer.push('\n');
            }
            if framed {
                self.buffer.push_str(AFTER);
            }
        }
    }

    fn write_out(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(self.buffer.as_bytes()).err();
        }
        self.buffer.clear();
    }
}

/// The text of one row as it is on the screen, without its blank end.
pub fn plain(row: &Row<Cell>) -> String {
    let mut text = String::new();
    for (character, combining) in shown(row) {
        text.push(character);
        text.extend(combining);
    }
    text.truncate(text.trim_end_matches(' ').len());
    text
}

/// Whether a row shows nothing.
pub fn is_blank(row: &Row<Cell>) -> bool {
    shown(row).all(|(character, combining)| character == ' ' && combining.is_empty())
}

/// The characters that a row shows, each with those that combine with it. A wide one has a second cell, and is blank
/// once one of the two was written over. A tab is blank.
fn shown(row: &Row<Cell>) -> impl Iterator<Item = (char, &[char])> {
    let cells = &row[..];
    let has = |place: usize, flag| {
        cells
            .get(place)
            .is_some_and(|cell| cell.flags.contains(flag))
    };
    cells.iter().enumerate().filter_map(move |(place, cell)| {
        let combining = cell.zerowidth().unwrap_or_default();
        if cell.flags.contains(Flags::WIDE_CHAR) {
            let whole = has(place + 1, Flags::WIDE_CHAR_SPACER);
            return Some(if whole {
                (cell.c, combining)
            } else {
                (' ', &[][..])
            });
        }
        let second = cell.flags.contains(Flags::WIDE_CHAR_SPACER)
            && place > 0
            && has(place - 1, Flags::WIDE_CHAR);
        // Where a wide one did not fit into the last column, and is in the next row.
        let left_free =
            cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) && place + 1 == cells.len();
        if second || left_free {
            return None;
        }
        Some((if cell.c == '\t' { ' ' } else { cell.c }, combining))
    })
}
