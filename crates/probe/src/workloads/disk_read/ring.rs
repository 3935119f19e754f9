//! Reading with io_uring: so many direct reads in flight at once, each block looked at as it comes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{opcode, types};

use super::blocks;
use super::pass::{Pass, Tally};
use oscope_sys::error::Failure;
use oscope_sys::in_flight;

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

/// A ring with its slots. However it ends, the ring waits for the reads that are in flight, and the buffer is longer
/// there than it.
struct Ring<'a> {
    ring: in_flight::Ring,
    file: &'a File,
    /// As many blocks as there are slots.
    buffer: &'a mut [u8],
    slots: Vec<Slot>,
    tally: Tally,
}

/// A ring of `depth` entries.
///
/// # Errors
/// `Failure::Unavailable` where io_uring is switched off or unknown.
fn make(depth: u32) -> Result<in_flight::Ring, Failure> {
    in_flight::Ring::new(depth).map_err(|error| {
        Failure::unavailable(
            format!("io_uring cannot be used: {error}"),
            "see /proc/sys/kernel/io_uring_disabled and the container's filter, or choose --set engine=direct",
        )
        .because_of(error)
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
        tally: Tally::default(),
    };
    ring.go(pass)?;
    Ok(ring.tally)
}

impl Ring<'_> {
    fn go(&mut self, pass: &Pass) -> Result<(), Failure> {
        for slot in 0..self.slots.len() {
            self.begin(slot, pass);
        }
        while self.ring.missing() > 0 {
            self.ring
                .wait()
                .map_err(|error| Failure::system("waiting for io_uring", error))?;
            while let Some(entry) = self.ring.next_entry() {
                self.complete(entry.user_data() as usize, entry.result(), pass)?;
            }
        }
        Ok(())
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
        // SAFETY: file and buffer outlive the ring. Each slot has its own part of the buffer, and one read at a time.
        unsafe { self.ring.push(&[read]) };
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
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::super::pass::Use;
    use super::*;
    use oscope_sys::testing::{pipe, refuse_waits, write_late};

    #[test]
    fn a_kernel_that_is_short_of_memory_does_not_end_a_pass_with_reads_in_flight() {
        let (out, mut into) = pipe();
        into.write_all(&[1; 512]).expect("there is room");
        let (ended, gone) = channel();
        let (tally, buffer) = thread::scope(|scope| {
            scope.spawn(move || write_late(&gone, &into, &[2; 512]));
            let reader = scope.spawn(move || {
                refuse_waits();
                let mut buffer = vec![0; 1024];
                let pass = Pass::new(1024, 512, Use::None, None);
                let tally = read(&pass, &out, &mut buffer);
                let _ = ended.send(());
                (tally, buffer)
            });
            reader.join().expect("no panic")
        });
        assert_eq!(tally.map(|tally| tally.bytes).ok(), Some(1024));
        assert_eq!(buffer, [[1; 512], [2; 512]].concat());
    }
}
