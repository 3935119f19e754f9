//! A channel in shared memory: a ring of bytes, copied in and copied out as a pipe's are, without the kernel unless one
//! side must sleep.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::Pid;

use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::futex;
use oscope_sys::shared_memory::{Shared, Zeroable};
use oscope_sys::worker::is_dead;

/// Bytes that the ring holds, a power of two. Larger than a core's second cache, as here, it was the fastest: the lines
/// that the writer leaves reach the shared third cache before the reader asks for them. Four times as much was slower.
const CAPACITY: usize = 1 << 20;
/// Most bytes copied before the other side sees them, so that both copy at once.
const BATCH: u64 = 32 << 10;
/// Looks at the other side before letting others run, some 5 us.
const SPIN_LIMIT: u32 = 200;
/// Times that others may run before going to sleep: the other side may be waiting for this very CPU, and while neither
/// sleeps, the scheduler moves one of them to a CPU that is free.
const YIELDS: u32 = 50;
/// Time after which a sleeper looks whether the other side lives.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Something on a pair of cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// The ring as both sides see it. The counts of bytes never go back; their places are the remainders.
#[repr(C)]
struct Ring {
    /// Bytes put in, by the writer.
    written: Line<AtomicU64>,
    /// Bytes taken out, by the reader.
    read: Line<AtomicU64>,
    writer: Line<Side>,
    reader: Line<Side>,
    bytes: Line<UnsafeCell<[u8; CAPACITY]>>,
}

/// The state of one side, looked at by the other.
struct Side {
    /// 1 while it sleeps or is about to.
    sleeps: AtomicU32,
    /// 1 once it has gone.
    gone: AtomicU32,
}

// SAFETY: of the bytes, the writer touches those that are free and the reader those that are not; the two counts hand
// them over.
unsafe impl Sync for Ring {}
// SAFETY: counts, flags and bytes may be 0.
unsafe impl Zeroable for Ring {}

impl Side {
    /// Wake it, if it sleeps. To be called after the count that it waits for has changed.
    fn wake(&self) {
        // Either this sees that it sleeps, or it sees the new count before it does (it has the same fence between its
        // two).
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) == 1 && self.sleeps.swap(0, Ordering::Relaxed) == 1 {
            futex::wake(&self.sleeps);
        }
    }

    fn leave(&self, other: &Self) {
        self.gone.store(1, Ordering::Release);
        other.wake();
    }
}

/// What an end does when the channel is full or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It refuses with EAGAIN.
    Refuses,
    /// It sleeps until the other side has done its part.
    Sleeps,
    /// As before, but the ring looks for some microseconds first; for sides that have a CPU each.
    Spins,
}

/// How one side waits for the other.
#[derive(Debug)]
struct Patience {
    waiting: Waiting,
    watched: Option<Pid>,
}

