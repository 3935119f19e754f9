//! Reading through a mapping: the bytes of a window are looked at where they lie in the page cache.
//!
//! Nothing is mapped in advance: a page fault maps 64 KiB that lie in the page cache (`fault_around_bytes`,
//! mm/memory.c), while MADV_POPULATE_READ goes from page to page again. Touched alone, a file of 2 GiB took 0.73 times
//! as long where the page cache had it in pieces of 1 MiB, and one of 512 MiB 0.87 times in pieces of 8 KiB.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::{Mmap, MmapOptions};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::blocks;
use super::pass::{Pass, Tally, Use};
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;

/// The handler of SIGBUS knows one mapping only.
static ONE: Mutex<()> = Mutex::new(());
/// The mapping under way, for the handler of SIGBUS: its first and its end address.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The first page of it that was gone when it was looked at, by its address; 0: none.
static GONE: AtomicUsize = AtomicUsize::new(0);

/// A file mapped for one pass. A file that shrinks while it is read raises SIGBUS: the pass then fails, instead of the
/// probe dying.
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    _only: MutexGuard<'static, ()>,
}

impl Mapped {
    /// Map the first `length` bytes of `file`.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel refuses.
    pub fn new(file: &File, length: u64) -> Result<Self, Failure> {
        let only = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: io::Error| Failure::system("mapping the file", error);
        // SAFETY: a file changed by others gives changed bytes, which `Source::check_unchanged` finds; one that shrinks
        // raises SIGBUS, which the handler below turns into a flag.
        let map = unsafe { MmapOptions::new().len(length as usize).map(file) }.map_err(failed)?;
        PAGE.store(page_bytes() as usize, Ordering::Relaxed);
        FIRST.store(map.as_ptr() as usize, Ordering::Relaxed);
        END.store(map.as_ptr() as usize + map.len(), Ordering::Relaxed);
        GONE.store(0, Ordering::Relaxed);
        let action = SigAction::new(
            SigHandler::SigAction(on_bus_error),
            SaFlags::SA_SIGINFO,
            SigSet::empty(),
        );
        // SAFETY: the handler loads and stores atomics and calls mmap(2) and sigaction(2), all async-signal-safe.
        unsafe { sigaction(Signal::SIGBUS, &action) }
            .map_err(|error| Failure::system("taking SIGBUS", error))?;
        Ok(Self { map, _only: only })
    }

    /// Read window after window; a window is a block.
    ///
    /// # Errors
    /// `Failure::Failed` with the offset of a page that cannot be had.
    pub fn read(&self, pass: &Pass, file: &File) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        while let Some(window) = pass.next_block() {
            self.look_at_all(pass, file, window, &mut tally)?;
        }
        Ok(tally)
    }

    /// Read one window, from offset to end.
    ///
    /// # Errors
    /// `Failure::Failed` with the offset of a page that cannot be had.
    pub fn look_at_all(
        &self,
        pass: &Pass,
        file: &File,
        (offset, end): (u64, u64),
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let window = &self.map[offset as usize..end as usize];
        tally.calls += 1;
        tally.take(window, offset, 0, pass.purpose);
        if pass.purpose == Use::None {
            touch(window);
        }
        match is_gone() {
            true => Err(explain(pass, file)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
impl Mapped {
    /// Look at the pages from `offset` on, whether they are there or not.
    pub fn look_at(&self, offset: usize) {
        touch(&self.map[offset..]);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        FIRST.store(0, Ordering::Relaxed);
        END.store(0, Ordering::Relaxed);
    }
}

/// Whether a page of the mapping was gone when it was looked at.
pub fn is_gone() -> bool {
    GONE.load(Ordering::Relaxed) != 0
}

/// Look at a byte of each page.
fn touch(window: &[u8]) {
    for byte in window.iter().step_by(PAGE.load(Ordering::Relaxed)) {
        // SAFETY: a reference is valid to be read from.
        unsafe { std::ptr::read_volatile(byte) };
    }
}

/// What is wrong with the page that is gone: SIGBUS does not say why, pread(2) does. Every thread that sees it gone
/// says the same.
fn explain(pass: &Pass, file: &File) -> Failure {
    let offset = (GONE.load(Ordering::Relaxed) - FIRST.load(Ordering::Relaxed)) as u64;
    match file.read_at(&mut [0], offset) {
        // At the end, or there again.
        Ok(_) => blocks::cut_short(pass, offset),
        Err(error) => blocks::broken(pass, offset, &error),
    }
}

/// A page of the mapping is gone: put an empty one in its place, so that the program can go on, and raise the flag.
extern "C" fn on_bus_error(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives the handler a valid structure, whose address is that of the access.
    let address = unsafe { (*information).si_addr() } as usize;
    let page = PAGE.load(Ordering::Relaxed);
    if (FIRST.load(Ordering::Relaxed)..END.load(Ordering::Relaxed)).contains(&address) {
        let begin = address - address % page;
        // SAFETY: the page lies in our own mapping, and is read only.
        let patched = unsafe {
            libc::mmap(
                begin as *mut libc::c_void,
                page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if patched != libc::MAP_FAILED {
            // Another thread may have met one before.
            let _ = GONE.compare_exchange(0, begin, Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
    }
    // Not ours: the access is repeated, and then ends the process as it would have.
    // SAFETY: setting a signal's default action is async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
