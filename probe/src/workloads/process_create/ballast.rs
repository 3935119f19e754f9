//! Memory that the parent has touched before it makes a child, which is what page tables to copy come from.

use std::ptr::NonNull;

use crate::cancel;
use crate::environment;
use crate::error::Failure;

/// Bytes of a huge page, where the kernel does not tell.
const USUAL_HUGE_BYTES: u64 = 2 << 20;
/// Memory left free beside the ballast, in bytes: for its page tables, the child, and everybody else.
const MARGIN_BYTES: u64 = 64 << 20;
/// Bytes touched between two looks at whether a signal came.
const STRIDE_BYTES: usize = 64 << 20;

/// What the memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSize {
    /// The processor's base pages.
    Base,
    /// Transparent huge pages.
    Huge,
}

/// An anonymous private mapping of which every page was written. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Ballast {
    address: NonNull<u8>,
    bytes: usize,
}

impl Ballast {
    /// Map and touch `bytes`, and prove that they are resident and of that page size.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory or not the huge pages; `Failure::Request` for a size that is no whole number of
    /// huge pages.
    pub fn new(bytes: u64, size: PageSize) -> Result<Option<Self>, Failure> {
        if bytes == 0 {
            return Ok(None);
        }
        let alignment = match size {
            PageSize::Base => 1,
            PageSize::Huge => huge_page_bytes(bytes)?,
        };
        check_room(bytes, environment::memory_room().map_err(Failure::failed)?)?;
        let ballast = Self::map(bytes as usize, alignment as usize)?;
        ballast.advise(size)?;
        ballast.touch();
        // After a signal no repetition follows, so that there is nothing to prove.
        if !cancel::requested() {
            ballast.prove(size)?;
        }
        Ok(Some(ballast))
    }

