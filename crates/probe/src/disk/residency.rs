//! What of a file is in the page cache: looked at, emptied, filled. Nothing is assumed; every state is proved before it
//! is used.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapOptions};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, PosixFadviseAdvice, posix_fadvise};

use crate::program_files;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::{meminfo_field, page_bytes};

/// Writing to it drops what the page cache and the slabs of dentries and inodes can do without
/// (`Documentation/admin-guide/sysctl/vm.rst`).
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Bytes of a file looked at in one go with mincore(2), which needs a byte of answer for each page.
const WINDOW: u64 = 1 << 30;
/// How often pages that stay are tried again: read-ahead may still be under way when the cache is dropped.
const TRIALS: u32 = 3;
/// Longest wait for another process that drops the caches.
const LONGEST_TURN: Duration = Duration::from_secs(60);
/// Time between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(1);
/// Number of cachestat(2), the same on every architecture but alpha (`scripts/syscall.tbl`); the C library's crate
/// lacks it for some.
const CACHESTAT: libc::c_long = 451;
/// Bytes read at once to fill the page cache.
const PIECE: usize = 1 << 20;

/// How many of a file's first pages are in the page cache, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residency {
    /// Pages looked at.
    pub pages: u64,
    /// Those of them that are in the page cache.
    pub resident: u64,
    /// The system call that reported it.
    pub source: &'static str,
}

impl Residency {
    /// Look at the pages of the first `length` bytes of `file`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel does not report it, `Failure::Failed` if neither cachestat(2) nor
    /// mincore(2) answers.
    pub fn of(file: &File, length: u64) -> Result<Self, Failure> {
        Self::if_reported(file, length)?.ok_or_else(|| {
            Failure::unavailable(
                "the kernel reports what is in the page cache only to the owner of a file, or to who may write to it",
                "run as root, or use a file of your own",
            )
        })
    }

    /// As [`Residency::of`]; `None` where the kernel keeps it from who neither owns the file nor may write to it.
    ///
    /// # Errors
    /// `Failure::Failed` if neither cachestat(2) nor mincore(2) answers.
    pub fn if_reported(file: &File, length: u64) -> Result<Option<Self>, Failure> {
        let pages = length.div_ceil(page_bytes());
        let (resident, source) = match cachestat(file, length) {
            Ok(resident) => (resident, "cachestat"),
            // Linux before 6.5, or a container whose filter does not know the call.
            Err(Errno::ENOSYS | Errno::EPERM | Errno::EOPNOTSUPP) => match mincore(file, length)? {
                Some(resident) => (resident, "mincore"),
                None => return Ok(None),
            },
            Err(error) => return Err(Failure::system("cachestat", error)),
        };
        Ok(Some(Self {
            pages,
            resident,
            source,
        }))
    }

    /// The share of the pages that is in the page cache, 0 to 1.
    pub fn share(&self) -> f64 {
        self.resident as f64 / self.pages as f64
    }
}

/// Bring the first `length` bytes of `file` out of the page cache, and prove it; says how.
///
/// As root by dropping all clean caches, as the original reports did; otherwise by advice for this file alone. This
/// program itself is in memory afterwards.
///
/// # Errors
/// `Failure::Unavailable` if pages stay, with their number and the likely reason.
pub fn make_cold(file: &File, length: u64) -> Result<String, Failure> {
    let how = emptied_by(drop_pages, file, length)?;
    program_files::load();
    Ok(how)
}

