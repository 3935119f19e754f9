//! What this process has mapped of its program and libraries.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::disk::residency::page_bytes;

/// The ranges of `/proc/PID/maps` (proc_pid_maps(5)) that map a file, privately, and cannot be written to.
pub fn unwritable(maps: &str) -> impl Iterator<Item = (usize, usize)> {
    maps.lines()
        .filter(|line| is_unwritable(line))
        .filter_map(range_of)
}

fn range_of(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

fn is_unwritable(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let readable = fields
        .next()
        .is_some_and(|permissions| permissions.starts_with("r-") && permissions.ends_with('p'));
    readable && fields.nth(3).is_some_and(|file| file.starts_with('/'))
}

/// What the kernel says of each page of the range (proc_pid_pagemap(5)).
pub fn pagemap((start, end): (usize, usize)) -> std::io::Result<Vec<u64>> {
    let page = page_bytes() as usize;
    let mut bytes = vec![0; (end - start) / page * size_of::<u64>()];
    File::open("/proc/self/pagemap")?
        .read_exact_at(&mut bytes, (start / page * size_of::<u64>()) as u64)?;
    let entries = bytes.chunks_exact(size_of::<u64>());
    Ok(entries
        .map(|entry| u64::from_ne_bytes(entry.try_into().expect("it is whole")))
        .collect())
}

/// That a page is in memory, an entry says with this bit.
pub const PRESENT: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_cannot_be_written_to_are_found() {
        let maps = "1000-3000 r-xp 0 fe:00 10 /usr/bin/a b\n\
            4000-5000 r--p 0 fe:00 10 /usr/lib/relocated\n\
            5000-6000 rw-p 0 fe:00 10 /usr/lib/data\n\
            6000-7000 r--s 0 fe:00 10 /usr/lib/shared\n\
            7000-8000 r-xp 0 00:00 0 [vdso]\n\
            8000-9000 r--p 0 00:00 0\n\
            9000-a000 r--p 0 fe:00 10 /usr/lib/constants\n";
        let found: Vec<_> = unwritable(maps).collect();
        assert_eq!(
            found,
            [(0x1000, 0x3000), (0x4000, 0x5000), (0x9000, 0xa000)]
        );
        assert_eq!(unwritable("no such text\n").next(), None);
    }
}
