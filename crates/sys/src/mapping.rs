//! Anonymous memory of which every page was touched, in base pages or huge ones.

use std::ptr::NonNull;

use nix::unistd::{Pid, getpid};
use serde::Deserialize;

use crate::cancel;
use crate::error::Failure;
use crate::machine::memory;

/// Bytes of a huge page, where the kernel does not report it.
const USUAL_HUGE_BYTES: u64 = 2 << 20;
/// Memory left free beside the mapping, in bytes: for its page tables, child processes, and everybody else.
const MARGIN_BYTES: u64 = 64 << 20;
/// Bytes touched between two looks at whether a signal came.
const STRIDE_BYTES: usize = 64 << 20;

/// What the memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Pages {
    /// The processor's base pages.
    #[serde(rename = "4K")]
    Base,
    /// Transparent huge pages.
    #[serde(rename = "huge")]
    Huge,
}

impl Pages {
    /// What the length of a mapping must be a multiple of, in bytes: 1 for base pages, since the kernel then rounds up
    /// itself.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there are no huge pages.
    pub fn granule(self) -> Result<u64, Failure> {
        match self {
            Self::Base => Ok(1),
            Self::Huge => huge_page_bytes(),
        }
    }
}

/// An anonymous private mapping, all zeros. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
    pages: Pages,
}

// SAFETY: it owns the memory, which only its methods reach.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Map `bytes`, or as many more as fill the last huge page, for pages of that kind. Nothing is touched yet.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory, or there are no huge pages.
    pub fn new(bytes: u64, pages: Pages) -> Result<Self, Failure> {
        let granule = pages.granule()?;
        let bytes = bytes.next_multiple_of(granule);
        check_room(bytes, memory::room().map_err(Failure::failed)?)?;
        let mapping = Self::map(bytes as usize, granule as usize, pages)?;
        mapping.advise()?;
        Ok(mapping)
    }

    /// Map `bytes` at a multiple of `alignment`: map more, and give back what sticks out at either end.
    fn map(bytes: usize, alignment: usize, pages: Pages) -> Result<Self, Failure> {
        let surplus = if alignment > 1 { alignment } else { 0 };
        let mapped = bytes + surplus;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of no particular address disturbs no other.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Failure::unavailable(
                format!("cannot map {mapped} B: {}", std::io::Error::last_os_error()),
                "ask for less memory, or raise ulimit -v and vm.overcommit_memory",
            ));
        }
        let start = start.cast::<u8>();
        let before = start.align_offset(alignment);
        let after = surplus - before;
        // SAFETY: both ends lie within the mapping and are made of whole pages; nothing refers to them.
        let address = unsafe {
            let address = start.add(before);
            if before > 0 {
                libc::munmap(start.cast(), before);
            }
            if after > 0 {
                libc::munmap(address.add(bytes).cast(), after);
            }
            address
        };
        let address =
            NonNull::new(address).ok_or_else(|| Failure::failed("mmap gave address 0"))?;
        Ok(Self {
            address,
            bytes,
            pages,
        })
    }

    fn advise(&self) -> Result<(), Failure> {
        let advice = match self.pages {
            Pages::Base => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range is this mapping.
        let answer = unsafe { libc::madvise(self.address.as_ptr().cast(), self.bytes, advice) };
        match (answer, self.pages) {
            // A kernel without huge pages refuses the advice not to use them, and cannot use them.
            (0, _) | (_, Pages::Base) => Ok(()),
            (_, Pages::Huge) => Err(Failure::unavailable(
                format!(
                    "madvise(MADV_HUGEPAGE): {}",
                    std::io::Error::last_os_error()
                ),
                "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
            )),
        }
    }

    /// Write to every page, unless a signal asks to stop.
    pub fn touch(&self) {
        for place in (0..self.bytes).step_by(4096) {
            if place % STRIDE_BYTES == 0 && cancel::requested() {
                return;
            }
            // SAFETY: `place` lies within the mapping, which is writable.
            unsafe { self.address.as_ptr().add(place).write_volatile(1) };
        }
    }

    /// Prove that every page is resident and of the kind wanted; to be called once all were touched.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel gave other pages or swapped some out.
    pub fn prove(&self) -> Result<(), Failure> {
        // After a signal no repetition follows, so that there is nothing to prove, and touching was given up.
        if cancel::requested() {
            return Ok(());
        }
        let (start, bytes) = (self.address.as_ptr() as u64, self.bytes as u64);
        judge(mapped(start, bytes)?, bytes, self.pages)
    }

    /// The memory, to be read.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`, is readable, and no reference to change it can be there beside
        // this one.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.bytes) }
    }

    /// The memory.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is that long, writable and, being all zeros at first, initialised; it is borrowed from
        // its only owner.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nothing refers to it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a huge page, once it is known that there can be some.
