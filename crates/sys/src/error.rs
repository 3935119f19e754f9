//! The one error type: its kind decides what is done about it, its text is for people.

use std::fmt::Display;

use nix::errno::Errno;
use thiserror::Error;

/// Why a request, or one repetition of it, gave no figure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// This machine cannot do it; the laboratory shows it as skipped.
    #[error("{message}")]
    Unavailable {
        /// What is missing, in one line.
        message: String,
        /// What would fix it, in one line.
        remedy: Option<String>,
    },
    /// It was tried and went wrong.
    #[error("{message}")]
    Failed {
        /// What went wrong, where and on what value, in one line.
        message: String,
        /// The kernel's reason, if it was a system call that failed.
        errno: Option<Errno>,
    },
    /// The request is wrong.
    #[error("{field}: {message}")]
    Request {
        /// The field of the request, or the parameter, that is wrong.
        field: String,
        /// What is wrong with it and what would be right, in one line.
        message: String,
    },
}

impl Failure {
    /// A [`Failure::Failed`] with this message.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            errno: None,
        }
    }

    /// A [`Failure::Unavailable`] with this message and remedy.
    pub fn unavailable(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unavailable {
            message: message.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// A [`Failure::Request`] that names the field.
    pub fn request(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Request {
            field: field.into(),
            message: message.into(),
        }
    }

    /// The same failure, its message led by what it is about, such as a file's name.
    pub fn context(self, what: &str) -> Self {
        match self {
            Self::Failed { message, errno } => Self::Failed {
                message: format!("{what}: {message}"),
                errno,
            },
            other => other,
        }
    }

    /// A failed system call: what was being done, and what the kernel answered.
    pub fn system(doing: &str, error: impl Cause) -> Self {
        Self::Failed {
            message: format!("{doing}: {error}"),
            errno: error.errno(),
        }
    }

    /// The kernel's reason, if it was a system call that failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Failed { errno, .. } => *errno,
            Self::Unavailable { .. } | Self::Request { .. } => None,
        }
    }
}

/// What a call failed with.
pub trait Cause: Display {
    /// The kernel's number for it, if it has one.
    fn errno(&self) -> Option<Errno> {
        None
    }
}

impl Cause for Errno {
    fn errno(&self) -> Option<Errno> {
        Some(*self)
    }
}

impl Cause for std::io::Error {
    fn errno(&self) -> Option<Errno> {
        self.raw_os_error().map(Errno::from_raw)
    }
}

impl<T: Cause + ?Sized> Cause for &T {
    fn errno(&self) -> Option<Errno> {
        T::errno(self)
    }
}

impl Cause for str {}
impl Cause for String {}
impl Cause for serde_json::Error {}

/// An error of the kernel in plain words, without its number.
pub fn errno_message(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_reason_of_the_kernel_stays_with_the_failure_whatever_its_text_becomes() {
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        let failure = Failure::system("madvise", &error).context("a mapping");
        assert_eq!(failure.errno(), Some(Errno::ENOMEM));
        assert_eq!(failure.to_string(), format!("a mapping: madvise: {error}"));
        assert_eq!(
            Failure::system("fork", Errno::EAGAIN).errno(),
            Some(Errno::EAGAIN)
        );
        let short = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(Failure::system("reading", short).errno(), None);
        assert_eq!(Failure::failed("madvise: out of memory").errno(), None);
    }
}