/// As [`make_cold`], for all of the file at `path` and by advice alone: nothing else is dropped.
///
/// # Errors
/// As for [`make_cold`], and `Failure::Failed` if it cannot be opened.
pub fn evict(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::system(&path.display().to_string(), &error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    emptied_by(advise, &file, length)
}

/// Drop the pages of a file in this way, until none is left.
fn emptied_by(
    drop: fn(&File) -> Result<&'static str, Failure>,
    file: &File,
    length: u64,
) -> Result<String, Failure> {
    // Only clean pages can be dropped.
    nix::unistd::fsync(file)
        .or_else(|error| match error {
            // A read-only or special file system has nothing to be written.
            Errno::EINVAL | Errno::EROFS => Ok(()),
            error => Err(error),
        })
        .map_err(|error| Failure::system("writing the file's changes out", error))?;
    let mut left = None;
    for _ in 0..TRIALS {
        let how = drop(file)?;
        let found = Residency::of(file, length)?;
        if found.resident == 0 {
            return Ok(format!(
                "cold: {how}, then {} found 0 of {} pages",
                found.source, found.pages
            ));
        }
        left = Some((how, found));
    }
    let (how, found) = left.expect("there is a trial at least");
    Err(Failure::unavailable(
        format!(
            "{} of {} pages stay in the page cache after {how}",
            found.resident, found.pages
        ),
        "use a file on a disk (not tmpfs) that no other program has mapped or locked",
    ))
}

/// Read the first `length` bytes of `file` into the page cache, and prove that they stayed; says how.
///
/// # Errors
/// `Failure::Unavailable` if they did not, `Failure::Failed` for a read error.
pub fn make_warm(file: &File, length: u64) -> Result<String, Failure> {
    let memory = std::fs::read_to_string("/proc/meminfo")
        .map_err(|error| Failure::system("/proc/meminfo", error))?;
    // Reading all of it would only show this in the end.
    if meminfo_field(&memory, "MemTotal").is_some_and(|total| length > total) {
        return Err(Failure::unavailable(
            format!("{length} bytes are more than the memory of this machine"),
            "use a smaller file, or --set count=N to read less of it",
        ));
    }
    let mut found = Residency::of(file, length)?;
    for _ in 0..TRIALS {
        if found.resident == found.pages || cancel::requested() {
            break;
        }
        fill(file, length)?;
        found = Residency::of(file, length)?;
    }
    if found.resident < found.pages && !cancel::requested() {
        return Err(Failure::unavailable(
            format!(
                "only {} of {} pages stay in the page cache",
                found.resident, found.pages
            ),
            "use a smaller file, free some memory, or end what drops the caches",
        ));
    }
    Ok(format!(
        "warm: {} found {} of {} pages",
        found.source, found.resident, found.pages
    ))
}

fn fill(file: &File, length: u64) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < length && !cancel::requested() {
        match file.read_at(&mut piece, offset) {
            Ok(0) => break,
            Ok(read) => offset += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Failure::system(
                    &format!("reading at byte {offset}"),
                    &error,
                ));
            }
        }
    }
    Ok(())
}

/// Take [`DROP_CACHES`] for this process alone, until the lock is dropped. Two that drop the caches at once hold each
/// other's pages and dentries for a moment, and what is held is not dropped; or one drops what the other has just
/// filled.
///
/// # Errors
/// `Failure::Failed` if another process keeps it for a minute.
pub fn take_turn(mut knob: File) -> Result<Flock<File>, Failure> {
    let began = Instant::now();
    while began.elapsed() < LONGEST_TURN && !cancel::requested() {
        match Flock::lock(knob, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((unlocked, Errno::EWOULDBLOCK)) => knob = unlocked,
            Err((_, error)) => return Err(Failure::system("locking drop_caches", error)),
        }
        std::thread::sleep(PAUSE);
    }
    Err(Failure::failed(format!(
        "another process has locked {DROP_CACHES} for {} s; end what drops the caches",
        began.elapsed().as_secs()
    )))
}

fn drop_pages(file: &File) -> Result<&'static str, Failure> {
    match OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(knob) => {
            take_turn(knob)?
                .write_all(b"3")
                .map_err(|error| Failure::system(DROP_CACHES, error))?;
            Ok("drop_caches=3")
        }
        Err(_) => advise(file),
    }
}

fn advise(file: &File) -> Result<&'static str, Failure> {
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .map_err(|error| Failure::system("posix_fadvise", error))?;
    Ok("posix_fadvise(DONTNEED)")
}

/// `struct cachestat_range` and `struct cachestat` of `include/uapi/linux/mman.h`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of the first `length` bytes that are in the page cache, by cachestat(2).
fn cachestat(file: &File, length: u64) -> Result<u64, Errno> {
    let range = Range { offset: 0, length };
    let mut found = CacheStat::default();
    // SAFETY: both structures are the kernel's and outlive the call.
    let answer = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &range, &mut found, 0) };
    Errno::result(answer)?;
    Ok(found.cached)
}

