//! One pass over a file: what its workers share, and what each has done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::xor;
use oscope_sys::cancel;

/// Bytes that a worker takes at once, or a block where that is more: the cursor, the deadline and the request to stop
/// are looked at once a stretch.
const STRETCH: u64 = 1 << 20;
/// Blocks that it takes at once at most, so that a deadline is kept with the smallest as well.
const BLOCKS: u64 = 1024;

/// What is done with the bytes read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Nothing.
    None,
    /// They are folded into the XOR of all little-endian 32-bit words.
    Xor,
}

/// What the workers of one pass share.
#[derive(Debug)]
pub struct Pass {
    /// Bytes to be read, from the file's start.
    pub length: u64,
    /// Bytes read by one call.
    pub block: u64,
    /// What is done with them.
    pub purpose: Use,
    deadline: Option<Instant>,
    cursor: AtomicU64,
    stopped: AtomicBool,
}

impl Pass {
    /// A pass over `length` bytes in blocks of `block`, which ends at the deadline if there is one.
    pub fn new(length: u64, block: u64, purpose: Use, deadline: Option<Instant>) -> Self {
        Self {
            length,
            block,
            purpose,
            deadline,
            cursor: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// The next stretch of whole blocks (offset and end in bytes), `None` once all is taken, the time is over, or
    /// somebody stopped it.
    pub fn stretch(&self) -> Option<(u64, u64)> {
        let blocks = STRETCH.div_ceil(self.block).min(BLOCKS);
        self.take(blocks * self.block)
    }

    /// The next block: its offset and end in bytes.
    pub fn next_block(&self) -> Option<(u64, u64)> {
        self.take(self.block)
    }

    /// End the pass for all workers.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) -> Option<(u64, u64)> {
        if self.is_stopped() {
            return None;
        }
        let offset = self.cursor.fetch_add(bytes, Ordering::Relaxed);
        // Something is read in any case: there is no speed of nothing.
        (offset < self.length && (offset == 0 || !self.is_late()))
            .then(|| (offset, (offset + bytes).min(self.length)))
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || cancel::requested()
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// What one worker, or all of them, has read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Bytes read.
    pub bytes: u64,
    /// System calls that brought them.
    pub calls: u64,
    /// XOR of the words among them.
    pub xor: u32,
    /// The bytes that came last.
    pub last: Last,
}

/// Where bytes lie, in the file and in the buffer of the worker that read them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// Offset in the file.
    pub offset: u64,
    /// Place in the worker's buffer.
    pub at: usize,
    /// Number of bytes.
    pub length: usize,
}

impl Tally {
    /// Take in the bytes that one read from `offset` gave; they lie at `at` in the worker's buffer.
    #[inline(always)]
    pub fn take(&mut self, data: &[u8], offset: u64, at: usize, purpose: Use) {
        self.bytes += data.len() as u64;
        self.last = Last {
            offset,
            at,
            length: data.len(),
        };
        if purpose == Use::Xor {
            self.xor ^= xor::fold_at(data, offset);
        }
    }

    /// What this worker and another have read together; the last bytes are this one's.
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            calls: self.calls + other.calls,
            xor: self.xor ^ other.xor,
            last: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_whole_blocks_and_cover_all_once() {
        for block in [1, 128, 1000, 1 << 20, (1 << 20) + 1, 4 << 20] {
            let length = (10 << 20) + 17;
            let pass = Pass::new(length, block, Use::None, None);
            let mut next = 0;
            while let Some((offset, end)) = pass.stretch() {
                assert_eq!(offset, next);
                assert_eq!(offset % block, 0);
                assert!(end == length || end % block == 0);
                next = end;
            }
            assert_eq!(next, length);
        }
    }

    #[test]
    fn a_pass_ends_when_it_is_stopped_or_its_time_is_over() {
        let pass = Pass::new(100, 10, Use::None, None);
        assert_eq!(pass.next_block(), Some((0, 10)));
        pass.stop();
        assert_eq!(pass.next_block(), None);
        let late = Pass::new(100, 10, Use::None, Some(Instant::now()));
        assert_eq!(late.stretch(), Some((0, 100)));
        let late = Pass::new(100, 10, Use::None, Some(Instant::now()));
        assert_eq!(late.next_block(), Some((0, 10)));
        assert_eq!(late.next_block(), None);
    }
}
