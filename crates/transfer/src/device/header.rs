//! What goes over the connection before each file.

use std::io;

/// Bytes of a header.
pub const LENGTH: usize = 56;
/// Bytes of a SHA-512.
pub const DIGEST: usize = 64;

const MAGIC: &[u8; 8] = b"OSCOPEDV";
const VERSION: u32 = 1;
/// Bytes of a name at most, as the kernel's `PATH_MAX`.
const LONGEST_NAME: usize = 4095;

/// What comes, before it comes; all numbers are little-endian on the wire. The name follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the name that follows.
    pub name: usize,
    /// Bytes of the file that follows the name.
    pub size: u64,
    /// When it was modified, in ns since 1970.
    pub mtime_ns: i64,
    /// Permission bits.
    pub mode: u32,
    /// Whether the file is followed by its SHA-512.
    pub digest: bool,
    /// Files of the connection in all.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

impl Header {
    /// As on the wire.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.name as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.mtime_ns.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.mode.to_le_bytes());
        bytes[36..40].copy_from_slice(&u32::from(self.digest).to_le_bytes());
        bytes[40..48].copy_from_slice(&self.files.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// As it came.
    ///
    /// # Errors
    /// `ErrorKind::Other`: it is no header, one of another version, or one that announces what no file can be.
    pub fn decode(bytes: &[u8; LENGTH]) -> io::Result<Self> {
        if &bytes[..8] != MAGIC {
            return Err(io::Error::other(
                "no Oscope sender with a device speaks there",
            ));
        }
        let [version, name] = [word(bytes, 8), word(bytes, 12)];
        if version != VERSION {
            let text =
                format!("the sender speaks version {version}, and this is version {VERSION}");
            return Err(io::Error::other(text));
        }
        let [mode, digest] = [word(bytes, 32), word(bytes, 36)];
        let (name, files) = (name as usize, long(bytes, 40));
        if name == 0 || name > LONGEST_NAME || digest > 1 || mode > 0o7777 || files == 0 {
            return Err(io::Error::other("the sender announces what no file can be"));
        }
        Ok(Self {
            name,
            size: long(bytes, 16),
            mtime_ns: long(bytes, 24) as i64,
            mode,
            digest: digest == 1,
            files,
            bytes: long(bytes, 48),
        })
    }
}

fn word(bytes: &[u8; LENGTH], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn long(bytes: &[u8; LENGTH], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        name: 11,
        size: 1_502_860,
        mtime_ns: -1,
        mode: 0o751,
        digest: true,
        files: 10,
        bytes: 3018,
    };

    #[test]
    fn a_header_comes_back_as_it_went() {
        assert_eq!(Header::decode(&HEADER.encode()).expect("a header"), HEADER);
    }

    #[test]
    fn what_is_no_header_is_reported_in_a_line() {
        let wrong = |at: usize, byte: u8| {
            let mut bytes = HEADER.encode();
            bytes[at] = byte;
            Header::decode(&bytes).expect_err("it is wrong").to_string()
        };
        assert!(wrong(0, b'o').contains("no Oscope sender"));
        assert!(wrong(8, 2).contains("version 2"));
        for (at, byte) in [(12, 0), (14, 1), (33, 0x10), (36, 2), (40, 0)] {
            assert!(wrong(at, byte).contains("no file can be"), "{at}");
        }
    }
}
