//! The options of a transfer: by which system calls, with which digest, and how long it may wait.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use oscope_sys::error::Failure;

/// By which system calls the sender moves a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum SendMethod {
    /// `readwrite` for small files, `sendfile` for larger ones, and for very large ones that or `splice`, as tried
    /// here.
    Auto,
    /// `pread` and `send`.
    ReadWrite,
    /// `send` from a mapping of the file.
    Mmap,
    /// `sendfile`.
    SendFile,
    /// `splice` from the file to a pipe, and from the pipe to the socket.
    Splice,
    /// `send` with `MSG_ZEROCOPY` from a mapping of the file.
    ZeroCopy,
    /// Reads and sends queued on an `io_uring`.
    Uring,
}

/// By which system calls the receiver moves a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum ReceiveMethod {
    /// `readwrite` for small files, `splice` for larger ones, and for very large ones either, as tried here.
    Auto,
    /// `recv` and `pwrite`.
    ReadWrite,
    /// `recv` into a mapping of the file.
    Mmap,
    /// `splice` from the socket to a pipe, and from the pipe to the file.
    Splice,
    /// Receives and writes queued on an `io_uring`.
    Uring,
}

/// What the contents of each file are checked with; of the whole file, as `b3sum`, `sha512sum` and `xxhsum -H2` print
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum DigestKind {
    /// BLAKE3, 32 bytes.
    Blake3,
    /// SHA-512, 64 bytes.
    Sha512,
    /// Nothing is checked.
    #[value(hide = true)]
    None,
    /// XXH3 of 128 bits: against accidents, at a fraction of the cost.
    Xxh3,
}

impl DigestKind {
    /// By what a file that was there before is compared with the one to send. Nobody vouches for how it came there:
    /// XXH3 would be no proof that it is the same.
    pub fn of_what_is_there(self) -> Self {
        match self {
            Self::Xxh3 => Self::Blake3,
            kind => kind,
        }
    }

    /// By what a file is verified of which so many bytes were there before: another sender may have left them, and one
    /// that knew what follows could choose them so that XXH3 is the same. A peer of an earlier version takes XXH3: the
    /// file is removed as one that arrived damaged, and sent from its beginning the next time.
    pub fn of_resumed(self, from: u64) -> Self {
        match from {
            0 => self,
            _ => self.of_what_is_there(),
        }
    }
}

/// How to send.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// By which system calls.
    pub method: SendMethod,
    /// Checked with what.
    pub digest: DigestKind,
    /// Bytes moved by one call at most; [`UNBUFFERED`] times as many where it needs no buffer.
    pub chunk: usize,
    /// No progress for so long is an error.
    pub stall: Duration,
    /// Bytes a second that the receiver has to take over ten stall limits, unless it says that it is busy.
    pub least_pace: u64,
    /// Connecting, and the peer's first words, may take so long.
    pub connect_limit: Duration,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            method: SendMethod::Auto,
            digest: DigestKind::Blake3,
            chunk: DEFAULT_CHUNK,
            stall: Duration::from_secs(30),
            least_pace: LEAST_PACE,
            connect_limit: Duration::from_secs(10),
        }
    }
}

/// How to receive.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// By which system calls.
    pub method: ReceiveMethod,
    /// Whether a sender without digests is refused; without, nothing is resumed and a sender's digests are not asked
    /// for.
    pub verify: bool,
    /// Bytes moved by one call at most; [`UNBUFFERED`] times as many where it needs no buffer.
    pub chunk: usize,
    /// No progress for so long is an error.
    pub stall: Duration,
    /// Bytes a second that the sender has to send of what it has begun, over ten stall limits; of its names, over one.
    pub least_pace: u64,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            method: ReceiveMethod::Auto,
            verify: true,
            chunk: DEFAULT_CHUNK,
            stall: Duration::from_secs(30),
            least_pace: LEAST_PACE,
        }
    }
}

/// Bytes a call: a buffer of this size stays in the second-level cache.
pub const DEFAULT_CHUNK: usize = 256 << 10;

/// Bytes a second: a line of 10 kbit/s has them, and 10,000 names of 50 bytes take eight minutes.
pub const LEAST_PACE: u64 = 1 << 10;

/// A call that needs no buffer, as `sendfile` and `splice`, moves so many times the bytes of one that does.
pub const UNBUFFERED: usize = 4;

impl SendMethod {
    /// Its name on the command line and in a tally.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ReadWrite => "readwrite",
            Self::Mmap => "mmap",
            Self::SendFile => "sendfile",
            Self::Splice => "splice",
            Self::ZeroCopy => "zerocopy",
            Self::Uring => "uring",
        }
    }
}

impl ReceiveMethod {
    /// Its name on the command line and in a tally.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ReadWrite => "readwrite",
            Self::Mmap => "mmap",
            Self::Splice => "splice",
            Self::Uring => "uring",
        }
    }
}

/// Units of a duration, in nanoseconds.
const UNITS: [(&str, f64); 10] = [
    ("", 1e9),
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

/// Digits that a number may have.
const MOST_DIGITS: usize = 100;

/// About 30 years.
const MOST_SECONDS: f64 = 1e9;

/// What an option takes that is a limit: a duration as everywhere in Oscope, of a millisecond or more. Not by
/// `humantime`, which takes no bare number, but years, months and sums such as `1h 30min`.
///
/// # Errors
/// `Failure::Request`: it is no duration, or out of range; the message names the option.
pub fn limit(option: &str, text: &str) -> Result<Duration, Failure> {
    let wrong = |message: String, remedy: &str| {
        Failure::usage(format!("{option}: {message}")).with_remedy(remedy)
    };
    let trimmed = text.trim();
    let end = trimmed
        .find(|each: char| !matches!(each, '0'..='9' | '.' | '-'))
        .unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim_start());
    let example = "write it like 500ms, 10s, 2m or 1h";
    let value: f64 = match number.parse() {
        Ok(value) if !unit.contains(char::is_whitespace) => value,
        _ => {
            return Err(wrong(
                format!("{} is not a duration", quoted(text)),
                example,
            ));
        }
    };
    if number.len() > MOST_DIGITS {
        let message = format!("a duration of {} digits is out of range", number.len());
        return Err(wrong(message, example));
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let message = format!("{} has an unknown unit {}", quoted(text), quoted(unit));
        return Err(wrong(message, "use ns, us, ms, s, m, h or d"));
    };
    let seconds = value * factor / 1e9;
    if value < 0.0 {
        let message = format!("{} is less than no time", quoted(text));
        return Err(wrong(message, "give a duration like 10s"));
    }
    if seconds > MOST_SECONDS {
        let message = format!("{} is out of range", quoted(text));
        return Err(wrong(message, "give 1000000000s or less"));
    }
    match Duration::from_secs_f64(seconds) {
        time if time >= Duration::from_millis(1) => Ok(time),
        _ => Err(Failure::usage(format!("{option} {text} leaves no time"))
            .with_remedy("give a duration such as 30s")),
    }
}

/// Bytes a call on the command line.
pub fn chunk(text: &str) -> Result<usize, Failure> {
    match text.parse() {
        Ok(bytes) if (4096..=64 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(Failure::usage("bytes, 4096 to 67108864")),
    }
}

/// What was typed, in quotes, on one line.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.escape_debug())
}
