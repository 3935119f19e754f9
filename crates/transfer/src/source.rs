//! What to send: found, named and measured before anything is sent.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use clap::ValueEnum;

use super::holes;
use super::names;
use super::outcome::LeftOut;
use super::stop::UNREADABLE;
use super::wire::{FOLDER, HARD, KIND, LINK};
use oscope_sys::error::Failure;

/// Entries of a folder from which on a second thread pays.
const MANY: usize = 1024;

/// Something to send: a regular file, a folder without what is in it, or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it lies.
    pub path: PathBuf,
    /// What the receiver calls it, relative to its folder.
    pub name: Vec<u8>,
    /// Bytes; of a link, those of its target's name.
    pub size: u64,
    /// Permission bits, `0o7777`; what is no regular file has its type's bit as well.
    pub mode: u32,
    /// When it was modified, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Where a symbolic link leads; of another name of a file, the name that the receiver has it by.
    pub leads_to: Option<Vec<u8>>,
    /// Whether it is a regular file with holes.
    pub sparse: bool,
    /// Device and inode, of a regular file that has several names.
    pub inode: Option<(u64, u64)>,
}

/// What to do with symbolic links below the folders given. Those that are given themselves are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Links {
    /// Make the same link at the receiver.
    Keep,
    /// Send what they lead to.
    Follow,
    /// Leave them out.
    Skip,
}

/// What was found below the paths given.
#[derive(Debug, Default)]
pub struct Gathered {
    /// What to send, in this order.
    pub files: Vec<Source>,
    /// What was left out as asked for, a line each.
    pub notes: Vec<String>,
    /// What cannot be sent, and why.
    pub left_out: Vec<LeftOut>,
}

impl Source {
    /// All that is at or below `paths`; what is in a folder is named relative to the folder's parent. `skip`: names, or
    /// paths from there, of what is left out.
    ///
    /// # Errors
    /// None of the paths is a regular file or a folder that can be read, or all of them are skipped.
    pub fn gather(paths: &[PathBuf], links: Links, skip: &[OsString]) -> Result<Gathered, Failure> {
        let mut walk = Walk {
            found: Gathered::default(),
            kept: Vec::new(),
            folders: HashMap::new(),
            links,
            skip,
        };
        let mut refused = None;
        for path in paths {
            if let Err(failure) = walk.named(path) {
                refused = refused.or(Some(failure));
            }
        }
        // A receiver makes links last, so that nothing is written through one.
        walk.found.files.append(&mut walk.kept);
        let found = walk.found;
        match refused {
            _ if !found.files.is_empty() => Ok(found),
            Some(failure) => Err(failure),
            None if found.left_out.is_empty() => Err(Failure::usage("nothing is left to send")
                .with_remedy("name a file that --skip does not leave out")),
            None => Ok(found),
        }
    }

    /// The file at `path`, called `name` by the receiver.
    fn of(path: PathBuf, name: Vec<u8>, meta: &Metadata) -> Self {
        Self {
            sparse: meta.is_file() && holes::has_some(&path, meta),
            inode: (meta.is_file() && meta.nlink() > 1).then(|| (meta.dev(), meta.ino())),
            path,
            name,
            size: meta.len(),
            mode: meta.mode() & 0o7777,
            mtime_ns: modified(meta),
            leads_to: None,
        }
    }

    /// A folder, without what is in it.
    fn folder(path: PathBuf, name: Vec<u8>, meta: &Metadata) -> Self {
        Self {
            size: 0,
            mode: FOLDER | meta.mode() & 0o7777,
            ..Self::of(path, name, meta)
        }
    }

    /// A symbolic link.
    fn link(path: PathBuf, name: Vec<u8>, meta: &Metadata) -> io::Result<Self> {
        let target = fs::read_link(&path)?.into_os_string().into_vec();
        Ok(Self {
            size: target.len() as u64,
            mode: LINK | 0o777,
            leads_to: Some(target),
            ..Self::of(path, name, meta)
        })
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.mode & KIND == FOLDER
    }

    /// Whether it is a symbolic link.
    pub fn is_symbolic(&self) -> bool {
        self.mode & KIND == LINK
    }

    /// Whether it is another name of a file.
    pub fn is_hard(&self) -> bool {
        self.mode & KIND == HARD
    }
}

