//! Finds what is at and below the paths that are named.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use nix::fcntl::OFlag;

use super::{Gathered, Links, Source};
use crate::names;
use crate::outcome::LeftOut;
use crate::place;
use crate::stop::UNREADABLE;
use oscope_sys::error::Failure;

/// Entries of a folder from which on a second thread pays.
const MANY: usize = 1024;

/// A folder that waits to be read: where it is, its name, its status, and the folders above it by device and inode.
type Waiting = (PathBuf, Vec<u8>, Metadata, Vec<(u64, u64)>);

/// Reads folders.
pub struct Walk<'a> {
    pub found: Gathered,
    /// Links, which come last.
    pub kept: Vec<Source>,
    /// Folders, by their names, and where they are in what was found.
    folders: HashMap<Vec<u8>, usize>,
    links: Links,
    skip: &'a [OsString],
    /// Of the path that was named last ([`Source::followed`]).
    followed: usize,
}

impl<'a> Walk<'a> {
    /// Nothing found yet.
    pub fn new(links: Links, skip: &'a [OsString]) -> Self {
        Self {
            found: Gathered::default(),
            kept: Vec::new(),
            folders: HashMap::new(),
            links,
            skip,
            followed: 0,
        }
    }

    /// Add what is at a path that was named; otherwise the failure, for where nothing else is sent.
    pub fn named(&mut self, path: &Path) -> Result<(), Failure> {
        let own = own_name(path);
        // Without a slash behind it.
        let given = path.components().as_path().as_os_str().as_bytes();
        if self.is_skipped(given) || own.as_ref().is_ok_and(|own| self.is_skipped(own)) {
            return Ok(());
        }
        self.followed = match self.links {
            Links::Follow => usize::MAX,
            _ => place::followed(path),
        };
        let (reason, failure) = match (status(path), own) {
            (Err((error, failure)), _) => (unread(&error), failure),
            (_, Err(failure)) => ("it has no name".to_owned(), failure),
            (Ok(meta), Ok(name)) if meta.is_dir() => {
                self.below(path, name, &meta);
                return Ok(());
            }
            (Ok(meta), Ok(name)) if meta.is_file() => {
                self.add(Source::of(path.to_owned(), self.followed, name, &meta));
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
            let mut entries = match self.entries(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    self.leave(name, &unread(&error));
                    continue;
                }
            };
            let own = Source::folder(folder.clone(), self.followed, name.clone(), &meta);
            self.add_folder(own);
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
                let path = folder.join(entry.file_name());
                if let Some(meta) = self.entry(&path, status, &below, &above) {
                    folders.push((path, below, meta, above.clone()));
                }
            }
            waiting.extend(folders.into_iter().rev());
        }
    }

    /// What is in a folder.
    fn entries(&self, folder: &Path) -> io::Result<Vec<DirEntry>> {
        if self.followed >= folder.as_os_str().len() {
            return fs::read_dir(folder)?.collect();
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let handle = place::open(folder, self.followed, flags)?;
        match fs::read_dir(format!("/proc/self/fd/{}", handle.as_raw_fd())) {
            // No proc(5) is mounted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::read_dir(folder),
            found => found,
        }?
        .collect()
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

    /// Add one entry of a folder; if it is a folder itself, which is to be read later, its status.
    fn entry(
        &mut self,
        path: &Path,
        status: io::Result<Metadata>,
        name: &[u8],
        above: &[(u64, u64)],
    ) -> Option<Metadata> {
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
            return Some(meta);
        }
        let (path, followed) = (path.to_owned(), self.followed);
        if meta.is_file() {
            self.add(Source::of(path, followed, name.to_vec(), &meta));
        } else if !meta.is_symlink() {
            self.leave(name.to_vec(), "neither a file, a folder nor a link");
        } else if self.links == Links::Skip {
            self.found
                .notes
                .push(format!("{}: a symbolic link, left out", names::shown(name)));
        } else {
            match Source::link(path, followed, name.to_vec(), &meta) {
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
            .map(|skip| skip.as_bytes())
            .any(|skip| !skip.is_empty() && (skip == name || skip == own))
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
