//! The right error number for what SFTP's few status codes hide.
//!
//! OpenSSH folds error numbers into status codes (`errno_to_portable` of sftp-server.c): ENOENT, ENOTDIR, ELOOP into
//! NO_SUCH_FILE; EACCES, EPERM into PERMISSION_DENIED; ENAMETOOLONG, EINVAL into BAD_MESSAGE; EEXIST, ENOTEMPTY,
//! EISDIR, ENOSPC, EROFS, EXDEV and all others into FAILURE. So the server is asked, after a failure, how things stand
//! there, and the answer is the one that a local file system would have given in that state. What nothing explains (a
//! quota, a lost disk) is EIO.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;

use super::attributes::{Attributes, Change, Kind, Statvfs};
use super::pipeline::{RequestPipeline, StatusResult};
use super::request_error::RequestError;
use super::wire::{Reader, Status, kind};

/// `ST_RDONLY` of statvfs(3), as `statvfs@openssh.com` has it.
const READ_ONLY: u64 = 1;

/// Bytes of a name at most, on every file system that Linux has.
const NAME_MAX: usize = 255;

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub enum Doing<'a> {
    /// Look at a name, or read a link.
    Look,
    /// List a folder.
    List(&'a Path),
    /// Open a file to read it.
    Read(&'a Path),
    /// Make something under a name that is to be free.
    Make(&'a Path),
    /// A further name for a file.
    Link { of: &'a Path, at: &'a Path },
    /// Remove a name that is not a folder's.
    Remove(&'a Path),
    /// Remove a folder.
    RemoveFolder(&'a Path),
    /// Rename, over what is there or not.
    Rename {
        from: &'a Path,
        to: &'a Path,
        over: bool,
    },
    /// Change attributes.
    Set(&'a Path, &'a Change),
    /// Write so many bytes.
    Write(&'a Path, u64),
}

/// The value, or the error that the status means.
pub fn settle<T>(
    pipeline: &mut RequestPipeline<'_>,
    said: StatusResult<T>,
    doing: Doing<'_>,
) -> Result<T, RequestError> {
    match said {
        Ok(value) => Ok(value),
        Err(status) => Err(RequestError::Errno(find(pipeline, status, doing)?)),
    }
}

/// The error number that a status means here.
pub fn find(
    pipeline: &mut RequestPipeline<'_>,
    status: Status,
    doing: Doing<'_>,
) -> Result<Errno, RequestError> {
    let exact = pipeline.extensions().exact;
    match status {
        Status::Exact(errno) => Ok(errno),
        Status::NoSuchFile if exact => Ok(Errno::ENOENT),
        Status::PermissionDenied if exact => Ok(Errno::EACCES),
        Status::Ok | Status::End => Ok(Errno::EIO),
        Status::Unsupported => Ok(Errno::EOPNOTSUPP),
        Status::BadMessage => Ok(unfit(doing)),
        Status::PermissionDenied => Ok(denied(doing)),
        Status::NoSuchFile => missing(pipeline, doing),
        Status::Failure => failed(pipeline, doing),
    }
}

/// ENAMETOOLONG or EINVAL: a name's length is known here.
fn unfit(doing: Doing<'_>) -> Errno {
    let long = |path: &Path| {
        let long_name = |name: &OsStr| name.as_bytes().len() > NAME_MAX;
        path.iter().any(long_name) || path.as_os_str().len() >= 4096
    };
    let too_long = match doing {
        // The path is not at hand; nothing else about a name that is only looked at is invalid, but the text of what is
        // not a link.
        Doing::Look => return Errno::EINVAL,
        Doing::List(path) | Doing::Read(path) | Doing::Make(path) | Doing::Remove(path) => {
            long(path)
        }
        Doing::RemoveFolder(path) | Doing::Set(path, _) | Doing::Write(path, _) => long(path),
        Doing::Link { of: from, at: to } | Doing::Rename { from, to, .. } => long(from) || long(to),
    };
    match too_long {
        true => Errno::ENAMETOOLONG,
        false => Errno::EINVAL,
    }
}

/// EPERM where ownership decides, EACCES where permissions do.
fn denied(doing: Doing<'_>) -> Errno {
    match doing {
        Doing::Set(_, change) if change.size.is_none() => Errno::EPERM,
        Doing::Link { .. } => Errno::EPERM,
        _ => Errno::EACCES,
    }
}

/// ENOENT, or ENOTDIR where something on the way or at the end is not the folder that it has to be.
fn missing(pipeline: &mut RequestPipeline<'_>, doing: Doing<'_>) -> Result<Errno, RequestError> {
    let not_folder = match doing {
        // Asked for all the time, of names that are not there: no second question.
        Doing::Look | Doing::Read(_) | Doing::Remove(_) | Doing::Set(..) => false,
        Doing::List(path) | Doing::RemoveFolder(path) => no_folder(look(pipeline, path)?),
        Doing::Make(path) | Doing::Link { at: path, .. } | Doing::Write(path, _) => {
            no_folder(look(pipeline, parent(path))?)
        }
        Doing::Rename { from, to, .. } => match look(pipeline, from)? {
            None => false,
            Some(Attributes {
                kind: Kind::Folder, ..
            }) => no_folder(look(pipeline, to)?),
            Some(_) => no_folder(look(pipeline, parent(to))?),
        },
    };
    Ok(match not_folder {
        true => Errno::ENOTDIR,
        false => Errno::ENOENT,
    })
}

fn failed(pipeline: &mut RequestPipeline<'_>, doing: Doing<'_>) -> Result<Errno, RequestError> {
    match doing {
        Doing::Look | Doing::List(_) => Ok(Errno::EIO),
        Doing::Read(path) => Ok(match is_folder(look(pipeline, path)?) {
            true => Errno::EISDIR,
            false => Errno::EIO,
        }),
        Doing::Make(at) => match look(pipeline, at)? {
            Some(_) => Ok(Errno::EEXIST),
            None => no_room(pipeline, parent(at), 1),
        },
        Doing::Link { of, at } => match look(pipeline, at)? {
            Some(_) => Ok(Errno::EEXIST),
            None if apart(pipeline, of, parent(at))? => Ok(Errno::EXDEV),
            None => no_room(pipeline, parent(at), 1),
        },
        Doing::Remove(path) => match is_folder(look(pipeline, path)?) {
            true => Ok(Errno::EISDIR),
            false => Ok(or_busy(no_room(pipeline, parent(path), 0)?)),
        },
        Doing::RemoveFolder(path) => match empty(pipeline, path)? {
            false => Ok(Errno::ENOTEMPTY),
            true => Ok(or_busy(no_room(pipeline, parent(path), 0)?)),
        },
        Doing::Rename { from, to, over } => not_renamed(pipeline, from, to, over),
        Doing::Set(path, change) => match (change.size, look(pipeline, path)?) {
            (Some(_), now) if is_folder(now) => Ok(Errno::EISDIR),
            (Some(size), now) => {
                let more = size.saturating_sub(now.map_or(0, |now| now.size));
                no_room(pipeline, path, more)
            }
            (None, _) => no_room(pipeline, path, 0),
        },
        Doing::Write(path, bytes) => no_room(pipeline, path, bytes.max(1)),
    }
}

fn not_renamed(
    pipeline: &mut RequestPipeline<'_>,
    from: &Path,
    to: &Path,
    over: bool,
) -> Result<Errno, RequestError> {
    let (old, new) = (look(pipeline, from)?, look(pipeline, to)?);
    if old.is_none() {
        return Ok(Errno::ENOENT);
    }
    match (is_folder(old), new) {
        (_, Some(_)) if !over => return Ok(Errno::EEXIST),
        (false, Some(new)) if new.kind == Kind::Folder => return Ok(Errno::EISDIR),
        (true, Some(new)) if new.kind != Kind::Folder => return Ok(Errno::ENOTDIR),
        (true, Some(_)) if !empty(pipeline, to)? => return Ok(Errno::ENOTEMPTY),
        _ => {}
    }
    match apart(pipeline, from, parent(to))? {
        true => Ok(Errno::EXDEV),
        false => Ok(or_busy(no_room(pipeline, parent(to), 1)?)),
    }
}

/// A mount point, or a file in use, cannot be taken away: what else would explain a refusal where the disk is well.
fn or_busy(found: Errno) -> Errno {
    match found {
        Errno::EIO => Errno::EBUSY,
        found => found,
    }
}

fn is_folder(attributes: Option<Attributes>) -> bool {
    attributes.is_some_and(|attributes| attributes.kind == Kind::Folder)
}

fn no_folder(attributes: Option<Attributes>) -> bool {
    attributes.is_some_and(|attributes| attributes.kind != Kind::Folder)
}

/// The folder that a path lies in; "" for those at the top.
pub fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// What is there, if it can be seen.
fn look(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
) -> Result<Option<Attributes>, RequestError> {
    let id = pipeline.ask_path(kind::LSTAT, path);
    Ok(pipeline.attributes(id)?.ok())
}

/// What is known of the file system of a path, if the server reports it.
fn medium(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
) -> Result<Option<Statvfs>, RequestError> {
    if !pipeline.extensions().statvfs {
        return Ok(None);
    }
    let id = pipeline.ask_room(path);
    Ok(pipeline.room(id)?.ok())
}

/// EROFS, ENOSPC where `bytes` (0: none are needed) or an inode have no room, else EIO.
fn no_room(
    pipeline: &mut RequestPipeline<'_>,
    path: &Path,
    bytes: u64,
) -> Result<Errno, RequestError> {
    let Some(room) = medium(pipeline, path)? else {
        return Ok(Errno::EIO);
    };
    let free = room.bavail.saturating_mul(room.frsize);
    let full = free < bytes || (room.files > 0 && room.favail == 0);
    Ok(match (room.flag & READ_ONLY != 0, bytes > 0 && full) {
        (true, _) => Errno::EROFS,
        (false, true) => Errno::ENOSPC,
        (false, false) => Errno::EIO,
    })
}

/// Whether two paths lie on different file systems.
fn apart(
    pipeline: &mut RequestPipeline<'_>,
    one: &Path,
    other: &Path,
) -> Result<bool, RequestError> {
    let (one, other) = (medium(pipeline, one)?, medium(pipeline, other)?);
    Ok(matches!((one, other), (Some(one), Some(other)) if one.fsid != other.fsid))
}

/// Whether a folder holds nothing; what cannot be looked into counts as empty.
fn empty(pipeline: &mut RequestPipeline<'_>, path: &Path) -> Result<bool, RequestError> {
    let id = pipeline.ask_path(kind::OPENDIR, path);
    let Ok(handle) = pipeline.handle(id)? else {
        return Ok(true);
    };
    let mut others = 0;
    loop {
        let id = pipeline.ask_handle(kind::READDIR, &handle);
        match pipeline.read(id, kind::NAME, count_names)? {
            Ok(names) => others += names,
            Err(_) => break,
        }
        if others > 0 {
            break;
        }
    }
    Ok(others == 0)
}

/// Names in an answer to READDIR besides `.` and `..`.
fn count_names(body: &mut Reader<'_>) -> Result<usize, super::wire::Malformed> {
    let mut others = 0;
    for _ in 0..body.number()? {
        let name = body.text()?;
        body.text()?;
        body.attributes()?;
        others += usize::from(name != b"." && name != b"..");
    }
    Ok(others)
}
