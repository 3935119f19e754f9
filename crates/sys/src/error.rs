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
        /// The kernel's reason, if it was a system call that it refused.
        errno: Option<Errno>,
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
        /// What would fix it, in one line.
        remedy: Option<String>,
    },
    /// The request, or the command line, is wrong.
    #[error("{}{message}", led(field))]
    Request {
        /// The field of the request, or the parameter, that is wrong; empty where the message names it.
        field: String,
        /// What is wrong with it and what would be right, in one line.
        message: String,
        /// What would fix it, in one line.
        remedy: Option<String>,
    },
}

/// The text in one line: white space as single spaces, and no control characters, since what a server or another
/// program said may hold any.
pub fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.replace(|letter: char| letter.is_control(), " ");
    words.trim().to_owned()
}

/// What leads a message that is about `field`.
fn led(field: &str) -> String {
    match field.is_empty() {
        true => String::new(),
        false => format!("{field}: "),
    }
}

impl Failure {
    /// A [`Failure::Failed`] with this message.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            errno: None,
            remedy: None,
        }
    }

    /// A [`Failure::Failed`] with this message, and what would fix it; empty if nothing is known that would.
    ///
    /// Line breaks and other control characters become spaces: a server's words may be in it.
    pub fn remediable(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = one_line(&remedy.into());
        let failure = Self::failed(one_line(&message.into()));
        match remedy.is_empty() {
            true => failure,
            false => failure.with_remedy(remedy),
        }
    }

    /// A [`Failure::Unavailable`] with this message and remedy.
    pub fn unavailable(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unavailable {
            message: message.into(),
            errno: None,
            remedy: Some(remedy.into()),
        }
    }

    /// A [`Failure::Unavailable`] because of a refused system call: what was being done, what the kernel answered, and
    /// the remedy.
    pub fn unavailable_system(doing: &str, error: impl Cause, remedy: impl Into<String>) -> Self {
        Self::unavailable(format!("{doing}: {}", error.message()), remedy).because_of(error)
    }

    /// The same failure with the kernel's reason, where its message does not end with that.
    pub fn because_of(mut self, error: impl Cause) -> Self {
        if let Self::Unavailable { errno, .. } | Self::Failed { errno, .. } = &mut self {
            *errno = error.errno();
        }
        self
    }

    /// A [`Failure::Request`] that names the field.
    pub fn request(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Request {
            field: field.into(),
            message: message.into(),
            remedy: None,
        }
    }

    /// A [`Failure::Request`] of a command line, whose message names what is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::request("", message)
    }

    /// The same failure, its message led by what it is about, such as a file's name, where that is not known from the
    /// request.
    pub fn context(mut self, what: &str) -> Self {
        match &mut self {
            Self::Failed { message, .. } => *message = format!("{what}: {message}"),
            Self::Request { field, message, .. } if field.is_empty() => {
                *message = format!("{what}: {message}");
            }
            Self::Unavailable { .. } | Self::Request { .. } => {}
        }
        self
    }

    /// The same failure with more at the end of its message, where it was tried and went wrong.
    pub fn followed_by(mut self, more: &str) -> Self {
        if let Self::Failed { message, .. } = &mut self {
            message.push_str(more);
        }
        self
    }

    /// The same failure with what would fix it.
    pub fn with_remedy(mut self, text: impl Into<String>) -> Self {
        let (Self::Unavailable { remedy, .. }
        | Self::Failed { remedy, .. }
        | Self::Request { remedy, .. }) = &mut self;
        *remedy = Some(text.into());
        self
    }

    /// The same failure, and at the end of its remedy, if it has one, what would do instead.
    pub fn with_alternative(mut self, text: &str) -> Self {
        let (Self::Unavailable { remedy, .. }
        | Self::Failed { remedy, .. }
        | Self::Request { remedy, .. }) = &mut self;
        if let Some(remedy) = remedy {
            remedy.push_str(", or ");
            remedy.push_str(text);
        }
        self
    }

    /// A failed system call: what was being done, and what the kernel answered.
    pub fn system(doing: &str, error: impl Cause) -> Self {
        Self::Failed {
            message: format!("{doing}: {}", error.message()),
            errno: error.errno(),
            remedy: None,
        }
    }

    /// The kernel's reason, if it was a system call that failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Unavailable { errno, .. } | Self::Failed { errno, .. } => *errno,
            Self::Request { .. } => None,
        }
    }

    /// What would fix it, if that is known.
    pub fn remedy(&self) -> Option<&str> {
        let (Self::Unavailable { remedy, .. }
        | Self::Failed { remedy, .. }
        | Self::Request { remedy, .. }) = self;
        remedy.as_deref()
    }

    /// What went wrong, and what would fix it: one line for a person.
    pub fn explained(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }

    /// Whether what was asked for is wrong.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Request { .. })
    }
}

