//! What getrusage(2) reports of a process: the figures of CS380L lab 2 (docs/sources.md).

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use oscope_sys::error::Failure;

/// Usage of the calling process, or what was added to it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds in user mode; most kernels sample the split at ticks of 1 to 10 ms.
    pub utime_s: f64,
    /// Seconds in the kernel.
    pub stime_s: f64,
    /// Page faults that needed no device.
    pub minflt: f64,
    /// Page faults that waited for one, and every fault on a page of a file that is not in the page cache
    /// (`filemap_fault`, mm/filemap.c), also where nothing need be read, as of a part of a file that has room and was
    /// never written.
    pub majflt: f64,
    /// Highest resident set so far in KiB; a difference says by how much it grew.
    ///
    /// A forked process begins with its own resident set (`dup_mm`, kernel/fork.c), not with its parent's highest. The
    /// kernel may count it by up to some 100 pages a CPU too low or too high at any time (`get_mm_rss`,
    /// include/linux/mm.h).
    pub maxrss_kib: f64,
    /// Blocks of 512 B read from devices; `None` where the kernel does not count them (CONFIG_TASK_IO_ACCOUNTING).
    pub inblock: Option<f64>,
    /// Blocks of 512 B to be written: a page counts when it becomes dirty.
    pub oublock: Option<f64>,
}

impl Usage {
    /// Of the calling process, since it began.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn now() -> Result<Self, Failure> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)
            .map_err(|error| Failure::system("getrusage", error))?;
        Ok(Self {
            utime_s: usage.user_time().num_microseconds() as f64 / 1e6,
            stime_s: usage.system_time().num_microseconds() as f64 / 1e6,
            minflt: usage.minor_page_faults() as f64,
            majflt: usage.major_page_faults() as f64,
            maxrss_kib: usage.max_rss() as f64,
            inblock: Some(usage.block_reads() as f64),
            oublock: Some(usage.block_writes() as f64),
        })
    }

    /// What was added since `before`.
    pub fn since(self, before: Self) -> Self {
        // The file exists where blocks are counted (proc_pid_io(5)).
        let counted = std::path::Path::new("/proc/self/io").exists();
        let blocks = |now: Option<f64>, before: Option<f64>| {
            let added = now.zip(before).map(|(now, before)| now - before);
            added.filter(|_| counted)
        };
        Self {
            utime_s: self.utime_s - before.utime_s,
            stime_s: self.stime_s - before.stime_s,
            minflt: self.minflt - before.minflt,
            majflt: self.majflt - before.majflt,
            maxrss_kib: self.maxrss_kib - before.maxrss_kib,
            inblock: blocks(self.inblock, before.inblock),
            oublock: blocks(self.oublock, before.oublock),
        }
    }

    /// The figures under these names, in the order of [`NAMES`].
    pub fn metrics(self, names: &[&'static str; 7]) -> Vec<(&'static str, f64)> {
        let values = [
            Some(self.utime_s),
            Some(self.stime_s),
            Some(self.minflt),
            Some(self.majflt),
            Some(self.maxrss_kib),
            self.inblock,
            self.oublock,
        ];
        let named = names.iter().zip(values);
        named
            .filter_map(|(name, value)| Some((*name, value?)))
            .collect()
    }
}

/// The figures of the measured function.
pub const NAMES: [&str; 7] = [
    "utime_s",
    "stime_s",
    "minflt",
    "majflt",
    "maxrss_kib",
    "inblock",
    "oublock",
];

/// Those of the initialisation.
pub const INIT_NAMES: [&str; 7] = [
    "init_utime_s",
    "init_stime_s",
    "init_minflt",
    "init_majflt",
    "init_maxrss_kib",
    "init_inblock",
    "init_oublock",
];
