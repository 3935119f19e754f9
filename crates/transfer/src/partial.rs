//! A file while it is not whole: under another name, locked, and given its own name at the end.

use std::cell::Cell;
use std::ffi::{CStr, CString, NulError};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{
    FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, fstatat, futimens,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::names::{self, Origin};
use super::naming::{flush, give_name, link};
use super::wire::{Entry, SEGMENT};
use oscope_sys::error::Failure;

/// Bits of a mode beside the file's type.
const MODE: u32 = 0o7777;

/// Bits of a mode that are kept: setuid and setgid are not.
pub(super) const KEPT: u32 = 0o1777;

/// Bits of a mode that let others than its owner write a file; with an access list, its mask (acl(5)).
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// How a partial file is opened.
const OPEN: OFlag = OFlag::O_RDWR
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NONBLOCK);

/// The mode of a file that is not whole.
const FIRST_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Bytes at the end of a partial that may be zeros and not the file's: an interrupted mapping leaves its window's rest
/// so, and a sender that stops fills its segment with them to send the reason.
const UNFILLED: u64 = SEGMENT as u64;
const _: () = assert!(super::receive_methods::WINDOW <= SEGMENT);

/// A file on its way.
pub struct Partial {
    /// Its contents. Who digests it has the same descriptor: another one's close(2) would take an error that
    /// [`Self::finish`] is to see.
    pub file: Arc<File>,
    /// Whether nothing was there of it.
    pub is_new: bool,
    name: CString,
    /// System calls made for it.
    pub calls: u64,
}

/// What is at the place of a file.
pub enum There {
    /// Nothing.
    Nothing,
    /// Something else, which will be replaced.
    Other,
    /// A file of this size, time and mode.
    Alike(File),
}

impl Partial {
    /// Begin a file, or resume what is there of it. Nobody else has it open for writing here until it is dropped.
    ///
    /// # Errors
    /// `Failure::Failed`: another transfer has it, all its names are taken, or with the errno of open(2) or flock(2).
    pub fn open(parent: BorrowedFd, entry: &Entry, origin: Origin) -> Result<Self, Failure> {
        let partial = Self::find(parent, entry, origin)?;
        partial.own(parent)?;
        Ok(partial)
    }

    /// The file under its partial name, made or found, which another transfer may have at the same time. What has such
    /// a name and is not this user's alone is left as it is, and another name taken.
    pub(super) fn find(parent: BorrowedFd, entry: &Entry, origin: Origin) -> Result<Self, Failure> {
        let mut calls = 3;
        for name in names::partials(entry, origin) {
            let name = CString::new(name).map_err(|error| no_name(&error))?;
            calls += 1;
            let new = openat(
                parent,
                name.as_c_str(),
                OPEN | OFlag::O_CREAT | OFlag::O_EXCL,
                FIRST_MODE,
            );
            let (handle, is_new) = match new {
                Ok(handle) => (handle, true),
                Err(Errno::EEXIST) => {
                    calls += 3;
                    let old = adopt(parent, &name)
                        .map_err(|error| Failure::system("its partial file", error))?;
                    match old {
                        Some(handle) => (handle, false),
                        None => continue,
                    }
                }
                Err(error) => return Err(Failure::system("making it", error)),
            };
            return Ok(Self {
                file: Arc::new(handle.into()),
                is_new,
                name,
                calls,
            });
        }
        Err(Failure::failed(
            "all names of its partial file are taken by what is not this user's alone",
        ))
    }

    /// Whether a later transfer would resume it; where a file system gives every file to the same user, none does.
    pub fn is_adoptable(&self) -> bool {
        fstat(self.file.as_fd()).is_ok_and(|status| is_own(&status))
    }

    /// Have it alone. One that was made just now, too, may have been found, filled and named by another transfer before
    /// this one locked it.
    pub(super) fn own(&self, parent: BorrowedFd) -> Result<(), Failure> {
        self.lock()?;
        self.check_identity(parent)
    }

    fn lock(&self) -> Result<(), Failure> {
        // SAFETY: `flock` takes no pointer, and the file is open.
        match Errno::result(unsafe {
            libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
        }) {
            Ok(_) => Ok(()),
            Err(Errno::EWOULDBLOCK) => Err(Failure::failed("another transfer of it is under way")),
            Err(error) => Err(Failure::system("locking its partial file", error)),
        }
    }