impl From<std::io::Error> for Failure {
    /// What the kernel answered, alone: [`Failure::context`] says to what.
    fn from(error: std::io::Error) -> Self {
        Self::Failed {
            message: error.message(),
            errno: Cause::errno(&error),
            remedy: None,
        }
    }
}

/// What a call failed with.
pub trait Cause: Display {
    /// The kernel's number for it, if it has one.
    fn errno(&self) -> Option<Errno> {
        None
    }

    /// The error in plain words.
    fn message(&self) -> String {
        self.to_string()
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

    fn message(&self) -> String {
        errno_message(self)
    }
}

impl<T: Cause + ?Sized> Cause for &T {
    fn errno(&self) -> Option<Errno> {
        T::errno(self)
    }

    fn message(&self) -> String {
        T::message(self)
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
        assert_eq!(
            failure.to_string(),
            format!("a mapping: madvise: {}", Errno::ENOMEM.desc())
        );
        assert_eq!(
            Failure::system("fork", Errno::EAGAIN).errno(),
            Some(Errno::EAGAIN)
        );
        let bare = Failure::from(io::Error::from_raw_os_error(libc::EIO)).context("a disk");
        assert_eq!(bare.errno(), Some(Errno::EIO));
        assert_eq!(bare.to_string(), format!("a disk: {}", Errno::EIO.desc()));
        let refused =
            Failure::unavailable_system("swapon", io::Error::from(Errno::EPERM), "be root");
        assert_eq!(refused.errno(), Some(Errno::EPERM));
        let expected = format!("swapon: {}; be root", Errno::EPERM.desc());
        assert_eq!(refused.explained(), expected);
        let early = Failure::failed("no memory, after 3 of 5 bytes").because_of(Errno::ENOMEM);
        assert_eq!(early.errno(), Some(Errno::ENOMEM));
        let short = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(Failure::system("reading", short).errno(), None);
        assert_eq!(Failure::failed("madvise: out of memory").errno(), None);
    }

    #[test]
    fn what_a_server_said_is_one_line() {
        let failure = Failure::remediable("cannot open\n\x1b[31ma\n", "make it\tfirst");
        assert_eq!(failure.explained(), "cannot open  [31ma; make it first");
        assert_eq!(Failure::remediable("no", "").explained(), "no");
    }

    #[test]
    fn each_kind_may_have_a_remedy_and_what_leads_it() {
        let wrong = Failure::usage("7025 is no address").with_remedy("name a host");
        assert_eq!(wrong.to_string(), "7025 is no address");
        assert_eq!(
            wrong.context("--listen").to_string(),
            "--listen: 7025 is no address"
        );
        let field = Failure::request("size", "too large").context("a file");
        assert_eq!(field.to_string(), "size: too large");
        let failed = Failure::failed("no answer")
            .followed_by("; sshd: no")
            .with_remedy("start it");
        assert_eq!(failed.to_string(), "no answer; sshd: no");
        assert_eq!(failed.explained(), "no answer; sshd: no; start it");
        let either = failed.with_alternative("choose another");
        assert_eq!(either.remedy(), Some("start it, or choose another"));
        let neither = Failure::failed("no answer").with_alternative("choose another");
        assert_eq!(neither.remedy(), None);
    }
}
