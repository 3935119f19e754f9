//! The memory that is walked, and the buffer that is written over to flush the caches: made anew in each measured
//! process.

use std::fs::File;
use std::path::Path;
use std::ptr::{read_volatile, write_volatile};

use memmap2::{Advice, MmapMut, MmapOptions};
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use serde::Deserialize;

use super::patience::{is_want_of_memory, retry};
use super::presence::look;
use super::walk::LINE_BYTES;
use crate::disk::scratch::unnamed;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory;
use oscope_sys::mapping::Pages;

/// Bytes of the buffer that flushes the caches, as in CS380L lab 2.
pub const FLUSHED_BYTES: u64 = 16 << 20;
/// Memory left free beside the mapping, in bytes: for the flushed buffer, page tables, and everybody else.
const MARGIN_BYTES: u64 = 80 << 20;

/// What the memory is backed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// Nothing: it is all zeros at first.
    Anonymous,
    /// A file, of which a written page becomes a copy of this process's own.
    Private,
    /// A file, which what is written reaches.
    Shared,
}

/// What is done to the whole memory before it is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initialise {
    /// Nothing.
    None,
    /// Every byte is set to 0.
    Memset,
    /// And what was written to a file is given to its device (msync(2), MS_SYNC).
    #[serde(rename = "memset+msync")]
    MemsetMsync,
}

/// What memory is wanted.
#[derive(Debug, Clone, Copy)]
pub struct AreaSpec {
    /// What it is backed by.
    pub backing: Backing,
    /// Whether the kernel is to make it present as it is mapped.
    pub populate: bool,
    /// What is done to it then.
    pub initialise: Initialise,
    /// What it is made of.
    pub pages: Pages,
    /// Its length in bytes.
    pub size: u64,
    /// What the start and length of its mapping are a multiple of, in bytes.
    pub granule: u64,
    /// Whether it is made under pressure, where the kernel may populate a part only, and say nothing.
    pub pressed: bool,
}

impl AreaSpec {
    /// Bytes mapped: `size` in whole granules.
    pub fn bytes(&self) -> u64 {
        self.size.next_multiple_of(self.granule)
    }

    /// Whether every page is present before the walk.
    pub fn starts_present(&self) -> bool {
        self.populate || self.initialise != Initialise::None
    }
}

/// The memory, present as far as wanted.
#[derive(Debug)]
pub struct Area {
    map: MmapMut,
    /// Where the first granule begins, in bytes.
    offset: usize,
    bytes: usize,
}

impl Area {
    /// Map the memory, of `file` unless it is anonymous, populate and initialise it.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel does not give it.
    pub fn make(wanted: &AreaSpec, file: Option<&File>) -> Result<Self, Failure> {
        let bytes = wanted.bytes() as usize;
        let map = map(wanted, file).map_err(|error| {
            Failure::unavailable(
                format!("cannot map {bytes} B: {error}"),
                "ask for less size, or raise ulimit -v and vm.overcommit_memory",
            )
            .because_of(error)
        })?;
        let offset = match wanted.pages {
            Pages::Base => 0,
            Pages::Huge => map.as_ptr().align_offset(wanted.granule as usize),
        };
        let mut area = Self { map, offset, bytes };
        area.advise(wanted)?;
        if wanted.populate && wanted.pressed {
            area.finish_populating(wanted.backing)?;
        }
        area.initialise(wanted.initialise)?;
        Ok(area)
    }

    fn advise(&self, wanted: &AreaSpec) -> Result<(), Failure> {
        let advise = |advice, name: &str, remedy: &str| {
            let answer = self.map.advise_range(advice, self.offset, self.bytes);
            answer.map_err(|error| {
                let failure = Failure::system(&format!("madvise({name})"), &error);
                match wanted.pressed && is_want_of_memory(&failure) {
                    true => failure,
                    false => Failure::unavailable(failure.to_string(), remedy).because_of(error),
                }
            })
        };
        let advise = |advice, name: &str, remedy: &str| retry(|| advise(advice, name, remedy));
        // Otherwise the kernel may merge it with the flushed buffer beside it, and smaps shows both as one.
        advise(Advice::DontDump, "MADV_DONTDUMP", "run Linux 3.4 or later")?;
        if wanted.pages == Pages::Huge {
            let remedy = "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE";
            advise(Advice::HugePage, "MADV_HUGEPAGE", remedy)?;
            if wanted.populate {
                // MAP_POPULATE would come before the advice.
                let remedy = "run Linux 5.14 or later, or choose populate=false";
                advise(Advice::PopulateWrite, "MADV_POPULATE_WRITE", remedy)?;
            }
        }
        Ok(())
    }

    /// Touch the pages that are not there as populating would: faults in user mode wait for memory, where those of the
    /// kernel give up.
    fn finish_populating(&mut self, backing: Backing) -> Result<(), Failure> {
        let (start, bytes) = (self.start(), self.bytes as u64);
        let touch = |place: u64, there: bool| {
            if there {
                return;
            }
            // SAFETY: the place lies within the memory, which is readable and writable, and which nothing else refers
            // to.
            unsafe {
                let place = start.add(place as usize);
                let value = read_volatile(place);
                if backing != Backing::Shared {
                    write_volatile(place, value);
                }
            }
        };
        // What one try has touched, the next finds there.
        retry(|| look(start as u64, bytes, touch))
    }

