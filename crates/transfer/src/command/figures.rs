//! Figures as people read them, and tables of them: the words of `oscope.model.formatting` and the form of
//! `oscope.report.terminal`.

use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd};

/// Columns of a terminal that does not say how many it has.
const USUAL: usize = 80;

/// Columns that a table takes where there are fewer.
const LEAST: usize = 40;

/// Stands where there is no figure.
pub const MISSING: &str = "–";
const GROUP: &str = "\u{202f}";
const TIMES: [(&str, f64); 4] = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const BYTES: [(&str, f64); 5] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// A whole number with its digits in groups of three.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Seconds, to four digits in one unit, which `humantime` does not write.
pub fn seconds(value: f64) -> String {
    with_unit(value, &TIMES, "")
}

/// Bytes a second, to four digits.
pub fn rate(value: f64) -> String {
    with_unit(value, &BYTES, "/s")
}

/// A number without a unit, to four digits.
pub fn plain(value: f64) -> String {
    text(value, places(value))
}

/// How much of how many bytes is done: `1.23 of 4.00 GiB`; nothing where nothing moves.
pub fn amount(done: u64, total: u64) -> String {
    if done == 0 || total == 0 {
        return String::new();
    }
    let (unit, factor) = prefix(total as f64, &BYTES);
    let places = decimals(total as f64 / 10.0 / factor, 2).max(0);
    let scaled = |bytes: u64| text(bytes as f64 / factor, places);
    format!("{} of {} {unit}", scaled(done.min(total)), scaled(total))
}

fn with_unit(value: f64, units: &[(&'static str, f64)], per: &str) -> String {
    let (unit, factor) = prefix(value, units);
    let scaled = value / factor;
    format!("{} {unit}{per}", text(scaled, places(scaled)))
}

/// None for a whole number, else those that make four digits.
fn places(value: f64) -> i32 {
    match value.fract() == 0.0 {
        true => 0,
        false => decimals(value, 4),
    }
}

/// The largest unit that the value is one of at least; of nothing the base unit.
fn prefix(value: f64, units: &[(&'static str, f64)]) -> (&'static str, f64) {
    let base = units.iter().find(|(_, factor)| *factor == 1.0);
    let suited = units
        .iter()
        .rfind(|(_, factor)| *factor <= value * (1.0 + 1e-12));
    *match value == 0.0 {
        true => base,
        false => suited,
    }
    .unwrap_or(&units[0])
}

/// The decimals that keep so many significant digits; below 0, digits before the point that are rounded away.
fn decimals(value: f64, significant: i32) -> i32 {
    if value <= 0.0 {
        return 0;
    }
    let written = format!("{value:.*e}", significant as usize - 1);
    let exponent: i32 = written
        .rsplit_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    (significant - 1 - exponent).min(9)
}

fn text(value: f64, places: i32) -> String {
    let step = 10_f64.powi(-places.min(0));
    let rounded = (value / step).round_ties_even() * step;
    match places {
        ..=0 => grouped(&format!("{rounded:.0}")),
        _ => grouped(&format!("{value:.*}", places as usize)),
    }
}

fn grouped(digits: &str) -> String {
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, _)) => digits.split_at(whole.len()),
        None => (digits, ""),
    };
    if whole.len() <= 4 {
        return digits.to_owned();
    }
    let mut found = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            found.push_str(GROUP);
        }
        found.push(digit);
    }
    found + fraction
}

/// A column of a table, the heading first.
pub struct Column(Vec<String>);

impl Column {
    /// Texts.
    pub fn of_texts(heading: &str, cells: impl IntoIterator<Item = String>) -> Self {
        Self([heading.to_owned()].into_iter().chain(cells).collect())
    }

    /// Figures, with their points under each other.
    pub fn of_figures(heading: &str, cells: impl IntoIterator<Item = String>) -> Self {
        let cells: Vec<String> = cells.into_iter().collect();
        let tail = |cell: &str| match cell.find('.') {
            Some(point) => cell[point..].chars().count(),
            None => 0,
        };
        let deepest = cells.iter().map(|cell| tail(cell)).max().unwrap_or(0);
        let padded: Vec<String> = cells
            .iter()
            .map(|cell| format!("{cell}{}", " ".repeat(deepest - tail(cell))))
            .collect();
        let mut column = Self::of_texts(heading, padded);
        let width = column.width();
        for cell in &mut column.0 {
            *cell = format!("{cell:>width$}");
        }
        column
    }