fn huge_page_bytes() -> Result<u64, Failure> {
    let mode = memory::transparent_huge_pages().map_err(|reason| {
        Failure::unavailable(reason, "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
    })?;
    if mode == "never" {
        return Err(Failure::unavailable(
            "transparent huge pages are switched off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        ));
    }
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    Ok(text
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(USUAL_HUGE_BYTES))
}

/// Whether `bytes` can be touched where `room` bytes are left.
fn check_room(bytes: u64, room: u64) -> Result<(), Failure> {
    // The page tables of parent and child take 8 bytes for each page of 4096, twice.
    let needed = bytes + bytes / 256 + MARGIN_BYTES;
    if needed <= room {
        return Ok(());
    }
    Err(Failure::unavailable(
        format!(
            "{bytes} B of memory need {needed} B with page tables and margin, and {room} B are available \
             (MemAvailable, cgroup limits)"
        ),
        "ask for less memory, stop other programs, or raise the control group's memory limit",
    ))
}

/// What the kernel says of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapped {
    /// Bytes in memory; the zero page does not count.
    pub resident_bytes: u64,
    /// Those of them in transparent huge pages.
    pub huge_bytes: u64,
}

/// What the kernel says of the mappings of this process that touch the range.
///
/// # Errors
/// `Failure::Failed` where it says nothing (a kernel without CONFIG_PROC_PAGE_MONITOR).
pub fn mapped(start: u64, bytes: u64) -> Result<Mapped, Failure> {
    mapped_by(getpid(), start, bytes)
}

/// As [`mapped`], of another process.
///
/// # Errors
/// As [`mapped`], and if the process has ended.
pub fn mapped_by(process: Pid, start: u64, bytes: u64) -> Result<Mapped, Failure> {
    let path = format!("/proc/{process}/smaps");
    let smaps = std::fs::read_to_string(&path)
        .map_err(|error| Failure::system(&format!("reading {path}"), error))?;
    Ok(parse_smaps(&smaps, start, bytes))
}

/// Sums `Rss` and `AnonHugePages` over the mappings of an `smaps` that touch the range (proc_pid_smaps(5)).
fn parse_smaps(smaps: &str, start: u64, bytes: u64) -> Mapped {
    let mut mapped = Mapped::default();
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((from, to)) = parse_range(line) {
            inside = from < start + bytes && start < to;
        } else if let Some((name, value)) = line.split_once(':').filter(|_| inside) {
            let kibibytes = || value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok();
            match name {
                "Rss" => mapped.resident_bytes += kibibytes().unwrap_or(0) * 1024,
                "AnonHugePages" => mapped.huge_bytes += kibibytes().unwrap_or(0) * 1024,
                _ => {}
            }
        }
    }
    mapped
}

fn parse_range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some((
        u64::from_str_radix(from, 16).ok()?,
        u64::from_str_radix(to, 16).ok()?,
    ))
}

fn judge(mapped: Mapped, bytes: u64, pages: Pages) -> Result<(), Failure> {
    let Mapped {
        resident_bytes,
        huge_bytes,
    } = mapped;
    if resident_bytes < bytes {
        return Err(Failure::unavailable(
            format!(
                "of {bytes} B touched, {resident_bytes} B are resident: the rest was swapped out"
            ),
            "ask for less memory, or free some",
        ));
    }
    match pages {
        Pages::Huge if huge_bytes < bytes => Err(Failure::unavailable(
            format!(
                "of {bytes} B touched, {huge_bytes} B are in huge pages: memory is fragmented, or huge pages are held \
                 back"
            ),
            "echo 1 > /proc/sys/vm/compact_memory, and echo madvise > /sys/kernel/mm/transparent_hugepage/defrag (as \
             root)",
        )),
        Pages::Base if huge_bytes > 0 => Err(Failure::failed(format!(
            "of {bytes} B in base pages, {huge_bytes} B are in huge pages all the same"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
