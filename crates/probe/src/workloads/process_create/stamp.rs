//! The page in which a child leaves the time at which it began to run.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use crate::clock::offsets::Offsets;
use crate::clock::{Clock, ClockKind, counter, reading};
use oscope_sys::error::Failure;

/// Environment variable that makes a fresh copy of this program stamp and exit: the descriptor of the page, a colon,
/// the clock (`tsc`, the processor's counter, or `raw`).
const REQUEST: &CStr = c"OSCOPE_PROBE_STAMP";
/// Size of the mapping, in bytes; the kernel rounds up to its page size.
const PAGE_BYTES: usize = 4096;

/// A reading of the clock and the CPU it was taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The reading, in ticks.
    pub ticks: u64,
    /// The CPU.
    pub cpu: usize,
}

impl Stamp {
    /// The clock now, after all earlier work.
    #[inline(always)]
    pub fn now(clock: &Clock) -> Self {
        let (ticks, cpu) = clock.end_with_cpu();
        Self { ticks, cpu }
    }
}

/// Ticks between two readings, and how far they may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The difference; nothing is taken off for the reading itself.
    pub ticks: f64,
    /// Greatest possible error from comparing the counters of two CPUs.
    pub error: f64,
}

/// How readings on different CPUs compare.
#[derive(Debug, Clone)]
pub enum Comparison {
    /// One clock for all CPUs.
    OneClock,
    /// A counter for each CPU, with these offsets.
    Measured(Offsets),
    /// A counter for each CPU, offsets unknown: only readings on the same CPU compare.
    Unknown,
}

impl Comparison {
    /// From one reading to a later one; `None` if they were taken on CPUs whose offset is not known.
    pub fn span(&self, from: Stamp, to: Stamp) -> Option<Span> {
        // Differences first: the counters themselves may exceed the 53 bits of a double.
        let ticks = to.ticks.wrapping_sub(from.ticks) as i64 as f64;
        match self {
            _ if from.cpu == to.cpu => Some(Span { ticks, error: 0.0 }),
            Self::OneClock => Some(Span { ticks, error: 0.0 }),
            Self::Unknown => None,
            Self::Measured(offsets) => Some(Span {
                ticks: ticks - (offsets.of(to.cpu)? - offsets.of(from.cpu)?),
                error: error_of(offsets, from.cpu)? + error_of(offsets, to.cpu)?,
            }),
        }
    }
}

/// Greatest possible error of a CPU's offset, in ticks.
fn error_of(offsets: &Offsets, cpu: usize) -> Option<f64> {
    let place = offsets.cpus.iter().position(|&known| known == cpu)?;
    Some(offsets.error_ticks[place])
}

/// What lies in the shared page. `written` is stored last.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slot {
    ticks: AtomicU64,
    cpu: AtomicU64,
    written: AtomicU64,
}

impl Slot {
    /// Leave a stamp. Async-signal-safe: three stores.
    pub fn leave(&self, stamp: Stamp) {
        self.ticks.store(stamp.ticks, Ordering::Relaxed);
        self.cpu.store(stamp.cpu as u64, Ordering::Relaxed);
        self.written.store(1, Ordering::Release);
    }

    /// Take the stamp out, if one was left.
    pub fn take(&self) -> Option<Stamp> {
        let written = self.written.swap(0, Ordering::Acquire) == 1;
        written.then(|| Stamp {
            ticks: self.ticks.load(Ordering::Relaxed),
            cpu: self.cpu.load(Ordering::Relaxed) as usize,
        })
    }
}

/// A page shared with children, also with those that run another program: it is a memory file whose descriptor they
/// inherit.
#[derive(Debug)]
pub struct Page {
    slot: NonNull<Slot>,
    file: OwnedFd,
}

impl Page {
    /// Make the page, and touch it.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel has no memory or descriptor left.
    pub fn new() -> Result<Self, Failure> {
        // Without MFD_CLOEXEC the program that posix_spawn starts inherits the descriptor.
        let file = memfd_create(c"oscope-stamp", MFdFlags::empty())
            .map_err(|error| Failure::system("memfd_create", error))?;
        ftruncate(&file, PAGE_BYTES as libc::off_t)
            .map_err(|error| Failure::system("ftruncate of a memory file", error))?;
        let slot = map(file.as_raw_fd()).ok_or_else(|| {
            Failure::system("mapping a memory file", std::io::Error::last_os_error())
        })?;
        let page = Self { slot, file };
        page.slot().take();
        Ok(page)
    }

