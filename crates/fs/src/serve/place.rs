//! Paths of requests, as the system calls take them.

use std::ffi::OsStr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use crate::remote::wire::{Malformed, Reader};

/// Bytes of a path that the system calls take at most, without the zero behind it (`PATH_MAX`).
const LONGEST: usize = 4095;

/// A path. The client's is below its mount point, where it may be as long as here all of it: what is too long is
/// shortened by an open folder.
pub struct Place {
    path: PathBuf,
    /// The folder that the path begins at, by its descriptor.
    _folder: Option<OwnedFd>,
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Reader<'_> {
    /// A path; an empty one is the folder that the server began in.
    pub fn place(&mut self) -> Result<Result<Place, Errno>, Malformed> {
        let bytes = self.text()?;
        Ok(place(if bytes.is_empty() { b"." } else { bytes }))
    }
}

fn place(bytes: &[u8]) -> Result<Place, Errno> {
    let (mut rest, mut folder) = (bytes, None::<OwnedFd>);
    loop {
        let path = match &folder {
            Some(folder) => Path::new("/proc/self/fd")
                .join(folder.as_raw_fd().to_string())
                .join(OsStr::from_bytes(rest)),
            None => PathBuf::from(OsStr::from_bytes(rest)),
        };
        if path.as_os_str().len() <= LONGEST {
            return Ok(Place {
                path,
                _folder: folder,
            });
        }
        let begin = &rest[..rest.len().min(LONGEST)];
        let end = begin
            .iter()
            .rposition(|&byte| byte == b'/')
            .filter(|at| *at > 0);
        let end = end.ok_or(Errno::ENAMETOOLONG)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let begin = Path::new(OsStr::from_bytes(&rest[..end]));
        let next = match &folder {
            Some(folder) => openat(folder, begin, flags, Mode::empty())?,
            None => openat(AT_FDCWD, begin, flags, Mode::empty())?,
        };
        rest = &rest[end..];
        while let [b'/', more @ ..] = rest {
            rest = more;
        }
        folder = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_path_longer_than_the_system_takes_leads_to_its_file() {
        let base = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        let mut path = base.path().as_os_str().as_bytes().to_vec();
        let mut folder = nix::fcntl::open(base.path(), OFlag::O_PATH, Mode::empty()).unwrap();
        for _ in 0..45 {
            nix::sys::stat::mkdirat(&folder, name.as_str(), Mode::S_IRWXU).unwrap();
            folder = openat(&folder, name.as_str(), OFlag::O_PATH, Mode::empty()).unwrap();
            path.push(b'/');
            path.extend(name.as_bytes());
        }
        path.extend(b"/file");
        assert!(path.len() > 2 * LONGEST);
        fs::write(&*place(&path).unwrap(), "found").unwrap();
        assert_eq!(fs::read(&*place(&path).unwrap()).unwrap(), b"found");
        path.extend(b"/none/x");
        assert_eq!(place(&[b'x'; 5000]).err(), Some(Errno::ENAMETOOLONG));
        // The folder that is missing is the system call's to report.
        assert!(place(&path).is_ok_and(|place| place.symlink_metadata().is_err()));
    }
}
