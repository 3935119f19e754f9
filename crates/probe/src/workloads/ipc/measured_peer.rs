//! The other side: a worker whose jobs are measured, together with the calling thread's share of them.

use nix::unistd::Pid;

use super::placement::Seats;
use super::usage::Usage;
use crate::region::{Mark, Region};
use oscope_sys::error::Failure;
use oscope_sys::serialized_error::SerializedError;
pub use oscope_sys::worker::Kind;
use oscope_sys::worker::{Arrival, PeerWorker};

/// A worker that does jobs `J`, each with a result `R`, while the calling thread does its own share with its end `E` of
/// the channel.
pub struct MeasuredPeer<E, J, R>(PeerWorker<E, (Mark, J), Done<R>>);

/// A result, and what the worker used for it.
type Done<R> = Result<(R, Usage), SerializedError>;

/// What both sides did in one measurement.
#[derive(Debug, Clone, Copy)]
pub struct BothResults<T, R> {
    /// What the calling thread's share gave.
    pub own: T,
    /// What the worker's job gave.
    pub other: R,
    /// What the calling thread used.
    pub own_usage: Usage,
    /// What the worker used.
    pub other_usage: Usage,
}

impl<E, J, R> MeasuredPeer<E, J, R>
where
    J: Copy + Send + 'static,
    R: Copy + Send + 'static,
{
    /// Makes a worker for the other seat whose jobs are done by `work`, and then the calling side's `end` of the
    /// channel, for the worker's process, if it is one.
    ///
    /// # Errors
    /// As [`PeerWorker::spawn`].
    pub fn spawn(
        kind: Kind,
        seats: &Seats,
        end: impl FnOnce(Option<Pid>) -> Result<E, Failure>,
        mut work: impl FnMut(J) -> R + Send + 'static,
    ) -> Result<Self, Failure> {
        // A tracer knows the threads of the calling process without.
        let marks = kind == Kind::Process;
        let measured = move |(mark, job): (Mark, J), arrival: Arrival| {
            if marks {
                mark.begin();
            }
            let open = arrival.wait();
            let before = Usage::now();
            let result = open.then(|| work(job));
            let after = Usage::now();
            if marks {
                mark.end();
            }
            let result = result?;
            let used = before.and_then(|before| Ok((result, after?.since(before))));
            Some(used.map_err(|failure| SerializedError::of(&failure)))
        };
        PeerWorker::spawn(kind, seats.peer, end, measured).map(Self)
    }

    /// The worker's process, if it is one.
    #[cfg(test)]
    pub fn process(&self) -> Option<Pid> {
        self.0.process()
    }

    /// The calling side's end of the channel; `None` once a share was given up.
    pub fn end(&mut self) -> Option<&mut E> {
        self.0.end()
    }

    /// Has the worker do `job` and the calling thread `own`, both from the same moment; the region lasts until `own`
    /// has ended.
    ///
    /// The worker stands at the barrier, running, when the clock starts, and its process has passed the region's mark.
    /// Where both share a CPU it sleeps there, and is woken within the clock. The worker's usage is taken past the
    /// barrier (about 1 us), the calling thread's just outside the clock.
    ///
    /// # Errors
    /// As [`PeerWorker::together`].
    pub fn measure<T>(
        &mut self,
        region: &mut Region,
        job: J,
        own: impl FnOnce(&mut E) -> Result<T, Failure>,
    ) -> Result<BothResults<T, R>, Failure> {
        let mark = region.mark();
        let done = self.0.run_both((mark, job), |end, opener| {
            let before = Usage::now()?;
            let given = region.measure(|| {
                opener.open();
                own(end)
            });
            let own_usage = Usage::now()?.since(before);
            given.map(|own| (own, own_usage))
        });
        let ((own, own_usage), other) = done?;
        let (other, other_usage) = other.map_err(|error| error.failure())?;
        Ok(BothResults {
            own,
            other,
            own_usage,
            other_usage,
        })
    }

    /// The result of a job that a failed measurement left behind, if it ended.
    pub fn left_behind(&self) -> Option<R> {
        self.0.left_behind()?.ok().map(|(result, _)| result)
    }
}
