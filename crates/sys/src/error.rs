//! The probe's one error type.

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
    pub fn about(self, what: &str) -> Self {
        match self {
            Self::Failed { message } => Self::failed(format!("{what}: {message}")),
            other => other,
        }
    }

    /// A failed system call: what was being done, and what the kernel answered.
    pub fn system(doing: &str, error: impl std::fmt::Display) -> Self {
        Self::failed(format!("{doing}: {error}"))
    }
}

/// An error of the kernel in plain words, without its number.
pub fn words(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}
