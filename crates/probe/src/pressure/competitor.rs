//! The competitor: a process that touches pages of a large mapping at random, as `compete_for_memory` of CS380L lab 2
//! does (docs/sources.md).

use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use super::kills::{Kills, OomScoreAdj};
use super::turns::Turns;
use super::xorshift::Xorshift;
use oscope_sys::affinity;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::mapping::mapped_by;
use oscope_sys::worker::{Child, Listener, Notice, Notifier, describe_exit, notify_pipe};

/// Longest wait for a stable resident set.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between two looks at the resident set.
const LOOK: Duration = Duration::from_secs(1);
/// Longest sleep between two looks at whether a signal came.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// One step in this many writes, as in the original report's code.
const WRITES: usize = 8;
/// Steps for each page before what is measured starts, where its steps are counted: all but one in 50 pages are then
/// written, not only read.
const FIRST_STEPS: u64 = 32;

/// The process. It ends with this one, or when dropped, and is reaped.
#[derive(Debug)]
pub struct Competitor {
    child: Child,
    /// Where the memory lies that it competes for.
    start: u64,
    bytes: u64,
    /// What it waits for until it may start.
    gate: Option<Notifier>,
}

impl Competitor {
    /// Fork a competitor for `bytes` of memory, which waits to be started. It runs on `cpus`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is no room for it or no child can be made.
    pub fn fork(bytes: u64, cpus: &[usize], turns: Option<&Turns>) -> Result<Self, Failure> {
        let (gate, opener) = notify_pipe()?;
        let memory = Reserved::new(bytes)?;
        let child = Child::fork(|| wait_and_compete(&gate, &memory, turns))?;
        affinity::place(child.process(), cpus)?;
        // Rather this than somebody's work.
        OomScoreAdj::First.mark(child.process())?;
        Ok(Self {
            child,
            start: memory.address.as_ptr() as u64,
            bytes,
            gate: Some(opener),
        })
    }

    /// Its number.
    pub fn process(&self) -> Pid {
        self.child.process()
    }

    /// Let it start.
    ///
    /// # Errors
    /// `Failure::Failed` if it is gone.
    pub fn start(&mut self) -> Result<(), Failure> {
        let gate = self.gate.take();
        let gate = gate.ok_or_else(|| Failure::failed("the competitor was started before"))?;
        gate.notify()
            .map_err(|error| Failure::system("starting the competitor", error))
    }

    /// Wait at least `wait`, and then until its resident set moves by less than a hundredth in a second. Its size in
    /// KiB, and whether it had come to rest within the time there is for it.
    ///
    /// # Errors
    /// `Failure::Failed` if a signal came, or it ended.
    pub fn settle(&mut self, wait: Duration, kills: &Since) -> Result<(u64, bool), Failure> {
        let started = Instant::now();
        let mut before = self.resident_kib()?;
        loop {
            let now = self.look_later(kills)?;
            let at_rest = now > 0 && now.abs_diff(before) * 100 < now;
            if started.elapsed() >= wait && (at_rest || started.elapsed() >= LIMIT.max(wait)) {
                return Ok((now, at_rest));
            }
            before = now;
        }
    }

    /// Wait for the end of its first turn. Its size then, in KiB.
    ///
    /// # Errors
    /// As [`Competitor::settle`], or if it takes longer than the limit.
    pub fn wait_for(&mut self, turns: &Turns, kills: &Since) -> Result<u64, Failure> {
        let started = Instant::now();
        while !turns.is_over() {
            if started.elapsed() >= LIMIT {
                return Err(Failure::failed(format!(
                    "the competitor's first turn takes more than {} s: choose less memory, or swap=zram",
                    LIMIT.as_secs()
                )));
            }
            self.look(kills)?;
        }
        self.resident_kib()
    }

    /// Its resident set in a second, in KiB.
    fn look_later(&mut self, kills: &Since) -> Result<u64, Failure> {
        let latest = Instant::now() + LOOK;
        while Instant::now() < latest {
            self.look(kills)?;
        }
        self.resident_kib()
    }

