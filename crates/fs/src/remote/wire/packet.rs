//! Packets that are written.

use super::{HAS_EXTENDED, HAS_MODE, HAS_OWNER, HAS_SIZE, HAS_TIMES, MORE, TIMES, VERSION, kind};
use crate::remote::attributes::Change;
use crate::remote::time::Time;

/// A packet that is being written; its length is filled in at the end.
pub struct Packet(Vec<u8>);

impl Packet {
    /// A request.
    pub fn request(kind: u8, id: u32) -> Self {
        Self(vec![0, 0, 0, 0, kind]).number(id)
    }

    /// A request of an extension.
    pub fn extended(id: u32, name: &str) -> Self {
        Self::request(kind::EXTENDED, id).text(name.as_bytes())
    }

    /// The first packet.
    pub fn init() -> Self {
        Self(vec![0, 0, 0, 0, kind::INIT]).number(VERSION)
    }

    /// A number of 32 bits.
    pub fn number(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A number of 64 bits.
    pub fn long(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Bytes with their number before them. What is longer than a packet can be is refused by the server, not cut.
    pub fn text(mut self, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(bytes);
        self
    }

    /// A time.
    pub fn time(self, time: Time) -> Self {
        self.long(u64::from_ne_bytes(time.seconds.to_ne_bytes()))
            .number(time.nanoseconds)
    }

    /// Attributes that a server reports: size, owner, group and mode; times of access, modification and change; number
    /// of links; device.
    pub fn attributes(
        self,
        (size, uid, gid, mode): (u64, u32, u32, u32),
        [access, modification, change]: [Time; 3],
        links: u32,
        device: u32,
    ) -> Self {
        let more = Self(Vec::new())
            .time(access)
            .time(modification)
            .time(change)
            .number(links)
            .number(device);
        self.number(HAS_SIZE | HAS_OWNER | HAS_MODE | HAS_TIMES | HAS_EXTENDED)
            .long(size)
            .number(uid)
            .number(gid)
            .number(mode)
            .number(access.coarse())
            .number(modification.coarse())
            .number(1)
            .text(MORE)
            .text(&more.0)
    }

    /// Attributes that are to be had: the size first, for the server sets it first and it changes the times.
    pub fn change(self, change: &Change) -> Self {
        let has = |there: bool, bit: u32| if there { bit } else { 0 };
        // Of another server than one that runs `oscope-fs serve` all times are such as SFTP has.
        let exact = change.times.filter(|times| {
            [times.0, times.1]
                .iter()
                .any(|time| time.kept(false) != *time)
        });
        let flags = has(change.size.is_some(), HAS_SIZE)
            | has(change.owner.is_some(), HAS_OWNER)
            | has(change.mode.is_some(), HAS_MODE)
            | has(change.times.is_some(), HAS_TIMES)
            | has(exact.is_some(), HAS_EXTENDED);
        let mut packet = self.number(flags);
        if let Some(size) = change.size {
            packet = packet.long(size);
        }
        if let Some((uid, gid)) = change.owner {
            packet = packet.number(uid).number(gid);
        }
        if let Some(mode) = change.mode {
            packet = packet.number(mode & 0o7777);
        }
        if let Some((atime, mtime)) = change.times {
            packet = packet.number(atime.coarse()).number(mtime.coarse());
        }
        if let Some((atime, mtime)) = exact {
            let value = Self(Vec::new()).time(atime).time(mtime);
            packet = packet.number(1).text(TIMES).text(&value.0);
        }
        packet
    }

    /// The whole packet, its length filled in.
    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}
