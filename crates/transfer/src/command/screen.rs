//! What a person sees of a transfer: lines and a bar on standard error while it goes on, a table on standard output at
//! its end.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use nix::errno::Errno;
use serde_json::{Value, json};

use super::bar::Bar;
use super::figures::{Column, MISSING, count, plain, rate, room, seconds, table};
use crate::key::VARIABLE;
use crate::observer::{Event, Observer};
use crate::outcome::{LeftOut, Progress, Tally};
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};

/// Standard output and standard error. What they do not take is lost, and the work goes on: the first failure of
/// standard output is kept for the end. The standard library's own streams hide that one is closed.
pub struct Streams {
    out: Option<File>,
    err: Option<File>,
    failure: RefCell<Option<io::Error>>,
}

impl Streams {
    pub fn new() -> Self {
        let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().map(File::from).ok();
        Self {
            out: own(&io::stdout()),
            err: own(&io::stderr()),
            failure: RefCell::new(None),
        }
    }

    /// Print data.
    pub fn print(&self, text: &str) {
        let mut failure = self.failure.borrow_mut();
        if let (Some(mut out), None) = (self.out.as_ref(), failure.as_ref()) {
            *failure = out.write_all(text.as_bytes()).err();
        }
    }

    /// Print a line for a person.
    pub fn tell(&self, text: &str) {
        self.show(&line(text));
    }

    /// The exit status. A full disk is reported, a reader that left is not.
    pub fn end(self, code: u8) -> ExitCode {
        let Some(failure) = self.failure.take() else {
            return ExitCode::from(code);
        };
        let why = match failure.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EPIPE) => return ExitCode::FAILURE,
            Some(Errno::EBADF) => "it is closed".to_owned(),
            _ => errno_message(&failure),
        };
        self.tell(&format!(
            "standard output cannot be written ({why}), and what was printed is lost: send it elsewhere, and try again"
        ));
        ExitCode::FAILURE
    }

    /// Print on standard error as it is.
    fn show(&self, text: &str) {
        if let Some(mut err) = self.err.as_ref() {
            // Nobody is left to hear of it.
            let _ = err.write_all(text.as_bytes());
        }
    }
}

/// Which side this is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Sender,
    Receiver,
}

impl Side {
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Sender => ["sender", "receiver"],
            Self::Receiver => ["receiver", "sender"],
        }
    }
}

/// Shows one transfer after the other.
pub struct Screen {
    pub streams: Streams,
    side: Side,
    /// Whether figures are printed; else only standard error is written.
    tables: bool,
    /// Columns of characters that a table may take.
    room: usize,
    bar: RefCell<Bar>,
    pages: RefCell<Vec<Vec<(&'static str, Value)>>>,
    /// What this transfer leaves out.
    left_out: RefCell<Vec<LeftOut>>,
    /// The figures of the last transfer.
    report: RefCell<Value>,
    /// Why a transfer failed after this side was asked to stop.
    interrupted: RefCell<Option<Failure>>,
}

impl Screen {
    pub fn new(streams: Streams, side: Side, tables: bool) -> Self {
        let doing = match side {
            Side::Sender => "sending",
            Side::Receiver => "receiving",
        };
        let variable = |name| std::env::var_os(name).unwrap_or_default();
        let is_wanted =
            io::stderr().is_terminal() && variable("CI").is_empty() && variable("TERM") != "dumb";
        Self {
            streams,
            side,
            tables,
            room: room(&io::stdout()),
            bar: RefCell::new(Bar::new(doing, is_wanted)),
            pages: RefCell::default(),
            left_out: RefCell::default(),
            report: RefCell::default(),
            interrupted: RefCell::default(),
        }
    }

    /// The figures of both sides, as a JSON object.
    pub fn report(&self) -> Value {
        self.report.borrow().clone()
    }

    /// The exit status of the command, whose error is printed.
    pub fn end(self, result: Result<bool, Failure>) -> ExitCode {
        self.streams.show(self.bar.borrow_mut().end());
        let result = match (result, self.interrupted.take()) {
            (Ok(_), Some(failure)) => Err(failure),
            (result, _) => result,
        };
        let code = match result {
            Ok(complete) => u8::from(!complete),
            Err(error) => {
                self.streams.tell(&explained(&error));
                if error.is_request() { 2 } else { 1 }
            }
        };
        self.streams.end(code)
    }

    fn say(&self, text: &str) {
        let shown = self.bar.borrow().around(&line(text));
        self.streams.show(&shown);
    }