impl Gathered {
    /// Of each file that was found by several names, send the first one alone, and the others as names of it.
    pub fn join_names(&mut self) {
        let mut first: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
        for source in &mut self.files {
            let Some(inode) = source.inode else {
                continue;
            };
            match first.get(&inode) {
                None => {
                    first.insert(inode, source.name.clone());
                }
                Some(name) => {
                    source.size = name.len() as u64;
                    source.mode |= HARD;
                    source.leads_to = Some(name.clone());
                    source.sparse = false;
                }
            }
        }
    }
}

/// Why something could not be read, and what helps.
fn unread(error: &io::Error) -> String {
    let why = oscope_sys::error::errno_message(error);
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{why}: {UNREADABLE}"),
        _ => why,
    }
}

/// The status of a path that was named, if it can be read; else what failed, and the failure where nothing is sent.
fn status(path: &Path) -> Result<Metadata, (io::Error, Failure)> {
    let meta = fs::metadata(path).map_err(|error| {
        let failure = no_status(path, &error);
        (error, failure)
    })?;
    if meta.is_dir() {
        fs::read_dir(path).map_err(|error| {
            let failure =
                Failure::system(&format!("reading the folder {}", path.display()), &error);
            (error, failure)
        })?;
    }
    Ok(meta)
}

/// Why there is nothing to send at a path that was named.
fn no_status(path: &Path, error: &io::Error) -> Failure {
    if let (io::ErrorKind::NotFound, Ok(target)) = (error.kind(), fs::read_link(path)) {
        let what = format!("{}: a link to {}", path.display(), target.display());
        return Failure::system(&what, error).with_remedy("make what it leads to, or name a file");
    }
    let failure = Failure::system(&path.display().to_string(), error);
    match error.kind() {
        io::ErrorKind::PermissionDenied => failure.with_remedy("send as a user who may read it"),
        _ => failure.with_remedy("name a file or a folder that is there"),
    }
}

/// When a file was modified, in nanoseconds since 1970; saturating beyond the years 1677 and 2262.
pub fn modified(meta: &Metadata) -> i64 {
    meta.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec())
}

/// The last component of a path, also of `.` and of `folder/..`.
fn own_name(path: &Path) -> Result<Vec<u8>, Failure> {
    let named = match path.file_name() {
        Some(name) => Some(name.as_bytes().to_vec()),
        None => fs::canonicalize(path)
            .ok()
            .and_then(|whole| whole.file_name().map(|name| name.as_bytes().to_vec())),
    };
    named.ok_or_else(|| Failure::usage(format!("{}: has no name to send", path.display())))
}

/// A folder that waits to be read: where it is, its name, its status, and the folders above it by device and inode.
type Waiting = (PathBuf, Vec<u8>, Metadata, Vec<(u64, u64)>);

/// Reads folders.
struct Walk<'a> {
    found: Gathered,
    kept: Vec<Source>,
    /// Folders, by their names, and where they are in what was found.
    folders: HashMap<Vec<u8>, usize>,
    links: Links,
    skip: &'a [OsString],
}