    /// See that going on has a meaning, and let some time go by.
    fn look(&mut self, kills: &Since) -> Result<(), Failure> {
        if cancel::requested() {
            return Err(Failure::failed(
                "interrupted while the competitor took its memory",
            ));
        }
        self.check(kills)?;
        std::thread::sleep(POLL_INTERVAL);
        Ok(())
    }

    /// Resident memory that it competes for, in KiB: what it inherited is its parent's.
    fn resident_kib(&self) -> Result<u64, Failure> {
        let mapped = mapped_by(self.process(), self.start, self.bytes)?;
        Ok(mapped.resident_bytes / 1024)
    }

    /// Make sure that it still competes.
    ///
    /// # Errors
    /// `Failure::Failed` that says how it ended.
    pub fn check(&mut self, kills: &Since) -> Result<(), Failure> {
        match self.child.ended()? {
            None => Ok(()),
            Some(WaitStatus::Signaled(_, Signal::SIGKILL, _)) if kills.count()? > 0 => {
                Err(Failure::failed(
                    "the kernel killed the competitor for want of memory: choose more with --set swap_size=SIZE or \
                     --set limit=SIZE",
                ))
            }
            Some(status) => Err(Failure::failed(format!(
                "{}, which was not for want of memory",
                describe_exit("the competitor", status)
            ))),
        }
    }
}

/// A counter of kills, and what it said at first.
#[derive(Debug)]
pub struct Since {
    kills: Kills,
    before: u64,
}

impl Since {
    /// From now on.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn now(kills: Kills) -> Result<Self, Failure> {
        let before = kills.count()?;
        Ok(Self { kills, before })
    }

    /// How many since.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn count(&self) -> Result<u64, Failure> {
        Ok(self.kills.count()? - self.before)
    }
}

/// Memory that nothing is set aside for (MAP_NORESERVE), in pages that are made when they are touched.
struct Reserved {
    address: NonNull<u8>,
    bytes: usize,
}

impl Reserved {
    fn new(bytes: u64) -> Result<Self, Failure> {
        let bytes = bytes as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_NORESERVE | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of no particular address disturbs no other.
        let address = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(Failure::unavailable_system(
                &format!("the competitor cannot map {bytes} B"),
                std::io::Error::last_os_error(),
                "choose less with --set limit=SIZE, raise ulimit -v, or as root: sysctl vm.overcommit_memory=0",
            ));
        }
        let address = NonNull::new(address.cast());
        let address = address.ok_or_else(|| Failure::failed("mmap gave address 0"))?;
        Ok(Self { address, bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing refers to it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// In the child: wait for the gate, compete.
fn wait_and_compete(gate: &Listener, memory: &Reserved, turns: Option<&Turns>) {
    if gate.wait() != Notice::Given {
        return;
    }
    let mut steps = Steps::over(memory);
    let Some(turns) = turns else {
        loop {
            steps.take();
        }
    };
    for _ in 0..FIRST_STEPS * steps.pages as u64 {
        steps.take();
    }
    loop {
        turns.end();
        for _ in 0..turns.steps {
            steps.take();
        }
    }
}

/// `compete_for_memory` of CS380L lab 2: a page at random is read at each step, and written at every eighth. The sum
/// keeps the reads.
struct Steps<'a> {
    memory: &'a Reserved,
    page: usize,
    pages: usize,
    random: Xorshift,
    step: usize,
    sum: u8,
}

impl<'a> Steps<'a> {
    fn over(memory: &'a Reserved) -> Self {
        let page = page_bytes() as usize;
        Self {
            memory,
            page,
            pages: memory.bytes / page,
            random: Xorshift::new(),
            step: 0,
            sum: 0,
        }
    }

    #[inline(always)]
    fn take(&mut self) {
        let number = self.random.draw() as usize % self.pages;
        if self.step >= self.pages {
            self.step = 0;
        }
        // SAFETY: the page lies within the mapping, which is readable and writable, and this process has one thread.
        unsafe {
            let place = self.memory.address.as_ptr().add(number * self.page);
            self.sum = self.sum.wrapping_add(place.read_volatile());
            if self.step % WRITES == 0 {
                place.write_volatile(1);
            }
        }
        std::hint::black_box(self.sum);
        self.step += 1;
    }
}