    /// Between opening and locking another transfer may have given the file its name: it is no partial any more.
    fn check_identity(&self, parent: BorrowedFd) -> Result<(), Failure> {
        let own = self.file.metadata()?;
        let named = fstatat(parent, self.name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        match named {
            Ok(named)
                if own.is_file() && named.st_ino == own.ino() && named.st_dev == own.dev() =>
            {
                Ok(())
            }
            Ok(_) | Err(Errno::ENOENT) => {
                Err(Failure::failed("another transfer of it has just ended"))
            }
            Err(error) => Err(Failure::system("its partial file", error)),
        }
    }

    /// Keep only the first `length` bytes.
    ///
    /// # Errors
    /// `Failure::Failed`: there are fewer, or with the errno of fstat(2) or ftruncate(2).
    pub fn keep(&mut self, length: u64) -> Result<(), Failure> {
        self.calls += 2;
        let have = self.file.metadata()?.len();
        if have < length {
            return Err(Failure::failed("another transfer of it has been under way"));
        }
        if have > length {
            self.file.set_len(length)?;
        }
        Ok(())
    }

    /// How many bytes of it have surely been received.
    ///
    /// # Errors
    /// Those of fstat(2) and read(2); `ErrorKind::UnexpectedEof` if it becomes shorter meanwhile.
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

    /// Give the file its mode, its time and, once the file system has taken its contents, its name, as [`give_name`].
    ///
    /// # Errors
    /// `Failure::Failed` with the errno of fchmod(2), utimensat(2) or close(2), or that of [`give_name`]: it keeps its
    /// partial name.
    pub fn finish(
        &mut self,
        parent: BorrowedFd,
        entry: &Entry,
        replaces: bool,
    ) -> Result<(), Failure> {
        self.calls += 4;
        dress(&self.file, entry)?;
        flush(&self.file).map_err(|error| Failure::system("writing", error))?;
        give_name(parent, self.name.as_c_str(), entry, replaces)
    }

    /// Remove it: what is in it is wrong.
    ///
    /// # Errors
    /// `Failure::Failed` with the errno of unlinkat(2): it stays.
    pub fn remove(&self, parent: BorrowedFd) -> Result<(), Failure> {
        unlinkat(parent, self.name.as_c_str(), UnlinkatFlags::NoRemoveDir)
            .map_err(|error| Failure::system("removing its partial file", error))
    }
}

/// Bits of a mode that a file in this folder has if it is made with them: what the umask and the folder's default ACL
/// leave, as far as known.
pub type Granted = Cell<u32>;

/// Put a file there whole, which had no name until then, where nothing has its name: whether that could be done.
/// Otherwise nothing was.
///
/// # Errors
/// Those of write(2) and close(2), such as `ENOSPC`.
pub fn put_whole(
    parent: BorrowedFd,
    granted: &Granted,
    entry: &Entry,
    bytes: &[u8],
    calls: &mut u64,
) -> io::Result<bool> {
    let flags = OFlag::O_WRONLY | OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
    let mode = entry.mode & KEPT;
    *calls += 1;
    // Without a name, nobody else can open it.
    let Ok(handle) = openat(parent, c".", flags, Mode::from_bits_truncate(mode)) else {
        return Ok(false);
    };
    let file = File::from(handle);
    *calls += 5;
    file.write_all_at(bytes, 0)?;
    if mode & !granted.get() != 0 {
        *calls += 1;
        if fstat(file.as_fd()).is_ok_and(|status| status.st_mode & MODE == mode) {
            granted.set(granted.get() | mode);
        } else {
            *calls += 1;
            if set_mode(&file, entry).is_err() {
                return Ok(false);
            }
        }
    }
    if set_time(&file, entry).is_err() {
        return Ok(false);
    }
    flush(&file)?;
    let (_, base) = names::split(entry.name);
    Ok(CString::new(base).is_ok_and(|base| link(&file, parent, &base).is_ok()))
}

/// Open a partial file that is there; `None` if it is not this user's alone.
fn adopt(parent: BorrowedFd, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    // Before it is opened: a FIFO would notice that.
    if !is_own(&fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?) {
        return Ok(None);
    }
    let open = || openat(parent, name, OPEN, Mode::empty());
    let handle = match open() {
        Err(Errno::EACCES) => make_accessible(parent, name).and_then(|()| open()),
        other => other,
    }?;
    // What was opened counts: the name may be another file's by now.
    let own = is_own(&fstat(handle.as_fd())?);
    Ok(own.then_some(handle))
}

/// A partial name that holds a zero byte.
pub(super) fn no_name(error: &NulError) -> Failure {
    Failure::failed(error.to_string())
}

/// Whether it is a plain file of this user that nobody else can write, and that has no other name: what resumes it
/// changes nothing else.
fn is_own(status: &FileStat) -> bool {
    status.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits()
        && status.st_uid == geteuid().as_raw()
        && status.st_nlink == 1
        && status.st_mode & WRITABLE_BY_OTHERS == 0
}

/// Let its owner read and write a partial file: a transfer that was killed just before it gave the file its name may
/// have left it the file's own mode. It is not made anew, as another transfer may be about to name it.
fn make_accessible(parent: BorrowedFd, name: &CStr) -> Result<(), Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let handle = openat(parent, name, flags, Mode::empty())?;
    if !is_own(&fstat(handle.as_fd())?) {
        return Err(Errno::EACCES);
    }
    // By its descriptor, so that no symbolic link put there meanwhile is followed.
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let follow = FchmodatFlags::FollowSymlink;
    fchmodat(AT_FDCWD, path.as_str(), FIRST_MODE, follow)
}

