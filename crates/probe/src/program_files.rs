//! What this process has mapped of its program and libraries.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use oscope_sys::machine::memory::page_bytes;

/// Have all of it in memory.
///
/// An emptied page cache has lost what no process had mapped: its first use would read it from the disk within the
/// clock. Linux before 5.14 does not know the advice.
pub fn load() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in of_the_program(&maps) {
        // SAFETY: the range is a mapping of this process, whose pages are read and not changed.
        unsafe {
            libc::madvise(
                start as *mut libc::c_void,
                end - start,
                libc::MADV_POPULATE_READ,
            )
        };
    }
}

/// Those of [`unwritable`] whose file is executed: others are data, such as what a workload reads.
fn of_the_program(maps: &str) -> impl Iterator<Item = (usize, usize)> {
    let file = |line: &str| line.find('/').map(|at| line[at..].to_owned());
    let executed: Vec<_> = maps
        .lines()
        .filter(|line| line.contains(" r-xp "))
        .filter_map(file)
        .collect();
    let is_executed = move |line: &&str| file(line).is_some_and(|file| executed.contains(&file));
    maps.lines().filter(is_executed).flat_map(unwritable)
}

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
        .map(|entry| {
            u64::from_ne_bytes(
                entry
                    .try_into()
                    .expect("chunks_exact yields entries of 8 bytes"),
            )
        })
        .collect())
}

/// That a page is in memory, an entry says with this bit.
pub const PRESENT: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn present(range: (usize, usize)) -> usize {
        let entries = pagemap(range).expect("it can be read");
        entries.iter().filter(|&entry| entry & PRESENT != 0).count()
    }

    #[test]
    fn only_files_that_cannot_be_written_to_are_found() {
        let maps = "1000-3000 r-xp 0 fe:00 10 /usr/bin/a b\n\
            3000-4000 r--p 0 fe:00 10 /usr/bin/a b\n\
            4000-5000 r--p 0 fe:00 10 /usr/lib/relocated\n\
            5000-6000 rw-p 0 fe:00 10 /usr/lib/data\n\
            6000-7000 r--s 0 fe:00 10 /usr/lib/shared\n\
            7000-8000 r-xp 0 00:00 0 [vdso]\n\
            8000-9000 r--p 0 00:00 0\n\
            9000-a000 r--p 0 fe:00 10 /usr/lib/constants\n";
        let found: Vec<_> = unwritable(maps).collect();
        assert_eq!(
            found,
            [
                (0x1000, 0x3000),
                (0x3000, 0x4000),
                (0x4000, 0x5000),
                (0x9000, 0xa000)
            ]
        );
        assert_eq!(unwritable("no such text\n").next(), None);
        let program: Vec<_> = of_the_program(maps).collect();
        assert_eq!(program, [(0x1000, 0x3000), (0x3000, 0x4000)]);
    }

    #[test]
    fn all_of_this_program_is_in_memory_afterwards() {
        let own = this_program as *const () as usize;
        let maps = fs::read_to_string("/proc/self/maps").expect("it can be read");
        let (start, end) = unwritable(&maps)
            .find(|(start, end)| (*start..*end).contains(&own))
            .expect("it is mapped");
        // SAFETY: the range holds pages of a file only, which are read from it again.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        let pages = (end - start) / page_bytes() as usize;
        assert!(present((start, end)) < pages);
        load();
        assert_eq!(present((start, end)), pages);
    }

    fn this_program() {}
}
