//! Making a launcher small: what it has in memory of files is given back to the page cache, which has it anyhow.
//!
//! The kernel counts the resident set of who calls execve(2) as the new program's. Most of a launcher's is text and
//! constants that it shares with the probe and the libraries; what it needs again comes back with the first use.

use std::fs::{self, File, OpenOptions};

use crate::program_files::{PRESENT, pagemap, unwritable};
use oscope_sys::machine::memory::page_bytes;

/// Other bits of an entry of `/proc/PID/pagemap` (proc_pid_pagemap(5)).
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;

/// What this process, or a fork of it, can give back.
pub struct Surplus {
    ranges: Vec<(usize, usize)>,
}

impl Surplus {
    /// Look for pages of files that cannot be written to. A page of this process' own among them stays: a breakpoint of
    /// a tracer is one, as is what the dynamic linker has relocated. Where the kernel does not report them, nothing is
    /// given back.
    pub fn find() -> Self {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let of_files = |range| shared(range, &pagemap(range).unwrap_or_default());
        Self {
            ranges: unwritable(&maps).flat_map(of_files).collect(),
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
            let _ = nix::unistd::write(peak, b"5");
        }
    }
}

/// The parts of a range that hold no page of this process' own, as the entries of its pages have it.
fn shared((mut start, _): (usize, usize), entries: &[u64]) -> Vec<(usize, usize)> {
    let is_own = |entry: &u64| entry & (PRESENT | SWAPPED) != 0 && entry & OF_A_FILE == 0;
    let mut found = Vec::new();
    for part in entries.chunk_by(|one, next| is_own(one) == is_own(next)) {
        let end = start + part.len() * page_bytes() as usize;
        if !is_own(&part[0]) {
            found.push((start, end));
        }
        start = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_files_alone_is_given_back() {
        let page = page_bytes() as usize;
        let entries = [
            PRESENT | OF_A_FILE,
            0,
            PRESENT,
            SWAPPED,
            0,
            PRESENT | OF_A_FILE,
            PRESENT,
        ];
        let end = 8 * page;
        let parts = [(page, 3 * page), (5 * page, 7 * page)];
        assert_eq!(shared((page, end), &entries), parts);
        assert_eq!(shared((page, end), &[]), []);
    }

    #[test]
    fn this_program_goes_on_after_it() {
        Surplus::find().shed();
        Peak::of_this_process().forget();
        assert!(!Surplus::find().ranges.is_empty());
    }
}