    fn width(&self) -> usize {
        let widths = self.0.iter().map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    }
}

/// Columns of characters that a table may take: those of the terminal, or of `COLUMNS`; any number where neither is.
pub fn room(out: &(impl AsFd + IsTerminal)) -> usize {
    let named = std::env::var("COLUMNS").ok();
    if let Some(columns) = named.and_then(|columns| columns.parse().ok()) {
        return LEAST.max(columns);
    }
    if !out.is_terminal() {
        return usize::MAX;
    }
    // SAFETY: all zeros are a value of it, a structure of numbers.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes such a structure, which lives here (ioctl_tty(2)).
    let answer = unsafe { libc::ioctl(out.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    match usize::from(size.ws_col) {
        columns @ 1.. if answer == 0 => LEAST.max(columns),
        _ => USUAL,
    }
}

/// A table: the headings, a line, the rows. On a terminal (`bold`) the headings are bold. Where there is no room for
/// all columns, the last ones are named below it instead.
pub fn table(columns: &[Column], bold: bool, room: usize) -> String {
    let width = |columns: &[Column]| columns.iter().map(|one| one.width() + 2).sum::<usize>();
    let fit = (1..=columns.len())
        .rfind(|&count| width(&columns[..count]) <= room.saturating_add(2))
        .unwrap_or(1);
    let (shown, hidden) = columns.split_at(fit.min(columns.len()));
    let text = whole_table(shown, bold);
    match hidden {
        [] => text,
        _ => {
            let headings: Vec<_> = hidden.iter().map(|column| column.0[0].trim()).collect();
            format!("{text}wider terminals also show: {}\n", headings.join(", "))
        }
    }
}

fn whole_table(columns: &[Column], bold: bool) -> String {
    let rows = columns.first().map_or(0, |column| column.0.len());
    let width: usize = columns.iter().map(Column::width).sum();
    let rule = "─".repeat(width + 2 * columns.len().saturating_sub(1));
    let mut lines: Vec<String> = (0..rows)
        .map(|row| {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| format!("{:<1$}", column.0[row], column.width()))
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    if let (true, Some(head)) = (bold, lines.first_mut()) {
        *head = format!("\x1b[1m{head}\x1b[0m");
    }
    lines.insert(1.min(lines.len()), rule);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_and_a_prefix() {
        // As `format_value` and `format_count` of `oscope.model.formatting` write them.
        for (value, written) in [
            (0.0, "0 s"),
            (1.5, "1.500 s"),
            (0.001_234_567, "1.235 ms"),
            (0.000_099_96, "99.96 µs"),
            (3e-9, "3 ns"),
            (12_345.6, "12\u{202f}350 s"),
        ] {
            assert_eq!(seconds(value), written);
        }
        for (value, written) in [
            (0.0, "0 B/s"),
            (2_147_483_648.0, "2 GiB/s"),
            (715_827_882.666, "682.7 MiB/s"),
            (1536.0, "1.500 KiB/s"),
        ] {
            assert_eq!(rate(value), written);
        }
        assert_eq!(plain(0.3), "0.3000");
        assert_eq!(plain(307.21), "307.2");
        assert_eq!(count(1234), "1234");
        assert_eq!(count(3_221_225_472), "3\u{202f}221\u{202f}225\u{202f}472");
    }

    #[test]
    fn the_amount_has_the_unit_of_the_total() {
        assert_eq!(amount(0, 10), "");
        assert_eq!(amount(1_320_702_444, 4 << 30), "1.23 of 4.00 GiB");
        assert_eq!(amount(600 << 20, 512 << 20), "512 of 512 MiB");
        assert_eq!(amount(1000 << 30, 1000 << 30), "1000 of 1000 GiB");
    }
}
