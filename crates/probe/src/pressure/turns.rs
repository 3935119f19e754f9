//! Turns of the competitor and what is measured: one moves only while the other waits, so that the order of all
//! accesses to memory, and with it what the kernel counts, does not depend on who was given the processor when.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oscope_sys::error::Failure;
use oscope_sys::futex;
use oscope_sys::shared_memory::Shared;
use oscope_sys::worker::POLL_INTERVAL;

/// The competitor moves.
const COMPETITOR: u32 = 0;
/// What is measured moves.
const MEASURED: u32 = 1;
/// Sleep before each turn, in which the kernel's own threads end what reclaim had them begin, such as writing pages of
/// a file.
const REST: Duration = Duration::from_micros(50);

/// In each of the two processes: its sleeps end when they are to.
static SHARP: Once = Once::new();

/// Whose turn it is, as the parent and both its children see it. The competitor has the first.
#[derive(Debug)]
pub struct Turns {
    whose: Shared<AtomicU32>,
    /// Steps of the competitor in a turn, the first excepted.
    pub steps: u64,
}

impl Turns {
    /// With so many steps in a turn.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is no memory to share.
    pub fn of(steps: u64) -> Result<Self, Failure> {
        Ok(Self {
            // All zeros: the competitor's turn.
            whose: Shared::zeroed()?,
            steps,
        })
    }

    /// In the competitor: end the turn, and wait for the next.
    pub fn end(&self) {
        self.pass(COMPETITOR, MEASURED);
    }

    /// In what is measured: let the competitor have its turn, and wait for the end of it.
    pub fn give(&self) {
        self.pass(MEASURED, COMPETITOR);
    }

    /// Whether the competitor's turn is over.
    pub fn is_over(&self) -> bool {
        self.whose.load(Ordering::Acquire) == MEASURED
    }

    fn pass(&self, own: u32, other: u32) {
        // Else a sleep takes up to 50 µs longer (prctl(2), PR_SET_TIMERSLACK), and is as long as the kernel likes.
        SHARP.call_once(|| {
            let _ = nix::sys::prctl::set_timerslack(1);
        });
        std::thread::sleep(REST);
        self.whose.store(other, Ordering::Release);
        futex::wake(&self.whose);
        while self.whose.load(Ordering::Acquire) != own {
            let _ = futex::wait(&self.whose, other, POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use oscope_sys::worker::Child;

    #[test]
    fn one_moves_only_while_the_other_waits() {
        let turns = Turns::of(3).expect("there is memory");
        let moved: Shared<AtomicU64> = Shared::zeroed().expect("there is memory");
        let child = Child::fork(|| {
            loop {
                for _ in 0..turns.steps {
                    moved.fetch_add(1, Ordering::Relaxed);
                }
                turns.end();
            }
        })
        .expect("a process can be made");
        while !turns.is_over() {
            std::thread::yield_now();
        }
        for turn in 1..100 {
            assert_eq!(moved.load(Ordering::Relaxed), 3 * turn);
            turns.give();
        }
        drop(child);
    }
}