    fn initialise(&mut self, how: Initialise) -> Result<(), Failure> {
        if how == Initialise::None {
            return Ok(());
        }
        self.map[self.offset..][..self.bytes].fill(0);
        match how {
            Initialise::MemsetMsync => self
                .map
                .flush_range(self.offset, self.bytes)
                .map_err(|error| Failure::system("msync", error)),
            _ => Ok(()),
        }
    }

    /// Where it begins.
    pub fn start(&mut self) -> *mut u8 {
        self.map[self.offset..].as_mut_ptr()
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.map[self.offset..][..self.bytes]
    }
}

fn map(wanted: &AreaSpec, file: Option<&File>) -> std::io::Result<MmapMut> {
    let mut options = MmapOptions::new();
    let surplus = match wanted.pages {
        Pages::Base => 0,
        Pages::Huge => wanted.granule,
    };
    options.len((wanted.bytes() + surplus) as usize);
    if wanted.populate && wanted.pages == Pages::Base {
        options.populate();
    }
    match (wanted.backing, file) {
        // SAFETY: nobody else has the file, which has no name.
        (Backing::Private, Some(file)) => unsafe { options.map_copy(file) },
        // SAFETY: as above.
        (Backing::Shared, Some(file)) => unsafe { options.map_mut(file) },
        _ => options.map_anon(),
    }
}

/// A buffer that was written over, and stays mapped, as in CS380L lab 2: given back, it would lower the resident set
/// that a growth is counted from.
#[derive(Debug)]
pub struct Flushed(MmapMut);

impl Flushed {
    /// Write to each line of fresh memory. Reading would not do: all its pages would be the one zero page.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn write() -> Result<Self, Failure> {
        let mut map = MmapMut::map_anon(FLUSHED_BYTES as usize).map_err(|error| {
            Failure::unavailable(
                format!("cannot map {FLUSHED_BYTES} B: {error}"),
                "free some memory, or raise ulimit -v",
            )
            .because_of(error)
        })?;
        for line in map.iter_mut().step_by(LINE_BYTES as usize) {
            // SAFETY: a mutable reference is valid to be written to.
            unsafe { write_volatile(line, 1) };
        }
        Ok(Self(map))
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}

/// A file of `bytes` zeros in `directory` that has no name, with room for all of them: a page of it can always be had.
///
/// # Errors
/// `Failure::Unavailable` if there can be none, or no room, with the remedy.
pub fn file(directory: &Path, bytes: u64) -> Result<File, Failure> {
    let file = unnamed(directory)?;
    loop {
        match posix_fallocate(&file, 0, bytes as libc::off_t) {
            Ok(()) => return Ok(file),
            Err(Errno::EINTR) if !oscope_sys::cancel::requested() => {}
            Err(error) => {
                return Err(Failure::unavailable_system(
                    &format!(
                        "no room for a mapped file of {bytes} B in {}",
                        directory.display()
                    ),
                    std::io::Error::from(error),
                    "choose --set size=SMALLER or --set directory=DIR",
                ));
            }
        }
    }
}

/// Make sure that the memory fits, together with `more_swap` bytes that will be made.
///
/// # Errors
/// `Failure::Unavailable` where it does not.
pub fn check_room(bytes: u64, more_swap: u64) -> Result<(), Failure> {
    let meminfo = std::fs::read_to_string("/proc/meminfo")
        .map_err(|error| Failure::system("reading /proc/meminfo", error))?;
    let swap = memory::meminfo_field(&meminfo, "SwapFree").unwrap_or(0) + more_swap;
    let room = memory::room().map_err(Failure::failed)?;
    judge_room(bytes, room, swap)
}

fn judge_room(bytes: u64, room: u64, swap: u64) -> Result<(), Failure> {
    // A page table takes 8 bytes for each page of 4096.
    let needed = bytes + bytes / 512 + MARGIN_BYTES;
    if needed <= room + swap {
        return Ok(());
    }
    Err(Failure::unavailable(
        format!(
            "{bytes} B of memory need {needed} B with page tables and margin, and there are {room} B (MemAvailable, \
             cgroup limits) and {swap} B of swap"
        ),
        "ask for less size, stop other programs, add swap, or raise the control group's memory limit",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_memory_and_swap_is_refused() {
        assert!(judge_room(1 << 30, 2 << 30, 0).is_ok());
        assert!(judge_room(1 << 30, 1 << 30, 0).is_err());
        assert!(judge_room(1 << 30, 1 << 30, 1 << 30).is_ok());
        let Err(Failure::Unavailable {
            message,
            remedy: Some(_),
            ..
        }) = judge_room(128 << 30, 24 << 30, 0)
        else {
            panic!("it does not fit");
        };
        assert!(message.contains("page tables and margin"), "{message}");
        assert!(
            check_room(1 << 50, 0).is_err(),
            "no machine has that much memory"
        );
    }

    #[test]
    fn a_file_has_its_room_or_is_refused() {
        use std::os::unix::fs::MetadataExt;
        let made = file(Path::new("/var/tmp"), 1 << 20).expect("there is room");
        let metadata = made.metadata().expect("the kernel reports it");
        assert!(metadata.len() == 1 << 20 && metadata.blocks() * 512 >= 1 << 20);
        for (directory, bytes) in [("/var/tmp", 1 << 45), ("/no such folder", 4096)] {
            let refused = file(Path::new(directory), bytes).expect_err("it cannot be");
            assert!(
                matches!(
                    refused,
                    Failure::Unavailable {
                        remedy: Some(_),
                        ..
                    }
                ),
                "{refused}"
            );
        }
    }
}
