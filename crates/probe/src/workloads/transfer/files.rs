//! The files that are sent: how many, how long, with what in them.

use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::description::Describe;
use crate::disk::content;
use oscope_sys::cancel;
use oscope_sys::cancel::survive_size_limit;
use oscope_sys::error::Failure;

/// Lengths of the small files of OS Project 2 (docs/sources.md), in its order, in bytes.
const DOCUMENT: [u64; 10] = [4, 107, 167, 207, 255, 383, 351, 507, 457, 577];
/// Lengths of the large inputs of OS Project 2, in its order, in bytes.
const LARGE: [u64; 5] = [1 << 10, 5 << 10, 1 << 20, 10 << 20, 100 << 20];
/// Number of files for which OS Project 2 sent the last ones of its list.
const LAST: u64 = 5;
/// Most files of a transfer.
const MOST: u64 = 100_000;
/// Bytes written at once; a multiple of 8.
const PIECE: u64 = 1 << 20;
/// Distance between the contents of two files in the series that random content is taken from: longer than any file.
const APART: u64 = 1 << 40;
/// When the first file was modified (seconds since 1970); any other time than now will do, so that keeping it can be
/// proved.
const MODIFIED_S: u64 = 1_000_000_000;
/// The permissions of the files, in turn: none is what a new file has by itself.
const MODES: [u32; 3] = [0o640, 0o444, 0o751];

/// How long the files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizes {
    /// All as long as the request says.
    Equal,
    /// As long as the small files of OS Project 2.
    Document,
    /// As long as its large inputs.
    Large,
}

/// What is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Bytes that pass for random, others in each file.
    Random,
    /// Bytes of 0, which are written: no file has holes.
    Zeros,
}

/// The parameters that say which files are sent. A workload's parameters take them in with `#[serde(flatten)]`.
#[derive(Debug, Clone, Copy, Deserialize, Describe)]
pub struct Files {
    /// Files sent sequentially over one connection.
    #[parameter(integer(1, 1..=MOST))]
    pub files: u64,
    /// equal: each has `size` bytes; document: the small files of OS Project 2, of 4, 107, 167, 207, 255, 383, 351,
    /// 507, 457 and 577 B: with files=1 the first, with files=5 the last five, else all ten in order, again and again;
    /// large: its large inputs of 1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB in order, again and again.
    #[parameter(choice("equal"))]
    pub sizes: Sizes,
    /// Length of each file, with sizes=equal.
    #[parameter(bytes(1 << 20, 0..=64 << 30).only_with("sizes", &["equal"]))]
    pub size: u64,
    /// random: incompressible bytes, others in each file; zeros: bytes of 0, which are in memory like any others.
    #[parameter(choice("random"))]
    pub content: Content,
}

impl Files {
    /// The length of each file, in order.
    pub fn lengths(self) -> impl Iterator<Item = u64> {
        let first = match (self.sizes, self.files) {
            (Sizes::Document, LAST) => DOCUMENT.len() as u64 - LAST,
            _ => 0,
        };
        (first..first + self.files).map(move |number| match self.sizes {
            Sizes::Equal => self.size,
            Sizes::Document => DOCUMENT[(number % DOCUMENT.len() as u64) as usize],
            Sizes::Large => LARGE[(number % LARGE.len() as u64) as usize],
        })
    }

    /// Bytes of all files together.
    pub fn total(self) -> u64 {
        self.lengths().sum()
    }
}

/// One of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct One {
    /// Which of them, from 0.
    pub number: u64,
    /// Bytes.
    pub length: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was modified, in ns since 1970.
    pub modified_ns: i64,
}

impl One {
    /// The file of this number.
    pub fn of(number: u64, length: u64) -> Self {
        // A number of nanoseconds that no coarser clock keeps.
        let modified_ns = (MODIFIED_S + number) * 1_000_000_000 + 123_456_789;
        Self {
            number,
            length,
            mode: MODES[(number % MODES.len() as u64) as usize],
            modified_ns: modified_ns as i64,
        }
    }

    /// Its name, which is the same on both sides.
    pub fn name(self) -> String {
        format!("file-{:06}", self.number)
    }

    /// Make it in `folder`.
    ///
    /// # Errors
    /// `Failure::Unavailable` if there is no room; `Failure::Failed` after a signal, or with the kernel's reason.
    pub fn make(self, folder: &Path, content: Content) -> Result<(), Failure> {
        survive_size_limit()?;
        let path = folder.join(self.name());
        let refused = |error: io::Error| {
            let doing = format!("making {}", path.display());
            match error.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Failure::unavailable_system(
                    &doing,
                    error,
                    "choose --set size=SMALLER or --set folder=DIR",
                ),
                _ => Failure::system(&doing, error),
            }
        };
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&path).map_err(refused)?;
        self.fill(&mut file, content, &refused)?;
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.modified_ns as u64);
        let times = FileTimes::new()
            .set_modified(modified)
            .set_accessed(modified);
        file.set_times(times)
            .and_then(|()| file.set_permissions(Permissions::from_mode(self.mode)))
            .map_err(refused)
    }

    fn fill(
        self,
        file: &mut File,
        content: Content,
        refused: &dyn Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE.min(self.length) as usize];
        let mut written = 0;
        while written < self.length {
            if cancel::requested() {
                return Err(Failure::failed("interrupted while making a file to send"));
            }
            let piece = &mut piece[..(self.length - written).min(PIECE) as usize];
            if content == Content::Random {
                content::fill(self.number * APART + written, piece);
            }
            file.write_all(piece).map_err(refused)?;
            written += piece.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(files: u64) -> Vec<u64> {
        let files = Files {
            files,
            sizes: Sizes::Document,
            size: 1,
            content: Content::Zeros,
        };
        assert_eq!(files.total(), files.lengths().sum::<u64>());
        files.lengths().collect()
    }

    #[test]
    fn the_documents_files_are_those_of_its_tables() {
        assert_eq!(document(1), [4]);
        assert_eq!(document(5), [383, 351, 507, 457, 577]);
        assert_eq!(document(5).iter().sum::<u64>(), 2275);
        assert_eq!(document(10), DOCUMENT);
        let many = document(23);
        assert_eq!((many.len(), many[10], many[22]), (23, 4, 167));
    }

    #[test]
    fn the_documents_large_inputs_are_eight_times_what_it_prints() {
        let mut files = Files {
            files: 5,
            sizes: Sizes::Large,
            size: 1,
            content: Content::Zeros,
        };
        assert_eq!(files.lengths().collect::<Vec<_>>(), LARGE);
        assert_eq!(files.total(), 8 * 14_549_760);
        files.files = 7;
        assert_eq!(files.lengths().skip(5).collect::<Vec<_>>(), LARGE[..2]);
    }

    #[test]
    fn equal_files_are_as_long_as_asked() {
        let files = Files {
            files: 3,
            sizes: Sizes::Equal,
            size: 1_502_860,
            content: Content::Zeros,
        };
        assert_eq!(files.lengths().collect::<Vec<_>>(), [1_502_860; 3]);
        assert_eq!(files.total(), 3 * 1_502_860);
    }
}
