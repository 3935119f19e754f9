//! Requests about names: looking, making, removing, renaming, linking.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, UtimensatFlags, fchmodat, mknod, utimensat};
use nix::sys::statvfs::statvfs;
use nix::unistd::{LinkatFlags, linkat};

use super::Done;
use super::files::spec;
use super::place::Place;
use super::reply::{attributes, ok};
use crate::errno::errno;
use crate::remote::wire::{Malformed, Packet, Reader, kind};
use crate::remote::{Change, Time};

/// The mode of a folder that is made without one (OpenSSH's), less the umask.
const USUAL: u32 = 0o777;

/// Where a file has its access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// A request about a name.
pub fn request(id: u32, kind: u8, body: &mut Reader<'_>) -> Done {
    let done = match kind {
        kind::SYMLINK => {
            // The text first and the name second, as OpenSSH has it.
            let text = Path::new(OsStr::from_bytes(body.text()?));
            let at = body.place()?;
            at.and_then(|at| symlink(text, &*at).map_err(errno))
        }
        kind::RENAME => two(body)?.and_then(|(from, to)| rename_new(&from, &to)),
        kind::MKDIR => {
            let (path, mode) = (body.place()?, body.change()?.mode.unwrap_or(USUAL));
            path.and_then(|path| {
                fs::DirBuilder::new()
                    .mode(mode)
                    .create(&*path)
                    .map_err(errno)
            })
        }
        kind::SETSTAT => {
            let (path, wanted) = (body.place()?, body.change()?);
            path.and_then(|path| change(&path, &wanted, true))
        }
        kind::LSTAT | kind::STAT | kind::READLINK | kind::REALPATH | kind::REMOVE | kind::RMDIR => {
            return Ok(body.place()?.and_then(|path| answer(id, kind, &path)));
        }
        _ => Err(Errno::ENOSYS),
    };
    Ok(done.map(|()| ok(id)))
}

/// A request that has a path and no more.
fn answer(id: u32, kind: u8, path: &Path) -> Result<Packet, Errno> {
    match kind {
        kind::LSTAT => path
            .symlink_metadata()
            .map(|of| attributes(id, &of))
            .map_err(errno),
        kind::STAT => path.metadata().map(|of| attributes(id, &of)).map_err(errno),
        kind::READLINK => fs::read_link(path).map(|to| name(id, &to)).map_err(errno),
        kind::REALPATH => whole(path).map(|whole| name(id, &whole)),
        kind::REMOVE => nix::unistd::unlink(path).map(|()| ok(id)),
        _ => fs::remove_dir(path).map(|()| ok(id)).map_err(errno),
    }
}

/// A request of an extension.
pub fn extended(id: u32, extension: &[u8], body: &mut Reader<'_>) -> Done {
    let done = match extension {
        b"statvfs@openssh.com" => return Ok(body.place()?.and_then(|path| room(id, &path))),
        b"posix-rename@openssh.com" => {
            two(body)?.and_then(|(from, to)| rename(&from, &to, RenameFlags::empty()))
        }
        b"hardlink@openssh.com" => two(body)?
            .and_then(|(of, at)| linkat(AT_FDCWD, &*of, AT_FDCWD, &*at, LinkatFlags::empty())),
        b"lsetstat@openssh.com" => {
            let (path, wanted) = (body.place()?, body.change()?);
            path.and_then(|path| change(&path, &wanted, false))
        }
        b"xattrs@oscope" => two(body)?.and_then(|(of, to)| inherit(&of, &to)),
        b"mknod@oscope" => {
            let (path, mode, device) = (body.place()?, body.number()?, body.number()?);
            path.and_then(|path| make(&path, mode, device))
        }
        b"replace@oscope" => {
            let (names, flag) = (two(body)?, body.number()?);
            let version = (body.long()?, body.time()?);
            names.and_then(|(from, to)| replace(&from, &to, (flag != 0).then_some(version)))
        }
        _ => Err(Errno::ENOSYS),
    };
    Ok(done.map(|()| ok(id)))
}

fn two(body: &mut Reader<'_>) -> Result<Result<(Place, Place), Errno>, Malformed> {
    let (first, second) = (body.place()?, body.place()?);
    Ok(first.and_then(|first| Ok((first, second?))))
}

/// An answer that is one name.
fn name(id: u32, path: &Path) -> Packet {
    let bytes = path.as_os_str().as_bytes();
    Packet::request(kind::NAME, id)
        .number(1)
        .text(bytes)
        .text(b"")
        .number(0)
}

/// The path from the root; its last part need not be there.
fn whole(path: &Path) -> Result<PathBuf, Errno> {
    match (fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(whole), ..) => Ok(whole),
        (Err(_), Some(parent), Some(last)) => {
            let parent = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            };
            Ok(fs::canonicalize(parent).map_err(errno)?.join(last))
        }
        (Err(error), ..) => Err(errno(error)),
    }
}

/// Set attributes by name, following links or of a link itself, in an order in which none undoes another.
fn change(path: &Path, change: &Change, follow: bool) -> Result<(), Errno> {
    if let Some(size) = change.size {
        nix::unistd::truncate(path, i64::try_from(size).map_err(|_| Errno::EFBIG)?)?;
    }
    if let Some((uid, gid)) = change.owner {
        let set = match follow {
            true => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
            false => lchown(path, Some(uid), Some(gid)),
        };
        set.map_err(errno)?;
    }
    if let Some(mode) = change.mode {
        // A link has no mode of its own.
        let mode = Mode::from_bits_truncate(mode);
        fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink)?;
    }
    if let Some((access, modification)) = change.times {
        let links = match follow {
            true => UtimensatFlags::FollowSymlink,
            false => UtimensatFlags::NoFollowSymlink,
        };
        utimensat(AT_FDCWD, path, &spec(access), &spec(modification), links)?;
    }
    Ok(())
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, flags)
}

