//! By which of several methods a side moves contents: segments of the methods are interleaved, and the one that costs
//! least here does the rest.
//!
//! What counts is the CPU time of the moving thread. Both sides try at once, and the wall time of one is mostly the
//! other's: a sender that waits for the receiver would judge the receiver's method of the moment.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A trial pays for files of at least so many bytes.
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

/// The methods of one side that are made ready, and the trial among them.
pub struct Methods<M, S: ?Sized> {
    candidates: Vec<M>,
    ready: Vec<(M, Box<S>)>,
    trial: Trial,
}

impl<M: Copy, S: ?Sized> Methods<M, S> {
    /// What may move contents: several are tried where there is much to move, and else the first is taken. None is
    /// ready yet.
    pub fn among(candidates: Vec<M>) -> Self {
        Self {
            candidates,
            ready: Vec::new(),
            trial: Trial::among(1),
        }
    }

    /// Make ready what is to move so many bytes; what this machine cannot do is not tried.
    ///
    /// # Errors
    /// It can do none of them: the last method, and the `io::Error` that it failed with.
    pub fn choose(
        &mut self,
        bytes: u64,
        mut make: impl FnMut(M) -> io::Result<Box<S>>,
    ) -> Result<(), (M, io::Error)> {
        let wanted = match bytes >= WORTH {
            true => self.candidates.len(),
            false => 1,
        };
        // The method chosen once continues, for smaller files too.
        if self.ready.len() >= wanted {
            return Ok(());
        }
        self.ready.clear();
        let mut trouble = None;
        for &method in &self.candidates[..wanted] {
            match make(method) {
                Ok(step) => self.ready.push((method, step)),
                Err(error) => trouble = Some((method, error)),
            }
        }
        self.trial = Trial::among(self.ready.len());
        match trouble {
            Some(trouble) if self.ready.is_empty() => Err(trouble),
            _ => Ok(()),
        }
    }

    /// The method that is to move the next segment.
    pub fn current(&mut self) -> (M, &mut S) {
        let (method, step) = &mut self.ready[self.trial.current()];
        (*method, step)
    }

    /// A whole segment was moved at this cost: the method to resume, if that is known now.
    pub fn record(&mut self, cost: Duration) -> Option<M> {
        self.trial.record(cost).map(|chosen| self.ready[chosen].0)
    }

    /// All that are ready.
    pub fn ready(&mut self) -> impl Iterator<Item = &mut S> {
        self.ready.iter_mut().map(|(_, step)| &mut **step)
    }
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
