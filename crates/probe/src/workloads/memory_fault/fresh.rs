//! Memory made anew for a repetition, in the state from which a touch takes the fault wanted.

use std::time::Duration;

use super::FaultKind;
use super::holder::Holder;
use super::single_pages::SinglePages;
use super::swapped::Room;
use super::touch::{Memory, Share};
use crate::disk::residency::{make_cold, make_warm};
use crate::disk::scratch::Scratch;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::mapping::{Mapping, Pages};

/// Long enough to be off the CPU for once.
const OFF_THE_CPU: Duration = Duration::from_micros(1);

/// Bytes that a fault of this kind makes present.
///
/// # Errors
/// `Failure::Unavailable` where there are no huge pages.
pub fn page_of(kind: FaultKind) -> Result<u64, Failure> {
    match kind.pages() {
        Pages::Huge => Pages::Huge.granule(),
        Pages::Base => Ok(page_bytes()),
    }
}

/// Largest piece of the page cache: a folio of the size of a huge page.
pub const PIECE_BYTES: usize = 2 << 20;

/// Memory that was made for one repetition, and that is given back when dropped.
#[derive(Debug)]
pub enum Fresh {
    /// Nothing of it was ever touched, or all of it lies in swap.
    Anonymous(Mapping),
    /// A file.
    File(SinglePages),
    /// Written, and then shared with a child. The child goes first.
    Shared(Holder, Mapping),
}

impl Fresh {
    /// Make `bytes` of memory for faults of this kind; also says how the page cache was made ready, if it was.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this machine cannot, `Failure::Failed` where it went wrong.
    pub fn make(
        kind: FaultKind,
        bytes: u64,
        scratch: Option<&Scratch>,
        swap: Option<&Room>,
    ) -> Result<(Self, Option<String>), Failure> {
        let memory = match (kind, scratch, swap) {
            (FaultKind::CopyOnWrite, ..) => shared(bytes)?,
            (FaultKind::SwapIn, _, Some(swap)) => {
                let mut mapping = Mapping::new(bytes, Pages::Base)?;
                swap.take(mapping.as_mut_slice())?;
                Self::Anonymous(mapping)
            }
            (FaultKind::File | FaultKind::FileMajor, Some(scratch), _) => {
                let pages = SinglePages::new(&scratch.file, bytes, page_bytes() as usize)?;
                let state = match kind {
                    FaultKind::FileMajor => make_cold(&scratch.file, bytes)?,
                    _ => make_warm(&scratch.file, bytes)?,
                };
                return Ok((Self::File(pages), Some(state)));
            }
            _ => Self::Anonymous(Mapping::new(bytes, kind.pages())?),
        };
        Ok((memory, None))
    }

    /// A share for each of `threads`, as equal as whole units allow; to be written with the mark, if there is one. A
    /// unit is a page; of a file it is what the page cache may hold as one piece, since of two threads that meet at one
    /// the kernel calls a fault major that is not.
    pub fn shares(&mut self, page: usize, threads: usize, mark: Option<u8>) -> Vec<Share<'_>> {
        let unit = match self {
            Self::File(_) => PIECE_BYTES,
            Self::Anonymous(_) | Self::Shared(..) => page,
        };
        let bounds = |bytes: usize| {
            let edge = move |thread: usize| match thread {
                last if last == threads => bytes,
                _ => bytes / unit * thread / threads * unit,
            };
            (0..threads).map(move |thread| edge(thread + 1) - edge(thread))
        };
        match (self, mark) {
            (Self::Anonymous(mapping) | Self::Shared(_, mapping), Some(mark)) => {
                let mut rest = mapping.as_mut_slice();
                bounds(rest.len())
                    .map(|length| {
                        let (share, others) = std::mem::take(&mut rest).split_at_mut(length);
                        rest = others;
                        Memory::Write(share, mark)
                    })
                    .map(|memory| Share { memory, page })
                    .collect()
            }
            (memory, _) => {
                let mut rest = memory.as_slice();
                bounds(rest.len())
                    .map(|length| {
                        let (share, others) = rest.split_at(length);
                        rest = others;
                        Memory::Read(share)
                    })
                    .map(|memory| Share { memory, page })
                    .collect()
            }
        }
    }

    fn as_slice(&mut self) -> &[u8] {
        match self {
            Self::Anonymous(mapping) | Self::Shared(_, mapping) => mapping.as_mut_slice(),
            Self::File(pages) => pages.as_slice(),
        }
    }

    /// Prove what the touches left: with a mark, every page holds it and is resident in pages of the right kind; the
    /// child held its copy all the time.
    ///
    /// # Errors
    /// What is wrong; `Failure::Unavailable` where the kernel gave other pages.
    pub fn prove(&mut self, page: usize, mark: Option<u8>) -> Result<(), Failure> {
        if let Self::Shared(holder, _) = self {
            holder.check()?;
        }
        let Some(mark) = mark else { return Ok(()) };
        if let Self::Anonymous(mapping) | Self::Shared(_, mapping) = self {
            mapping.prove()?;
        }
        match self
            .as_slice()
            .iter()
            .step_by(page)
            .position(|&byte| byte != mark)
        {
            Some(number) => Err(Failure::failed(format!(
                "page {number} does not hold what was written to it"
            ))),
            None => Ok(()),
        }
    }
}

/// Memory that was written and that a child then holds too, so that each page is copied when it is written again.
fn shared(bytes: u64) -> Result<Fresh, Failure> {
    let mapping = Mapping::new(bytes, Pages::Base)?;
    mapping.touch();
    if cancel::requested() {
        return Err(Failure::failed("interrupted while memory was written"));
    }
    // Only to learn whether there is room for the copies.
    drop(Mapping::new(bytes, Pages::Base)?);
    let holder = Holder::fork()?;
    // When a thread gets its CPU back, the kernel writes to the thread's own memory (rseq(2)), which after a fork is a
    // fault. It had better be now than while faults are counted.
    std::thread::sleep(OFF_THE_CPU);
    Ok(Fresh::Shared(holder, mapping))
}
