//! Why a request got no answer, or which error its answer was.

use nix::errno::Errno;

use super::wire::Malformed;

/// Why an operation got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// It got one: the error that it is.
    Errno(Errno),
    /// The connection was gone before anything was sent.
    Unsent,
    /// The connection broke: whether it was done is not known.
    Lost,
    /// Its time is over.
    Late,
}

impl From<Malformed> for RequestError {
    fn from(_: Malformed) -> Self {
        Self::Errno(Errno::EIO)
    }
}
