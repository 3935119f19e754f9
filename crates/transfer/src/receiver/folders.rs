//! The modes and times of folders: while a transfer runs no more open than at the sender, and the sender's at its end.

use std::cmp::Reverse;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{
    FchmodatFlags, FileStat, Mode, UtimensatFlags, fchmod, fchmodat, fstat, futimens, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::geteuid;

use super::{Item, Kind, Receiver};
use crate::partial::{KEPT, time};
use crate::stop::Stop;
use oscope_sys::error::Failure;

/// The bit of a mode by which what is made in a folder has its group. It is the receiver's own, and stays.
const SETGID: u32 = 0o2000;

/// By this bit only owners remove what is in a folder.
const STICKY: u32 = 0o1000;

/// The owner's bits: files can be put into a folder.
const OWNERS: u32 = 0o700;

impl Receiver<'_, '_> {
    /// Have a folder that takes files, and that is from now on no more open than at the sender.
    pub(super) fn open_folder(&mut self, item: &Item) -> Result<(), Stop> {
        let handle = self
            .dirs
            .folder_itself(&item.name)
            .map_err(|reason| item.refused(reason))?;
        let narrowed = fstat(handle).and_then(|status| {
            let mode = status.st_mode & 0o7777;
            let meanwhile = mode & (item.mode & KEPT | SETGID | STICKY) | OWNERS;
            match is_changeable(&status) && meanwhile != mode {
                true => set_mode(handle, meanwhile),
                false => Ok(()),
            }
        });
        self.dirs.calls += 1;
        match narrowed {
            Ok(()) | Err(Errno::EPERM) => Ok(()),
            Err(error) => Err(item.refused(Failure::system("setting its mode", error))),
        }
    }

    /// Give every folder of the manifest its mode and its time, when all is in it: the innermost first, since those
    /// above may not be entered any more with theirs.
    pub(super) fn dress_folders(&mut self, items: &[Item]) -> Result<(), Stop> {
        let mut folders: Vec<&Item> = items
            .iter()
            .filter(|item| item.kind == Kind::Folder)
            .collect();
        folders.sort_by_key(|item| Reverse(item.name.len()));
        let mut others = 0;
        for item in folders {
            self.link.alive()?;
            self.dirs.calls += 5;
            let handle = self
                .dirs
                .folder(&item.name)
                .map_err(|reason| item.refused(reason))?;
            match dress(handle, item) {
                Ok(true) => {}
                Ok(false) | Err(Errno::EPERM) => others += 1,
                Err(error) => {
                    let reason = Failure::system("setting its mode and time", error);
                    return Err(item.refused(reason));
                }
            }
        }
        if others > 0 {
            self.meter.note(&format!(
                "{others} folders keep their modes and times: they are another user's"
            ));
        }
        Ok(())
    }
}

/// Whether the folder is this user's to change; then it has its mode and time.
fn dress(handle: BorrowedFd, item: &Item) -> Result<bool, Errno> {
    let status = fstat(handle)?;
    if !is_changeable(&status) {
        return Ok(false);
    }
    let mode = item.mode & KEPT | status.st_mode & SETGID;
    // The time first: with its mode the folder may not be opened any more. The mode does not change it.
    set_time(handle, &time(&item.entry()))?;
    if mode != status.st_mode & 0o7777 {
        set_mode(handle, mode)?;
    }
    Ok(true)
}

fn is_changeable(status: &FileStat) -> bool {
    let user = geteuid().as_raw();
    user == 0 || user == status.st_uid
}

/// The folder, which is held by its place alone, opened; `EACCES` where its mode forbids that.
fn opened(handle: BorrowedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    openat(handle, c".", flags, Mode::empty())
}

/// The name by which the kernel has a folder that may not be opened.
fn place(handle: BorrowedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

fn set_mode(handle: BorrowedFd, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_bits_truncate(mode);
    match opened(handle) {
        Ok(folder) => fchmod(folder.as_fd(), mode),
        Err(Errno::EACCES) => {
            let path = place(handle);
            fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink)
        }
        Err(error) => Err(error),
    }
}

fn set_time(handle: BorrowedFd, modified: &TimeSpec) -> Result<(), Errno> {
    match opened(handle) {
        Ok(folder) => futimens(folder.as_fd(), &TimeSpec::UTIME_OMIT, modified),
        Err(Errno::EACCES) => {
            let path = place(handle);
            let follow = UtimensatFlags::FollowSymlink;
            utimensat(
                AT_FDCWD,
                path.as_str(),
                &TimeSpec::UTIME_OMIT,
                modified,
                follow,
            )
        }
        Err(error) => Err(error),
    }
}
