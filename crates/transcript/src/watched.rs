//! A terminal emulator, watched so that nothing that a person saw is lost when it scrolls away or is cleared.

use std::io::Write;
use std::mem;
use std::ops::Range;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, ClearMode, Handler, LineClearMode, Mode, NamedPrivateMode, PrivateMode,
    StandardCharset, TabulationClearMode,
};

use super::terminal::Size;
use super::text::{Place, Text, is_blank, plain};
use oscope_sys::error::Failure;

/// Rows above the screen that are kept before they are written.
const KEPT: usize = 1000;
/// Rows that one operation may move above the screen: narrowing the largest window to the narrowest moves half as many.
const HISTORY: usize = 1 << 20;
/// Combining characters that a cell takes; the rest of a longer row of them is left out.
const COMBINING: u32 = 64;
/// Older names for the screen of full-screen programs, which the emulator does not know: xterm's 47 and 1047.
const ALTERNATE: [u16; 2] = [47, 1047];
/// Saves and restores the cursor (xterm).
const CURSOR: u16 = 1048;

/// Stands between the parser and the emulator.
pub struct Watched<W> {
    term: Term<VoidListener>,
    text: Text<W>,
    /// Combining characters in a row.
    combining: u32,
    /// The rows that scroll.
    margins: Range<usize>,
    /// The line at which the full-screen program under way began.
    entered_at: u64,
    /// What that program showed before it last cleared its screen: many do as they end.
    cleared: Vec<String>,
}

impl<W: Write> Watched<W> {
    pub fn new(size: Size, text: Text<W>) -> Self {
        Self {
            term: emulator(size),
            text,
            combining: 0,
            margins: 0..size.rows,
            entered_at: 0,
            cleared: Vec::new(),
        }
    }

    /// Change the window's size.
    pub fn resize(&mut self, size: Size) {
        self.write_history();
        let before = (self.term.columns(), self.term.screen_lines());
        self.term.resize(size);
        if before != (size.columns, size.rows) {
            self.margins = 0..size.rows;
        }
        self.write_long_history();
    }

    /// Write what is shown, and begin anew with an empty screen.
    pub fn renew(&mut self, size: Size) {
        self.end();
        self.term = emulator(size);
        self.margins = 0..size.rows;
    }

    /// # Errors
    /// What the writer failed with, the first time.
    pub fn check(&self) -> Result<(), Failure> {
        self.text.check()
    }

