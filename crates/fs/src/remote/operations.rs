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
use super::pipeline::{RequestPipeline, StatusResult};
use super::request_error::RequestError;
use super::time::Time;
use super::wire::{Malformed, Packet, Status, flag, kind};

/// READDIR requests under way at once: at first, and at most.
const LISTING: (usize, usize) = (2, 16);

/// Bytes of a symbolic link's text and the zero behind it at most: `PATH_MAX`.
const LONGEST_LINK: usize = 4096;

/// How a file is opened that has to be new.
pub const NEW: u32 = flag::WRITE | flag::CREATE | flag::EXCLUSIVE;

/// What a name stands for.
pub fn lstat(pipeline: &mut RequestPipeline<'_>, path: &Path) -> Result<Attributes, RequestError> {
    let began = Instant::now();
    let id = pipeline.ask_path(kind::LSTAT, path);
    let said = pipeline.attributes(id)?;
    pipeline.session.answered_after(began.elapsed());
    if said == Err(Status::BadMessage) {
        return Err(RequestError::Errno(Errno::ENAMETOOLONG));
    }
    settle(pipeline, said, Doing::Look)
}

/// What is in a folder.
pub fn list(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    mut listing: Listing,
) -> Result<Vec<(OsString, Attributes)>, RequestError> {
    let id = pipeline.ask_path(kind::OPENDIR, path);
    let said = pipeline.handle(id)?;
    let handle = settle(pipeline, said, Doing::List(path))?;
    let mut asked: VecDeque<u32> = VecDeque::new();
    let mut width = LISTING.0;
    loop {
        while asked.len() < width {
            let id = pipeline.ask_handle(kind::READDIR, &handle);
            asked.push_back(id);
        }
        let Some(id) = asked.pop_front() else {
            return Err(RequestError::Errno(Errno::EIO));
        };
        match pipeline.read(id, kind::NAME, |body| listing.take(body))? {
            Ok(Brought::Names) => {
                pipeline.deadline = listing.deadline()?;
                width = (width * 2).min(LISTING.1);
            }
            Ok(Brought::Nothing) => {}
            Ok(Brought::End) | Err(Status::End) => return Ok(listing.into_names()),
            said => settle(pipeline, said.map(drop), Doing::List(path))?,
        }
    }
}

/// Gather the request to open a file for writing; one that is made by it gets this mode, less the server's umask.
pub fn ask_open(pipeline: &mut RequestPipeline<'_>, path: &Path, flags: u32, mode: u32) -> u32 {
    let full = pipeline.target.full(path);
    let wanted = Change {
        mode: Some(mode),
        ..Change::default()
    };
    pipeline.ask(|id| {
        Packet::request(kind::OPEN, id)
            .text(&full)
            .number(flags)
            .change(&wanted)
    })
}

/// A new empty file.
pub fn create(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    mode: u32,
) -> Result<Option<Attributes>, RequestError> {
    let id = ask_open(pipeline, path, NEW, mode);
    // By its name, as the handle is not known before the answer: the server handles requests in sequence.
    let look = pipeline.ask_path(kind::LSTAT, path);
    let folder = pipeline.ask_folder(path);
    let said = pipeline.handle(id)?;
    // Nothing is written through it: closed at once.
    drop(settle(pipeline, said, Doing::Make(path))?);
    let made = pipeline.attributes(look);
    pipeline.note_folder(folder);
    known(made)
}

/// A new folder.
pub fn make_folder(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    mode: u32,
) -> Result<Option<Attributes>, RequestError> {
    let full = pipeline.target.full(path);
    let wanted = Change {
        mode: Some(mode),
        ..Change::default()
    };
    let make = pipeline.ask(|id| Packet::request(kind::MKDIR, id).text(&full).change(&wanted));
    made(pipeline, make, path, Doing::Make(path))
}

/// A fifo, a socket or a device, which SFTP cannot make: of a server that runs `oscope-fs serve`.
pub fn make_special(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    mode: u32,
    device: u32,
) -> Result<Option<Attributes>, RequestError> {
    if !pipeline.extensions().exact {
        return Err(RequestError::Errno(Errno::EPERM));
    }
    let full = pipeline.target.full(path);
    let make = pipeline.ask(|id| {
        Packet::extended(id, "mknod@oscope")
            .text(&full)
            .number(mode)
            .number(device)
    });
    made(pipeline, make, path, Doing::Make(path))
}