/// Renames where nothing is.
///
/// # Errors
/// EEXIST: something is there.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match rename(from, to, RenameFlags::RENAME_NOREPLACE) {
        // NFS has no flags of a rename (`nfs_rename`, fs/nfs/dir.c), but a link is made there for nothing else either.
        Err(Errno::EINVAL) => {}
        done => return done,
    }
    match linkat(AT_FDCWD, from, AT_FDCWD, to, LinkatFlags::empty()) {
        Ok(()) => match nix::unistd::unlink(from) {
            // NFS repeats a removal of which no answer came.
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(why) => {
                // It was not renamed, so it must not have both names. A kill before this leaves both.
                let _ = nix::unistd::unlink(to);
                Err(why)
            }
        },
        // A folder, a file system without links, or a file with all that it can have: what comes in after the look is
        // lost, of folders an empty one.
        Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EMLINK) => {
            match to.symlink_metadata() {
                Ok(_) => Err(Errno::EEXIST),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    rename(from, to, RenameFlags::empty())
                }
                Err(error) => Err(errno(error)),
            }
        }
        Err(why) => Err(why),
    }
}

/// `mknod@oscope`: a fifo, a socket or, for who may, a device.
fn make(path: &Path, mode: u32, device: u32) -> Result<(), Errno> {
    let kind = SFlag::from_bits_truncate(mode & libc::S_IFMT);
    mknod(
        path,
        kind,
        Mode::from_bits_truncate(mode & 0o7777),
        device.into(),
    )
}

/// `xattrs@oscope`: `to` gets the extended attributes of the file `of`, with its access control list; none where `of`
/// is not there. Of the system's own (`security.`) those that may be set, but no capabilities, which a file loses when
/// it is written to. A list that `to` has from its folder goes where `of` has none.
fn inherit(of: &Path, to: &Path) -> Result<(), Errno> {
    let names = match xattr::list(of) {
        Ok(names) => names,
        Err(error) => match errno(error) {
            Errno::ENOENT | Errno::EOPNOTSUPP => return Ok(()),
            why => return Err(why),
        },
    };
    let mut listed = false;
    for name in names.filter(|name| name != "security.capability") {
        listed |= name == ACCESS_LIST;
        // One that has gone meanwhile is not missed.
        let Some(value) = xattr::get(of, &name).map_err(errno)? else {
            continue;
        };
        match xattr::set(to, &name, &value) {
            Err(_) if name.as_bytes().starts_with(b"security.") => {}
            done => done.map_err(errno)?,
        }
    }
    if listed {
        return Ok(());
    }
    match xattr::remove(to, ACCESS_LIST).map_err(errno) {
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// `replace@oscope`: `from` takes the name `to` if that stands for this version of a file, or for nothing (`None`).
///
/// # Errors
/// ECANCELED: it stands for something else; `from` may be removed.
fn replace(from: &Path, to: &Path, expected: Option<(u64, Time)>) -> Result<(), Errno> {
    let there = version(to)?;
    if there.is_none() {
        // It is made anew, unless another makes it first.
        return match rename_new(from, to) {
            Err(Errno::EEXIST) => Err(Errno::ECANCELED),
            done => done,
        };
    }
    if there != expected {
        return Err(Errno::ECANCELED);
    }
    let ours = from.symlink_metadata().map_err(errno)?.ino();
    // The two change places, so that what is replaced can be looked at once more when nobody finds it by that name.
    match rename(from, to, RenameFlags::RENAME_EXCHANGE) {
        // The file system cannot: what came in since the comparison above is lost.
        Err(Errno::EINVAL) => return rename(from, to, RenameFlags::empty()),
        done => done?,
    }
    if version(from)? == expected {
        return nix::unistd::unlink(from);
    }
    // Another was there after all: it gets its name back.
    rename(from, to, RenameFlags::RENAME_EXCHANGE)?;
    if from.symlink_metadata().map_err(errno)?.ino() != ours {
        // A third one has replaced ours meanwhile: its file keeps the name.
        rename(from, to, RenameFlags::RENAME_EXCHANGE)?;
    }
    Err(Errno::ECANCELED)
}

/// Size and time of a regular file; `None`: nothing has the name. Anything else has a version that no file has.
fn version(path: &Path) -> Result<Option<(u64, Time)>, Errno> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {
            let time = Time::new(found.mtime(), found.mtime_nsec());
            Ok(Some((found.size(), time)))
        }
        Ok(_) => Ok(Some((u64::MAX, Time::default()))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(errno(error)),
    }
}

/// `statvfs@openssh.com`.
fn room(id: u32, path: &Path) -> Result<Packet, Errno> {
    const READ_ONLY: u64 = 1;
    const NO_SET_ID: u64 = 2;
    let found = statvfs(path)?;
    let numbers = [
        found.block_size(),
        found.fragment_size(),
        found.blocks(),
        found.blocks_free(),
        found.blocks_available(),
        found.files(),
        found.files_free(),
        found.files_available(),
        found.filesystem_id(),
        found.flags().bits() & (READ_ONLY | NO_SET_ID),
        found.name_max(),
    ];
    let packet = Packet::request(kind::EXTENDED_REPLY, id);
    Ok(numbers.into_iter().fold(packet, Packet::long))
}
