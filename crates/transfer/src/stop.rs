//! Why a transfer ends early, and whether the reason is still to be sent to the peer.

use std::io;

use super::names::{LONGEST, shown};
use oscope_sys::error::{Failure, errno_message};

/// What ends a transfer on this side.
#[derive(Debug)]
pub struct Stop {
    /// What this side reports.
    pub error: Failure,
    /// What is to be sent to the peer, if anything: the file concerned, empty if none, and the reason.
    pub to_peer: Option<Box<(Vec<u8>, String)>>,
    /// What the receiver has of the file is of no use to a later transfer.
    pub useless: bool,
}

/// Why something cannot be put in its place, and what would fix that; empty if nothing is known that would.
#[derive(Debug, PartialEq, Eq)]
pub struct Reason {
    /// Why, in one line.
    pub text: String,
    /// What would fix it, in one line.
    pub remedy: &'static str,
}

impl Reason {
    /// A reason with what would fix it.
    pub fn new(text: impl Into<String>, remedy: &'static str) -> Self {
        let text = text.into();
        Self { text, remedy }
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(text: T) -> Self {
        Self::new(text, "")
    }
}

impl Stop {
    /// The connection itself failed, or the peer sent its reason to stop: nothing is to be sent.
    pub fn silent(message: impl Into<String>) -> Self {
        Self {
            error: Failure::failed(message),
            to_peer: None,
            useless: false,
        }
    }

    /// Something here went wrong that concerns no file.
    pub fn here(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            useless: false,
            to_peer: Some(Box::new((Vec::new(), message.clone()))),
            error: Failure::failed(message),
        }
    }

    /// A file cannot be sent, or not be received.
    pub fn file(name: &[u8], reason: impl Into<String>) -> Self {
        let reason = reason.into();
        // A name from the wire may be as long as a frame; with a reason beside it, it would not fit one.
        let name = &name[..name.len().min(LONGEST)];
        Self {
            error: Failure::failed(format!("{}: {reason}", shown(name))),
            useless: false,
            to_peer: Some(Box::new((name.to_vec(), reason))),
        }
    }

    /// A file cannot be put in its place.
    pub fn refused(name: &[u8], reason: impl Into<Reason>) -> Self {
        let Reason { text, remedy } = reason.into();
        match remedy {
            "" => Self::file(name, text),
            _ => Self::file(name, text).with_remedy(remedy),
        }
    }

    /// A system call on a file failed.
    pub fn system(name: &[u8], doing: &str, error: &io::Error) -> Self {
        Self::file(name, format!("{doing}: {}", errno_message(error)))
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

    /// The same, with what would fix it.
    pub fn with_remedy(mut self, remedy: &str) -> Self {
        self.error = self.error.with_remedy(remedy);
        self
    }
}
