//! Where workers wait until all of them are there, to start at the same moment.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;
use std::time::Duration;

use crate::futex;
use crate::shared_memory::Zeroable;

/// States of a [`StartBarrier`]; memory is all zeros at first.
const CLOSED: u32 = 0;
const OPEN: u32 = 1;
/// Closed for good: who waits goes home.
const SHUT: u32 = 2;

/// Looks at the barrier before somebody who waits on a CPU of its own lets others run.
pub(super) const SPIN_LIMIT: u32 = 20_000;
/// Time after which a sleeper looks again.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How one side waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It lets others run all the time: there may be more threads than CPUs.
    Yields,
    /// It runs, and lets others run after some 100 us: each side has a CPU of its own.
    Spins,
    /// It sleeps: both sides have one CPU. One that yields instead forgoes its share of the CPU for a while
    /// (sched_yield, kernel/sched/fair.c), and what follows would be scheduled otherwise than usual.
    Sleeps,
}

/// Where workers wait until it is opened.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StartBarrier {
    state: AtomicU32,
    arrived: AtomicU32,
}

// SAFETY: an atomic may be 0.
unsafe impl Zeroable for StartBarrier {}

impl StartBarrier {
    /// Arrives and waits. Returns whether the barrier was opened, and not shut.
    #[inline]
    pub fn pass(&self, waits: Waits) -> bool {
        self.arrived.fetch_add(1, Ordering::Release);
        if waits == Waits::Sleeps {
            futex::wake(&self.arrived);
        }
        let mut looks = 0;
        loop {
            match self.state.load(Ordering::Acquire) {
                CLOSED => {}
                state => return state == OPEN,
            }
            looks += 1;
            match waits {
                Waits::Spins if looks < SPIN_LIMIT => spin_loop(),
                Waits::Spins | Waits::Yields => yield_now(),
                Waits::Sleeps => drop(futex::wait(&self.state, CLOSED, LONGEST_SLEEP)),
            }
        }
    }

    /// Opens it; who waits by `waits` starts.
    #[inline(always)]
    pub fn open(&self, waits: Waits) {
        self.state.store(OPEN, Ordering::Release);
        if waits == Waits::Sleeps {
            futex::wake(&self.state);
        }
    }

    /// Shuts it; who waits goes home.
    pub fn shut(&self) {
        self.state.store(SHUT, Ordering::Release);
        futex::wake(&self.state);
    }

    /// Whether it was opened.
    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) == OPEN
    }

    /// Closes it for the next start. Nobody waits there.
    pub(super) fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.state.store(CLOSED, Ordering::Relaxed);
    }

    /// How many have arrived.
    #[inline]
    pub(super) fn arrived(&self) -> &AtomicU32 {
        &self.arrived
    }
}
