//! Memory that lies in swap, and nowhere else.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::disk::content;
use crate::pressure::{Swap, SwapKind, swap_for, without_readahead};
use oscope_sys::cancel;
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;

/// Swap made for each byte of memory: while less than half of it is full, the kernel keeps a page's place there when
/// the page is read back (`vm_swap_full`, include/linux/swap.h), so that it need not be written again.
const SWAP_FACTOR: u64 = 3;
/// Longest wait for the device to have taken all pages.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to give the device between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Swap for faults, read a page at a time.
#[derive(Debug)]
pub struct Room {
    swap: Swap,
    _setting: Option<CleanupGuard>,
}

impl Room {
    /// Make room for `bytes` of memory. `auto` is zram, which is there with any kernel that has it, and whose faults
    /// cost the kernel's work and the decompression rather than a device's time; where there is none, a file in
    /// `directory`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there can be no swap, with the remedy.
    pub fn make(kind: SwapKind, bytes: u64, directory: &Path) -> Result<Self, Failure> {
        let bytes = bytes * SWAP_FACTOR;
        let swap = match kind {
            SwapKind::Auto => match swap_for(SwapKind::Zram, bytes, directory) {
                Err(Failure::Unavailable { .. }) => swap_for(SwapKind::File, bytes, directory)?,
                other => other?,
            },
            chosen => swap_for(chosen, bytes, directory)?,
        };
        // zram is read without readahead as it is: its reads are done at once (SWP_SYNCHRONOUS_IO, mm/memory.c).
        let setting = match swap.is_file() {
            true => without_readahead()?,
            false => None,
        };
        Ok(Self {
            swap,
            _setting: setting,
        })
    }

    /// What was made, in a line.
    pub fn note(&self) -> String {
        self.swap.note().to_owned()
    }

    /// Fill `memory`, of whole pages, with content and swap it out. Of each page the first half is content, which does
    /// not compress, and the rest zeros: zram stores neither a page of one value nor one that it cannot compress as it
    /// does others.
    ///
    /// # Errors
    /// `Failure::Unavailable` where pages stay in memory, or go to other swap.
    pub fn take(&self, memory: &mut [u8]) -> Result<(), Failure> {
        // A child would hold the pages' places in swap too, and the kernel would read their neighbours along
        // (do_swap_page, mm/memory.c).
        advise(memory, libc::MADV_DONTFORK, "MADV_DONTFORK")?;
        let page = page_bytes() as usize;
        for (number, bytes) in memory.chunks_mut(page).enumerate() {
            content::fill((number * page) as u64, &mut bytes[..page / 2]);
        }
        let latest = Instant::now() + PATIENCE;
        loop {
            // The kernel reclaims the pages (madvise(2)).
            advise(memory, libc::MADV_PAGEOUT, "MADV_PAGEOUT")?;
            let staying = in_memory(memory)?;
            let count = staying.iter().filter(|&&stays| stays).count();
            if count == 0 {
                break;
            }
            if cancel::requested() {
                return Err(Failure::failed("interrupted while memory was swapped out"));
            }
            if Instant::now() >= latest {
                return Err(Failure::unavailable(
                    format!(
                        "{count} of {} pages are not swapped out after {PATIENCE:?}",
                        staying.len()
                    ),
                    "raise the control group's memory.swap.max, or choose --set swap=zram",
                ));
            }
            // Those being written stay in the swap cache until reclaim looks at them again, which it does for pages
            // that are mapped.
            for (bytes, _) in memory
                .chunks(page)
                .zip(&staying)
                .filter(|(_, stays)| **stays)
            {
                // SAFETY: a reference is valid to be read from.
                unsafe { std::ptr::read_volatile(&raw const bytes[0]) };
            }
            std::thread::sleep(PAUSE);
        }
        let used = self.swap.used_bytes()?;
        if used < memory.len() as u64 {
            return Err(Failure::unavailable(
                format!(
                    "of {} B swapped out, {used} B are in the swap made for it: other swap comes first",
                    memory.len()
                ),
                "give other swap a lower priority (swapon --priority), or switch it off",
            ));
        }
        Ok(())
    }
}

fn advise(memory: &mut [u8], advice: libc::c_int, name: &str) -> Result<(), Failure> {
    let (address, bytes) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the range is that of the slice; what is read from it later is what was written.
    match unsafe { libc::madvise(address, bytes, advice) } {
        0 => Ok(()),
        _ => Err(Failure::unavailable_system(
            &format!("madvise({name})"),
            std::io::Error::last_os_error(),
            "run Linux 5.4 or later",
        )),
    }
}

/// Which pages could be had without a device: those mapped, and those in the swap cache (mincore(2), `mincore_swap` in
/// mm/mincore.c).
fn in_memory(memory: &mut [u8]) -> Result<Vec<bool>, Failure> {
    let page = page_bytes() as usize;
    let mut pages = vec![0_u8; memory.len() / page];
    let (address, bytes) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the vector has a byte for each page of the slice.
    match unsafe { libc::mincore(address, bytes, pages.as_mut_ptr()) } {
        0 => Ok(pages.iter().map(|page| page & 1 == 1).collect()),
        _ => Err(Failure::system(
            "asking what is in memory (mincore)",
            std::io::Error::last_os_error(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscope_sys::mapping::{Mapping, Pages};

    #[test]
    fn what_is_swapped_out_is_not_in_memory_and_comes_back() {
        for kind in [SwapKind::Zram, SwapKind::File] {
            let room = match Room::make(kind, 4 << 20, Path::new("/var/tmp")) {
                Err(Failure::Unavailable { message, .. }) => {
                    eprintln!("skipped: {message}");
                    continue;
                }
                other => other.expect("there is room"),
            };
            let mut mapping = Mapping::new(4 << 20, Pages::Base).expect("it fits");
            let memory = mapping.as_mut_slice();
            room.take(memory).expect("it can be swapped out");
            assert!(
                in_memory(memory)
                    .expect("the kernel reports it")
                    .iter()
                    .all(|stays| !stays)
            );
            for (number, page) in memory.chunks(4096).enumerate() {
                assert!(content::matches(number as u64 * 4096, &page[..2048]));
                assert!(page[2048..].iter().all(|&byte| byte == 0));
            }
            assert!(
                in_memory(memory)
                    .expect("the kernel reports it")
                    .iter()
                    .all(|&stays| stays)
            );
        }
    }
}