impl Patience {
    /// Wait until `count` differs from `seen`. `Ok(false)`: it never will, the other side has gone.
    ///
    /// # Errors
    /// `EAGAIN` where waiting is not wanted, `EINTR` after a signal.
    #[inline]
    fn wait(&self, own: &Side, other: &Side, count: &AtomicU64, seen: u64) -> Result<bool, Errno> {
        let changed = || count.load(Ordering::Acquire) != seen;
        let tries = match self.waiting {
            Waiting::Refuses => return Err(Errno::EAGAIN),
            Waiting::Sleeps => 0,
            Waiting::Spins => SPIN_LIMIT + YIELDS,
        };
        for number in 0..tries {
            if changed() {
                return Ok(true);
            }
            match number {
                ..SPIN_LIMIT => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
        self.sleep(own, other, &changed)
    }

    #[cold]
    fn sleep(&self, own: &Side, other: &Side, changed: &dyn Fn() -> bool) -> Result<bool, Errno> {
        loop {
            own.sleeps.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if changed() {
                own.sleeps.store(0, Ordering::Relaxed);
                return Ok(true);
            }
            if other.gone.load(Ordering::Acquire) == 1 {
                own.sleeps.store(0, Ordering::Relaxed);
                return Ok(changed());
            }
            let slept = futex::wait(&own.sleeps, 1, LONGEST_SLEEP);
            // A process that was killed says nothing: it is looked for when nothing was heard for long.
            if slept == Err(Errno::ETIMEDOUT) && self.watched.is_some_and(is_dead) {
                own.sleeps.store(0, Ordering::Relaxed);
                return Ok(changed());
            }
            if slept == Err(Errno::EINTR) || cancel::requested() {
                own.sleeps.store(0, Ordering::Relaxed);
                return Err(Errno::EINTR);
            }
        }
    }
}

/// The end that puts bytes in. Dropping it ends the other side's wait.
pub struct Writer {
    ring: Arc<Shared<Ring>>,
    patience: Patience,
    /// Bytes put in.
    written: u64,
    /// Bytes taken out, as far as was seen.
    read: u64,
}

/// The end that takes bytes out. Dropping it ends the other side's wait.
pub struct Reader {
    ring: Arc<Shared<Ring>>,
    patience: Patience,
    /// Bytes put in, as far as was seen.
    written: u64,
    /// Bytes taken out.
    read: u64,
}

/// A new ring.
///
/// # Errors
/// `Failure::Unavailable` where there is not the memory.
pub fn new(waiting: Waiting) -> Result<(Writer, Reader), Failure> {
    let ring = Arc::new(Shared::zeroed()?);
    let patience = || Patience {
        waiting,
        watched: None,
    };
    let writer = Writer {
        ring: Arc::clone(&ring),
        patience: patience(),
        written: 0,
        read: 0,
    };
    let reader = Reader {
        ring,
        patience: patience(),
        written: 0,
        read: 0,
    };
    Ok((writer, reader))
}

impl Writer {
    /// Put in all of `data`, as `write(2)` does with a pipe; fewer bytes where waiting is not wanted or a signal came.
    ///
    /// # Errors
    /// `EAGAIN` where waiting is not wanted and the ring is full, `EINTR` after a signal, `EPIPE` if the other side has
    /// gone.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let ring = &**self.ring;
        let mut done = 0;
        while done < data.len() {
            let free = CAPACITY as u64 - (self.written - self.read);
            if free == 0 {
                let read = ring.read.0.load(Ordering::Acquire);
                if read == self.read {
                    let waited =
                        self.patience
                            .wait(&ring.writer.0, &ring.reader.0, &ring.read.0, read);
                    match waited {
                        Ok(true) => {}
                        Ok(false) => return Err(Errno::EPIPE),
                        Err(_) if done > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                self.read = ring.read.0.load(Ordering::Acquire);
                continue;
            }
            let count = free.min(BATCH).min((data.len() - done) as u64) as usize;
            let at = self.written as usize % CAPACITY;
            let first = count.min(CAPACITY - at);
            let start = ring.bytes.0.get().cast::<u8>();
            // SAFETY: both parts lie within the ring and are free, which the reader's count says; the two memories do
            // not overlap.
            unsafe {
                let from = data.as_ptr().add(done);
                start.add(at).copy_from_nonoverlapping(from, first);
                start.copy_from_nonoverlapping(from.add(first), count - first);
            }
            done += count;
            self.written += count as u64;
            ring.written.0.store(self.written, Ordering::Release);
            ring.reader.0.wake();
        }
        Ok(done)
    }

    /// The other end was moved to this process, whose life is looked at from now on while waiting. To be called once
    /// the copy of that end, which the fork left here, was dropped: its going is not the other side's.
    pub fn watch(&mut self, process: Option<Pid>) {
        if process.is_some() {
            self.ring.reader.0.gone.store(0, Ordering::Release);
        }
        self.patience.watched = process;
    }
}

impl Reader {
    /// Take out what is there, at most as much as fits, as `read(2)` does: wait only for the first byte. 0: the other
    /// side has gone.
    ///
    /// # Errors
    /// `EAGAIN` where waiting is not wanted and the ring is empty, `EINTR` after a signal.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        let ring = &**self.ring;
        let mut done = 0;
        while done < into.len() {
            if self.written == self.read {
                self.written = ring.written.0.load(Ordering::Acquire);
                if self.written == self.read {
                    if done > 0 {
                        break;
                    }
                    let waited = self.patience.wait(
                        &ring.reader.0,
                        &ring.writer.0,
                        &ring.written.0,
                        self.written,
                    );
                    if !waited? {
                        return Ok(0);
                    }
                    continue;
                }
            }
            let count = (self.written - self.read)
                .min(BATCH)
                .min((into.len() - done) as u64) as usize;
            let at = self.read as usize % CAPACITY;
            let first = count.min(CAPACITY - at);
            let start = ring.bytes.0.get().cast::<u8>();
            // SAFETY: both parts lie within the ring and were put in, which the writer's count says; the two memories
            // do not overlap.
            unsafe {
                let to = into.as_mut_ptr().add(done);
                to.copy_from_nonoverlapping(start.add(at), first);
                to.add(first).copy_from_nonoverlapping(start, count - first);
            }
            done += count;
            self.read += count as u64;
            ring.read.0.store(self.read, Ordering::Release);
            ring.writer.0.wake();
        }
        Ok(done)
    }

    /// The other end was moved to this process, whose life is looked at from now on while waiting. To be called once
    /// the copy of that end, which the fork left here, was dropped: its going is not the other side's.
    pub fn watch(&mut self, process: Option<Pid>) {
        if process.is_some() {
            self.ring.writer.0.gone.store(0, Ordering::Release);
        }
        self.patience.watched = process;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ring.writer.0.leave(&self.ring.reader.0);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ring.reader.0.leave(&self.ring.writer.0);
    }
}
