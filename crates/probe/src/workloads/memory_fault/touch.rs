//! The touches themselves, and the count of the faults they took.

use std::hint::black_box;

use nix::sys::resource::{Usage, UsageWho, getrusage};

use crate::disk::content;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Pages touched between two looks at whether a signal came: few, since a fault may wait for a device.
const STRIDE: usize = 64;

/// Bytes of stack that counting takes at most.
const STACK_BYTES: usize = 8 << 10;

/// What a thread touches.
#[derive(Debug)]
pub struct Share<'a> {
    /// The memory.
    pub memory: Memory<'a>,
    /// Bytes from one touch to the next.
    pub page: usize,
}

/// How it is touched.
#[derive(Debug)]
pub enum Memory<'a> {
    /// A byte of each page is read.
    Read(&'a [u8]),
    /// The first byte of each page is set to the mark.
    Write(&'a mut [u8], u8),
}

/// What touches did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Pages touched.
    pub touched: u64,
    /// Sum of the bytes read.
    pub sum: u64,
    /// Faults that needed no device.
    pub minor: u64,
    /// Faults that waited for one.
    pub major: u64,
}

impl Tally {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            touched: self.touched + other.touched,
            sum: self.sum + other.sum,
            minor: self.minor + other.minor,
            major: self.major + other.major,
        }
    }

    /// Each page took exactly one fault, and `major` of them waited for a device; at most `strays` faults were of other
    /// memory.
    ///
    /// # Errors
    /// `Failure::Failed` with both counts.
    pub fn judge(&self, pages: u64, major: u64, strays: u64) -> Result<(), Failure> {
        let faults = self.minor + self.major;
        if !(pages..=pages + strays).contains(&faults) {
            return Err(Failure::failed(format!(
                "touching {pages} pages took {faults} faults: not one a page"
            )));
        }
        if self.major != major {
            return Err(Failure::failed(format!(
                "{} of {faults} faults waited for a device, not {major}: something else fills or empties the page \
                 cache, or threads met at one piece of it",
                self.major
            )));
        }
        Ok(())
    }
}

impl Share<'_> {
    /// Touch every page once, unless a signal asks to stop, and count this thread's faults meanwhile.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report the faults.
    pub fn touch(self) -> Result<Tally, Failure> {
        dirty_stack();
        self.touch_and_count()
    }

    /// Counts inside the clock, so near to the loop that nothing but the touches can fault in between.
    #[inline(never)]
    fn touch_and_count(self) -> Result<Tally, Failure> {
        let before = usage()?;
        let (touched, sum) = match self.memory {
            Memory::Read(memory) => read(memory, self.page),
            Memory::Write(memory, mark) => (write(memory, self.page, mark), 0),
        };
        let after = usage()?;
        Ok(Tally {
            touched,
            sum,
            minor: (after.minor_page_faults() - before.minor_page_faults()) as u64,
            major: (after.major_page_faults() - before.major_page_faults()) as u64,
        })
    }
}

/// Write to the part of the stack that the functions called next use: after a fork that is a fault for each page of it,
/// which getrusage would count when it hands its first answer over.
#[inline(never)]
fn dirty_stack() {
    black_box([1_u8; STACK_BYTES]);
}

fn usage() -> Result<Usage, Failure> {
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_err(|error| Failure::system("counting page faults (getrusage)", error))
}

/// Pages read, and the sum of their first bytes.
fn read(memory: &[u8], page: usize) -> (u64, u64) {
    let (mut touched, mut sum) = (0, 0);
    for pages in memory.chunks(page * STRIDE) {
        if cancel::requested() {
            break;
        }
        for byte in pages.iter().step_by(page) {
            // SAFETY: a reference is valid to be read from.
            sum += u64::from(unsafe { std::ptr::read_volatile(byte) });
            touched += 1;
        }
    }
    (touched, sum)
}

/// Pages written.
fn write(memory: &mut [u8], page: usize, mark: u8) -> u64 {
    let mut touched = 0;
    for pages in memory.chunks_mut(page * STRIDE) {
        if cancel::requested() {
            break;
        }
        for byte in pages.iter_mut().step_by(page) {
            // SAFETY: a mutable reference is valid to be written to.
            unsafe { std::ptr::write_volatile(byte, mark) };
            touched += 1;
        }
    }
    touched
}

/// The sum that reading `pages` pages of a scratch file must give.
pub fn expected(pages: u64, page: u64) -> u64 {
    let mut first = [0];
    (0..pages)
        .map(|number| {
            content::fill(number * page, &mut first);
            u64::from(first[0])
        })
        .sum()
}
