//! Error numbers of what the standard library reports.

use std::io;

use nix::errno::Errno;

/// The error number of a failed call; EIO for a failure without one.
pub fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
