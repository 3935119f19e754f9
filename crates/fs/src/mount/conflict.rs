//! The names of conflict copies: `NAME.conflict-HOST-YYYYmmddTHHMMSS` (UTC), then with `-2`, `-3`, … behind.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::log;
use crate::remote::Remote;

/// Bytes of a name at most, on all usual file systems (`NAME_MAX`).
const LONGEST: usize = 255;
const TRIES: u32 = 100;

/// Names to try for what was changed here, beside `path`.
pub fn names(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let host = nix::unistd::gethostname().unwrap_or_else(|_| OsString::from("unknown"));
    let stamp: String = log::stamp(log::now())
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let stamp = stamp.trim_end_matches('Z').to_owned();
    let path = path.to_owned();
    (1..=TRIES).map(move |count| {
        let name = name(path.file_name().unwrap_or_default(), &host, &stamp, count);
        path.with_file_name(name)
    })
}

/// The first of them that the server does not have, without its folder.
///
/// # Errors
/// `EEXIST`: it has all of them; else what it said.
pub fn free(remote: &Remote, path: &Path) -> Result<PathBuf, Errno> {
    for name in names(path) {
        match remote.lstat(&name) {
            Err(Errno::ENOENT) => return Ok(name.file_name().unwrap_or_default().into()),
            answer => answer?,
        };
    }
    Err(Errno::EEXIST)
}

/// One name; what is too long loses the end of the original name.
fn name(of: &OsStr, host: &OsStr, stamp: &str, count: u32) -> OsString {
    let host: Vec<u8> = host
        .as_bytes()
        .iter()
        .map(|&byte| if byte == b'/' { b'_' } else { byte })
        .collect();
    let count = if count > 1 {
        format!("-{count}")
    } else {
        String::new()
    };
    let tail = [
        b".conflict-",
        &host[..host.len().min(64)],
        b"-",
        stamp.as_bytes(),
        count.as_bytes(),
    ]
    .concat();
    let kept = of.len().min(LONGEST - tail.len());
    OsString::from_vec([&of.as_bytes()[..kept], &tail].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_name_tells_name_host_and_time_and_is_never_too_long() {
        let made = |of: &OsStr, count| name(of, OsStr::new("host/1"), "20261122T084500", count);
        assert_eq!(
            made(OsStr::new("a.txt"), 1),
            "a.txt.conflict-host_1-20261122T084500"
        );
        assert_eq!(
            made(OsStr::new("a.txt"), 3),
            "a.txt.conflict-host_1-20261122T084500-3"
        );
        let long = OsString::from_vec(vec![0xff; 255]);
        assert_eq!(made(&long, 99).len(), 255);
        let all: Vec<_> = names(Path::new("d/e/f")).collect();
        assert_eq!(all.len(), 100);
        assert!(
            all.iter()
                .all(|path| path.parent() == Some(Path::new("d/e")))
        );
        let stamp = all[0]
            .to_string_lossy()
            .rsplit('-')
            .next()
            .unwrap()
            .to_owned();
        assert_eq!((stamp.len(), stamp.as_bytes()[8]), (15, b'T'));
    }
}