/// Give a file its mode and its time. The mode cannot be given when the file is made: the folder's default ACL or the
/// umask may take bits.
fn dress(file: &File, entry: &Entry) -> Result<(), Failure> {
    set_mode(file, entry)?;
    set_time(file, entry)
}

fn set_mode(file: &File, entry: &Entry) -> Result<(), Failure> {
    fchmod(file.as_fd(), Mode::from_bits_truncate(entry.mode & KEPT))
        .map_err(|error| Failure::system("setting its mode", error))
}

fn set_time(file: &File, entry: &Entry) -> Result<(), Failure> {
    futimens(file.as_fd(), &TimeSpec::UTIME_OMIT, &time(entry))
        .map_err(|error| Failure::system("setting its time", error))
}

/// When it was modified.
pub(super) fn time(entry: &Entry) -> TimeSpec {
    TimeSpec::new(
        entry.mtime_ns.div_euclid(1_000_000_000),
        entry.mtime_ns.rem_euclid(1_000_000_000),
    )
}

/// Nanoseconds since 1970, of seconds and the rest; saturating beyond the years 1677 and 2262.
fn modified(seconds: i64, nanoseconds: i64) -> i64 {
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// What has the file's own name now; with its device and inode, where it has no other name.
///
/// # Errors
/// `Failure::Failed`: a folder has the name.
pub fn at_place(parent: BorrowedFd, entry: &Entry) -> Result<(There, Option<(u64, u64)>), Failure> {
    let (_, base) = names::split(entry.name);
    match fstatat(parent, base, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let own = (stat.st_nlink == 1).then_some((stat.st_dev, stat.st_ino));
            is_alike(parent, entry, &stat).map(|there| (there, own))
        }
        Err(_) => Ok((There::Nothing, None)),
    }
}

/// Whether what has this status is like the file.
fn is_alike(parent: BorrowedFd, entry: &Entry, stat: &FileStat) -> Result<There, Failure> {
    let (_, base) = names::split(entry.name);
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    if kind == SFlag::S_IFDIR {
        return Err(Failure::remediable(
            "a folder has its name there",
            "at the receiver, rename or remove that folder, or receive --into another folder",
        ));
    }
    let modified = modified(stat.st_mtime, stat.st_mtime_nsec);
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

/// What is there of a file that an earlier transfer began: how many bytes, `None` if it did not.
///
/// # Errors
/// `Failure::Failed`: as for [`Partial::open`] and [`Partial::received`].
pub fn begun(parent: BorrowedFd, entry: &Entry, origin: Origin) -> Result<Option<u64>, Failure> {
    let status = |name: String| fstatat(parent, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok();
    if !names::partials(entry, origin)
        .map_while(status)
        .any(|status| is_own(&status))
    {
        return Ok(None);
    }
    let partial = Partial::open(parent, entry, origin)?;
    let received = partial.received(entry.size).map(Some);
    received.map_err(|error| Failure::system("its partial file", error))
}
