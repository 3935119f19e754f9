//! Reading with io_uring: so many direct reads in flight at once, each block looked at as it comes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, cqueue, opcode, types};

use super::blocks;
use super::pass::{Pass, Tally};
use crate::error::Failure;

/// A place for one block, and the read that fills it.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Where in the file the block begins, in bytes.
    begin: u64,
    /// Where the block ends; beyond the end of the file for its last block, since direct I/O takes whole blocks only.
    end: u64,
    /// How far the block is read.
    done: u64,
}

/// A ring with its slots.
pub struct Ring<'a> {
    ring: IoUring,
    file: &'a File,
    /// As many blocks as there are slots.
    buffer: &'a mut [u8],
    slots: Vec<Slot>,
    in_flight: usize,
    tally: Tally,
}

/// A ring of `depth` entries.
///
/// # Errors
/// `Failure::Unavailable` where io_uring is switched off or unknown.
pub fn make(depth: u32) -> Result<IoUring, Failure> {
    IoUring::new(depth).map_err(|error| {
        Failure::unavailable(
            format!("io_uring cannot be used: {error}"),
            "see /proc/sys/kernel/io_uring_disabled and the container's filter, or choose --set engine=direct",
        )
    })
}

/// Read with as many reads in flight as `buffer` has blocks.
///
/// # Errors
/// `Failure::Failed` with the offset of a block that cannot be read, `Failure::Unavailable` without io_uring.
pub fn read(pass: &Pass, file: &File, buffer: &mut [u8]) -> Result<Tally, Failure> {
    let depth = buffer.len() / pass.block as usize;
    let mut ring = Ring {
        ring: make(depth as u32)?,
        file,
        buffer,
        slots: vec![Slot::default(); depth],
        in_flight: 0,
        tally: Tally::default(),
    };
    let ended = ring.go(pass);
    // The kernel writes into the buffer until the last read has come back.
    ring.drain();
    ended.map(|()| ring.tally)
}

impl Ring<'_> {
    fn go(&mut self, pass: &Pass) -> Result<(), Failure> {
        for slot in 0..self.slots.len() {
            self.begin(slot, pass);
        }
        while self.in_flight > 0 {
            self.wait()?;
            while let Some(entry) = self.next_completion() {
                self.complete(entry.user_data() as usize, entry.result(), pass)?;
            }
        }
        Ok(())
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        let entry = self.ring.completion().next()?;
        self.in_flight -= 1;
        Some(entry)
    }

    /// Wait for a read to come back; a signal may end the wait early.
    fn wait(&self) -> Result<(), Failure> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Failure::system("waiting for io_uring", error)),
        }
    }

    /// Begin the next block in `slot`, if there is one.
    fn begin(&mut self, slot: usize, pass: &Pass) {
        if let Some((begin, end)) = pass.next_block() {
            let end = end.next_multiple_of(pass.block);
            self.slots[slot] = Slot {
                begin,
                end,
                done: 0,
            };
            self.submit(slot, pass);
        }
    }

    /// Ask for what is missing of the slot's block.
    fn submit(&mut self, slot: usize, pass: &Pass) {
        let Slot { begin, end, done } = self.slots[slot];
        let at = slot * pass.block as usize + done as usize;
        let missing = (end - begin - done) as usize;
        let target = self.buffer[at..at + missing].as_mut_ptr();
        let read = opcode::Read::new(types::Fd(self.file.as_raw_fd()), target, missing as u32)
            .offset(begin + done)
            .build()
            .user_data(slot as u64);
        // SAFETY: file and buffer outlive the read: `drain` waits for it. Each slot has its own part of the buffer.
        let pushed = unsafe { self.ring.submission().push(&read) };
        pushed.expect("there are as many entries as slots");
        self.in_flight += 1;
        self.tally.calls += 1;
    }

    /// Take in what a read gave, and begin the next.
    fn complete(&mut self, slot: usize, result: i32, pass: &Pass) -> Result<(), Failure> {
        let Slot { begin, done, .. } = self.slots[slot];
        let offset = begin + done;
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result);
            return match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {
                    self.submit(slot, pass);
                    Ok(())
                }
                _ => Err(blocks::broken(pass, offset, &error)),
            };
        }
        let end = (begin + pass.block).min(pass.length);
        let read = (result as u64).min(end - offset);
        if read == 0 {
            return Err(blocks::cut_short(pass, offset));
        }
        let at = slot * pass.block as usize + done as usize;
        let data = &self.buffer[at..at + read as usize];
        self.tally.take(data, offset, at, pass.purpose);
        self.slots[slot].done += read;
        if offset + read < end {
            self.submit(slot, pass);
        } else {
            self.begin(slot, pass);
        }
        Ok(())
    }

    /// Wait until no read is in flight any more.
    fn drain(&mut self) {
        while self.in_flight > 0 {
            // An error other than an interruption leaves nothing to wait with; the ring's own end then cancels what is in flight.
            if self.wait().is_err() {
                break;
            }
            while self.next_completion().is_some() {}
        }
    }
}
