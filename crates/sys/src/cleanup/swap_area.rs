//! A swap area's header, and the list of those in use.
//!
//! Source: `union swap_header` in `include/linux/swap.h`; mkswap(8) writes the same.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::Failure;

/// Where version, last page and number of bad pages stand, in bytes; the boot loader may have what lies before.
const INFO: u64 = 1024;
/// Where the UUID stands.
const UUID: u64 = INFO + 12;
/// What ends the first page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";

/// A new UUID, which identifies a swap area: the kernel's random one (random(4)).
///
/// # Errors
/// `Failure::Failed` if `/proc` does not give one.
pub fn new_uuid() -> Result<String, Failure> {
    fs::read_to_string("/proc/sys/kernel/random/uuid")
        .map(|uuid| uuid.trim().to_owned())
        .map_err(|error| Failure::system("reading /proc/sys/kernel/random/uuid", error))
}

/// The 16 bytes that a UUID's text means.
fn bytes_of(uuid: &str) -> io::Result<[u8; 16]> {
    u128::from_str_radix(&uuid.replace('-', ""), 16)
        .map(u128::to_be_bytes)
        .map_err(io::Error::other)
}

/// Make `file`, which is `bytes` long, a swap area of pages of `page` bytes.
///
/// # Errors
/// The errno of pwrite(2) or fsync(2); `io::ErrorKind::Other` for more than 2^32 pages, or what is no UUID.
pub fn format(file: &File, bytes: u64, page: u64, uuid: &str) -> io::Result<()> {
    let last_page = u32::try_from(bytes / page - 1).map_err(io::Error::other)?;
    let mut header = vec![0; page as usize];
    let info = INFO as usize;
    header[info..info + 4].copy_from_slice(&1_u32.to_ne_bytes());
    header[info + 4..info + 8].copy_from_slice(&last_page.to_ne_bytes());
    header[UUID as usize..UUID as usize + 16].copy_from_slice(&bytes_of(uuid)?);
    let magic = header.len() - MAGIC.len();
    header[magic..].copy_from_slice(MAGIC);
    file.write_all_at(&header, 0)?;
    file.sync_all()
}

/// Whether the swap area at `path` has this UUID.
///
/// # Errors
/// The errno of open(2) or pread(2); `io::ErrorKind::UnexpectedEof` for a shorter file, and `Other` for what is no
/// UUID.
pub fn has_uuid(path: &Path, uuid: &str) -> io::Result<bool> {
    let mut found = [0; 16];
    File::open(path)?.read_exact_at(&mut found, UUID)?;
    Ok(found == bytes_of(uuid)?)
}

/// KiB in use of the swap area at `path`; `None` if it is not switched on.
///
/// # Errors
/// `Failure::Failed` if `/proc/swaps` cannot be read.
pub fn used_kib(path: &Path) -> Result<Option<u64>, Failure> {
    let swaps =
        fs::read("/proc/swaps").map_err(|error| Failure::system("reading /proc/swaps", error))?;
    Ok(parse_used(&String::from_utf8_lossy(&swaps), path))
}

/// The fourth column of proc_swaps(5); white space in a path is written in octal.
fn parse_used(swaps: &str, path: &Path) -> Option<u64> {
    let mut name = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => name.extend(format!("\\{byte:03o}").bytes()),
            other => name.push(other),
        }
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    let line = swaps.lines().skip(1).find_map(|line| {
        let rest = line.strip_prefix(&name)?;
        rest.starts_with([' ', '\t']).then_some(rest)
    })?;
    line.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAPS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
        /dev/zram0                              partition\t1048572\t\t52\t\t100\n\
        /a\\040b/.oscope-swap-1                  file\t\t65532\t\t128\t\t-2\n";

    #[test]
    fn use_is_reported_of_the_very_path() {
        assert_eq!(parse_used(SWAPS, Path::new("/dev/zram0")), Some(52));
        assert_eq!(
            parse_used(SWAPS, Path::new("/a b/.oscope-swap-1")),
            Some(128)
        );
        assert_eq!(parse_used(SWAPS, Path::new("/dev/zram")), None);
        assert_eq!(parse_used("", Path::new("/dev/zram0")), None);
    }

    #[test]
    fn uuids_differ() {
        assert_ne!(new_uuid(), new_uuid());
    }
}
