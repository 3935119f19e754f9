//! Opens what is below a folder, and nothing that a symbolic link or `..` leads to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstatat};

/// How a folder is opened that others are opened in.
pub const FOLDER: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_CLOEXEC);

/// Open a path below a folder.
///
/// # Errors
/// `ELOOP` for a symbolic link, `EXDEV` for what leads out of the folder; what openat2(2) fails with.
pub fn open(folder: impl AsFd, path: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(&folder, path, how) {
        // Before Linux 5.6, or as a filter of system calls answers that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => open_stepwise(folder.as_fd(), path, flags),
        opened => opened,
    }
}

/// As [`open`], one component after another.
fn open_stepwise(folder: BorrowedFd, path: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
    if path.starts_with(b"/") {
        return Err(Errno::EXDEV);
    }
    let mut components = path
        .split(|&byte| byte == b'/')
        .filter(|component| !component.is_empty())
        .peekable();
    let mut opened: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        let flags = match components.peek() {
            Some(_) => FOLDER,
            None => flags,
        };
        let parent = opened.as_ref().map_or(folder, AsFd::as_fd);
        opened = Some(step(parent, component, flags | OFlag::O_NOFOLLOW)?);
    }
    opened.ok_or(Errno::ENOENT)
}

fn step(parent: BorrowedFd, component: &[u8], flags: OFlag) -> Result<OwnedFd, Errno> {
    if component == b".." {
        return Err(Errno::EXDEV);
    }
    let is_link = || {
        fstatat(parent, component, AtFlags::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|found| found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFLNK.bits())
    };
    match openat(parent, component, flags, Mode::empty()) {
        // With O_DIRECTORY a link is no folder.
        Err(Errno::ENOTDIR) if is_link() => Err(Errno::ELOOP),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    #[test]
    fn stepwise_it_opens_and_refuses_what_openat2_does() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b")).expect("folders");
        fs::write(at("a/b/file"), "text").expect("a file");
        for (target, link) in [("a", "to_a"), ("b/file", "a/to_file"), ("/", "a/out")] {
            symlink(target, at(link)).expect("a link");
        }
        let folder = File::open(root.path()).expect("our own");
        let read = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let cases: [(&str, OFlag, Result<(), Errno>); 12] = [
            ("a", FOLDER, Ok(())),
            ("a/b", FOLDER, Ok(())),
            ("a//b/", FOLDER, Ok(())),
            ("a/b/file", read, Ok(())),
            ("a/b/none", read, Err(Errno::ENOENT)),
            ("a/b/file", FOLDER, Err(Errno::ENOTDIR)),
            ("to_a", FOLDER, Err(Errno::ELOOP)),
            ("to_a/b/file", read, Err(Errno::ELOOP)),
            ("a/to_file", read, Err(Errno::ELOOP)),
            ("a/out/etc", read, Err(Errno::ELOOP)),
            ("../x", read, Err(Errno::EXDEV)),
            ("/etc", read, Err(Errno::EXDEV)),
        ];
        for (path, flags, expected) in cases {
            let opened = open(&folder, path.as_bytes(), flags);
            assert_eq!(opened.map(drop), expected, "{path}");
            let opened = open_stepwise(folder.as_fd(), path.as_bytes(), flags);
            assert_eq!(opened.map(drop), expected, "{path}, stepwise");
        }
    }
}