    /// Write what is shown.
    ///
    /// # Errors
    /// What the writer failed with.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.end();
        self.text.flush()
    }

    fn is_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Write what is above the screen, once it is much.
    fn write_long_history(&mut self) {
        if self.term.grid().history_size() >= KEPT {
            self.write_history();
        }
    }

    /// Write what is above the screen. That of a full-screen program has nothing above it.
    fn write_history(&mut self) {
        let grid = self.term.grid();
        for row in above(grid)..0 {
            self.text.add(&grid[Line(row)], Place::Top);
        }
        self.term.grid_mut().clear_history();
    }

    /// Whether the emulator forgets what scrolls: a row that is not the screen's first does not go above it.
    fn forgets(&self) -> bool {
        self.margins.start > 0 && !self.margins.is_empty() && !self.is_alternate()
    }

    fn is_at_last_scrolling_row(&self) -> bool {
        self.term.grid().cursor.point.line + 1 == self.margins.end as i32
    }

    /// Write the first `count` of the rows that scroll, which are about to, if the emulator forgets them.
    fn write_forgotten(&mut self, count: usize) {
        if self.forgets() {
            self.write_history();
            for row in self.margins.clone().take(count) {
                self.text
                    .add(&self.term.grid()[Line(row as i32)], Place::Within);
            }
        }
    }

    /// Show a character; at the end of the last row it scrolls.
    fn show(&mut self, character: char) {
        if !(self.forgets() && self.is_at_last_scrolling_row()) {
            self.term.input(character);
            return;
        }
        let first = self.term.grid()[Line(self.margins.start as i32)].clone();
        let before = &self.term.grid().cursor;
        let (column, at_end) = (before.point.column, before.input_needs_wrap);
        self.term.input(character);
        let after = &self.term.grid().cursor;
        if after.point.column < column || (at_end && !after.input_needs_wrap) {
            self.write_history();
            self.text.add(&first, Place::Within);
        }
    }

    fn enter_alternate(&mut self) {
        if self.is_alternate() {
            return;
        }
        let grid = self.term.grid();
        let ends = (above(grid)..grid.cursor.point.line.0).filter(|&row| !is_wrapped(grid, row));
        self.entered_at = self.text.lines() + ends.count() as u64;
        self.cleared.clear();
        self.term.swap_alt();
    }

    /// Go back to the ordinary screen, and keep what the program showed last.
    fn leave_alternate(&mut self) {
        if !self.is_alternate() {
            return;
        }
        self.keep_alternate();
        let rows = mem::take(&mut self.cleared);
        self.text.add_screen(self.entered_at, rows);
        self.term.swap_alt();
        self.write_long_history();
    }

    /// Keep what the full-screen program shows, unless that is nothing.
    fn keep_alternate(&mut self) {
        let grid = self.term.grid();
        let rows: Vec<String> = (0..grid.screen_lines() as i32)
            .map(|row| plain(&grid[Line(row)]))
            .collect();
        if rows.iter().any(|row| !row.is_empty()) {
            self.cleared = rows;
        }
    }

    fn is_blank(&self) -> bool {
        let grid = self.term.grid();
        (0..grid.screen_lines() as i32).all(|row| is_blank(&grid[Line(row)]))
    }

    /// Prepare for the mode of 132 columns, which clears the screen and forgets the margins (DECCOLM).
    fn change_columns(&mut self) {
        self.clear_screen(ClearMode::All);
        self.margins = 0..self.term.screen_lines();
    }

    /// Write all that there is, as if nothing more came.
    fn end(&mut self) {
        self.leave_alternate();
        self.write_history();
        let grid = self.term.grid();
        for row in 0..grid.screen_lines() as i32 {
            self.text.add(&grid[Line(row)], Place::Top);
        }
        self.text.end_terminal();
    }
}

fn emulator(size: Size) -> Term<VoidListener> {
    let config = Config {
        scrolling_history: HISTORY,
        ..Config::default()
    };
    Term::new(config, &size, VoidListener)
}

/// The number of the first row: 0 is the top of the screen.
fn above(grid: &Grid<Cell>) -> i32 {
    grid.topmost_line().0
}

fn is_wrapped(grid: &Grid<Cell>, row: i32) -> bool {
    let row = &grid[Line(row)];
    row[Column(row.len() - 1)].flags.contains(Flags::WRAPLINE)
}

/// Operations that the emulator carries out and nobody watches.
macro_rules! pass_on {
    ($($operation:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $operation(&mut self, $($argument: $kind),*) {
            self.term.$operation($($argument),*);
        })*
    };
}

/// Operations after which rows may be above the screen.
macro_rules! pass_on_scrolling {
    ($($operation:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $operation(&mut self, $($argument: $kind),*) {
            self.term.$operation($($argument),*);
            self.write_long_history();
        })*
    };
}

