//! What is whole gets its own name.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, RenameFlags, renameat, renameat2};
use nix::sys::stat::fstatat;
use nix::unistd::{close, linkat};

use super::names;
use super::wire::Entry;
use oscope_sys::error::Failure;

/// Have the file system take all that was written, by the close(2) of another descriptor of the file: one whose disk is
/// another machine's or another program's may write only then, and report only there that the disk is full. The file
/// stays open, and locked.
///
/// # Errors
/// Those of dup(2) and close(2).
pub fn flush(file: &File) -> io::Result<()> {
    loop {
        match close(file.as_fd().try_clone_to_owned()?) {
            Err(Errno::EINTR) => {}
            closed => return closed.map_err(io::Error::from),
        }
    }
}

/// Give a file a name, if nothing has it.
///
/// # Errors
/// Those of linkat(2): `EEXIST` if something has the name, `EPERM` or `EOPNOTSUPP` where the file system has no such
/// links.
pub fn link(file: &File, parent: BorrowedFd, base: &CStr) -> io::Result<()> {
    // Before Linux 6.10 the first way took a privilege (CAP_DAC_READ_SEARCH); the second takes a mounted proc(5).
    let by_proc = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(file, c"", parent, base, AtFlags::AT_EMPTY_PATH)
        .or_else(|_| {
            let flags = AtFlags::AT_SYMLINK_FOLLOW;
            linkat(AT_FDCWD, by_proc.as_str(), parent, base, flags)
        })
        .map_err(io::Error::from)
}

/// Rename something to its own name; if it `replaces`, in place of what has it. Otherwise nothing had it at the
/// beginning: what has it by now may be of this transfer, where names that differ in capitals are one name.
///
/// # Errors
/// `Failure::Failed`: what has its name is not to be replaced ([`taken`]), or with the errno of rename(2).
pub fn give_name<P: NixPath + ?Sized>(
    parent: BorrowedFd,
    from: &P,
    entry: &Entry,
    replaces: bool,
) -> Result<(), Failure> {
    let (_, base) = names::split(entry.name);
    let plainly = || renameat(parent, from, parent, base);
    let named = match replaces {
        true => plainly(),
        false => match renameat2(parent, from, parent, base, RenameFlags::RENAME_NOREPLACE) {
            // A file system that cannot, such as NFS, or no such call: a look before is all there is.
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
                match fstatat(parent, base, AtFlags::AT_SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EEXIST),
                    Err(_) => plainly(),
                }
            }
            named => named,
        },
    };
    named.map_err(|error| match error {
        Errno::EEXIST => taken(),
        _ => Failure::system("naming it", error),
    })
}

/// Why a file does not get its name, where another one has it that is not to be replaced.
pub fn taken() -> Failure {
    Failure::remediable(
        "another file has its name there by now, or one that differs in capitals alone",
        "rename one of the two, or receive --into a folder that distinguishes capitals",
    )
}
