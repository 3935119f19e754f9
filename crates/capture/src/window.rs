//! A stream read in large pieces, of which a part lies in memory.

use std::io::{ErrorKind, Read};

use oscope_sys::error::Failure;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// The part of a stream that lies in memory.
pub struct Window<R> {
    input: R,
    held: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `start` is in the stream.
    offset: u64,
}

impl<R: Read> Window<R> {
    /// Begin at the start of `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            held: vec![0; PIECE],
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// How many bytes of the stream were taken.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `wanted` bytes, or all that are left where there are fewer. They are not taken.
    ///
    /// # Errors
    /// `Failure::Failed` if the stream cannot be read.
    #[inline]
    pub fn look(&mut self, wanted: usize) -> Result<&[u8], Failure> {
        if self.end - self.start < wanted {
            self.fill(wanted)?;
        }
        let end = self.end.min(self.start + wanted);
        Ok(&self.held[self.start..end])
    }

    /// Take `count` bytes, which [`Window::look`] has shown.
    #[inline]
    pub fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.start += count;
        self.offset += count as u64;
        &self.held[from..self.start]
    }

    fn fill(&mut self, wanted: usize) -> Result<(), Failure> {
        self.held.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.held.len() < wanted {
            self.held.resize(wanted, 0);
        }
        while self.end < wanted {
            match self.input.read(&mut self.held[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
