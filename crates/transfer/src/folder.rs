//! The folder that a receiver writes into, and never outside it.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::stat::{Mode, mkdirat};

use super::beneath::{self, FOLDER};
use super::names;
use super::partial::Granted;
use super::stop::Reason;
use oscope_sys::error::Failure;

/// A destination folder, held open.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
}

impl Folder {
    /// Open a folder that is there.
    ///
    /// # Errors
    /// It is not there, not a folder, or not to be entered.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let usage = |reason: &str| {
            Failure::usage(format!("{}: {reason}", path.display()))
                .with_remedy("name a folder that is there")
        };
        // Only a folder is opened: opening a FIFO would wait for somebody to write to it.
        let handle = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path);
        match handle {
            Ok(handle) => Ok(Self {
                handle: handle.into(),
            }),
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(usage("not a folder")),
            Err(error) => Err(usage(&oscope_sys::error::errno_message(&error))),
        }
    }
}

/// The folders below the destination, each opened when a file needs it.
pub struct DirCache<'a> {
    root: &'a Folder,
    open: Option<(Vec<u8>, OwnedFd)>,
    /// Of the folder that was asked for last.
    granted: Granted,
    /// Of the destination.
    root_granted: Granted,
    fresh: HashSet<Vec<u8>>,
    /// Folders whose modes the sender gives: nobody else enters them before they have them.
    named: Arc<HashSet<Vec<u8>>>,
    /// System calls made.
    pub calls: u64,
}

impl<'a> DirCache<'a> {
    /// Nothing opened yet.
    pub fn new(root: &'a Folder) -> Self {
        Self {
            root,
            open: None,
            granted: Granted::default(),
            root_granted: Granted::default(),
            fresh: HashSet::new(),
            named: Arc::default(),
            calls: 0,
        }
    }

    /// Another one, for another thread, that has opened and made nothing yet.
    pub fn alike(&self) -> Self {
        Self {
            named: Arc::clone(&self.named),
            ..Self::new(self.root)
        }
    }

    /// Make these folders for their owner alone: they get their modes at the end, when everything is in them.
    pub fn make_private(&mut self, folders: HashSet<Vec<u8>>) {
        self.named = Arc::new(folders);
    }

    /// Whether this transfer made the folder, so that nothing was in it.
    pub fn is_fresh(&self, folder: &[u8]) -> bool {
        self.fresh.contains(folder)
    }

    /// A folder below the destination, made if it is not there; empty for the destination itself.
    ///
    /// # Errors
    /// In one line, why it cannot be had.
    pub fn folder(&mut self, folder: &[u8]) -> Result<BorrowedFd<'_>, Reason> {
        self.place(folder).map(|(handle, _)| handle)
    }

    /// As [`Self::folder`], with what is known of the modes that files get there.
    ///
    /// # Errors
    /// In one line, why it cannot be had.
    pub fn place(&mut self, folder: &[u8]) -> Result<(BorrowedFd<'_>, &Granted), Reason> {
        if folder.is_empty() {
            return Ok((self.root.handle.as_fd(), &self.root_granted));
        }
        if self.open.as_ref().is_none_or(|(open, _)| open != folder) {
            let handle = match self.enter(folder) {
                Err(Errno::ENOENT) => {
                    self.make(folder)?;
                    self.enter(folder)
                }
                other => other,
            };
            let handle = handle.map_err(|error| why(folder, error))?;
            self.open = Some((folder.to_owned(), handle));
            self.granted.set(0);
        }
        let open = self.open.as_ref();
        let handle = open.map_or(self.root.handle.as_fd(), |(_, handle)| handle.as_fd());
        Ok((handle, &self.granted))
    }

    /// Open a folder without leaving the destination, by `..` or by a symbolic link.
    fn enter(&mut self, folder: &[u8]) -> Result<OwnedFd, Errno> {
        self.calls += 1;
        beneath::open(&self.root.handle, folder, FOLDER)
    }

    /// Make a folder and those above it.
    fn make(&mut self, folder: &[u8]) -> Result<(), Reason> {
        let ends = (0..=folder.len()).filter(|&at| at == folder.len() || folder[at] == b'/');
        for end in ends {
            let (above, own) = names::split(&folder[..end]);
            let handle;
            let parent = match above {
                b"" => self.root.handle.as_fd(),
                _ => {
                    handle = self.enter(above).map_err(|error| why(above, error))?;
                    handle.as_fd()
                }
            };
            self.calls += 1;
            let mode = match self.named.contains(&folder[..end]) {
                true => Mode::S_IRWXU,
                false => Mode::from_bits_truncate(0o777),
            };
            match mkdirat(parent, own, mode) {
                Ok(()) => {
                    self.fresh.insert(folder[..end].to_owned());
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(why(&folder[..end], error)),
            }
        }
        Ok(())
    }
}

fn why(folder: &[u8], error: Errno) -> Reason {
    let shown = names::shown(folder);
    match error {
        Errno::ELOOP => Reason::new(
            format!("its folder {shown} is, or leads through, a symbolic link"),
            "at the receiver, put a folder in the place of the link, or receive --into another folder",
        ),
        Errno::ENOTDIR => Reason::new(
            format!("its folder {shown} is no folder there"),
            "at the receiver, rename or remove what has its name, or receive --into another folder",
        ),
        Errno::EACCES | Errno::EPERM => Reason::new(
            format!("its folder {shown}: {}", error.desc()),
            "let the receiver's user write there, or receive --into another folder",
        ),
        _ => Reason::system(&format!("its folder {shown}"), error),
    }
}
