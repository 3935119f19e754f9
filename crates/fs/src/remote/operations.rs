//! The operations that are a few requests each: names, folders, attributes.
//!
//! One that must not be done twice answers `None` where it was done and the connection broke before its attributes
//! came.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Statvfs, Version};
use super::errno::{Doing, parent, settle};
use super::listing::{Brought, Listing};
use super::talk::{RequestError, RequestPipeline, StatusResult};
use super::time::Time;
use super::wire::{Malformed, Packet, Status, flag, kind};

/// READDIR requests under way at once: at first, and at most.
const LISTING: (usize, usize) = (2, 16);

/// Bytes of a symbolic link's text and the zero behind it at most: `PATH_MAX`.
const LONGEST_LINK: usize = 4096;

/// How a file is opened that has to be new.
pub const NEW: u32 = flag::WRITE | flag::CREATE | flag::EXCLUSIVE;

/// What a name stands for.
pub fn lstat(talk: &mut RequestPipeline<'_>, path: &Path) -> Result<Attributes, RequestError> {
    let began = Instant::now();
    let id = talk.ask_path(kind::LSTAT, path);
    let said = talk.attributes(id)?;
    talk.session.answered_after(began.elapsed());
    if said == Err(Status::BadMessage) {
        return Err(RequestError::Errno(Errno::ENAMETOOLONG));
    }
    settle(talk, said, Doing::Look)
}

/// What is in a folder.
pub fn list(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    mut listing: Listing,
) -> Result<Vec<(OsString, Attributes)>, RequestError> {
    let id = talk.ask_path(kind::OPENDIR, path);
    let said = talk.handle(id)?;
    let handle = settle(talk, said, Doing::List(path))?;
    let mut asked: VecDeque<u32> = VecDeque::new();
    let mut width = LISTING.0;
    loop {
        while asked.len() < width {
            let id = talk.ask_handle(kind::READDIR, &handle);
            asked.push_back(id);
        }
        let Some(id) = asked.pop_front() else {
            return Err(RequestError::Errno(Errno::EIO));
        };
        match talk.read(id, kind::NAME, |body| listing.take(body))? {
            Ok(Brought::Names) => {
                talk.deadline = listing.deadline()?;
                width = (width * 2).min(LISTING.1);
            }
            Ok(Brought::Nothing) => {}
            Ok(Brought::End) | Err(Status::End) => return Ok(listing.into_names()),
            said => settle(talk, said.map(drop), Doing::List(path))?,
        }
    }
}

/// Gather the request to open a file for writing; one that is made by it gets this mode, less the server's umask.
pub fn ask_open(talk: &mut RequestPipeline<'_>, path: &Path, flags: u32, mode: u32) -> u32 {
    let full = talk.target.full(path);
    let wanted = Change {
        mode: Some(mode),
        ..Change::default()
    };
    talk.ask(|id| {
        Packet::request(kind::OPEN, id)
            .text(&full)
            .number(flags)
            .change(&wanted)
    })
}

/// A new empty file.
pub fn create(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    mode: u32,
) -> Result<Option<Attributes>, RequestError> {
    let id = ask_open(talk, path, NEW, mode);
    // By its name, as the handle is not known before the answer: the server handles requests in sequence.
    let look = talk.ask_path(kind::LSTAT, path);
    let folder = talk.ask_folder(path);
    let said = talk.handle(id)?;
    // Nothing is written through it: closed at once.
    drop(settle(talk, said, Doing::Make(path))?);
    let made = talk.attributes(look);
    talk.note_folder(folder);
    known(made)
}

/// A new folder.
pub fn make_folder(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    mode: u32,
) -> Result<Option<Attributes>, RequestError> {
    let full = talk.target.full(path);
    let wanted = Change {
        mode: Some(mode),
        ..Change::default()
    };
    let make = talk.ask(|id| Packet::request(kind::MKDIR, id).text(&full).change(&wanted));
    made(talk, make, path, Doing::Make(path))
}

/// A fifo, a socket or a device, which SFTP cannot make: of a server that runs `oscope-fs serve`.
pub fn make_special(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    mode: u32,
    device: u32,
) -> Result<Option<Attributes>, RequestError> {
    if !talk.extensions().exact {
        return Err(RequestError::Errno(Errno::EPERM));
    }
    let full = talk.target.full(path);
    let make = talk.ask(|id| {
        Packet::extended(id, "mknod@oscope")
            .text(&full)
            .number(mode)
            .number(device)
    });
    made(talk, make, path, Doing::Make(path))
}

