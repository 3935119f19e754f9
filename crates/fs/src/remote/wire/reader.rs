//! Packets that are read.

use super::{HAS_EXTENDED, HAS_MODE, HAS_OWNER, HAS_SIZE, HAS_TIMES, MORE, Malformed, TIMES};
use crate::remote::attributes::{Attributes, Change, Kind, More, Statvfs};
use crate::remote::time::Time;

/// Bytes of a handle at most (draft-ietf-secsh-filexfer-02, 6.2). It goes with every request about the file.
const LONGEST_HANDLE: usize = 256;

/// What is left to read of a packet.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A number of 32 bits.
    pub fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// A number of 64 bits.
    pub fn long(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Bytes with their number before them.
    pub fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        self.take(length)
    }

    /// A handle.
    pub fn handle(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.text()?;
        match bytes.len() <= LONGEST_HANDLE {
            true => Ok(bytes),
            false => Err(Malformed),
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A time.
    pub fn time(&mut self) -> Result<Time, Malformed> {
        let (seconds, nanoseconds) = (self.long()?, self.number()?);
        let seconds = i64::from_ne_bytes(seconds.to_ne_bytes());
        if nanoseconds >= 1_000_000_000 {
            return Err(Malformed);
        }
        Ok(Time {
            seconds,
            nanoseconds,
        })
    }

    /// Attributes that are to be set.
    pub fn change(&mut self) -> Result<Change, Malformed> {
        let flags = self.number()?;
        let has = |bit: u32| flags & bit != 0;
        let mut change = Change::default();
        if has(HAS_SIZE) {
            change.size = Some(self.long()?);
        }
        if has(HAS_OWNER) {
            change.owner = Some((self.number()?, self.number()?));
        }
        if has(HAS_MODE) {
            change.mode = Some(self.number()? & 0o7777);
        }
        if has(HAS_TIMES) {
            let (access, modification) = (self.number()?, self.number()?);
            change.times = Some((Time::whole(access.into()), Time::whole(modification.into())));
        }
        if has(HAS_EXTENDED) {
            for _ in 0..self.number()? {
                let (name, value) = (self.text()?, self.text()?);
                if name == TIMES {
                    let mut value = Reader(value);
                    change.times = Some((value.time()?, value.time()?));
                }
            }
        }
        Ok(change)
    }

    /// Attributes; a server that leaves one of them out is of no use for a file system.
    pub fn attributes(&mut self) -> Result<Attributes, Malformed> {
        let flags = self.number()?;
        let all = HAS_SIZE | HAS_OWNER | HAS_MODE | HAS_TIMES;
        if flags & all != all {
            return Err(Malformed);
        }
        let size = self.long()?;
        let (uid, gid, bits) = (self.number()?, self.number()?, self.number()?);
        let (atime, mtime) = (self.number()?, self.number()?);
        let mut times = (Time::whole(atime.into()), Time::whole(mtime.into()));
        let mut more = None;
        if flags & HAS_EXTENDED != 0 {
            for _ in 0..self.number()? {
                let (name, value) = (self.text()?, self.text()?);
                if name == MORE {
                    let mut value = Reader(value);
                    times = (value.time()?, value.time()?);
                    more = Some(More {
                        ctime: value.time()?,
                        links: value.number()?,
                        device: value.number()?,
                    });
                }
            }
        }
        let kind = match bits & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFLNK => Kind::Link,
            other => Kind::Other(other),
        };
        let mode = bits & 0o7777;
        Ok(Attributes {
            kind,
            size,
            mode,
            uid,
            gid,
            atime: times.0,
            mtime: times.1,
            more,
        })
    }

    /// What `statvfs@openssh.com` answers.
    pub fn statvfs(&mut self) -> Result<Statvfs, Malformed> {
        Ok(Statvfs {
            bsize: self.long()?,
            frsize: self.long()?,
            blocks: self.long()?,
            bfree: self.long()?,
            bavail: self.long()?,
            files: self.long()?,
            ffree: self.long()?,
            favail: self.long()?,
            fsid: self.long()?,
            flag: self.long()?,
            namemax: self.long()?,
        })
    }
}
