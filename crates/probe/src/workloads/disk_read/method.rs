//! How a pass reads: engine, threads, block size and depth, as asked or as chosen for this machine and this file.

use serde::Deserialize;

use super::adaptive;
use crate::disk::direct;
use crate::disk::source::Source;
use oscope_sys::error::Failure;

/// Bytes of anonymous memory that all buffers together may have.
const MOST_BUFFERS: u64 = 48 << 20;
/// Block of a read through the page cache when nothing else is asked for.
const BLOCK: u64 = 128 << 10;
/// Block of direct I/O when nothing else is asked for: large enough for a device to stream, and what fio is mostly run
/// with.
const DIRECT_BLOCK: u64 = 1 << 20;
/// Direct reads at a time for each CPU when nothing else is asked for.
const READS_A_CPU: u64 = 4;
/// Fewest and most of them.
const READS: (u64, u64) = (8, 32);
/// Greatest and least stretch that is mapped or copied when nothing else is asked for. Smaller ones leave work for each
/// thread, and cost less where the slower way is tried.
const STRETCHES: (u64, u64) = (4 << 20, 128 << 10);
/// Stretches for each thread at least, so that none waits long for the last one.
const STRETCHES_A_THREAD: u64 = 8;
/// From this share of pages in the page cache on, reading through it beats the device.
const MOSTLY_CACHED: f64 = 0.5;

/// How bytes come from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Asked for: chosen for this machine and the state of the file. Of a method: pread(2) or a mapping, whichever is
    /// faster where the pass is.
    Auto,
    /// read(2).
    Read,
    /// pread(2).
    Pread,
    /// A mapping.
    Mmap,
    /// pread(2) with O_DIRECT.
    Direct,
    /// io_uring with O_DIRECT.
    Uring,
}

impl Engine {
    const NAMES: [&'static str; 6] = ["auto", "read", "pread", "mmap", "direct", "uring"];

    /// Whether it goes round the page cache.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Uring)
    }

    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// How a pass reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// How bytes come from the file.
    pub engine: Engine,
    /// Threads that read.
    pub threads: u64,
    /// Bytes asked for at once, or looked at in one go; with [`Engine::Auto`] those of a stretch.
    pub block: u64,
    /// Reads in flight in each thread; 1 but for io_uring.
    pub depth: u64,
}

/// What was asked for; 0 stands for "choose".
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The engine.
    pub engine: Engine,
    /// Threads.
    pub threads: u64,
    /// Bytes asked for at once.
    pub block: u64,
    /// Reads in flight in each thread.
    pub depth: u64,
    /// CPUs allowed to the probe.
    pub cpus: u64,
    /// Share of the file's pages that will be in the page cache when the pass begins, 0 to 1; `None` where the kernel
    /// does not report it.
    pub cached: Option<f64>,
}

impl Asked {
    /// The method for `source`: as asked, or chosen, with the reason.
    ///
    /// # Errors
    /// `Failure::Request` for a block size that cannot be, or for buffers that would take too much memory.
    pub fn method(self, source: &Source) -> Result<(Method, Option<String>), Failure> {
        if self.engine != Engine::Auto {
            return Ok((self.exactly()?, None));
        }
        let direct = direct::alignment(&source.file)
            .map_err(|error| Failure::system(&source.name, error))?
            .filter(|alignment| self.block % alignment.offset == 0);
        let method = match direct {
            // Where that is not known, the page cache serves either state.
            _ if self.cached.is_none_or(|share| share >= MOSTLY_CACHED) => {
                self.through_the_page_cache(source.length)
            }
            None => self.through_the_page_cache(source.length),
            Some(_) => self.past_the_page_cache(source.length),
        };
        let method = method.checked()?;
        let state = match self.cached {
            Some(share) => format!("{:.0} % of the file is in the page cache", 100.0 * share),
            None => {
                "the kernel does not report how much of the file is in the page cache".to_owned()
            }
        };
        Ok((method, Some(format!("{}: {state}", method.describe()))))
    }

    fn exactly(self) -> Result<Method, Failure> {
        let block = if self.engine.is_direct() {
            DIRECT_BLOCK
        } else {
            BLOCK
        };
        let method = Method {
            engine: self.engine,
            threads: self.threads_or(self.cpus),
            block: self.block_or(block),
            depth: if self.engine == Engine::Uring {
                self.depth
            } else {
                1
            },
        };
        method.checked()
    }

    /// The pages lie in memory, or must go through it: a mapping spares the copy, and copying the mapping.
    fn through_the_page_cache(self, length: u64) -> Method {
        let (greatest, least) = STRETCHES;
        let share = length / (self.cpus * STRETCHES_A_THREAD);
        Method {
            engine: Engine::Auto,
            threads: self.threads_or(self.cpus.min(length.div_ceil(least))),
            block: self.block_or(share.clamp(least, greatest) / least * least),
            depth: 1,
        }
    }

    /// The device works on several reads at a time, and memory is filled without a copy. A thread for each serves as
    /// well as io_uring, or better: on a virtual disk the same blocks in a ring of each CPU took 1.1 times as long.
    fn past_the_page_cache(self, length: u64) -> Method {
        let block = self.block_or(DIRECT_BLOCK);
        let threads = (READS_A_CPU * self.cpus).clamp(READS.0, READS.1);
        Method {
            engine: Engine::Direct,
            threads: self.threads_or(threads.min(most_threads(block)).min(length.div_ceil(block))),
            block,
            depth: 1,
        }
    }

    fn threads_or(self, chosen: u64) -> u64 {
        if self.threads == 0 {
            chosen
        } else {
            self.threads
        }
    }

    fn block_or(self, chosen: u64) -> u64 {
        if self.block == 0 { chosen } else { self.block }
    }
}

/// Threads, each with a block of memory, that there is memory for.
fn most_threads(block: u64) -> u64 {
    (MOST_BUFFERS / block).max(1)
}

impl Method {
    /// The method, if its buffers do not take too much memory.
    fn checked(self) -> Result<Self, Failure> {
        match self.buffers() {
            bytes if bytes > MOST_BUFFERS => Err(Failure::request(
                "block_size",
                format!(
                    "threads x reads in flight x bytes in a block is {} x {} x {} = {bytes} bytes of buffers; at most \
                     {MOST_BUFFERS} are allowed",
                    self.threads,
                    self.depth,
                    bytes / (self.threads * self.depth)
                ),
            )),
            _ => Ok(self),
        }
    }

    /// Bytes of anonymous memory for its buffers.
    pub fn buffers(&self) -> u64 {
        self.threads * self.buffer()
    }

    /// Bytes of anonymous memory for the buffers of a thread.
    pub fn buffer(&self) -> u64 {
        match self.engine {
            Engine::Mmap => 0,
            Engine::Auto => self
                .block
                .min(adaptive::BLOCK)
                .min(MOST_BUFFERS / self.threads),
            _ => self.depth * self.block,
        }
    }

    /// The method in words.
    fn describe(&self) -> String {
        let threads = if self.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        let pieces = match self.engine {
            Engine::Auto => "pread or a mapping for each stretch, as is faster, of",
            _ => "blocks of",
        };
        format!(
            "engine {}, {} {threads}, {pieces} {} bytes",
            self.engine.name(),
            self.threads,
            self.block
        )
    }
}
