//! Which pages of the memory are there.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use super::patience::retry;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::mapping::mapped;

/// Pages whose entries are read at once.
const CHUNK: usize = 1 << 13;

/// What is there of a range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Presence {
    /// Resident memory (`Rss` of smaps), in KiB.
    pub resident_kib: u64,
    /// That of it which is in transparent huge pages, in KiB.
    pub huge_kib: u64,
    /// Base pages that this process has mapped or that were swapped out (pagemap); the zero page counts.
    pub touched: u64,
}

impl Presence {
    /// Of `memory`, a mapping of this process, which begins and ends at a page.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel does not report it; `Failure::Failed` where it finds no memory for it.
    pub fn of(memory: &[u8]) -> Result<Self, Failure> {
        let (start, bytes) = (memory.as_ptr() as u64, memory.len() as u64);
        let mapped = retry(|| mapped(start, bytes))?;
        let touched = retry(|| {
            let mut touched = 0;
            look(start, bytes, |_, there| touched += u64::from(there))?;
            Ok(touched)
        })?;
        Ok(Self {
            resident_kib: mapped.resident_bytes / 1024,
            huge_kib: mapped.huge_bytes / 1024,
            touched,
        })
    }
}

/// Hand `each` the place of every page of the range, in bytes from `start`, and whether it is present or swapped: bits
/// 63 and 62 of an entry of 64 bits (Documentation/admin-guide/mm/pagemap.rst).
///
/// # Errors
/// As [`Presence::of`].
pub fn look(start: u64, bytes: u64, mut each: impl FnMut(u64, bool)) -> Result<(), Failure> {
    let refused = |error: io::Error| {
        let missing = error.kind() == ErrorKind::NotFound;
        let failure = Failure::system("reading /proc/self/pagemap", error);
        match missing {
            true => Failure::unavailable(
                failure.to_string(),
                "run a kernel with CONFIG_PROC_PAGE_MONITOR",
            ),
            false => failure,
        }
    };
    let pagemap = File::open("/proc/self/pagemap").map_err(refused)?;
    let (first, pages) = (start / page_bytes(), (bytes / page_bytes()) as usize);
    let mut chunk = vec![0_u8; 8 * CHUNK];
    for page in (0..pages).step_by(CHUNK) {
        let entries = &mut chunk[..8 * CHUNK.min(pages - page)];
        pagemap
            .read_exact_at(entries, 8 * (first + page as u64))
            .map_err(refused)?;
        // The bits in question lie in the last byte of an entry.
        for (number, byte) in entries.iter().skip(7).step_by(8).enumerate() {
            each((page + number) as u64 * page_bytes(), byte & 0xc0 != 0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use memmap2::{Advice, MmapMut};

    use super::*;

    #[test]
    fn pages_written_and_pages_read_are_distinguished_from_those_untouched() {
        let page = page_bytes() as usize;
        let mut memory = MmapMut::map_anon(64 * page).expect("it fits");
        // Neither merged with a neighbour nor made of huge pages.
        memory.advise(Advice::DontDump).expect("it is taken");
        let _ = memory.advise(Advice::NoHugePage);
        assert_eq!(Presence::of(&memory), Ok(Presence::default()));
        memory[5 * page] = 1;
        memory[9 * page] = 1;
        std::hint::black_box(memory[20 * page]);
        let presence = Presence::of(&memory).expect("the kernel reports it");
        let expected = Presence {
            // The zero page is nobody's.
            resident_kib: 2 * page as u64 / 1024,
            huge_kib: 0,
            touched: 3,
        };
        assert_eq!(presence, expected);
    }
}
