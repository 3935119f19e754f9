//! Requests about what is open: reading, writing, attributes, listing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::stat::{Mode, fchmod, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, fchown};

use super::Done;
use super::handles::{Handles, Open};
use super::reply::{append, attributes, end, handle, ok};
use crate::errno::errno;
use crate::remote::wire::{Packet, Reader, flag, kind};
use crate::remote::{Change, Time};

/// Bytes of names in one answer to READDIR, after which it is sent.
const NAMES: usize = 96 << 10;

/// `SSH_FXF_APPEND` and `SSH_FXF_TRUNC`, which our own client does without.
const APPEND: u32 = 0x04;
const TRUNCATE: u32 = 0x10;

/// How long somebody may have a file alone.
const LEASED: Duration = Duration::from_secs(1);

/// The mode of a file that is made without one (OpenSSH's), less the umask.
const USUAL: u32 = 0o666;

/// OPEN.
pub fn open(handles: &mut Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let (path, flags) = (body.place()?, body.number()?);
    let mode = body.change()?.mode.unwrap_or(USUAL);
    let has = |bit: u32| flags & bit != 0;
    let mut options = OpenOptions::new();
    options
        .read(has(flag::READ) || !has(flag::WRITE))
        .write(has(flag::WRITE))
        .append(has(APPEND))
        .truncate(has(TRUNCATE))
        .create(has(flag::CREATE) && !has(flag::EXCLUSIVE))
        .create_new(has(flag::CREATE) && has(flag::EXCLUSIVE))
        .mode(mode)
        // The open of a fifo or a terminal must not hold up all other requests, nor become ours.
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let opened = path.and_then(|path| opened(&options, &path));
    Ok(opened
        .and_then(|file| handles.keep(Open::File(file)))
        .map(|number| handle(id, &number)))
}

/// An open file. Who fills it just now has it alone for a moment (a lease), and others are refused: that is waited for.
pub fn opened(options: &OpenOptions, path: &Path) -> Result<File, Errno> {
    let until = Instant::now() + LEASED;
    loop {
        match options.open(path).map_err(errno) {
            Err(Errno::EAGAIN) if Instant::now() < until => thread::sleep(LEASED / 1000),
            answer => return answer,
        }
    }
}

/// CLOSE.
pub fn close(handles: &mut Handles, id: u32, body: &mut Reader<'_>) -> Done {
    Ok(match handles.take(body)? {
        Some(Open::File(file)) => nix::unistd::close(file).map(|()| ok(id)),
        Some(Open::Folder(_)) => Ok(ok(id)),
        None => Err(Errno::EBADF),
    })
}

/// READ, of `most` bytes at most.
pub fn read(handles: &Handles, id: u32, body: &mut Reader<'_>, most: u32) -> Done {
    let file = handles.file(body)?;
    let (offset, length) = (body.long()?, body.number()?.min(most));
    Ok(file.and_then(|file| {
        let mut data = vec![0; length as usize];
        let mut count = 0;
        // Whole, where the file has it: a client takes less for the end, or asks again.
        while count < data.len() {
            match file.read_at(&mut data[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if count == 0 => return Err(errno(error)),
                Err(_) => break,
            }
        }
        if count == 0 && length > 0 {
            return Ok(end(id));
        }
        Ok(Packet::request(kind::DATA, id).text(&data[..count]))
    }))
}

/// WRITE.
pub fn write(handles: &Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let file = handles.file(body)?;
    let (offset, data) = (body.long()?, body.text()?);
    Ok(file
        .and_then(|file| file.write_all_at(data, offset).map_err(errno))
        .map(|()| ok(id)))
}

/// FSTAT.
pub fn stat(handles: &Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let file = handles.file(body)?;
    Ok(file
        .and_then(|file| file.metadata().map_err(errno))
        .map(|found| attributes(id, &found)))
}

/// FSETSTAT.
pub fn set(handles: &Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let (file, change) = (handles.file(body)?, body.change()?);
    Ok(file
        .and_then(|file| change_file(file, &change))
        .map(|()| ok(id)))
}

/// In an order in which none undoes another: the owner clears set-id bits, the size sets the times.
fn change_file(file: &File, change: &Change) -> Result<(), Errno> {
    if let Some(size) = change.size {
        file.set_len(size).map_err(errno)?;
    }
    if let Some((uid, gid)) = change.owner {
        fchown(file.as_fd(), Some(Uid::from(uid)), Some(Gid::from(gid)))?;
    }
    if let Some(mode) = change.mode {
        fchmod(file.as_fd(), Mode::from_bits_truncate(mode))?;
    }
    if let Some((access, modification)) = change.times {
        futimens(file.as_fd(), &spec(access), &spec(modification))?;
    }
    Ok(())
}

/// A time as the system calls take it.
pub fn spec(time: Time) -> TimeSpec {
    TimeSpec::new(time.seconds, time.nanoseconds.into())
}

/// OPENDIR.
pub fn open_folder(handles: &mut Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let opened = body
        .place()?
        .and_then(|path| fs::read_dir(&*path).map_err(errno));
    Ok(opened
        .and_then(|folder| handles.keep(Open::Folder(folder)))
        .map(|number| handle(id, &number)))
}

/// READDIR: some names, with what they stand for, without `.` and `..`.
pub fn read_folder(handles: &mut Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let folder = match handles.folder(body)? {
        Ok(folder) => folder,
        Err(error) => return Ok(Err(error)),
    };
    let (mut count, mut bytes, mut found) = (0, 0, Vec::new());
    for entry in folder {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(errno(error))),
        };
        // Removed since: it is no longer in the folder.
        let Ok(attributes) = entry.metadata() else {
            continue;
        };
        count += 1;
        bytes += entry.file_name().len() + 128;
        found.push((entry.file_name(), attributes));
        if bytes >= NAMES {
            break;
        }
    }
    if count == 0 {
        return Ok(Ok(end(id)));
    }
    let packet = Packet::request(kind::NAME, id).number(count);
    Ok(Ok(found.iter().fold(packet, |packet, (name, of)| {
        append(packet.text(name.as_bytes()).text(b""), of)
    })))
}

/// `fsync@openssh.com`.
pub fn sync(handles: &Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let file = handles.file(body)?;
    Ok(file
        .and_then(|file| file.sync_all().map_err(errno))
        .map(|()| ok(id)))
}

/// `copy-data`: from one open file to another, or to the end of the first where the length is 0. Where the file system
/// can, the two share their blocks (copy_file_range(2)).
pub fn copy(handles: &Handles, id: u32, body: &mut Reader<'_>) -> Done {
    let (from, at, length) = (handles.file(body)?, body.long()?, body.long()?);
    let (to, there) = (handles.file(body)?, body.long()?);
    Ok(from.and_then(|from| {
        let (mut from, mut to) = (from, to?);
        if std::ptr::eq(from, to) {
            return Err(Errno::EINVAL);
        }
        let most = match length {
            0 => u64::MAX,
            length => length,
        };
        from.seek(SeekFrom::Start(at))
            .and_then(|_| to.seek(SeekFrom::Start(there)))
            .and_then(|_| io::copy(&mut from.take(most), &mut to))
            .map(|_| ok(id))
            .map_err(errno)
    }))
}