/// What a request has made at `at`: that and its folder are looked at in the same round trip.
fn made(
    pipeline: &mut RequestPipeline<'_>,
    request: u32,
    at: &Path,
    doing: Doing<'_>,
) -> Result<Option<Attributes>, RequestError> {
    let look = pipeline.ask_path(kind::LSTAT, at);
    let folder = pipeline.ask_folder(at);
    let said = pipeline.status(request)?;
    settle(pipeline, said, doing)?;
    let found = pipeline.attributes(look);
    pipeline.note_folder(folder);
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
pub fn remove(pipeline: &mut RequestPipeline<'_>, path: &Path) -> Result<(), RequestError> {
    take_away(pipeline, kind::REMOVE, path, Doing::Remove(path))
}

/// Remove an empty folder.
pub fn remove_folder(pipeline: &mut RequestPipeline<'_>, path: &Path) -> Result<(), RequestError> {
    take_away(pipeline, kind::RMDIR, path, Doing::RemoveFolder(path))
}

fn take_away(
    pipeline: &mut RequestPipeline<'_>,
    kind: u8,
    path: &Path,
    doing: Doing<'_>,
) -> Result<(), RequestError> {
    let id = pipeline.ask_path(kind, path);
    let folder = pipeline.ask_folder(path);
    let said = pipeline.status(id)?;
    settle(pipeline, said, doing)?;
    pipeline.note_folder(folder);
    Ok(())
}

/// The request for a rename over what is there.
pub fn ask_rename(pipeline: &mut RequestPipeline<'_>, from: &Path, to: &Path) -> u32 {
    let (old, new) = (pipeline.target.full(from), pipeline.target.full(to));
    pipeline.ask(|id| {
        Packet::extended(id, "posix-rename@openssh.com")
            .text(&old)
            .text(&new)
    })
}

/// The request that a file takes a name if that stands for the version that is to be replaced: of a server that runs
/// `oscope-fs serve`.
pub fn ask_replace(
    pipeline: &mut RequestPipeline<'_>,
    from: &Path,
    to: &Path,
    expected: Option<Version>,
) -> u32 {
    let (old, new) = (pipeline.target.full(from), pipeline.target.full(to));
    let version = expected.unwrap_or(Version {
        size: 0,
        mtime: Time::whole(0),
    });
    pipeline.ask(|id| {
        Packet::extended(id, "replace@oscope")
            .text(&old)
            .text(&new)
            .number(u32::from(expected.is_some()))
            .long(version.size)
            .time(version.mtime)
    })
}

/// Gather what gives `to` the extended attributes of `of`, if the server can.
pub fn ask_xattrs(pipeline: &mut RequestPipeline<'_>, of: &Path, to: &Path) -> Option<u32> {
    let (of, to) = (pipeline.target.full(of), pipeline.target.full(to));
    pipeline
        .extensions()
        .xattrs
        .then(|| pipeline.ask(|id| Packet::extended(id, "xattrs@oscope").text(&of).text(&to)))
}

/// The answer to a rename, over what is there or not.
pub fn renamed(
    pipeline: &mut RequestPipeline<'_>,
    id: u32,
    from: &Path,
    to: &Path,
    over: bool,
) -> Result<(), RequestError> {
    let folders = [pipeline.ask_folder(from), pipeline.ask_folder(to)];
    let said = pipeline.status(id)?;
    settle(pipeline, said, Doing::Rename { from, to, over })?;
    folders
        .into_iter()
        .for_each(|folder| pipeline.note_folder(folder));
    Ok(())
}

/// Rename over what is there.
pub fn rename(
    pipeline: &mut RequestPipeline<'_>,
    from: &Path,
    to: &Path,
) -> Result<(), RequestError> {
    let id = ask_rename(pipeline, from, to);
    renamed(pipeline, id, from, to, true)
}

/// Rename where nothing is.
///
/// OpenSSH does the plain RENAME of a regular file by link and unlink, which is safe; of others by a look and a rename,
/// for which it follows links: so it is looked here too.
pub fn rename_new(
    pipeline: &mut RequestPipeline<'_>,
    from: &Path,
    to: &Path,
) -> Result<(), RequestError> {
    match lstat(pipeline, to) {
        Ok(_) => return Err(RequestError::Errno(Errno::EEXIST)),
        Err(RequestError::Errno(Errno::ENOENT)) => {}
        Err(trouble) => return Err(trouble),
    }
    let (old, new) = (pipeline.target.full(from), pipeline.target.full(to));
    let id = pipeline.ask(|id| Packet::request(kind::RENAME, id).text(&old).text(&new));
    renamed(pipeline, id, from, to, false)
}

/// A symbolic link. OpenSSH takes its text first and its name second, against the draft (its PROTOCOL file, 4.1).
pub fn make_link(
    pipeline: &mut RequestPipeline<'_>,
    target: &Path,
    at: &Path,
) -> Result<Option<Attributes>, RequestError> {
    let full = pipeline.target.full(at);
    let text = target.as_os_str().as_bytes();
    let make = pipeline.ask(|id| Packet::request(kind::SYMLINK, id).text(text).text(&full));
    made(pipeline, make, at, Doing::Make(at))
}

/// The text of a symbolic link.
pub fn read_link(pipeline: &mut RequestPipeline<'_>, path: &Path) -> Result<PathBuf, RequestError> {
    let id = pipeline.ask_path(kind::READLINK, path);
    let said = pipeline.read(id, kind::NAME, |body| {
        body.number()?;
        let text = body.text()?;
        // What no kernel would take (symlink(2)).
        if text.is_empty() || text.len() >= LONGEST_LINK || text.contains(&0) {
            return Err(Malformed);
        }
        Ok(PathBuf::from(OsString::from_vec(text.to_vec())))
    })?;
    settle(pipeline, said, Doing::Look)
}

/// A further name for a file.
pub fn hard_link(
    pipeline: &mut RequestPipeline<'_>,
    of: &Path,
    at: &Path,
) -> Result<Option<Attributes>, RequestError> {
    if !pipeline.extensions().hardlink {
        return Err(RequestError::Errno(Errno::EOPNOTSUPP));
    }
    let (old, new) = (pipeline.target.full(of), pipeline.target.full(at));
    let link = pipeline.ask(|id| {
        Packet::extended(id, "hardlink@openssh.com")
            .text(&old)
            .text(&new)
    });
    made(pipeline, link, at, Doing::Link { of, at })
}

/// Change attributes, and tell them as they were just before (if the server says so) and as they are then.
///
/// In an order in which none undoes another: the owner clears set-id bits, the size sets the times.
pub fn set(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    change: &Change,
) -> Result<(Option<Attributes>, Attributes), RequestError> {
    let before = pipeline.ask_path(kind::LSTAT, path);
    let own = pipeline.extensions().lsetstat;
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
    let full = pipeline.target.full(path);
    let mut asked = Vec::new();
    for (own, part) in parts.into_iter().filter(|(_, part)| *part != none) {
        let id = pipeline.ask(|id| {
            match own {
                true => Packet::extended(id, "lsetstat@openssh.com"),
                false => Packet::request(kind::SETSTAT, id),
            }
            .text(&full)
            .change(&part)
        });
        asked.push((id, part));
    }
    let look = pipeline.ask_path(kind::LSTAT, path);
    let before = pipeline.attributes(before)?;
    for (id, part) in asked {
        let said = pipeline.status(id)?;
        settle(pipeline, said, Doing::Set(path, &part))?;
    }
    let said = pipeline.attributes(look)?;
    Ok((before.ok(), settle(pipeline, said, Doing::Look)?))
}

/// The room of the target's file system.
pub fn room(pipeline: &mut RequestPipeline<'_>) -> Result<Statvfs, RequestError> {
    if !pipeline.extensions().statvfs {
        return Err(RequestError::Errno(Errno::EOPNOTSUPP));
    }
    let id = pipeline.ask_room(parent(Path::new("")));
    let said = pipeline.room(id)?;
    settle(pipeline, said, Doing::Look)
}
