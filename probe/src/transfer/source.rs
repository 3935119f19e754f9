//! The files to send: found, named and measured before anything is sent.

use std::fs::{self, DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::outcome::TransferError;

/// A regular file to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it lies.
    pub path: PathBuf,
    /// What the receiver calls it, relative to its folder.
    pub name: Vec<u8>,
    /// Bytes.
    pub size: u64,
    /// Permission bits, `0o7777`.
    pub mode: u32,
    /// When it was modified, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// What was found below the paths given.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The files, in the order to send them.
    pub files: Vec<Source>,
    /// What was left out, a line each.
    pub notes: Vec<String>,
}

impl Source {
    /// All regular files at or below `paths`; those in a folder are named relative to the folder's parent.
    ///
    /// # Errors
    /// A path that is not there, cannot be read, or is neither a regular file nor a folder.
    pub fn gather(paths: &[PathBuf]) -> Result<Gathered, TransferError> {
        let mut found = Gathered::default();
        for path in paths {
            let meta = fs::metadata(path).map_err(|error| {
                TransferError::system(&format!("{}", path.display()), &error)
                    .remedy("name a file or a folder that is there")
            })?;
            let name = own_name(path)?;
            if meta.is_dir() {
                walk(path, name, &mut found)?;
            } else if meta.is_file() {
                found.files.push(Self::of(path.clone(), name, &meta));
            } else {
                return Err(TransferError::usage(format!(
                    "{}: neither a regular file nor a folder",
                    path.display()
                )));
            }
        }
        Ok(found)
    }

    /// The file at `path`, called `name` by the receiver.
    fn of(path: PathBuf, name: Vec<u8>, meta: &Metadata) -> Self {
        Self {
            path,
            name,
            size: meta.len(),
            mode: meta.mode() & 0o7777,
            mtime_ns: modified(meta),
        }
    }
}

/// When a file was modified, in nanoseconds since 1970; saturating beyond the years 1677 and 2262.
pub fn modified(meta: &Metadata) -> i64 {
    meta.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec())
}

/// The last component of a path, also of `.` and of `folder/..`.
fn own_name(path: &Path) -> Result<Vec<u8>, TransferError> {
    let named = match path.file_name() {
        Some(name) => Some(name.as_bytes().to_vec()),
        None => fs::canonicalize(path)
            .ok()
            .and_then(|whole| whole.file_name().map(|name| name.as_bytes().to_vec())),
    };
    named.ok_or_else(|| TransferError::usage(format!("{}: has no name to send", path.display())))
}

/// Add the regular files of a folder, in the order of their names, then those of its folders.
fn walk(folder: &Path, name: Vec<u8>, found: &mut Gathered) -> Result<(), TransferError> {
    let mut waiting = vec![(folder.to_owned(), name)];
    while let Some((folder, name)) = waiting.pop() {
        let unreadable = |error: std::io::Error| {
            TransferError::system(&format!("reading the folder {}", folder.display()), &error)
        };
        let mut entries: Vec<DirEntry> = fs::read_dir(&folder)
            .and_then(Iterator::collect)
            .map_err(unreadable)?;
        entries.sort_by_cached_key(DirEntry::file_name);
        let mut folders = Vec::new();
        for entry in entries {
            let mut below = name.clone();
            below.push(b'/');
            below.extend_from_slice(entry.file_name().as_bytes());
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                folders.push((entry.path(), below));
            } else if kind.is_file() {
                let meta = entry.metadata().map_err(unreadable)?;
                found.files.push(Source::of(entry.path(), below, &meta));
            } else {
                found.notes.push(format!(
                    "{}: not a regular file, left out",
                    entry.path().display()
                ));
            }
        }
        waiting.extend(folders.into_iter().rev());
    }
    Ok(())
}