/// What a request has made at `at`: that and its folder are looked at in the same round trip.
fn made(
    talk: &mut RequestPipeline<'_>,
    request: u32,
    at: &Path,
    doing: Doing<'_>,
) -> Result<Option<Attributes>, RequestError> {
    let look = talk.ask_path(kind::LSTAT, at);
    let folder = talk.ask_folder(at);
    let said = talk.status(request)?;
    settle(talk, said, doing)?;
    let found = talk.attributes(look);
    talk.note_folder(folder);
    known(found)
}

/// The attributes of what was just done; `None` if the connection broke before they came.
fn known(
    answer: Result<StatusResult<Attributes>, RequestError>,
) -> Result<Option<Attributes>, RequestError> {
    match answer {
        Ok(Ok(attributes)) => Ok(Some(attributes)),
        // Taken away by someone else since.
        Ok(Err(_)) => Err(RequestError::Errno(Errno::ENOENT)),
        Err(RequestError::Lost | RequestError::Unsent) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// Remove a name that is not a folder's.
pub fn remove(talk: &mut RequestPipeline<'_>, path: &Path) -> Result<(), RequestError> {
    take_away(talk, kind::REMOVE, path, Doing::Remove(path))
}

/// Remove an empty folder.
pub fn remove_folder(talk: &mut RequestPipeline<'_>, path: &Path) -> Result<(), RequestError> {
    take_away(talk, kind::RMDIR, path, Doing::RemoveFolder(path))
}

fn take_away(
    talk: &mut RequestPipeline<'_>,
    kind: u8,
    path: &Path,
    doing: Doing<'_>,
) -> Result<(), RequestError> {
    let id = talk.ask_path(kind, path);
    let folder = talk.ask_folder(path);
    let said = talk.status(id)?;
    settle(talk, said, doing)?;
    talk.note_folder(folder);
    Ok(())
}

/// The request for a rename over what is there.
pub fn ask_rename(talk: &mut RequestPipeline<'_>, from: &Path, to: &Path) -> u32 {
    let (old, new) = (talk.target.full(from), talk.target.full(to));
    talk.ask(|id| {
        Packet::extended(id, "posix-rename@openssh.com")
            .text(&old)
            .text(&new)
    })
}

/// The request that a file takes a name if that stands for the version that is to be replaced: of a server that runs
/// `oscope-fs serve`.
pub fn ask_replace(
    talk: &mut RequestPipeline<'_>,
    from: &Path,
    to: &Path,
    expected: Option<Version>,
) -> u32 {
    let (old, new) = (talk.target.full(from), talk.target.full(to));
    let version = expected.unwrap_or(Version {
        size: 0,
        mtime: Time::whole(0),
    });
    talk.ask(|id| {
        Packet::extended(id, "replace@oscope")
            .text(&old)
            .text(&new)
            .number(u32::from(expected.is_some()))
            .long(version.size)
            .time(version.mtime)
    })
}

/// Gather what gives `to` the extended attributes of `of`, if the server can.
pub fn ask_xattrs(talk: &mut RequestPipeline<'_>, of: &Path, to: &Path) -> Option<u32> {
    let (of, to) = (talk.target.full(of), talk.target.full(to));
    talk.extensions()
        .xattrs
        .then(|| talk.ask(|id| Packet::extended(id, "xattrs@oscope").text(&of).text(&to)))
}

/// The answer to a rename, over what is there or not.
pub fn renamed(
    talk: &mut RequestPipeline<'_>,
    id: u32,
    from: &Path,
    to: &Path,
    over: bool,
) -> Result<(), RequestError> {
    let folders = [talk.ask_folder(from), talk.ask_folder(to)];
    let said = talk.status(id)?;
    settle(talk, said, Doing::Rename { from, to, over })?;
    folders
        .into_iter()
        .for_each(|folder| talk.note_folder(folder));
    Ok(())
}

/// Rename over what is there.
pub fn rename(talk: &mut RequestPipeline<'_>, from: &Path, to: &Path) -> Result<(), RequestError> {
    let id = ask_rename(talk, from, to);
    renamed(talk, id, from, to, true)
}

/// Rename where nothing is.
///
/// OpenSSH does the plain RENAME of a regular file by link and unlink, which is safe; of others by a look and a rename,
/// for which it follows links: so it is looked here too.
pub fn rename_new(
    talk: &mut RequestPipeline<'_>,
    from: &Path,
    to: &Path,
) -> Result<(), RequestError> {
    match lstat(talk, to) {
        Ok(_) => return Err(RequestError::Errno(Errno::EEXIST)),
        Err(RequestError::Errno(Errno::ENOENT)) => {}
        Err(trouble) => return Err(trouble),
    }
    let (old, new) = (talk.target.full(from), talk.target.full(to));
    let id = talk.ask(|id| Packet::request(kind::RENAME, id).text(&old).text(&new));
    renamed(talk, id, from, to, false)
}

/// A symbolic link. OpenSSH takes its text first and its name second, against the draft (its PROTOCOL file, 4.1).
pub fn make_link(
    talk: &mut RequestPipeline<'_>,
    target: &Path,
    at: &Path,
) -> Result<Option<Attributes>, RequestError> {
    let full = talk.target.full(at);
    let text = target.as_os_str().as_bytes();
    let make = talk.ask(|id| Packet::request(kind::SYMLINK, id).text(text).text(&full));
    made(talk, make, at, Doing::Make(at))
}

/// The text of a symbolic link.
pub fn read_link(talk: &mut RequestPipeline<'_>, path: &Path) -> Result<PathBuf, RequestError> {
    let id = talk.ask_path(kind::READLINK, path);
    let said = talk.read(id, kind::NAME, |body| {
        body.number()?;
        let text = body.text()?;
        // What no kernel would take (symlink(2)).
        if text.is_empty() || text.len() >= LONGEST_LINK || text.contains(&0) {
            return Err(Malformed);
        }
        Ok(PathBuf::from(OsString::from_vec(text.to_vec())))
    })?;
    settle(talk, said, Doing::Look)
}

/// A further name for a file.
pub fn hard_link(
    talk: &mut RequestPipeline<'_>,
    of: &Path,
    at: &Path,
) -> Result<Option<Attributes>, RequestError> {
    if !talk.extensions().hardlink {
        return Err(RequestError::Errno(Errno::EOPNOTSUPP));
    }
    let (old, new) = (talk.target.full(of), talk.target.full(at));
    let link = talk.ask(|id| {
        Packet::extended(id, "hardlink@openssh.com")
            .text(&old)
            .text(&new)
    });
    made(talk, link, at, Doing::Link { of, at })
}

/// Change attributes, and tell them as they were just before (if the server says so) and as they are then.
///
/// In an order in which none undoes another: the owner clears set-id bits, the size sets the times.
pub fn set(
    talk: &mut RequestPipeline<'_>,
    path: &Path,
    change: &Change,
) -> Result<(Option<Attributes>, Attributes), RequestError> {
    let before = talk.ask_path(kind::LSTAT, path);
    let own = talk.extensions().lsetstat;
    let none = Change::default();
    let parts = [
        (
            false,
            Change {
                size: change.size,
                ..none
            },
        ),
        (
            own,
            Change {
                owner: change.owner,
                ..none
            },
        ),
        (
            false,
            Change {
                mode: change.mode,
                ..none
            },
        ),
        (
            own,
            Change {
                times: change.times,
                ..none
            },
        ),
    ];
    let full = talk.target.full(path);
    let mut asked = Vec::new();
    for (own, part) in parts.into_iter().filter(|(_, part)| *part != none) {
        let id = talk.ask(|id| {
            match own {
                true => Packet::extended(id, "lsetstat@openssh.com"),
                false => Packet::request(kind::SETSTAT, id),
            }
            .text(&full)
            .change(&part)
        });
        asked.push((id, part));
    }
    let look = talk.ask_path(kind::LSTAT, path);
    let before = talk.attributes(before)?;
    for (id, part) in asked {
        let said = talk.status(id)?;
        settle(talk, said, Doing::Set(path, &part))?;
    }
    let said = talk.attributes(look)?;
    Ok((before.ok(), settle(talk, said, Doing::Look)?))
}

/// The room of the target's file system.
pub fn room(talk: &mut RequestPipeline<'_>) -> Result<Statvfs, RequestError> {
    if !talk.extensions().statvfs {
        return Err(RequestError::Errno(Errno::EOPNOTSUPP));
    }
    let id = talk.ask_room(parent(Path::new("")));
    let said = talk.room(id)?;
    settle(talk, said, Doing::Look)
}
