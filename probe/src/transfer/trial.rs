//! Which of several methods costs least here: each moves segments in turns, and the cheapest goes on.
//!
//! What counts is the CPU time of the moving thread. Both sides try at once, and the wall time of one is mostly the other's: a sender that
//! waits for the receiver would judge the receiver's method of the moment.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Files of at least so many bytes are worth a trial.
pub const WORTH: u64 = 256 << 20;

/// Segments that each method moves.
const TURNS: usize = 2;

/// A trial under way, or its outcome.
#[derive(Debug)]
pub struct Trial {
    costs: Vec<Duration>,
    turn: usize,
    chosen: Option<usize>,
}

impl Trial {
    /// A trial among so many methods.
    pub fn among(methods: usize) -> Self {
        Self {
            costs: vec![Duration::ZERO; methods],
            turn: 0,
            chosen: (methods == 1).then_some(0),
        }
    }

    /// The method that is to move the next segment.
    pub fn current(&self) -> usize {
        self.chosen.unwrap_or(self.turn % self.costs.len())
    }

    /// The method to go on with, once it is known.
    pub fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    /// A whole segment was moved at this cost: the choice, if this was the last that it takes.
    pub fn record(&mut self, cost: Duration) -> Option<usize> {
        if self.chosen.is_some() {
            return None;
        }
        let current = self.current();
        self.costs[current] += cost;
        self.turn += 1;
        if self.turn == self.costs.len() * TURNS {
            self.chosen = (0..self.costs.len()).min_by_key(|&method| self.costs[method]);
        }
        self.chosen
    }
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
