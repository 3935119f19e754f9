//! What to send: found, named and measured before anything is sent.

mod walk;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::ValueEnum;

use super::holes;
use super::outcome::LeftOut;
use super::wire::{FOLDER, HARD, KIND, LINK};
use oscope_sys::error::Failure;
use walk::Walk;

/// Something to send: a regular file, a folder without what is in it, or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it lies.
    pub path: PathBuf,
    /// Behind so many bytes of the path no symbolic link is followed: there was none when it was found.
    pub followed: usize,
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
    /// `Failure::Request` if all paths are skipped; else that of the first path which is no regular file or folder that
    /// can be read, if none is.
    pub fn gather(paths: &[PathBuf], links: Links, skip: &[OsString]) -> Result<Gathered, Failure> {
        let mut walk = Walk::new(links, skip);
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
    fn of(path: PathBuf, followed: usize, name: Vec<u8>, meta: &Metadata) -> Self {
        Self {
            sparse: meta.is_file() && holes::has_some(&path, followed, meta),
            followed,
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
    fn folder(path: PathBuf, followed: usize, name: Vec<u8>, meta: &Metadata) -> Self {
        Self {
            size: 0,
            mode: FOLDER | meta.mode() & 0o7777,
            ..Self::of(path, followed, name, meta)
        }
    }

    /// A symbolic link.
    fn link(path: PathBuf, followed: usize, name: Vec<u8>, meta: &Metadata) -> io::Result<Self> {
        let target = fs::read_link(&path)?.into_os_string().into_vec();
        Ok(Self {
            size: target.len() as u64,
            mode: LINK | 0o777,
            leads_to: Some(target),
            ..Self::of(path, followed, name, meta)
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

/// When a file was modified, in nanoseconds since 1970; saturating beyond the years 1677 and 2262.
pub fn modified(meta: &Metadata) -> i64 {
    meta.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec())
}
