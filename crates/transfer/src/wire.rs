//! The wire format `oscope.transfer/3`.
//!
//! Each side first sends [`PREAMBLE`]. Then frames: a length (16 bits) and its complement, both little-endian, so that
//! a damaged length is seen at once; the message in postcard's encoding; and a check of [`CHECK`] bytes over it, the
//! start of its BLAKE3. The bytes that a [`Frame::Data`] announces follow it raw.
//!
//! Sender: `Hello`, `Entries`…, `EntriesEnd`; then for each file `Data`… and `End`, or `Same`. Receiver: `Plan`… and,
//! at the end, `Receipt`. Of a sparse file's contents some are `Hole` in place of `Data`. `Working` may come at any
//! time from either side, and so may `Refusal`, which ends the transfer. `Left` in place of a file's contents: the
//! sender cannot read it, and continues with the next one.
//!
//! Version 2 had no entries of folders with something in them, no `Left`, and no holes, folders and links in a
//! [`Tally`]: a side that speaks it is refused, as of each other version.

use serde::{Deserialize, Serialize};

use super::options::DigestKind;
use super::outcome::Tally;

/// What each side says first: the protocol's name, 16 bytes, and its version.
pub const PREAMBLE: &[u8; 18] = b"oscope.transfer/3\n";

/// Bytes of the preamble that are the name; the rest is the version.
pub const NAME: usize = 16;

/// Bytes of a frame's check.
pub const CHECK: usize = 8;

/// Bytes before a frame's message.
pub const HEAD: usize = 4;

/// Bytes that a frame can have at most, head and check included.
pub const FRAME: usize = HEAD + u16::MAX as usize + CHECK;

/// Bytes of a message at which a list goes on in another frame; one more entry still fits.
pub const PART: usize = 48 << 10;

/// Bytes of one raw segment at most.
pub const SEGMENT: usize = 4 << 20;

/// Bytes of the next raw segment of a file of which so many are left. It has no other length, so that nobody sends a
/// byte a segment.
pub fn segment(left: u64) -> usize {
    usize::try_from(left).map_or(SEGMENT, |left| left.min(SEGMENT))
}

/// What a sparse file's parts end at a multiple of, or at its end.
pub const BLOCK: u64 = 4096;

/// Bits of a mode that say what has it: none for a regular file.
pub const KIND: u32 = libc::S_IFMT;

/// A folder, with its mode and time: nothing follows it. What is in it has entries of its own.
pub const FOLDER: u32 = libc::S_IFDIR;

/// A symbolic link: its contents are where it leads.
pub const LINK: u32 = libc::S_IFLNK;

/// A regular file with holes: its data come in parts of any length, and [`Frame::Hole`] between them.
pub const SPARSE: u32 = libc::S_IFREG;

/// Another name of a regular file of the manifest: its contents are that file's name there.
pub const HARD: u32 = 0o160_000;

/// One file, folder or link of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// Its name, relative to the receiver's folder.
    pub name: &'a [u8],
    /// Bytes.
    pub size: u64,
    /// Permission bits, and [`KIND`].
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// What the receiver wants of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step<'a> {
    /// All of it.
    Whole,
    /// What comes after so many bytes, which are there.
    From(u64),
    /// Nothing, if this is its digest, by [`DigestKind::of_what_is_there`]. A digest of another kind does not match,
    /// and the file is sent.
    Have(&'a [u8]),
}

/// A [`Step`] that is kept.
#[derive(Debug, PartialEq, Eq)]
pub enum FilePlan {
    /// As [`Step::Whole`].
    Whole,
    /// As [`Step::From`].
    From(u64),
    /// As [`Step::Have`].
    Have(Vec<u8>),
}

impl From<Step<'_>> for FilePlan {
    fn from(step: Step<'_>) -> Self {
        match step {
            Step::Whole => Self::Whole,
            Step::From(at) => Self::From(at),
            Step::Have(digest) => Self::Have(digest.to_vec()),
        }
    }
}

impl FilePlan {
    /// As it is sent.
    pub fn step(&self) -> Step<'_> {
        match self {
            Self::Whole => Step::Whole,
            Self::From(at) => Step::From(*at),
            Self::Have(digest) => Step::Have(digest),
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// The sender will give such digests.
    Hello(DigestKind),
    /// A part of the manifest.
    #[serde(borrow)]
    Entries(Vec<Entry<'a>>),
    /// The manifest is complete: so many files.
    EntriesEnd(u64),
    /// A part of the plan, in the manifest's order.
    Plan(Vec<Step<'a>>),
    /// So many bytes of the file under way follow.
    Data(u32),
    /// The file under way is complete, with this digest; empty if there is none.
    End(&'a [u8]),
    /// The file has the digest that the plan named.
    Same,
    /// Nothing to say, but alive.
    Working,
    /// All files are there.
    Receipt(Tally),
    /// The transfer ends: the file it concerns, empty if none, and why.
    Refusal {
        /// The file's name.
        file: &'a [u8],
        /// Why, in one line.
        reason: &'a str,
        /// What would fix it; empty if nothing is known.
        remedy: &'a str,
        /// Whether what the receiver has of the file is of no use to a later transfer.
        useless: bool,
    },
    /// So many bytes of the sparse file under way are zeros, and not there.
    Hole(u64),
    /// In place of the contents of a file: the sender cannot send it, for this reason, and goes on.
    Left(&'a str),
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// Add a frame to what is to be sent.
///
/// # Panics
/// If the message is longer than a frame; who builds lists ends them at [`PART`].
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    let taken = std::mem::take(out);
    *out = postcard::to_extend(frame, taken).expect("memory takes any message");
    let message = start + HEAD;
    let length = u16::try_from(out.len() - message).expect("a message fits its frame");
    out[start..start + 2].copy_from_slice(&length.to_le_bytes());
    out[start + 2..message].copy_from_slice(&(!length).to_le_bytes());
    let check = check(&out[message..]);
    out.extend_from_slice(&check);
}

/// Bytes of the whole frame that begins with this head.
///
/// # Errors
/// [`Damaged`]: the two copies of the length differ.
pub fn whole_length(head: [u8; HEAD]) -> Result<usize, Damaged> {
    let length = u16::from_le_bytes([head[0], head[1]]);
    let complement = u16::from_le_bytes([head[2], head[3]]);
    match length == !complement {
        true => Ok(HEAD + usize::from(length) + CHECK),
        false => Err(Damaged),
    }
}

/// Read one whole frame.
///
/// # Errors
/// [`Damaged`]: its check does not fit, or it is no message of this protocol.
pub fn decode(frame: &[u8]) -> Result<Frame<'_>, Damaged> {
    let body = frame.get(HEAD..).ok_or(Damaged)?;
    let at = body.len().checked_sub(CHECK).ok_or(Damaged)?;
    let (message, sum) = body.split_at(at);
    if check(message) != sum {
        return Err(Damaged);
    }
    match postcard::take_from_bytes(message) {
        Ok((frame, [])) => Ok(frame),
        _ => Err(Damaged),
    }
}

fn check(message: &[u8]) -> [u8; CHECK] {
    let mut sum = [0; CHECK];
    sum.copy_from_slice(&blake3::hash(message).as_bytes()[..CHECK]);
    sum
}
