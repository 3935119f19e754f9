//! Making a launcher small: what it has in memory of programs' text is given back to the page cache, which has it anyhow.
//!
//! The kernel counts the resident set of who calls execve(2) as the new program's. Most of a launcher's is text that it shares with the probe
//! and the libraries; what it needs again comes back with the first use.

use std::fs;

use crate::region::{oscope_region_begin, oscope_region_end};
use crate::workloads::disk::residency::page_bytes;

/// Give back the text of this process, but for the pages of the marks: a tracer may have its breakpoints in them, which would be lost.
pub fn shed_text() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        return;
    };
    let page = page_bytes() as usize;
    let mut kept = [
        oscope_region_begin as *const () as usize,
        oscope_region_end as *const () as usize,
    ]
    .map(|mark| mark & !(page - 1));
    kept.sort_unstable();
    for (start, end) in maps.lines().filter_map(text_of) {
        for (from, to) in without(start, end, &kept, page) {
            // SAFETY: the range is private text of a file, never written to: its pages are read from the file again.
            unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
        }
    }
}

/// Have the kernel forget how large this process was before (`5` to `/proc/PID/clear_refs`, proc_pid_clear_refs(5)). Where it cannot, its figure
/// of a smaller program is this process' own.
pub fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The range of a line of `/proc/self/maps` that is a file's text.
fn text_of(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (permissions, file) = (fields.next()?, fields.nth(3)?);
    if permissions != "r-xp" || !file.starts_with('/') {
        return None;
    }
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

/// The parts of a range that hold none of these pages, which are in rising order.
fn without(start: usize, end: usize, pages: &[usize], size: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut from = start;
    for &page in pages.iter().filter(|&&page| (start..end).contains(&page)) {
        parts.push((from, page.max(from)));
        from = from.max(page + size);
    }
    parts.push((from, end));
    parts.retain(|(from, to)| from < to);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_files_text_is_given_back_and_never_the_pages_kept() {
        let text =
            "561129e4d000-56112a1e1000 r-xp 000f5000 fe:00 10003334                   /usr/bin/a b";
        assert_eq!(text_of(text), Some((0x5611_29e4_d000, 0x5611_2a1e_1000)));
        for other in [
            "1000-2000 rwxp 0 00:00 1 /x",
            "1000-2000 r--p 0 00:00 1 /x",
            "1000-2000 r-xp 0 00:00 0 [vdso]",
            "1000-2000 r-xp 0 00:00 0",
            "",
        ] {
            assert_eq!(text_of(other), None, "{other}");
        }
        assert_eq!(without(0, 100, &[], 10), [(0, 100)]);
        assert_eq!(without(0, 100, &[30, 40], 10), [(0, 30), (50, 100)]);
        assert_eq!(without(0, 100, &[0, 90], 10), [(10, 90)]);
        assert_eq!(without(0, 100, &[30, 30, 200], 10), [(0, 30), (40, 100)]);
    }
}