/// Pages of the first `length` bytes that are in the page cache, by mincore(2); `None` where it does not report them.
fn mincore(file: &File, length: u64) -> Result<Option<u64>, Failure> {
    // To who may not know, the kernel reports that all pages are there (`can_do_mincore` in `mm/mincore.c`), even one
    // beyond the end, which never is.
    if window_in_core(file, length.next_multiple_of(WINDOW), 1)? > 0 {
        return Ok(None);
    }
    let mut resident = 0;
    for offset in (0..length).step_by(WINDOW as usize) {
        resident += window_in_core(file, offset, (length - offset).min(WINDOW) as usize)?;
    }
    Ok(Some(resident))
}

/// Pages of the `length` bytes from `offset` on of which mincore(2) says that they are in the page cache.
fn window_in_core(file: &File, offset: u64, length: usize) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::system("mincore", error);
    // SAFETY: the mapping is only asked about, never read.
    let window = unsafe { MmapOptions::new().offset(offset).len(length).map(file) };
    let window = window.map_err(failed)?;
    // Otherwise the kernel may bring pages in around the ones asked for.
    window.advise(Advice::Random).map_err(failed)?;
    let mut answer = vec![0_u8; length.div_ceil(page_bytes() as usize)];
    // SAFETY: the mapping has `length` bytes, and there is a byte of answer for each of its pages.
    let status = unsafe {
        libc::mincore(
            window.as_ptr().cast_mut().cast(),
            length,
            answer.as_mut_ptr().cast(),
        )
    };
    Errno::result(status).map_err(|error| Failure::system("mincore", error))?;
    Ok(answer.iter().filter(|page| **page & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::unnamed;
    use super::*;

    fn file_of(pages: u64, directory: &str) -> (File, u64) {
        let mut file = unnamed(Path::new(directory)).unwrap();
        let length = pages * page_bytes() - 1;
        file.write_all(&vec![7; length as usize]).unwrap();
        (file, length)
    }

    #[test]
    fn both_calls_count_the_same_pages() {
        let (file, length) = file_of(100, "/var/tmp");
        let residency = Residency::of(&file, length).unwrap();
        assert_eq!((residency.pages, residency.resident), (100, 100));
        assert_eq!(mincore(&file, length).unwrap(), Some(100));
        assert_eq!(residency.share(), 1.0);
    }

    #[test]
    fn a_file_is_made_cold_and_warm_again() {
        let (file, length) = file_of(300, "/var/tmp");
        let how = make_cold(&file, length).unwrap();
        assert!(
            how.starts_with("cold: ") && how.contains("found 0 of 300 pages"),
            "{how}"
        );
        assert_eq!(mincore(&file, length).unwrap(), Some(0));
        let how = make_warm(&file, length).unwrap();
        assert!(how.contains("300 of 300"), "{how}");
    }

    /// mincore(2) says of such a file that all is there, which is no answer.
    #[test]
    fn of_a_file_of_somebody_else_nothing_is_reported_rather_than_all() {
        let asked = std::thread::spawn(|| {
            // It changes the calling thread alone, which ends with it; refused to others than root, who own the file no
            // more.
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            let file = File::open("/etc/passwd").unwrap();
            let length = file.metadata().unwrap().len();
            mincore(&file, length)
        });
        assert_eq!(asked.join().unwrap(), Ok(None));
    }

    #[test]
    fn a_file_in_memory_cannot_be_made_cold() {
        let (file, length) = file_of(10, "/dev/shm");
        match make_cold(&file, length) {
            Err(Failure::Unavailable {
                message, remedy, ..
            }) => {
                assert!(message.contains("10 of 10 pages stay"), "{message}");
                assert!(remedy.is_some());
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pages_that_somebody_locked_stay_and_are_reported() {
        let (file, length) = file_of(50, "/var/tmp");
        // SAFETY: nobody shortens the file while it is mapped.
        let mapping = unsafe { MmapOptions::new().len(length as usize).map(&file) }.unwrap();
        mapping.lock().unwrap();
        let refused = make_cold(&file, length).unwrap_err().to_string();
        assert!(refused.contains("50 of 50 pages stay"), "{refused}");
        drop(mapping);
        assert!(make_cold(&file, length).is_ok());
    }
}
