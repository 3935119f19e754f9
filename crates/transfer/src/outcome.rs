//! What a transfer gives: progress while it runs, tallies and files when it is done, an error otherwise.

use serde::{Deserialize, Serialize};

use super::link::cut;
use super::names;

/// What one side did for one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Regular files whole and verified, those that were there already included; each name of one file counts.
    pub files: u64,
    /// Folders, with those that were there already.
    pub folders: u64,
    /// Symbolic links.
    pub links: u64,
    /// Of them, files that were there already, verified without moving them.
    pub skipped: u64,
    /// Bytes of contents moved over this connection.
    pub bytes: u64,
    /// Bytes of files that are holes, which were not moved. Those of files that were there already do not count.
    pub holes: u64,
    /// Bytes of all files: moved, holes, and there already.
    pub total_bytes: u64,
    /// At the sender from its first frame to the receipt; at the receiver from its first frame to the last rename.
    pub time_ns: u64,
    /// System calls made for the moving: on the socket, on the files and their names; repetitions of one that waited in
    /// vain are not counted.
    pub calls: u64,
    /// CPU time of the process, user and system.
    pub cpu_ns: u64,
    /// Voluntary context switches of the process.
    pub voluntary: u64,
    /// Involuntary context switches of the process.
    pub involuntary: u64,
    /// The method used, such as `sendfile`; where several were, joined by `+`.
    pub method: String,
    /// Of them, the one that `auto` went on with after trying all; `None` where it tried none.
    pub chosen: Option<String>,
}

impl Tally {
    /// A peer's tally, whose words a person may read: in one line, and without a command to the terminal.
    pub(super) fn in_harmless_words(self) -> Self {
        let shown = |words: String| names::shown(cut(&words).as_bytes());
        Self {
            method: shown(self.method),
            chosen: self.chosen.map(shown),
            ..self
        }
    }
}

/// One file of a finished transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDone {
    /// Its name on the wire; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The digest of all its bytes, in hexadecimal; `None` if none was asked for.
    pub digest: Option<String>,
    /// Whether it was there already.
    pub skipped: bool,
}

/// Something that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name on the wire; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Why, in one line.
    pub reason: String,
}

/// What the sender knows at the end.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The sender's tally.
    pub here: Tally,
    /// The receiver's, from its receipt.
    pub there: Tally,
    /// Every file and link, in the order given, without those left out.
    pub files: Vec<FileDone>,
    /// What could not be read.
    pub left_out: Vec<LeftOut>,
}

/// What the receiver knows at the end.
#[derive(Debug, Clone)]
pub struct Received {
    /// The receiver's tally.
    pub here: Tally,
    /// Every file and link, in the order sent, without those left out.
    pub files: Vec<FileDone>,
}

/// What happens during a transfer; reported at most ten times a second, notes as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// How far it is.
    Moved {
        /// The file under way.
        file: &'a str,
        /// Files done.
        files: u64,
        /// Files in all.
        of_files: u64,
        /// Bytes done, those that were there already included.
        bytes: u64,
        /// Bytes in all.
        of_bytes: u64,
    },
    /// A note, in one line.
    Note(&'a str),
    /// Something is not sent, and why.
    Left(&'a LeftOut),
}
