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
    /// `Failure::Request`: it is not there, not a folder, or not to be entered.
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
    /// `Failure::Failed`: it, or one above it, cannot be opened or made.
    pub fn folder(&mut self, folder: &[u8]) -> Result<BorrowedFd<'_>, Failure> {
        self.place(folder).map(|(handle, _)| handle)
    }

    /// As [`Self::folder`], for an error about the folder itself and not about what is to be put there.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn folder_itself(&mut self, folder: &[u8]) -> Result<BorrowedFd<'_>, Failure> {
        let itself = |error: NotEntered| match error.folder == folder {
            true => error.explained("it"),
            false => error.into(),
        };
        self.reach(folder).map_err(itself)?;
        Ok(self.reached(folder).0)
    }

    /// As [`Self::folder`], with what is known of the modes that files get there.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn place(&mut self, folder: &[u8]) -> Result<(BorrowedFd<'_>, &Granted), Failure> {
        self.reach(folder)?;
        Ok(self.reached(folder))
    }

    /// Open a folder, unless it is the destination itself or open already.
    fn reach(&mut self, folder: &[u8]) -> Result<(), NotEntered> {
        if folder.is_empty() || self.open.as_ref().is_some_and(|(open, _)| open == folder) {
            return Ok(());
        }
        let handle = match self.enter(folder) {
            Err(Errno::ENOENT) => {
                self.make(folder)?;
                self.enter(folder)
            }
            other => other,
        };
        let handle = handle.map_err(|error| NotEntered::new(folder, error))?;
        self.open = Some((folder.to_owned(), handle));
        self.granted.set(0);
        Ok(())
    }

    /// The folder that was opened last, or the destination.
    fn reached(&self, folder: &[u8]) -> (BorrowedFd<'_>, &Granted) {
        match &self.open {
            Some((_, handle)) if !folder.is_empty() => (handle.as_fd(), &self.granted),
            _ => (self.root.handle.as_fd(), &self.root_granted),
        }
    }

    /// Open a folder without leaving the destination, by `..` or by a symbolic link.
    fn enter(&mut self, folder: &[u8]) -> Result<OwnedFd, Errno> {
        self.calls += 1;
        beneath::open(&self.root.handle, folder, FOLDER)
    }

    /// Make a folder and those above it.
    fn make(&mut self, folder: &[u8]) -> Result<(), NotEntered> {
        let ends = (0..=folder.len()).filter(|&at| at == folder.len() || folder[at] == b'/');
        for end in ends {
            let (above, own) = names::split(&folder[..end]);
            let handle;
            let parent = match above {
                b"" => self.root.handle.as_fd(),
                _ => {
                    let entered = self.enter(above);
                    handle = entered.map_err(|error| NotEntered::new(above, error))?;
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
                Err(error) => return Err(NotEntered::new(&folder[..end], error)),
            }
        }
        Ok(())
    }
}

/// A folder that could not be opened or made, and the kernel's reason.
struct NotEntered {
    folder: Vec<u8>,
    error: Errno,
}

impl NotEntered {
    fn new(folder: &[u8], error: Errno) -> Self {
        let folder = folder.to_owned();
        Self { folder, error }
    }

    /// Why, in a sentence about `subject`.
    fn explained(&self, subject: &str) -> Failure {
        let (message, remedy) = match self.error {
            Errno::ELOOP => (
                format!("{subject} is, or leads through, a symbolic link"),
                "at the receiver, put a folder in the place of the link, or receive --into another folder",
            ),
            Errno::ENOTDIR => (
                format!("{subject} is no folder there"),
                "at the receiver, rename or remove what has its name, or receive --into another folder",
            ),
            Errno::EACCES | Errno::EPERM => {
                return Failure::system(&self.named(), self.error).with_remedy(
                    "let the receiver's user write there, or receive --into another folder",
                );
            }
            _ => return Failure::system(&self.named(), self.error),
        };
        Failure::failed(message).with_remedy(remedy)
    }

    fn named(&self) -> String {
        format!("its folder {}", names::shown(&self.folder))
    }
}

impl From<NotEntered> for Failure {
    fn from(error: NotEntered) -> Self {
        error.explained(&error.named())
    }
}