/// What is left out changes no text: colours, titles, the cursor's form, questions to the terminal, the clipboard.
impl<W: Write> Handler for Watched<W> {
    pass_on! {
        goto(line: i32, column: usize);
        goto_line(line: i32);
        goto_col(column: usize);
        insert_blank(count: usize);
        move_up(count: usize);
        move_down(count: usize);
        move_forward(count: usize);
        move_backward(count: usize);
        move_down_and_cr(count: usize);
        move_up_and_cr(count: usize);
        put_tab(count: u16);
        backspace();
        carriage_return();
        substitute();
        set_horizontal_tabstop();
        scroll_down(count: usize);
        insert_blank_lines(count: usize);
        erase_chars(count: usize);
        delete_chars(count: usize);
        move_backward_tabs(count: u16);
        move_forward_tabs(count: u16);
        save_cursor_position();
        restore_cursor_position();
        clear_line(mode: LineClearMode);
        clear_tabs(mode: TabulationClearMode);
        set_tabs(interval: u16);
        reverse_index();
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        set_active_charset(index: CharsetIndex);
        configure_charset(index: CharsetIndex, charset: StandardCharset);
        decaln();
    }

    pass_on_scrolling! {
        delete_lines(count: usize);
    }

    fn linefeed(&mut self) {
        if self.is_at_last_scrolling_row() {
            self.write_forgotten(1);
        }
        self.term.linefeed();
        self.write_long_history();
    }

    fn newline(&mut self) {
        if self.is_at_last_scrolling_row() {
            self.write_forgotten(1);
        }
        self.term.newline();
        self.write_long_history();
    }

    fn scroll_up(&mut self, count: usize) {
        self.write_forgotten(count);
        self.term.scroll_up(count);
        self.write_long_history();
    }

    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        let rows = self.term.screen_lines();
        let end = bottom.unwrap_or(rows);
        // The emulator ignores others.
        if top < end {
            self.margins = (top - 1).min(rows)..end.min(rows);
        }
        self.term.set_scrolling_region(top, bottom);
    }

    fn input(&mut self, character: char) {
        if character >= '\u{300}' {
            let before = self.term.grid().cursor.point;
            if self.combining < COMBINING {
                self.show(character);
            }
            let moved = self.term.grid().cursor.point != before;
            self.combining = if moved { 0 } else { self.combining + 1 };
        } else {
            self.combining = 0;
            self.show(character);
        }
        self.write_long_history();
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        let cursor = self.term.grid().cursor.point;
        let from_home = cursor.line == 0 && cursor.column == 0;
        match mode {
            ClearMode::All if self.is_alternate() => self.keep_alternate(),
            ClearMode::Below if from_home && self.is_alternate() => self.keep_alternate(),
            // What some terminals' `clear` sends: all of the screen goes, and a person saw it.
            ClearMode::Below if from_home => return self.clear_screen(ClearMode::All),
            // The emulator would move a blank row above the screen.
            ClearMode::All if self.is_blank() => return,
            // Forgetting what is above the screen does not make it unseen.
            ClearMode::Saved => return self.write_history(),
            ClearMode::All | ClearMode::Below | ClearMode::Above => (),
        }
        let all = matches!(mode, ClearMode::All);
        self.term.clear_screen(mode);
        if all {
            // On the ordinary screen the rows are above it now. What comes next is another line, though the last row
            // was wrapped.
            self.write_history();
            self.text.break_line();
        }
    }

    fn reset_state(&mut self) {
        self.end();
        self.term.reset_state();
        self.margins = 0..self.term.screen_lines();
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor) => {
                self.enter_alternate();
            }
            PrivateMode::Unknown(number) if ALTERNATE.contains(&number) => self.enter_alternate(),
            PrivateMode::Unknown(CURSOR) => self.term.save_cursor_position(),
            PrivateMode::Named(NamedPrivateMode::ColumnMode) => {
                self.change_columns();
                self.term.set_private_mode(mode);
            }
            _ => self.term.set_private_mode(mode),
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor) => {
                self.leave_alternate();
            }
            PrivateMode::Unknown(number) if ALTERNATE.contains(&number) => self.leave_alternate(),
            PrivateMode::Unknown(CURSOR) => self.term.restore_cursor_position(),
            PrivateMode::Named(NamedPrivateMode::ColumnMode) => {
                self.change_columns();
                self.term.unset_private_mode(mode);
            }
            _ => self.term.unset_private_mode(mode),
        }
    }
}
