//! Opens what was found where it was found, and not where a symbolic link that came later leads.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use crate::beneath::{self, FOLDER};

/// How a file is opened to read. A FIFO that took its place is not waited for.
pub const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);

/// How many bytes of a path that is named are followed: all of it where it leads to what a link is for, otherwise the
/// folder that it is in. Who named it vouches for that folder, and not for what others may put below it.
pub fn followed(path: &Path) -> usize {
    // Without a slash behind it, by which a link is always followed.
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    match (path.file_name(), path.parent()) {
        (Some(_), Some(above)) if !is_link(path.components().as_path()) => above.as_os_str().len(),
        _ => path.as_os_str().len(),
    }
}

/// Open a path, in which no symbolic link is followed behind so many bytes.
///
/// # Errors
/// `ELOOP` for such a link; what [`beneath::open`] fails with.
pub fn open(path: &Path, followed: usize, flags: OFlag) -> Result<OwnedFd, Errno> {
    let bytes = path.as_os_str().as_bytes();
    let (above, below) = bytes.split_at(followed.min(bytes.len()));
    let slashes = below.iter().take_while(|&&byte| byte == b'/').count();
    let below = &below[slashes..];
    if below.is_empty() {
        return openat(AT_FDCWD, path, flags, Mode::empty());
    }
    if above.is_empty() {
        return beneath::open(AT_FDCWD, below, flags);
    }
    let folder = openat(AT_FDCWD, above, FOLDER, Mode::empty())?;
    beneath::open(folder, below, flags)
}
