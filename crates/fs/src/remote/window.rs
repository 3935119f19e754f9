//! How much of a transfer is under way at once.
//!
//! Enough to keep the line full, and no more than about a second of it: what others ask waits behind it.

use std::time::{Duration, Instant};

/// Requests under way at the start and at most. More than 8 MiB is of no use: ssh's own window is 2 MiB a channel.
const FIRST: usize = 8;
const MOST: usize = 32;

/// Requests under way at least, however slow the line.
const LEAST: usize = 2;

/// What may be under way, as time of the line.
const AHEAD: Duration = Duration::from_secs(1);

/// The window of one transfer.
pub struct Window {
    began: Instant,
    chunk: u64,
    answered: u64,
    width: usize,
}

impl Window {
    /// For requests of `chunk` bytes.
    pub fn new(chunk: u64) -> Self {
        Self {
            began: Instant::now(),
            chunk: chunk.max(1),
            answered: 0,
            width: FIRST,
        }
    }

    /// A request was answered, and moved so many bytes.
    pub fn answered(&mut self, bytes: u64) {
        self.answered += bytes;
        self.width = (self.width + 1).min(MOST);
        let elapsed = self.began.elapsed();
        if elapsed > AHEAD {
            let rate = self.answered as f64 / elapsed.as_secs_f64();
            let line = rate * AHEAD.as_secs_f64() / self.chunk as f64;
            self.width = self.width.min((line as usize).max(LEAST));
        }
    }

    /// Requests that may be under way now.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Requests that are sent together, so that not each of them wakes ssh.
    pub fn batch(&self) -> usize {
        (self.width / 4).max(1)
    }
}