    /// The slot.
    pub fn slot(&self) -> &Slot {
        // SAFETY: the mapping lives as long as `self`; the slot is made of atomics, for which all bytes are valid.
        unsafe { self.slot.as_ref() }
    }

    /// The environment variable that makes a copy of this program leave its stamp here.
    pub fn request(&self, kind: ClockKind) -> CString {
        let clock = match kind {
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => "tsc",
            ClockKind::MonotonicRaw => "raw",
        };
        let text = format!(
            "{}={}:{clock}",
            REQUEST.to_string_lossy(),
            self.file.as_raw_fd()
        );
        CString::new(text).expect("the text has no NUL")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this size, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.slot.as_ptr().cast(), PAGE_BYTES) };
    }
}

fn map(file: libc::c_int) -> Option<NonNull<Slot>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping of no particular address disturbs no other.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, flags, file, 0) };
    (address != libc::MAP_FAILED)
        .then(|| NonNull::new(address.cast()))
        .flatten()
}

/// Runs before `main` in every copy of this program, and returns at once unless it was started to stamp.
///
/// It stands in `.init_array`, so that the stamp is the first thing the program does after the dynamic loader: what
/// Rust and `main` do to start up is not in it. Only functions that need no runtime are called.
extern "C" fn stamp_if_asked() {
    // SAFETY: the C library has set up the environment before constructors run, and there is a single thread.
    let request = unsafe { libc::getenv(REQUEST.as_ptr()) };
    if request.is_null() {
        return;
    }
    // SAFETY: getenv gave a C string, which nothing changes meanwhile.
    let request = unsafe { CStr::from_ptr(request) }.to_bytes();
    let exit = |status| {
        // SAFETY: ends the process without handlers or buffers, of which there are none yet.
        unsafe { libc::_exit(status) }
    };
    let stamp = if request.ends_with(b":tsc") {
        let (ticks, cpu) = counter::end_with_cpu();
        Stamp { ticks, cpu }
    } else {
        Stamp {
            ticks: reading::monotonic_raw(),
            cpu: reading::current_cpu(),
        }
    };
    let digits = request.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0, |number: libc::c_int, digit| {
        number
            .saturating_mul(10)
            .saturating_add(libc::c_int::from(digit - b'0'))
    });
    let Some(slot) = map(number) else { exit(1) };
    // SAFETY: the mapping is a whole page of a memory file that the parent made for a `Slot`; it stays until the
    // process ends.
    unsafe { slot.as_ref() }.leave(stamp);
    exit(0)
}

#[used]
#[unsafe(link_section = ".init_array")]
static STAMP_IF_ASKED: extern "C" fn() = stamp_if_asked;

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(ticks: u64, cpu: usize) -> Stamp {
        Stamp { ticks, cpu }
    }

    fn measured() -> Comparison {
        Comparison::Measured(Offsets {
            cpus: vec![0, 3],
            ticks: vec![0.0, 1000.0],
            error_ticks: vec![0.0, 25.0],
        })
    }

    #[test]
    fn readings_on_one_cpu_always_compare() {
        for comparison in [Comparison::OneClock, Comparison::Unknown, measured()] {
            let span = comparison.span(stamp(100, 7), stamp(350, 7));
            assert_eq!(
                span,
                Some(Span {
                    ticks: 250.0,
                    error: 0.0
                })
            );
        }
    }

    #[test]
    fn readings_on_two_cpus_compare_by_their_offset() {
        let there = measured().span(stamp(100, 0), stamp(1350, 3));
        assert_eq!(
            there,
            Some(Span {
                ticks: 250.0,
                error: 25.0
            })
        );
        let back = measured().span(stamp(1350, 3), stamp(600, 0));
        assert_eq!(
            back,
            Some(Span {
                ticks: 250.0,
                error: 25.0
            })
        );
    }

    #[test]
    fn without_an_offset_readings_on_two_cpus_do_not_compare() {
        assert_eq!(Comparison::Unknown.span(stamp(100, 0), stamp(350, 3)), None);
        assert_eq!(measured().span(stamp(100, 0), stamp(350, 9)), None);
        assert!(
            Comparison::OneClock
                .span(stamp(100, 0), stamp(350, 3))
                .is_some()
        );
    }

    #[test]
    fn a_stamp_is_taken_once() {
        let page = Page::new().expect("a page can be had");
        assert_eq!(page.slot().take(), None);
        page.slot().leave(stamp(u64::MAX, 1));
        assert_eq!(page.slot().take(), Some(stamp(u64::MAX, 1)));
        assert_eq!(page.slot().take(), None);
    }
}
