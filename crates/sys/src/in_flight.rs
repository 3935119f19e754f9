//! An `io_uring` that does not end before what it was asked for has come back: until then the kernel writes into the
//! caller's memory.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, cqueue, squeue};
use nix::poll::{PollFd, PollFlags, poll};

use crate::cancel;

/// `IORING_ENTER_GETEVENTS` of linux/io_uring.h.
const GETEVENTS: u32 = 1;
/// Milliseconds after which a kernel that was short of memory is asked again at the latest.
const AGAIN_MS: u16 = 10;

/// A ring, and how much of it is not back yet. It waits for that when it is dropped, also by a panic.
pub struct Ring {
    ring: IoUring,
    missing: usize,
}

impl Ring {
    /// A ring with room for so many entries.
    ///
    /// # Errors
    /// The errno of io_uring_setup(2): `ENOSYS` or `EPERM` where the kernel does not offer `io_uring`.
    pub fn new(entries: u32) -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::new(entries)?,
            missing: 0,
        })
    }

    /// How many entries are not back yet.
    #[inline]
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Queue entries, for [`Self::wait`] to submit.
    ///
    /// # Safety
    /// The files, buffers and times that they name must live, and their buffers not be touched, until they are back or
    /// the ring is dropped.
    ///
    /// # Panics
    /// There are more than the ring has room for.
    #[inline]
    pub unsafe fn push(&mut self, entries: &[squeue::Entry]) {
        // SAFETY: the caller keeps what they name until they are back, which `drop` waits for.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        pushed.expect("a ring has room for all that is in flight at once");
        self.missing += entries.len();
    }

    /// Submit what is queued, and wait until something is back; a signal, and a kernel that is short of memory, may end
    /// the wait early.
    ///
    /// # Errors
    /// The errno of io_uring_enter(2); `EAGAIN`, `EBUSY` or `EINTR` only if a signal has asked to stop.
    #[inline]
    pub fn wait(&mut self) -> io::Result<()> {
        let waited = self.ring.submit_and_wait(1);
        match waited {
            Err(error) if is_passing(&error) && !cancel::requested() => {
                self.pause(&error);
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// As [`Self::wait`], also once a signal has asked to stop: for who must know what became of each entry.
    ///
    /// # Errors
    /// The errno of io_uring_enter(2), but none of those.
    pub fn wait_through_signals(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(error) if is_passing(&error) => {
                self.pause(&error);
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// The next that is back.
    #[inline]
    pub fn next_entry(&mut self) -> Option<cqueue::Entry> {
        let entry = self.ring.completion().next()?;
        self.missing -= 1;
        Some(entry)
    }

    /// Wait for all that the kernel has; what is only queued is never begun.
    fn drain(&mut self) {
        while self.missing > self.ring.submission().len() {
            // SAFETY: numbers only are passed.
            let waited = unsafe {
                let submitter = self.ring.submitter();
                submitter.enter::<libc::sigset_t>(0, 1, GETEVENTS, None)
            };
            match waited {
                Ok(_) => {}
                Err(error) if is_passing(&error) => self.pause(&error),
                // The buffers are about to be used for something else, while the kernel may write into them: nothing
                // may go on.
                Err(error) => {
                    eprintln!("io_uring: waiting for what is in flight: {error}");
                    std::process::abort();
                }
            }
            while self.next_entry().is_some() {}
        }
    }

    /// Before trying again: until something is back, or a moment.
    fn pause(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::Interrupted {
            return;
        }
        // SAFETY: the descriptor is the ring's, which lives as long as `self`.
        let ring = unsafe { std::os::fd::BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        // Whatever ends it, the caller looks again.
        let _ = poll(&mut [PollFd::new(ring, PollFlags::POLLIN)], AGAIN_MS);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.drain();
    }
}

/// Whether io_uring_enter(2) may do it the next time: after a signal, without memory, or with results that nobody has
/// taken.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use io_uring::{opcode, types};

    use super::*;
    use crate::testing::{pipe, refuse_waits, write_late};

    /// A read of a pipe is begun, then `end` is called with the ring: what the buffer has once that has come back.
    fn read_meanwhile(end: impl FnOnce(Ring) + Send) -> Vec<u8> {
        let (out, into) = pipe();
        let mut buffer = vec![0; 4];
        let (ended, gone) = channel();
        thread::scope(|scope| {
            scope.spawn(move || write_late(&gone, &into, b"late"));
            let buffer = &mut buffer;
            let out = &out;
            let reader = scope.spawn(move || {
                let mut ring = Ring::new(2).expect("io_uring is allowed");
                let read = opcode::Read::new(types::Fd(out.as_raw_fd()), buffer.as_mut_ptr(), 4);
                // SAFETY: pipe and buffer outlive the thread, which outlives the ring.
                unsafe { ring.push(&[read.build()]) };
                ring.ring.submit().expect("submitted");
                end(ring);
                let seen = buffer.clone();
                let _ = ended.send(());
                seen
            });
            reader.join().expect("no panic")
        })
    }

    #[test]
    fn a_ring_that_is_dropped_waits_for_what_is_in_flight() {
        assert_eq!(read_meanwhile(drop), b"late");
    }

    #[test]
    fn so_does_one_that_a_panic_unwinds() {
        let panics = |ring| {
            let work = AssertUnwindSafe(move || {
                let _ring = ring;
                panic!("on purpose");
            });
            assert!(catch_unwind(work).is_err());
        };
        assert_eq!(read_meanwhile(panics), b"late");
    }

    #[test]
    fn so_does_one_whose_kernel_is_short_of_memory() {
        let refused = |ring| {
            refuse_waits();
            drop(ring);
        };
        assert_eq!(read_meanwhile(refused), b"late");
    }

    #[test]
    fn what_was_only_queued_is_not_waited_for() {
        let (out, _into) = pipe();
        let mut buffer = [0; 4];
        let mut ring = Ring::new(1).expect("io_uring is allowed");
        let read = opcode::Read::new(types::Fd(out.as_raw_fd()), buffer.as_mut_ptr(), 4);
        // SAFETY: pipe and buffer outlive the ring, which is dropped here.
        unsafe { ring.push(&[read.build()]) };
        assert_eq!(ring.missing(), 1);
        drop(ring);
        assert_eq!(buffer, [0; 4]);
    }
}
