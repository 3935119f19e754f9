//! Known work in memory. What it takes of the architecture is its page, and how it throws a line out of the caches.

use memmap2::{Advice, MmapMut};

use super::instructions::{self, flush_line, page};

/// Pages that no TLB holds together.
pub const MANY_PAGES: usize = instructions::MANY_PAGES;

/// One load a time of another page than the last thousands.
pub fn read_many_pages(times: u64) {
    touch_many_pages(times, |place| {
        // SAFETY: it is handed places that can be read.
        std::hint::black_box(unsafe { place.read_volatile() });
    });
}

/// One store a time likewise.
pub fn write_many_pages(times: u64) {
    // SAFETY: it is handed places that can be written.
    touch_many_pages(times, |place| unsafe { place.write_volatile(2) });
}

/// Without memory there are no touches, and the counter does not prove itself.
fn touch_many_pages(times: u64, touch: impl Fn(*mut u8)) {
    let page = page();
    let Ok(mut memory) = MmapMut::map_anon(MANY_PAGES * page) else {
        return;
    };
    // A kernel without huge pages refuses, and needs no advice.
    let _ = memory.advise(Advice::NoHugePage);
    // The kernel makes the pages, whose misses are not counted. Before Linux 5.14 it refuses, and stores as many as are
    // counted below make them.
    if memory.advise(Advice::PopulateWrite).is_err() {
        memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
    }
    for time in 0..times as usize {
        // 2897 is odd, so all pages are visited, far from each other.
        touch(&raw mut memory[time * 2897 % MANY_PAGES * page]);
    }
}

const PAGES: usize = 64;

/// One read a time of a line just flushed from all caches; each in another page, so that no prefetcher fetches it
/// first.
pub fn read_cold_lines(times: u64) {
    let page = page();
    let memory = vec![1_u8; page * PAGES];
    for time in 0..times as usize {
        // 37 is odd, so the pages are visited in a scattered order that covers them all.
        let place = time * 37 % PAGES * page + time / PAGES % (page / 64) * 64;
        // SAFETY: `place` lies within `memory`.
        unsafe {
            let line = memory.as_ptr().add(place);
            flush_line(line);
            std::ptr::read_volatile(line);
        }
    }
}
