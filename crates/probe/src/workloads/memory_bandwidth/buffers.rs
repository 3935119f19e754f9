//! The memory that the threads go over.

use super::Operation;
use super::layout::Layout;
use super::stream::Share;
use crate::disk::content;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::mapping::{Mapping, Pages};
use oscope_sys::worker::run_pinned;

/// The windows of two threads have no base page in common.
const PAGE_BYTES: usize = 4096;
/// Bytes filled between two looks at whether a signal came.
const PIECE_BYTES: usize = 4 << 20;

/// The memory of all threads: what they go over, and behind it the windows that are copied into.
#[derive(Debug)]
pub struct Buffers {
    operation: Operation,
    memory: Mapping,
    /// The XOR of each share, taken word by word.
    expected: Vec<u32>,
}

impl Buffers {
    /// Map the memory, have each thread touch its part first, so that it lies near that thread's CPU, and prove it.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory, not such pages, or not so many threads.
    pub fn new(operation: Operation, pages: Pages, layout: &Layout) -> Result<Self, Failure> {
        let windows = match operation {
            Operation::Copy => stride(layout) * layout.cpus.len(),
            Operation::Read | Operation::Write => 0,
        };
        let begin = begin_of_windows(layout);
        let mut memory = Mapping::new((begin + windows) as u64, pages)?;
        let (shares, rest) = memory.as_mut_slice().split_at_mut(begin);
        let (windows, filler) = rest.split_at_mut(windows);
        let jobs = layout.shares_mut(shares).map(|share| || fill(share));
        let expected = run_pinned(&layout.cpus, jobs.collect(), |work| work())?;
        let jobs = windows
            .chunks_mut(stride(layout))
            .map(|window| || clear(window));
        run_pinned(&layout.cpus, jobs.collect(), |work| work())?;
        // The mapping is made of whole huge pages.
        clear(filler);
        memory.prove()?;
        Ok(Self {
            operation,
            memory,
            expected,
        })
    }

    /// What each thread does; `mark` is what a repetition that writes leaves behind.
    pub fn shares(&mut self, layout: &Layout, mark: u8) -> Vec<Share<'_>> {
        let begin = begin_of_windows(layout);
        let (shares, windows) = self.memory.as_mut_slice().split_at_mut(begin);
        match self.operation {
            Operation::Read => layout
                .shares(shares)
                .zip(&self.expected)
                .map(|(source, &expected)| Share::Read { source, expected })
                .collect(),
            Operation::Write => layout
                .shares_mut(shares)
                .map(|destination| Share::Write { destination, mark })
                .collect(),
            Operation::Copy => layout
                .shares(shares)
                .zip(windows.chunks_mut(stride(layout)))
                .map(|(source, window)| Share::Copy {
                    source,
                    window: &mut window[..layout.window.min(source.len())],
                })
                .collect(),
        }
    }
}

#[cfg(test)]
impl Buffers {
    /// Tip a bit of what is gone over.
    pub fn tip(&mut self, place: usize) {
        self.memory.as_mut_slice()[place] ^= 1;
    }
}

fn begin_of_windows(layout: &Layout) -> usize {
    (layout.size() as usize).next_multiple_of(PAGE_BYTES)
}

/// Bytes from one window to the next.
fn stride(layout: &Layout) -> usize {
    layout.window.next_multiple_of(PAGE_BYTES)
}

/// Fill a share with what looks random; the XOR of its words.
fn fill(share: &mut [u8]) -> u32 {
    let mut expected = 0;
    for (number, piece) in share.chunks_mut(PIECE_BYTES).enumerate() {
        if cancel::requested() {
            break;
        }
        content::fill((number * PIECE_BYTES) as u64, piece);
        // Not by `xor::fold`, which is on trial here.
        for word in piece.chunks(4) {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            expected ^= u32::from_le_bytes(padded);
        }
    }
    expected
}

/// Write to every byte, unless a signal asks to stop.
fn clear(memory: &mut [u8]) {
    for piece in memory.chunks_mut(PIECE_BYTES) {
        if cancel::requested() {
            break;
        }
        piece.fill(0);
    }
}