    /// Map `bytes` at a multiple of `alignment`: map more, and give back what sticks out at either end.
    fn map(bytes: usize, alignment: usize) -> Result<Self, Failure> {
        let surplus = if alignment > 1 { alignment } else { 0 };
        let mapped = bytes + surplus;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of no particular address disturbs no other.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Failure::unavailable(
                format!("cannot map {mapped} B: {}", std::io::Error::last_os_error()),
                "ask for less resident memory, or raise ulimit -v and vm.overcommit_memory",
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
        Ok(Self { address, bytes })
    }

    fn advise(&self, size: PageSize) -> Result<(), Failure> {
        let advice = match size {
            PageSize::Base => libc::MADV_NOHUGEPAGE,
            PageSize::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range is this mapping.
        let answer = unsafe { libc::madvise(self.address.as_ptr().cast(), self.bytes, advice) };
        match (answer, size) {
            // A kernel without huge pages refuses the advice not to use them, and cannot use them.
            (0, _) | (_, PageSize::Base) => Ok(()),
            (_, PageSize::Huge) => Err(Failure::unavailable(
                format!(
                    "madvise(MADV_HUGEPAGE): {}",
                    std::io::Error::last_os_error()
                ),
                "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
            )),
        }
    }

    /// Writes to every page, unless a signal asks to stop.
    fn touch(&self) {
        for place in (0..self.bytes).step_by(4096) {
            if place % STRIDE_BYTES == 0 && cancel::requested() {
                return;
            }
            // SAFETY: `place` lies within the mapping, which is writable.
            unsafe { self.address.as_ptr().add(place).write_volatile(1) };
        }
    }

    fn prove(&self, size: PageSize) -> Result<(), Failure> {
        let smaps = std::fs::read_to_string("/proc/self/smaps")
            .map_err(|error| Failure::system("reading /proc/self/smaps", error))?;
        let start = self.address.as_ptr() as u64;
        judge(
            parse_smaps(&smaps, start, self.bytes as u64),
            self.bytes as u64,
            size,
        )
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nothing refers to it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a huge page, once it is known that there can be some and that `bytes` is a whole number of them.
fn huge_page_bytes(bytes: u64) -> Result<u64, Failure> {
    let mode = environment::transparent_huge_pages().map_err(|reason| {
        Failure::unavailable(reason, "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
    })?;
    if mode == "never" {
        return Err(Failure::unavailable(
            "transparent huge pages are switched off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        ));
    }
    let told = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    let huge = told
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(USUAL_HUGE_BYTES);
    if bytes % huge == 0 {
        return Ok(huge);
    }
    Err(Failure::request(
        "resident",
        format!("is a multiple of {huge} B with pages=huge, not {bytes}"),
    ))
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
            "{bytes} B resident need {needed} B with page tables and margin, and {room} B are available (MemAvailable, cgroup limits)"
        ),
        "ask for less resident memory, stop other programs, or raise the control group's memory limit",
    ))
}

/// What the kernel says of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mapped {
    resident_bytes: u64,
    huge_bytes: u64,
}

/// Sums `Rss` and `AnonHugePages` over the mappings of an `smaps` that touch the range (proc_pid_smaps(5)).
fn parse_smaps(smaps: &str, start: u64, bytes: u64) -> Mapped {
    let mut mapped = Mapped::default();
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((from, to)) = parse_range(line) {
            inside = from < start + bytes && start < to;
        } else if inside && let Some((name, value)) = line.split_once(':') {
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

fn judge(mapped: Mapped, bytes: u64, size: PageSize) -> Result<(), Failure> {
    let Mapped {
        resident_bytes,
        huge_bytes,
    } = mapped;
    if resident_bytes < bytes {
        return Err(Failure::unavailable(
            format!(
                "of {bytes} B touched, {resident_bytes} B are resident: the rest was swapped out"
            ),
            "ask for less resident memory, or free some",
        ));
    }
    match size {
        PageSize::Huge if huge_bytes < bytes => Err(Failure::unavailable(
            format!(
                "of {bytes} B touched, {huge_bytes} B are in huge pages: memory is fragmented, or huge pages are held back"
            ),
            "echo 1 > /proc/sys/vm/compact_memory, and echo madvise > /sys/kernel/mm/transparent_hugepage/defrag (as root)",
        )),
        PageSize::Base if huge_bytes > 0 => Err(Failure::failed(format!(
            "of {bytes} B in base pages, {huge_bytes} B are in huge pages all the same"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \nSize:               2048 kB\nRss:                2048 kB\n\
        AnonHugePages:      2048 kB\nVmFlags: rd wr\n7f0000400000-7f0000402000 r--p 00000000 fe:00 12 /lib/x-y: z.so\nRss:                   8 kB\n\
        AnonHugePages:         0 kB\n";

    #[test]
    fn only_mappings_in_the_range_count() {
        let first = parse_smaps(SMAPS, 0x7f00_0000_0000, 2 << 20);
        assert_eq!(
            first,
            Mapped {
                resident_bytes: 2 << 20,
                huge_bytes: 2 << 20
            }
        );
        let second = parse_smaps(SMAPS, 0x7f00_0040_1000, 4096);
        assert_eq!(
            second,
            Mapped {
                resident_bytes: 8192,
                huge_bytes: 0
            }
        );
        assert_eq!(parse_smaps(SMAPS, 0x1000, 4096), Mapped::default());
    }

    #[test]
    fn memory_that_is_not_what_it_should_be_is_refused() {
        let mapped = |resident_bytes, huge_bytes| Mapped {
            resident_bytes,
            huge_bytes,
        };
        assert!(judge(mapped(4096, 0), 4096, PageSize::Base).is_ok());
        assert!(matches!(
            judge(mapped(0, 0), 4096, PageSize::Base),
            Err(Failure::Unavailable { .. })
        ));
        assert!(judge(mapped(4 << 20, 2 << 20), 4 << 20, PageSize::Base).is_err());
        assert!(matches!(
            judge(mapped(4 << 20, 2 << 20), 4 << 20, PageSize::Huge),
            Err(Failure::Unavailable { .. })
        ));
        assert!(judge(mapped(4 << 20, 4 << 20), 4 << 20, PageSize::Huge).is_ok());
    }

    #[test]
    fn too_much_is_refused_before_it_is_touched() {
        assert!(check_room(1 << 30, 2 << 30).is_ok());
        for (bytes, room) in [(1 << 30, 1 << 30), (64 << 30, 24 << 30)] {
            let failure = check_room(bytes, room).expect_err("it does not fit");
            assert!(
                matches!(
                    failure,
                    Failure::Unavailable {
                        remedy: Some(_),
                        ..
                    }
                ),
                "{failure}"
            );
        }
        let failure =
            Ballast::new(1 << 46, PageSize::Base).expect_err("no machine has 64 TiB to spare");
        assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
    }

    fn resident_bytes_of_process() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("it can be read");
        statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok())
            .expect("the second number is resident pages")
            * 4096
    }

    #[test]
    fn base_pages_are_resident_and_given_back() {
        assert!(
            Ballast::new(0, PageSize::Base)
                .expect("nothing is always to be had")
                .is_none()
        );
        let ballast = Ballast::new(64 << 20, PageSize::Base)
            .expect("64 MiB can be had")
            .expect("it is not empty");
        let with = resident_bytes_of_process();
        drop(ballast);
        let without = resident_bytes_of_process();
        // Other tests run at the same time, with some MiB of their own.
        assert!(
            with > without + (32 << 20),
            "{with} B with, {without} B without"
        );
    }

    #[test]
    fn huge_pages_are_huge_or_unavailable() {
        match Ballast::new(4 << 20, PageSize::Huge) {
            Ok(ballast) => assert_eq!(
                ballast.expect("it is not empty").address.as_ptr() as u64 % (2 << 20),
                0
            ),
            Err(failure) => assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}"),
        }
        let odd = Ballast::new(4096, PageSize::Huge).expect_err("it is not a whole huge page");
        assert!(
            matches!(odd, Failure::Request { .. } | Failure::Unavailable { .. }),
            "{odd}"
        );
    }
}
