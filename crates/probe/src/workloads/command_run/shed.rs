//! Making a launcher small: what it has in memory of files is given back to the page cache, which has it anyhow.
//!
//! The kernel counts the resident set of who calls execve(2) as the new program's. Most of a launcher's is text and
//! constants that it shares with the probe and the libraries; what it needs again comes back with the first use.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;

/// What this process, or a fork of it, can give back.
pub struct Surplus {
    ranges: Vec<(usize, usize)>,
}

impl Surplus {
    /// Look for mappings that cannot be written to and hold no page of their own. A breakpoint of a tracer is such a
    /// page, as is what the dynamic linker has relocated: those mappings stay. Where the kernel does not report them,
    /// nothing is given back.
    pub fn find() -> Self {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        Self {
            ranges: shared_files(&smaps),
        }
    }

    /// Give it back.
    pub fn shed(&self) {
        for &(start, end) in &self.ranges {
            // SAFETY: the range holds pages of a file only, never written to: they are read from the file again.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        }
    }
}

/// How large this process was at most.
pub struct Peak(Option<File>);

impl Peak {
    /// Open it; before surplus is given back, since this brings pages into memory.
    pub fn of_this_process() -> Self {
        Self(
            OpenOptions::new()
                .write(true)
                .open("/proc/self/clear_refs")
                .ok(),
        )
    }

    /// Have the kernel forget how large this process was before (`5` to `/proc/PID/clear_refs`,
    /// proc_pid_clear_refs(5)). Where it cannot, its figure of a smaller program is this process' own.
    pub fn forget(&self) {
        if let Some(peak) = &self.0 {
            // SAFETY: one byte of a constant is read.
            unsafe { libc::write(peak.as_raw_fd(), c"5".as_ptr().cast(), 1) };
        }
    }
}

/// The ranges of `/proc/PID/smaps` (proc_pid_smaps(5)) that map a file, cannot be written to, and hold nothing but the
/// file's pages.
fn shared_files(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut last = None;
    for line in smaps.lines() {
        if let Some(anonymous) = line.strip_prefix("Anonymous:") {
            found.extend(last.take().filter(|_| anonymous.trim() == "0 kB"));
        } else if let Some(range) = range_of(line) {
            last = is_unwritable_file(line).then_some(range);
        }
    }
    found
}

/// The range of the first line of a mapping; `None` for its other lines.
fn range_of(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

fn is_unwritable_file(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let readable = fields
        .next()
        .is_some_and(|permissions| permissions.starts_with("r-") && permissions.ends_with('p'));
    readable && fields.nth(3).is_some_and(|file| file.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_files_alone_is_given_back() {
        let mapping = |range: &str, rest: &str, anonymous: u32| {
            format!("{range} {rest}\nSize: 4 kB\nAnonymous:     {anonymous} kB\nVmFlags: rd mr\n")
        };
        let smaps = [
            mapping("1000-3000", "r-xp 0 fe:00 10 /usr/bin/a b", 0),
            mapping("3000-4000", "r-xp 0 fe:00 10 /usr/bin/traced", 4),
            mapping("4000-5000", "r--p 0 fe:00 10 /usr/lib/relocated", 88),
            mapping("5000-6000", "rw-p 0 fe:00 10 /usr/lib/data", 0),
            mapping("6000-7000", "r--s 0 fe:00 10 /usr/lib/shared", 0),
            mapping("7000-8000", "r-xp 0 00:00 0 [vdso]", 0),
            mapping("8000-9000", "r--p 0 00:00 0", 0),
            mapping("9000-a000", "r--p 0 fe:00 10 /usr/lib/constants", 0),
        ]
        .concat();
        assert_eq!(shared_files(&smaps), [(0x1000, 0x3000), (0x9000, 0xa000)]);
        assert_eq!(shared_files("no such text\n"), []);
    }

    #[test]
    fn this_program_goes_on_after_it() {
        Surplus::find().shed();
        Peak::of_this_process().forget();
        let smaps = fs::read_to_string("/proc/self/smaps").expect("the file can be read");
        assert!(!shared_files(&smaps).is_empty());
    }
}
