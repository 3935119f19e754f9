//! Why a transfer ends early, and whether the peer is yet to be told.

use std::io;

use super::names::shown;
use super::outcome::TransferError;

/// What ends a transfer on this side.
#[derive(Debug)]
pub struct Stop {
    /// What this side reports.
    pub error: TransferError,
    /// What the peer is told, if it is to be told: the file concerned, empty if none, and the reason.
    pub tell: Option<(Vec<u8>, String)>,
}

impl Stop {
    /// The connection itself failed, or the peer told why it stops: there is nobody to tell.
    pub fn silent(message: impl Into<String>) -> Self {
        Self {
            error: TransferError::failed(message),
            tell: None,
        }
    }

    /// Something here went wrong that concerns no file.
    pub fn here(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            tell: Some((Vec::new(), message.clone())),
            error: TransferError::failed(message),
        }
    }

    /// A file cannot be sent, or not be received.
    pub fn file(name: &[u8], reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            error: TransferError::failed(format!("{}: {reason}", shown(name))),
            tell: Some((name.to_vec(), reason)),
        }
    }

    /// A system call on a file failed.
    pub fn system(name: &[u8], doing: &str, error: &io::Error) -> Self {
        Self::file(name, format!("{doing}: {}", crate::error::words(error)))
    }

    /// The same, with what would mend it.
    pub fn remedy(mut self, remedy: &str) -> Self {
        self.error = self.error.remedy(remedy);
        self
    }
}