    fn print_figures(&self, here: &Tally, there: Option<&Tally>, digest: Option<&str>) {
        let bold = io::stdout().is_terminal();
        let sides: Vec<_> = self
            .side
            .names()
            .into_iter()
            .zip([Some(here), there].into_iter().flatten())
            .collect();
        let mut text = table(&figures(&sides), bold, self.room);
        text += &unmoved(here);
        if let Some(digest) = digest {
            text += &format!("{} {digest}\n", kind_of(digest).unwrap_or_default());
        }
        let pages = self.pages.borrow();
        if let Some(first) = pages.first() {
            let columns: Vec<_> = first
                .iter()
                .enumerate()
                .map(|(place, (name, _))| {
                    Column::of_figures(name, pages.iter().map(|page| cell(&page[place].1)))
                })
                .collect();
            text += &table(&columns, bold, self.room);
        }
        self.streams.print(&text);
    }
}

impl Observer for Screen {
    fn hear(&self, event: Event) {
        match event {
            Event::Listening(address) => self.say(&format!("listening on {address}")),
            Event::Key(key, address) => {
                self.say("who has this key may send; on the other host:");
                self.streams.show(&format!(
                    "{VARIABLE}={key} oscope transfer send FILE... {address}\n"
                ));
            }
            Event::Peer(address) => {
                self.bar.borrow_mut().begin();
                if self.side == Side::Receiver {
                    self.say(&format!("{address} sends"));
                }
            }
            Event::Progress(Progress::Note(text)) => self.say(text),
            Event::Progress(Progress::Left(left)) => {
                self.say(&format!("{}: left out: {}", left.name, left.reason));
                self.left_out.borrow_mut().push(left.clone());
            }
            Event::Progress(progress) => {
                let drawn = self.bar.borrow_mut().draw(progress);
                self.streams.show(&drawn);
            }
            Event::Page(fields) => self.pages.borrow_mut().push(fields.to_vec()),
            Event::File(_) => {}
            Event::Done {
                here,
                there,
                digest,
            } => {
                self.streams.show(self.bar.borrow_mut().end());
                if self.tables {
                    self.print_figures(here, there, digest);
                }
                self.pages.borrow_mut().clear();
                let [own, other] = self.side.names();
                *self.report.borrow_mut() = json!({
                    own: to_json(here), other: there.map(to_json),
                    "digest_kind": digest.and_then(kind_of), "digest": digest,
                    "left_out": self.left_out.take(),
                });
            }
            Event::Failed(error) => {
                self.streams.show(self.bar.borrow_mut().end());
                self.pages.borrow_mut().clear();
                self.left_out.borrow_mut().clear();
                match cancel::requested() {
                    true => *self.interrupted.borrow_mut() = Some(error.clone()),
                    false => self.say(&explained(error)),
                }
            }
        }
    }
}

/// A line on the bytes that were not moved; nothing where all were.
fn unmoved(tally: &Tally) -> String {
    let before = tally
        .total_bytes
        .saturating_sub(tally.bytes.saturating_add(tally.holes));
    let mut parts = Vec::new();
    if tally.holes > 0 {
        parts.push(format!(
            "{} are holes, which are not moved",
            count(tally.holes)
        ));
    }
    if tally.skipped > 0 || before > 0 {
        parts.push(format!(
            "{} were there from before, {} whole files among them",
            count(before),
            count(tally.skipped)
        ));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(
            "{} bytes in all: {}\n",
            count(tally.total_bytes),
            parts.join("; ")
        ),
    }
}

/// An error as a person reads it: what and where, then the remedy.
pub fn explained(error: &Failure) -> String {
    match error.remedy() {
        Some(remedy) => format!("{error}: {remedy}"),
        None => error.to_string(),
    }
}

/// A line on standard error, all white space in it single spaces.
fn line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    format!("oscope: {}\n", words.join(" "))
}

fn figures(sides: &[(&str, &Tally)]) -> Vec<Column> {
    const GIB: f64 = 1_073_741_824.0;
    let texts = |heading, cell: &dyn Fn(&str, &Tally) -> String| {
        Column::of_texts(heading, sides.iter().map(|(side, tally)| cell(side, tally)))
    };
    let numbers = |heading, cell: &dyn Fn(&Tally) -> String| {
        Column::of_figures(heading, sides.iter().map(|(_, tally)| cell(tally)))
    };
    let time = |tally: &Tally| tally.time_ns as f64 / 1e9;
    // Where nothing was moved there is no rate.
    let moved = |tally: &Tally, value: String| match tally.bytes {
        0 => MISSING.to_owned(),
        _ => value,
    };
    let mut columns = vec![
        texts("side", &|side, _| side.to_owned()),
        texts("method", &|_, tally| tally.method.clone()),
        numbers("files", &|tally| count(tally.files)),
    ];
    // Where there are any: most often there are files alone.
    if sides.iter().any(|(_, tally)| tally.links > 0) {
        columns.push(numbers("links", &|tally| count(tally.links)));
    }
    if sides.iter().any(|(_, tally)| tally.folders > 0) {
        columns.push(numbers("folders", &|tally| count(tally.folders)));
    }
    columns.extend([
        numbers("bytes", &|tally| count(tally.bytes)),
        numbers("time", &|tally| seconds(time(tally))),
        numbers("throughput", &|tally| {
            moved(tally, rate(tally.bytes as f64 / time(tally).max(1e-9)))
        }),
        numbers("CPU s/GiB", &|tally| {
            let cpu_s = tally.cpu_ns as f64 / 1e9;
            moved(tally, plain(cpu_s / (tally.bytes as f64 / GIB)))
        }),
        numbers("calls", &|tally| count(tally.calls)),
        numbers("switches", &|tally| {
            count(tally.voluntary.saturating_add(tally.involuntary))
        }),
    ]);
    columns
}

/// The kind of a digest, by its length.
fn kind_of(digest: &str) -> Option<&'static str> {
    match digest.len() {
        32 => Some("xxh3"),
        64 => Some("blake3"),
        128 => Some("sha512"),
        _ => None,
    }
}

fn to_json(tally: &Tally) -> Value {
    let mut found = json!(tally);
    // The laboratory's alone.
    found.as_object_mut().map(|fields| fields.remove("chosen"));
    found
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => MISSING.to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
