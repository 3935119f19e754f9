//! Names at the receiver: that of what is whole, of a symbolic link, and another one of a file that has arrived.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, UtimensatFlags, fstatat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use super::names::{self, Origin};
use super::naming::{give_name, link};
use super::partial::{Partial, no_name, time};
use super::stop::Stop;
use super::wire::{Entry, SEGMENT};
use oscope_sys::error::Failure;

/// Make a symbolic link with its time; if it `replaces`, in place of what has its name.
///
/// # Errors
/// `Failure::Failed` with the errno of symlink(2), utimensat(2) or rename(2); without one if another file has its name
/// by now.
pub fn put_symbolic(
    parent: BorrowedFd,
    entry: &Entry,
    target: &[u8],
    replaces: bool,
) -> Result<(), Failure> {
    let failed = |error: Errno| Failure::system("making the link", error);
    for name in names::partials(entry, Origin::Plain) {
        match symlinkat(target, parent, name.as_str()) {
            Err(Errno::EEXIST) => continue,
            made => made.map_err(failed)?,
        }
        let follow = UtimensatFlags::NoFollowSymlink;
        return utimensat(
            parent,
            name.as_str(),
            &TimeSpec::UTIME_OMIT,
            &time(entry),
            follow,
        )
        .map_err(failed)
        .and_then(|()| give_name(parent, name.as_str(), entry, replaces))
        .inspect_err(|_| forget(parent, &name));
    }
    Err(all_taken())
}

/// Other processes have every name under which a link could be made.
fn all_taken() -> Failure {
    Failure::failed("all names for making the link are taken")
}

/// The error to report is the first one.
fn forget(parent: BorrowedFd, name: &str) {
    let _ = unlinkat(parent, name, UnlinkatFlags::NoRemoveDir);
}

/// A file that this transfer has put there, which another name is to be given.
///
/// # Errors
/// `Failure::Failed`: something else has its name by now, or open(2) refuses it.
pub fn arrived(parent: BorrowedFd, entry: &Entry) -> Result<File, Failure> {
    let (_, base) = names::split(entry.name);
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let it = format!("the file {} that it links to", names::shown(entry.name));
    let file = openat(parent, base, flags, Mode::empty())
        .map(File::from)
        .map_err(|error| Failure::system(&it, error))?;
    match file.metadata() {
        Ok(meta) if meta.is_file() && meta.len() == entry.size => Ok(file),
        _ => Err(Failure::failed(format!("{it} has changed"))),
    }
}

/// Give a file another name, if it `replaces` in place of what has it: whether it is one file then. Where the file
/// system takes no such link, it is a copy, before each part of which `alive` is asked.
///
/// # Errors
/// Why there is neither, or what `alive` answers.
pub fn put_hard(
    parent: BorrowedFd,
    entry: &Entry,
    file: &File,
    replaces: bool,
    alive: impl FnMut() -> Result<(), Stop>,
) -> Result<bool, Stop> {
    let refused = |reason: Failure| Stop::refused(entry.name, reason);
    let (_, base) = names::split(entry.name);
    let own = file.metadata().map_err(|error| refused(error.into()))?;
    let there = fstatat(parent, base, AtFlags::AT_SYMLINK_NOFOLLOW);
    if there.is_ok_and(|there| there.st_ino == own.ino() && there.st_dev == own.dev()) {
        return Ok(true);
    }
    for name in names::partials(entry, Origin::Plain) {
        let path = CString::new(name.as_str()).map_err(|error| refused(no_name(&error)))?;
        match link(file, parent, &path) {
            Ok(()) => {
                return give_name(parent, name.as_str(), entry, replaces)
                    .map(|()| true)
                    .inspect_err(|_| forget(parent, &name))
                    .map_err(refused);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return copy(parent, entry, file, replaces, alive).map(|()| false),
        }
    }
    Err(refused(all_taken()))
}

/// Make a copy of a file that is known by its place alone.
fn copy(
    parent: BorrowedFd,
    entry: &Entry,
    file: &File,
    replaces: bool,
    mut alive: impl FnMut() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let refused = |reason: Failure| Stop::refused(entry.name, reason);
    let failed = |error: io::Error| Stop::system(entry.name, "copying it", &error);
    let from = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(failed)?;
    let mut partial = Partial::open(parent, entry, Origin::Plain).map_err(refused)?;
    let mut fill = || {
        partial.keep(0).map_err(refused)?;
        loop {
            alive()?;
            let mut part = (&from).take(SEGMENT as u64);
            if io::copy(&mut part, &mut &*partial.file).map_err(failed)? == 0 {
                return partial.finish(parent, entry, replaces).map_err(refused);
            }
        }
    };
    fill().inspect_err(|_| {
        // It is not kept in part; the error to report is the first one.
        let _ = partial.remove(parent);
    })
}