impl Walk<'_> {
    /// Add what is at a path that was named; otherwise the failure, for where nothing else is sent.
    fn named(&mut self, path: &Path) -> Result<(), Failure> {
        let own = own_name(path);
        let given = path.as_os_str().as_bytes();
        if self.is_skipped(given) || own.as_ref().is_ok_and(|own| self.is_skipped(own)) {
            return Ok(());
        }
        let (reason, failure) = match (status(path), own) {
            (Err((error, failure)), _) => (unread(&error), failure),
            (_, Err(failure)) => ("it has no name".to_owned(), failure),
            (Ok(meta), Ok(name)) if meta.is_dir() => {
                self.below(path, name, &meta);
                return Ok(());
            }
            (Ok(meta), Ok(name)) if meta.is_file() => {
                self.add(Source::of(path.to_owned(), name, &meta));
                return Ok(());
            }
            _ => {
                let reason = "neither a regular file nor a folder";
                let failure = Failure::usage(format!("{}: {reason}", path.display()));
                (reason.to_owned(), failure)
            }
        };
        self.leave(given.to_vec(), &reason);
        Err(failure)
    }

    /// Add what is in a folder, in the order of the names, then what is in its folders.
    fn below(&mut self, folder: &Path, name: Vec<u8>, meta: &Metadata) {
        let mut waiting: Vec<Waiting> = vec![(folder.to_owned(), name, meta.clone(), Vec::new())];
        while let Some((folder, name, meta, mut above)) = waiting.pop() {
            let entries: io::Result<Vec<DirEntry>> =
                fs::read_dir(&folder).and_then(Iterator::collect);
            let mut entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    self.leave(name, &unread(&error));
                    continue;
                }
            };
            self.add_folder(Source::folder(folder, name.clone(), &meta));
            above.push((meta.dev(), meta.ino()));
            entries.sort_by_cached_key(DirEntry::file_name);
            let statuses = self.statuses(&entries);
            let mut folders = Vec::new();
            for (entry, status) in entries.iter().zip(statuses) {
                let mut below = name.clone();
                below.push(b'/');
                below.extend_from_slice(entry.file_name().as_bytes());
                if self.is_skipped(&below) {
                    continue;
                }
                if let Some((path, meta)) = self.entry(entry, status, &below, &above) {
                    folders.push((path, below, meta, above.clone()));
                }
            }
            waiting.extend(folders.into_iter().rev());
        }
    }

    /// The status of each entry. Where there are many, a second thread asks for half of them: nothing else goes on yet.
    fn statuses(&self, entries: &[DirEntry]) -> Vec<io::Result<Metadata>> {
        let links = self.links;
        let ask = |entry: &DirEntry| {
            let meta = entry.metadata()?;
            match meta.is_symlink() && links == Links::Follow {
                true => fs::metadata(entry.path()),
                false => Ok(meta),
            }
        };
        if entries.len() < MANY {
            return entries.iter().map(ask).collect();
        }
        let (own, others) = entries.split_at(entries.len() / 2);
        thread::scope(|scope| {
            let work = || others.iter().map(ask).collect::<Vec<_>>();
            let helper = thread::Builder::new().spawn_scoped(scope, work);
            let mut found: Vec<_> = own.iter().map(ask).collect();
            match helper.map(ScopedJoinHandle::join) {
                Ok(Ok(rest)) => found.extend(rest),
                // No thread is to be had.
                _ => found.extend(others.iter().map(ask)),
            }
            found
        })
    }

    /// Add one entry of a folder; if it is a folder itself, what is to be read later.
    fn entry(
        &mut self,
        entry: &DirEntry,
        status: io::Result<Metadata>,
        name: &[u8],
        above: &[(u64, u64)],
    ) -> Option<(PathBuf, Metadata)> {
        let path = entry.path();
        let meta = match status {
            Ok(meta) => meta,
            Err(error) => {
                self.leave(name.to_vec(), &unread(&error));
                return None;
            }
        };
        if meta.is_dir() {
            if above.contains(&(meta.dev(), meta.ino())) {
                self.leave(name.to_vec(), "a link to a folder that it is in");
                return None;
            }
            return Some((path, meta));
        }
        if meta.is_file() {
            self.add(Source::of(path, name.to_vec(), &meta));
        } else if !meta.is_symlink() {
            self.leave(name.to_vec(), "neither a file, a folder nor a link");
        } else if self.links == Links::Skip {
            self.found
                .notes
                .push(format!("{}: a symbolic link, left out", names::shown(name)));
        } else {
            match Source::link(path, name.to_vec(), &meta) {
                Ok(link) => self.add(link),
                Err(error) => self.leave(name.to_vec(), &unread(&error)),
            }
        }
        None
    }

    /// Take something to send, unless no receiver takes its name.
    fn add(&mut self, source: Source) {
        match names::check(&source.name) {
            Err(reason) => self.leave(source.name, reason),
            Ok(()) if source.leads_to.is_some() => self.kept.push(source),
            Ok(()) => self.found.files.push(source),
        }
    }

    /// Add a folder. Two of one name become one, which nobody may enter who may not enter both.
    fn add_folder(&mut self, folder: Source) {
        if let Some(&first) = self.folders.get(&folder.name) {
            self.found.files[first].mode &= folder.mode;
            return;
        }
        let (name, place) = (folder.name.clone(), self.found.files.len());
        self.add(folder);
        if self.found.files.len() > place {
            self.folders.insert(name, place);
        }
    }

    fn leave(&mut self, name: Vec<u8>, reason: &str) {
        self.found.left_out.push(LeftOut {
            name: names::shown(&name),
            reason: reason.to_owned(),
        });
    }

    /// Whether it was asked to leave this out: by its path below what is sent, or by its own name.
    fn is_skipped(&self, name: &[u8]) -> bool {
        let (_, own) = names::split(name);
        self.skip
            .iter()
            .any(|skip| skip.as_bytes() == name || skip.as_bytes() == own)
    }
}
