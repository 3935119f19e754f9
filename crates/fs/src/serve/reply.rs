//! Answers as packets.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;

use crate::remote::Time;
use crate::remote::wire::{Packet, kind};

/// An answer that it was done.
pub fn ok(id: u32) -> Packet {
    Packet::request(kind::STATUS, id)
        .number(0)
        .text(b"")
        .text(b"")
}

/// An answer that nothing is left of a file or folder.
pub fn end(id: u32) -> Packet {
    Packet::request(kind::STATUS, id)
        .number(1)
        .text(b"")
        .text(b"")
}

/// An answer that it failed: with the code that OpenSSH has for the error (`errno_to_portable`), and its number as
/// text.
pub fn status(id: u32, error: Errno) -> Packet {
    let code = match error {
        Errno::ENOENT | Errno::ENOTDIR | Errno::EBADF | Errno::ELOOP => 2,
        Errno::EPERM | Errno::EACCES | Errno::EFAULT => 3,
        Errno::ENAMETOOLONG | Errno::EINVAL => 5,
        Errno::ENOSYS => 8,
        _ => 4,
    };
    Packet::request(kind::STATUS, id)
        .number(code)
        .text(format!("errno {}", error as i32).as_bytes())
        .text(b"")
}

/// An answer that is a handle.
pub fn handle(id: u32, handle: &[u8]) -> Packet {
    Packet::request(kind::HANDLE, id).text(handle)
}

/// An answer that is attributes.
pub fn attributes(id: u32, of: &Metadata) -> Packet {
    append(Packet::request(kind::ATTRS, id), of)
}

/// Attributes, as they stand in ATTRS and NAME.
pub fn append(packet: Packet, of: &Metadata) -> Packet {
    packet.attributes(
        (of.size(), of.uid(), of.gid(), of.mode()),
        [
            Time::new(of.atime(), of.atime_nsec()),
            Time::new(of.mtime(), of.mtime_nsec()),
            Time::new(of.ctime(), of.ctime_nsec()),
        ],
        u32::try_from(of.nlink()).unwrap_or(u32::MAX),
        // The kernel's own numbers have 32 bits (include/linux/kdev_t.h).
        u32::try_from(of.rdev()).unwrap_or(0),
    )
}
