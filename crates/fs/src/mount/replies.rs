//! How the kernel is answered.

use std::time::Duration;

use fuser::{
    FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyEntry, ReplyOpen,
    ReplyStatfs,
};
use nix::errno::Errno;

use crate::remote::Statvfs;

use super::Shared;
use super::looked_up::Seen;
use super::opening::Opened;

/// A node that was found or made.
pub fn reply_entry(shared: &Shared, reply: ReplyEntry, found: Result<u64, Errno>) {
    match found.and_then(|ino| given(shared, ino)) {
        Ok((attr, keep)) => reply.entry(&keep, &attr, Generation(0)),
        Err(why) => reply.error(kernel_errno(why)),
    }
}

/// A node that a thread of a program looked up, and what the server said of it where it was asked. Of a file the
/// kernel may not remember the name then: see [`super::looked_up`].
pub fn reply_looked_up(
    shared: &Shared,
    reply: ReplyEntry,
    found: Result<(u64, Option<Seen>), Errno>,
    thread: u32,
) {
    let given = found.and_then(|(ino, seen)| Ok((given(shared, ino)?, ino, seen)));
    match given {
        Ok(((attr, keep), ino, seen)) => {
            let file = seen.and_then(|seen| shared.file_of_one_name(ino).zip(Some(seen)));
            let remembered = match file {
                Some((file, seen)) => {
                    file.looked_up.given(Some((thread, seen)));
                    Duration::ZERO
                }
                None => keep,
            };
            reply.entry_with_ttls(&keep, &remembered, &attr, Generation(0));
        }
        Err(why) => reply.error(kernel_errno(why)),
    }
}

/// The attributes of a node that the kernel is given.
///
/// It is counted first: a node that the kernel has not been given goes with the next listing that is closed,
/// and the kernel may forget it before the reply has been sent.
fn given(shared: &Shared, ino: u64) -> Result<(FileAttr, Duration), Errno> {
    shared.tree().looked_up(ino);
    shared
        .shown(ino)
        .inspect(|(attr, _)| shared.shown_by_name(ino, attr))
        .inspect_err(|_| shared.tree().forget(ino, 1))
}

/// The attributes of a node after what was done to it.
pub fn reply_attr(shared: &Shared, reply: ReplyAttr, ino: u64, done: Result<(), Errno>) {
    match done.and_then(|()| shared.shown(ino)) {
        Ok((attr, keep)) => {
            shared.size_shown(ino, &attr);
            reply.attr(&keep, &attr);
        }
        Err(why) => reply.error(kernel_errno(why)),
    }
}

/// As fuser has it.
pub fn kernel_errno(why: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(why as i32)
}

/// Whether the kernel may keep its own pages of a file.
fn pages(right: bool) -> FopenFlags {
    match right {
        true => FopenFlags::FOPEN_KEEP_CACHE,
        false => FopenFlags::empty(),
    }
}

/// A file that was opened.
pub fn reply_opened(reply: ReplyOpen, done: Result<Opened, Errno>) {
    match done {
        Ok(Opened::Passthrough(number, backing)) => {
            reply.opened_passthrough(FileHandle(number), FopenFlags::empty(), &backing);
        }
        Ok(Opened::Daemon(number, right)) => reply.opened(FileHandle(number), pages(right)),
        Err(why) => reply.error(kernel_errno(why)),
    }
}

/// A file that was made and opened.
pub fn reply_created(shared: &Shared, reply: ReplyCreate, made: Result<(u64, Opened), Errno>) {
    match made.and_then(|(ino, opened)| Ok((given(shared, ino)?, opened))) {
        Ok(((attr, keep), Opened::Passthrough(number, backing))) => reply.created_passthrough(
            &keep,
            &attr,
            Generation(0),
            FileHandle(number),
            FopenFlags::empty(),
            &backing,
        ),
        Ok(((attr, keep), Opened::Daemon(number, right))) => reply.created(
            &keep,
            &attr,
            Generation(0),
            FileHandle(number),
            pages(right),
        ),
        Err(why) => reply.error(kernel_errno(why)),
    }
}

/// The room of the server's file system.
pub fn reply_room(reply: ReplyStatfs, room: Result<Statvfs, Errno>) {
    match room {
        Ok(room) => {
            let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
            let (block, unit) = (small(room.bsize), small(room.frsize));
            let name = small(room.namemax);
            reply.statfs(
                room.blocks,
                room.bfree,
                room.bavail,
                room.files,
                room.ffree,
                block,
                name,
                unit,
            );
        }
        Err(why) => reply.error(kernel_errno(why)),
    }
}
