//! The names under which files are put before they get their own.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;

use nix::errno::Errno;

/// How each of them begins.
pub const PREFIX: &str = ".oscope-fs-";

/// Hexadecimal digits that follow.
const DIGITS: usize = 16;

/// A name that nobody else uses: 64 random bits.
pub fn name() -> Result<OsString, Errno> {
    let mut bits = [0; DIGITS / 2];
    let mut source = File::open("/dev/urandom").map_err(|_| Errno::EIO)?;
    source.read_exact(&mut bits).map_err(|_| Errno::EIO)?;
    Ok(format!("{PREFIX}{:016x}", u64::from_be_bytes(bits)).into())
}
