//! Files that have a temporary name until they are whole.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// An empty file for this user only.
///
/// # Errors
/// Those of open(2), with errno and without the temporary name, which the crate's own errors have instead.
pub fn temporary_in(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    let make = |path: &Path| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        options.open(path)
    };
    tempfile::Builder::new()
        .prefix(prefix)
        .make_in(folder, make)
}
