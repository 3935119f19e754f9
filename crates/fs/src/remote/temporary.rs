//! The names under which files are put before they get their own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

/// How each of them begins.
const PREFIX: &str = ".oscope-fs-";

/// Hexadecimal digits that follow.
const DIGITS: usize = 16;

/// A name that nobody else uses: 64 random bits.
pub fn name() -> Result<OsString, Errno> {
    let mut bits = [0; DIGITS / 2];
    let mut source = File::open("/dev/urandom").map_err(|_| Errno::EIO)?;
    source.read_exact(&mut bits).map_err(|_| Errno::EIO)?;
    Ok(format!("{PREFIX}{:016x}", u64::from_be_bytes(bits)).into())
}

/// Whether a name is one of those.
pub fn is_temporary(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Where they are written down, for a life that ends in the middle: paths are relative to the target's folder.
pub trait Journal: Send + Sync {
    /// One is about to be made.
    fn begins(&self, temporary: &Path);
    /// One is not on the server, and will not be.
    fn gone(&self, temporary: &Path);
}

/// One that an earlier life began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Temporary {
    /// Relative to the target's folder.
    pub path: PathBuf,
    /// How long ago.
    pub age: Duration,
}
