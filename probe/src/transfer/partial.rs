//! A file while it is not whole: under another name, locked, and given its own name at the end.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstatat, futimens, umask};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::names;
use super::wire::Entry;

/// Bits of a mode that are kept: setuid and setgid are not.
const KEPT: u32 = 0o1777;

/// Bytes at the end of a partial that may be zeros never received: an interrupted mapping leaves its window's rest so.
const UNFILLED: u64 = super::receive_methods::WINDOW as u64;

/// A file on its way.
pub struct Partial {
    /// Its contents.
    pub file: File,
    /// Whether nothing was there of it.
    pub is_new: bool,
    name: CString,
    mode_is_right: bool,
    /// System calls made for it.
    pub calls: u64,
}

/// What is at the place of a file.
pub enum There {
    /// Nothing, or something else that will be replaced.
    Other,
    /// A file of this size, time and mode.
    Alike(File),
}

impl Partial {
    /// Begin a file, or go on with what is there of it. Nobody else has it open for writing here until it is dropped.
    ///
    /// # Errors
    /// In one line: another transfer has it, or the kernel's reason.
    pub fn open(parent: BorrowedFd, entry: &Entry) -> Result<Self, String> {
        let name = CString::new(names::partial(entry)).map_err(|error| error.to_string())?;
        let direct = entry.mode & 0o600 == 0o600 && entry.mode & KEPT & creation_mask() == 0;
        let mode = if direct { entry.mode & KEPT } else { 0o600 };
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let new = openat(
            parent,
            name.as_c_str(),
            flags | OFlag::O_CREAT | OFlag::O_EXCL,
            Mode::from_bits_truncate(mode),
        );
        let (handle, is_new) = match new {
            Ok(handle) => (handle, true),
            Err(Errno::EEXIST) => {
                let old = openat(parent, name.as_c_str(), flags, Mode::empty());
                (
                    old.map_err(|error| format!("its partial file: {}", error.desc()))?,
                    false,
                )
            }
            Err(error) => return Err(format!("making it: {}", error.desc())),
        };
        let partial = Self {
            file: handle.into(),
            is_new,
            name,
            mode_is_right: direct && is_new,
            calls: 2 + u64::from(!is_new) * 3,
        };
        partial.lock()?;
        if !is_new {
            partial.check_identity(parent)?;
        }
        Ok(partial)
    }

    fn lock(&self) -> Result<(), String> {
        // SAFETY: `flock` takes no pointer, and the file is open.
        match Errno::result(unsafe {
            libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
        }) {
            Ok(_) => Ok(()),
            Err(Errno::EWOULDBLOCK) => Err("another transfer of it is under way".into()),
            Err(error) => Err(format!("locking its partial file: {}", error.desc())),
        }
    }

    /// Between opening and locking another transfer may have given the file its name: it is no partial any more.
    fn check_identity(&self, parent: BorrowedFd) -> Result<(), String> {
        let own = self
            .file
            .metadata()
            .map_err(|error| crate::error::words(&error))?;
        let named = fstatat(parent, self.name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        match named {
            Ok(named)
                if own.is_file() && named.st_ino == own.ino() && named.st_dev == own.dev() =>
            {
                Ok(())
            }
            Ok(_) | Err(Errno::ENOENT) => Err("another transfer of it has just ended".into()),
            Err(error) => Err(format!("its partial file: {}", error.desc())),
        }
    }

    /// Keep only the first `length` bytes.
    ///
    /// # Errors
    /// There are fewer, or the kernel's reason.
    pub fn keep(&mut self, length: u64) -> Result<(), String> {
        self.calls += 2;
        let have = self
            .file
            .metadata()
            .map_err(|error| crate::error::words(&error))?
            .len();
        if have < length {
            return Err("another transfer of it has been under way".into());
        }
        match have == length {
            true => Ok(()),
            false => self
                .file
                .set_len(length)
                .map_err(|error| crate::error::words(&error)),
        }
    }

    /// How many bytes of it have surely been received.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn received(&self, size: u64) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        if length > size {
            return Ok(0);
        }
        let from = length.saturating_sub(UNFILLED);
        let mut tail = vec![0; usize::try_from(length - from).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut tail, from)?;
        let filled = tail
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |at| at as u64 + 1);
        Ok(from + filled)
    }

    /// Give the file its mode, its time and its name.
    ///
    /// # Errors
    /// In one line, why it keeps its partial name.
    pub fn finish(&mut self, parent: BorrowedFd, entry: &Entry) -> Result<(), String> {
        self.calls += 2;
        if !self.mode_is_right {
            self.calls += 1;
            fchmod(
                self.file.as_fd(),
                Mode::from_bits_truncate(entry.mode & KEPT),
            )
            .map_err(|error| format!("setting its mode: {}", error.desc()))?;
        }
        let modified = TimeSpec::new(
            entry.mtime_ns.div_euclid(1_000_000_000),
            entry.mtime_ns.rem_euclid(1_000_000_000),
        );
        futimens(self.file.as_fd(), &TimeSpec::UTIME_OMIT, &modified)
            .map_err(|error| format!("setting its time: {}", error.desc()))?;
        let (_, base) = names::split(entry.name);
        renameat(parent, self.name.as_c_str(), parent, base)
            .map_err(|error| format!("naming it: {}", error.desc()))
    }

    /// Remove it: what is in it is wrong.
    ///
    /// # Errors
    /// In one line, why it stays.
    pub fn remove(&self, parent: BorrowedFd) -> Result<(), String> {
        unlinkat(parent, self.name.as_c_str(), UnlinkatFlags::NoRemoveDir)
            .map_err(|error| format!("removing its partial file: {}", error.desc()))
    }
}

/// What has the file's own name now.
///
/// # Errors
/// In one line: a folder has it.
pub fn at_place(parent: BorrowedFd, entry: &Entry) -> Result<There, String> {
    let (_, base) = names::split(entry.name);
    let Ok(stat) = fstatat(parent, base, AtFlags::AT_SYMLINK_NOFOLLOW) else {
        return Ok(There::Other);
    };
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    if kind == SFlag::S_IFDIR {
        return Err("a folder has its name there".into());
    }
    let modified = stat
        .st_mtime
        .saturating_mul(1_000_000_000)
        .saturating_add(stat.st_mtime_nsec);
    if kind != SFlag::S_IFREG
        || u64::try_from(stat.st_size) != Ok(entry.size)
        || modified != entry.mtime_ns
    {
        return Ok(There::Other);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let Ok(handle) = openat(parent, base, flags, Mode::empty()) else {
        return Ok(There::Other);
    };
    let file = File::from(handle);
    match file.metadata() {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & KEPT == entry.mode & KEPT => {
            Ok(There::Alike(file))
        }
        _ => Ok(There::Other),
    }
}

/// What is there of a file that an earlier transfer began: how many bytes.
///
/// # Errors
/// In one line: another transfer is at it.
pub fn begun(parent: BorrowedFd, entry: &Entry) -> Result<u64, String> {
    let name = names::partial(entry);
    match fstatat(parent, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(_) => {}
        Err(_) => return Ok(0),
    }
    let partial = Partial::open(parent, entry)?;
    partial
        .received(entry.size)
        .map_err(|error| format!("its partial file: {}", crate::error::words(&error)))
}

/// Permission bits that this process takes from new files.
fn creation_mask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| {
        // The mask can only be read by setting it; nothing is made between the two calls that the stricter mask could harm.
        let mask = umask(Mode::from_bits_truncate(0o077));
        umask(mask);
        mask.bits()
    })
}
