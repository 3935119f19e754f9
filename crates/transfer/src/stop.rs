//! Why a transfer ends early, and whether the reason is still to be sent to the peer.

use std::io;

use nix::errno::Errno;

use super::names::{LONGEST, shown};
use oscope_sys::error::{Failure, errno_message};

/// What helps where something may not be read.
pub const UNREADABLE: &str = "make it readable for this user, or leave it out by --skip";

/// What helps where a disk is full.
const ROOM: &str = "make room at the receiver and send again";

/// The same, where a later transfer resumes what arrived of the file.
const ROOM_TO_RESUME: &str = "make room at the receiver and send again: what arrived is kept";

/// What ends a transfer on this side.
#[derive(Debug)]
pub struct Stop {
    /// What this side reports.
    pub error: Failure,
    /// What is to be sent to the peer, if anything: the file concerned, empty if none, and the reason.
    pub to_peer: Option<Box<(Vec<u8>, String)>>,
    /// What the receiver has of the file is of no use to a later transfer.
    pub useless: bool,
    /// Nothing of the file was sent yet, and the others can be: why this one cannot, and what would fix it.
    pub leaves_out: Option<Box<(String, &'static str)>>,
}

impl Stop {
    /// The connection itself failed, or the peer sent its reason to stop: nothing is to be sent.
    pub fn silent(message: impl Into<String>) -> Self {
        Self {
            error: Failure::failed(message),
            to_peer: None,
            useless: false,
            leaves_out: None,
        }
    }

    /// Something here went wrong that concerns no file.
    pub fn here(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            useless: false,
            leaves_out: None,
            to_peer: Some(Box::new((Vec::new(), message.clone()))),
            error: Failure::failed(message),
        }
    }

    /// A file cannot be sent, or not be received.
    pub fn file(name: &[u8], reason: impl Into<String>) -> Self {
        Self::refused(name, Failure::failed(reason))
    }

    /// The same, where more is known of the reason than its text.
    pub fn refused(name: &[u8], reason: Failure) -> Self {
        // A name from the wire may be as long as a frame; with a reason beside it, it would not fit one.
        let name = &name[..name.len().min(LONGEST)];
        let to_peer = Some(Box::new((name.to_vec(), reason.to_string())));
        let error = match (reason.remedy(), reason.errno()) {
            (None, Some(Errno::ENOSPC | Errno::EDQUOT)) => reason.with_remedy(ROOM),
            _ => reason,
        };
        Self {
            error: error.context(&shown(name)),
            useless: false,
            leaves_out: None,
            to_peer,
        }
    }

    /// A file cannot be opened. It is left out, unless that is for want of something that all files need.
    pub fn unopened(name: &[u8], error: &io::Error) -> Self {
        let stop = Self::system(name, "opening", error);
        let remedy = match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => return stop,
            Some(libc::EACCES | libc::EPERM) => UNREADABLE,
            _ => "send it again, or leave it out by --skip",
        };
        let reason = match error.raw_os_error() {
            Some(libc::ELOOP) => "a symbolic link has taken its place, or its folder's".to_owned(),
            _ => format!("opening: {}", errno_message(error)),
        };
        Self {
            leaves_out: Some(Box::new((reason, remedy))),
            ..stop.with_remedy(remedy)
        }
    }

    /// A system call on a file failed.
    pub fn system(name: &[u8], doing: &str, error: &io::Error) -> Self {
        Self::refused(name, Failure::system(doing, error))
    }

    /// A method that was asked for cannot be made ready.
    pub fn method(name: &str, error: &io::Error) -> Self {
        let words = errno_message(error);
        Self::here(format!("the method {name}: {words}")).with_remedy("choose another method")
    }

    /// The same, of a file that no later transfer resumes.
    pub fn useless(mut self) -> Self {
        self.useless = true;
        self
    }

    /// The same, of a file that a later transfer resumes.
    pub fn kept(self) -> Self {
        match self.error.remedy() {
            Some(ROOM) => self.with_remedy(ROOM_TO_RESUME),
            _ => self,
        }
    }

    /// The same, with what would fix it.
    pub fn with_remedy(mut self, remedy: &str) -> Self {
        self.error = self.error.with_remedy(remedy);
        self
    }
}
