//! What the kernel says of its caches.

use std::fs::{self, File};
use std::io::{self, Read};
use std::time::{Duration, Instant};

use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::meminfo_field;

/// Reading it adds the counts that each CPU still keeps for itself to those of `/proc/meminfo`, which may lag by a
/// second otherwise (`Documentation/admin-guide/sysctl/vm.rst`).
const REFRESH: &str = "/proc/sys/vm/stat_refresh";
/// Slabs that have not changed for so long have come to rest: an RCU grace period takes some tens of milliseconds.
const STILL: Duration = Duration::from_millis(200);
/// Longest wait for that, on a machine that others keep busy.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// The sizes of the caches of the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Bytes in the page cache, those of tmpfs left out, which has nowhere else to keep them.
    pub page_cache_bytes: i64,
    /// Dentries, in use or not.
    pub dentries: i64,
    /// Inodes of all file systems, in use or not.
    pub inodes: i64,
    /// Bytes of slabs that can be reclaimed.
    pub slab_bytes: i64,
}

impl Figures {
    /// The figures now. The counts of dentries and inodes are exact at once (they are summed over the CPUs when read,
    /// `fs/dcache.c` and `fs/inode.c`); slabs still hold what waits for the end of an RCU grace period.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report one of them.
    pub fn read() -> Result<Self, Failure> {
        refresh()?;
        let dentries = text("/proc/sys/fs/dentry-state")?;
        let inodes = text("/proc/sys/fs/inode-nr")?;
        Self::parse(&text("/proc/meminfo")?, &dentries, &inodes)
    }

    fn parse(meminfo: &str, dentry_state: &str, inode_nr: &str) -> Result<Self, Failure> {
        let page_cache_bytes = field(meminfo, "Cached")? + field(meminfo, "Buffers")?;
        Ok(Self {
            page_cache_bytes: page_cache_bytes - field(meminfo, "Shmem")?,
            dentries: first(dentry_state, "/proc/sys/fs/dentry-state")?,
            inodes: first(inode_nr, "/proc/sys/fs/inode-nr")?,
            slab_bytes: field(meminfo, "SReclaimable")?,
        })
    }
}

/// Bytes of reclaimable slabs once they have come to rest, or after the longest wait.
///
/// # Errors
/// `Failure::Failed` if the kernel does not report it.
pub fn settled_slab() -> Result<i64, Failure> {
    let began = Instant::now();
    let (mut last, mut since) = (slab()?, began);
    while since.elapsed() < STILL && began.elapsed() < LONGEST_WAIT && !cancel::requested() {
        std::thread::sleep(PAUSE);
        let now = slab()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

fn slab() -> Result<i64, Failure> {
    refresh()?;
    field(&text("/proc/meminfo")?, "SReclaimable")
}

fn refresh() -> Result<(), Failure> {
    let read = File::open(REFRESH).and_then(|mut file| file.read(&mut [0]));
    match read {
        Ok(_) => Ok(()),
        // The counts were added up; one of them came out below zero, which is none of ours (`vmstat_refresh` in
        // `mm/vmstat.c`).
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(error) => Err(Failure::system(&format!("reading {REFRESH}"), error)),
    }
}

fn text(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error: io::Error| Failure::system(&format!("reading {path}"), error))
}

fn field(meminfo: &str, name: &str) -> Result<i64, Failure> {
    meminfo_field(meminfo, name)
        .and_then(|bytes| i64::try_from(bytes).ok())
        .ok_or_else(|| Failure::failed(format!("/proc/meminfo has no {name}")))
}

/// The first number in `text`.
fn first(text: &str, path: &str) -> Result<i64, Failure> {
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| Failure::failed(format!("{path} begins with no number: {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "Buffers: 20 kB\nCached: 100 kB\nShmem: 30 kB\nSReclaimable: 7 kB\n";

    #[test]
    fn figures_are_in_bytes_and_numbers() {
        let figures = Figures::parse(MEMINFO, "85212\t83712\t45\t0\t9684\t0\n", "75358\t0\n");
        let expected = Figures {
            page_cache_bytes: 90 * 1024,
            dentries: 85212,
            inodes: 75358,
            slab_bytes: 7 * 1024,
        };
        assert_eq!(figures, Ok(expected));
    }

    #[test]
    fn what_the_kernel_does_not_report_is_no_zero() {
        for (meminfo, dentries, inodes, word) in [
            ("Cached: 1 kB\n", "1", "1", "Buffers"),
            (MEMINFO, "", "1", "dentry-state"),
            (MEMINFO, "1", "many", "inode-nr"),
        ] {
            let refused = Figures::parse(meminfo, dentries, inodes).unwrap_err();
            assert!(refused.to_string().contains(word), "{refused}");
        }
    }

    #[test]
    fn a_file_in_the_page_cache_and_an_inode_are_counted() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: {REFRESH} can be read by root only");
            return;
        }
        let figures = Figures::read().unwrap();
        assert!(figures.page_cache_bytes > 0 && figures.slab_bytes > 0);
        assert!(figures.dentries > 0 && figures.inodes > 0);
        assert!(settled_slab().unwrap() > 0);
    }
}
