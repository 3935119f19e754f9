//! The worker at the other end of a channel: made before the clock starts, kept for a whole request, it does one job
//! after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::barrier::{LONGEST_SLEEP, SPIN_LIMIT, StartBarrier, Waits};
use super::handle::{Kind, WorkerHandle};
use super::slot::{FULL, Slot};
use crate::error::Failure;
use crate::serialized_error::SerializedError;
use crate::shared_memory::{Shared, Zeroable};
use crate::{affinity, cancel, futex};

/// Time between two looks of the calling thread, once it has looked for long.
const PAUSE: Duration = Duration::from_micros(50);
/// Time that a process has for dying by itself, once its end of the channel is closed.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

/// Somebody who does jobs `J`, each with a result `R`, at the same time as the calling thread does its own share with
/// its end `E` of the channel.
///
/// Jobs and results lie in shared memory: they must hold no reference to what only one process has. Dropping it closes
/// the channel's end, then ends the process and reaps it, or joins the thread.
pub struct PeerWorker<E, J, R> {
    /// Gone once a share was given up.
    end: Option<E>,
    shared: Arc<Shared<SharedSlot<J, R>>>,
    worker: WorkerHandle,
    waits: Waits,
    /// Why it is of no use any more.
    broken: Option<Failure>,
}

/// Where a worker stays.
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    /// The CPU to stay on; `None`: every CPU of the calling thread.
    pub cpu: Option<usize>,
    /// How both sides wait for each other.
    pub waits: Waits,
}

/// What both sides share, on cache lines of its own.
#[repr(C, align(128))]
struct SharedSlot<J, R> {
    barrier: StartBarrier,
    job: Slot<J>,
    result: Slot<R>,
    /// Whether the worker could be kept on its CPU.
    seat: Slot<Result<(), SerializedError>>,
}

// SAFETY: each part may be zeros.
unsafe impl<J, R> Zeroable for SharedSlot<J, R> {}

/// In the worker: the barrier at which it waits before it does its job.
pub struct Arrival<'a> {
    barrier: &'a StartBarrier,
    waits: Waits,
}

impl Arrival<'_> {
    /// Waits until the calling side starts. Returns false if it never will: the worker is to go home.
    #[inline]
    pub fn wait(&self) -> bool {
        self.barrier.pass(self.waits)
    }
}

/// In the calling thread: what starts the worker.
pub struct Opener<'a> {
    barrier: &'a StartBarrier,
    waits: Waits,
}

impl Opener<'_> {
    /// Has the worker start. One that sleeps is woken.
    #[inline(always)]
    pub fn open(&self) {
        self.barrier.open(self.waits);
    }
}

impl<E, J, R> PeerWorker<E, J, R>
where
    J: Copy + Send + 'static,
    R: Copy + Send + 'static,
{
    /// Makes a worker whose jobs are done by `work`, which waits at the barrier at the right moment and gives `None` if
    /// that was not opened. `end` then makes the calling side's end of the channel, for the worker's process, if it is
    /// one. In a process, `work` must not print, and what it allocates is its own.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a limit forbids one more thread or process, `Failure::Failed` where it cannot be
    /// kept on its CPU; what `end` gave.
    pub fn spawn(
        kind: Kind,
        seat: Seat,
        end: impl FnOnce(Option<Pid>) -> Result<E, Failure>,
        work: impl FnMut(J, Arrival) -> Option<R> + Send + 'static,
    ) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::zeroed()?);
        let seen = Arc::clone(&shared);
        let mut peer = Self {
            end: None,
            worker: WorkerHandle::start(kind, move || live(&seen, seat, work))?,
            shared: Arc::clone(&shared),
            waits: seat.waits,
            broken: None,
        };
        peer.wait_for(shared.seat.state(), FULL)?;
        let seated = shared.seat.take();
        seated.map_or(Ok(()), |seated| seated.map_err(|error| error.failure()))?;
        peer.end = Some(end(peer.process())?);
        Ok(peer)
    }

    /// The worker's process, if it is one.
    pub fn process(&self) -> Option<Pid> {
        match &self.worker {
            WorkerHandle::Process(child) => Some(child.process()),
            WorkerHandle::Thread(_) => None,
        }
    }

    /// The calling side's end of the channel; `None` once a share was given up.
    pub fn end(&mut self) -> Option<&mut E> {
        self.end.as_mut()
    }

    /// Has the worker do `job` and the calling thread `own`, both from the moment at which `own` opens the barrier,
    /// where the worker is by then. A share that is given up (`Err`) closes the channel's end, so that the worker does
    /// not wait for it for ever; this is of no use any more then.
    ///
    /// # Errors
    /// How the worker died, if it did; else what `own` gave; `Failure::Failed` after a signal.
    pub fn run_both<T>(
        &mut self,
        job: J,
        own: impl FnOnce(&mut E, Opener) -> Result<T, Failure>,
    ) -> Result<(T, R), Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        let done = self.try_run_both(job, own);
        if let Err(failure) = &done {
            self.broken = Some(failure.clone());
        }
        done
    }

    fn try_run_both<T>(
        &mut self,
        job: J,
        own: impl FnOnce(&mut E, Opener) -> Result<T, Failure>,
    ) -> Result<(T, R), Failure> {
        let shared = Arc::clone(&self.shared);
        shared.barrier.reset();
        shared.job.put(job);
        shared.job.wake();
        self.wait_for(shared.barrier.arrived(), 1)?;
        let opener = Opener {
            barrier: &shared.barrier,
            waits: self.waits,
        };
        let end = self.end.as_mut();
        let end = end.ok_or_else(|| Failure::failed("this side has no end of the channel"))?;
        let own = match own(end, opener) {
            Ok(own) if shared.barrier.is_open() => own,
            Ok(_) => return Err(Failure::failed("the other side was not started")),
            Err(failure) => {
                self.end = None;
                return Err(self.cause(failure));
            }
        };
        self.wait_for(shared.result.state(), FULL)?;
        let other = shared.result.take();
        let other = other.ok_or_else(|| Failure::failed("the other side left no result"))?;
        Ok((own, other))
    }

    /// The result of a job that a failed measurement left behind, if it ended.
    pub fn left_behind(&self) -> Option<R> {
        self.shared.result.get()
    }

    /// Waits until `word`, of the shared slot, is `wanted`, or the worker has died.
    fn wait_for(&mut self, word: &AtomicU32, wanted: u32) -> Result<(), Failure> {
        let mut looks = 0;
        loop {
            let found = word.load(Ordering::Acquire);
            if found == wanted {
                return Ok(());
            }
            looks += 1;
            if self.waits == Waits::Sleeps {
                self.check(word, wanted)?;
                let _ = futex::wait(word, found, LONGEST_SLEEP);
            } else if looks < SPIN_LIMIT {
                std::hint::spin_loop();
            } else {
                self.check(word, wanted)?;
                thread::sleep(PAUSE);
            }
        }
    }

    /// Whether waiting for the worker has a meaning.
    fn check(&mut self, word: &AtomicU32, wanted: u32) -> Result<(), Failure> {
        if cancel::requested() {
            return Err(Failure::failed("interrupted by a signal"));
        }
        match self.worker.death()? {
            // What it did before it went counts first.
            Some(_) if word.load(Ordering::Acquire) == wanted => Ok(()),
            Some(death) => Err(Failure::failed(death)),
            None => Ok(()),
        }
    }

    /// Why the own share was given up: if the worker has died, that is why.
    fn cause(&mut self, failure: Failure) -> Failure {
        let latest = Instant::now() + LAST_MOMENTS;
        while Instant::now() < latest && !cancel::requested() && !self.shared.result.is_full() {
            match self.worker.death() {
                Ok(None) => thread::sleep(PAUSE),
                Ok(Some(death)) => return Failure::failed(death),
                Err(failure) => return failure,
            }
        }
        failure
    }
}

impl<E, J, R> Drop for PeerWorker<E, J, R> {
    fn drop(&mut self) {
        // First, since a thread may wait for this side, and would never be joined.
        drop(self.end.take());
        // A process ends with its value.
        if let WorkerHandle::Thread(thread) = &mut self.worker {
            self.shared.job.close();
            futex::wake(self.shared.job.state());
            self.shared.barrier.shut();
            // A panic of the thread has been reported already, by its message and as the death of the worker.
            thread.take().map(JoinHandle::join);
        }
    }
}

/// The worker's life: one job after the other until it is dismissed.
fn live<J: Copy + Send, R: Copy + Send>(
    shared: &SharedSlot<J, R>,
    seat: Seat,
    mut work: impl FnMut(J, Arrival) -> Option<R>,
) {
    let wake = |word| {
        if seat.waits == Waits::Sleeps {
            futex::wake(word);
        }
    };
    let seated = seat.cpu.map_or(Ok(()), affinity::pin);
    shared
        .seat
        .put(seated.map_err(|failure| SerializedError::of(&failure)));
    wake(shared.seat.state());
    loop {
        let seen = shared.job.state().load(Ordering::Acquire);
        if let Some(job) = shared.job.take() {
            let arrival = Arrival {
                barrier: &shared.barrier,
                waits: seat.waits,
            };
            let Some(result) = work(job, arrival) else {
                return;
            };
            shared.result.put(result);
            wake(shared.result.state());
        } else if shared.job.is_closed() {
            return;
        } else {
            let _ = futex::wait(shared.job.state(), seen, LONGEST_SLEEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn seat() -> Seat {
        Seat {
            cpu: None,
            waits: Waits::Spins,
        }
    }

    fn doubles(number: u64, arrival: Arrival) -> Option<u64> {
        arrival.wait().then_some(2 * number)
    }

    fn start(_end: &mut (), opener: Opener) -> Result<(), Failure> {
        opener.open();
        Ok(())
    }

    #[test]
    fn a_thread_and_a_process_do_job_after_job_however_they_wait() {
        for kind in [Kind::Thread, Kind::Process] {
            for waits in [Waits::Spins, Waits::Yields, Waits::Sleeps] {
                let seat = Seat { cpu: None, waits };
                let mut peer =
                    PeerWorker::spawn(kind, seat, |_| Ok(()), doubles).expect("a worker");
                for number in [1, 20, 300] {
                    assert_eq!(peer.run_both(number, start), Ok(((), 2 * number)));
                }
            }
        }
    }

    /// The owner need not know of any order: the thread waits for its end of the channel, and would do so for ever.
    #[test]
    fn a_thread_that_waits_for_the_calling_side_sees_the_end_when_the_worker_is_dropped() {
        let (ask, asked) = channel::<u8>();
        let (seen, hung_up) = channel();
        let work = move |(): (), arrival: Arrival| {
            let open = arrival.wait();
            let ended = asked.recv().is_err();
            seen.send(ended).expect("the test listens");
            open.then_some(())
        };
        let mut peer =
            PeerWorker::spawn(Kind::Thread, seat(), |_| Ok(ask), work).expect("a worker");
        peer.shared.job.put(());
        peer.shared.job.wake();
        while peer.shared.barrier.arrived().load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        peer.shared.barrier.open(Waits::Spins);
        assert!(peer.end().is_some());
        drop(peer);
        assert_eq!(hung_up.recv(), Ok(true));
    }

    #[test]
    fn a_share_that_is_given_up_closes_the_channel() {
        let (ask, asked) = channel::<u8>();
        let work = move |(): (), arrival: Arrival| {
            let open = arrival.wait();
            open.then(|| asked.recv().is_err())
        };
        let mut peer =
            PeerWorker::spawn(Kind::Thread, seat(), |_| Ok(ask), work).expect("a worker");
        let give_up = |_: &mut Sender<u8>, opener: Opener| -> Result<(), Failure> {
            opener.open();
            Err(Failure::failed("no more"))
        };
        assert_eq!(peer.run_both((), give_up), Err(Failure::failed("no more")));
        assert_eq!(peer.left_behind(), Some(true));
        assert_eq!(peer.run_both((), give_up), Err(Failure::failed("no more")));
    }

    #[test]
    fn the_death_of_a_process_is_an_error_that_says_how() {
        let dies = |(): (), arrival: Arrival| {
            arrival.wait();
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
            Some(())
        };
        let mut peer =
            PeerWorker::spawn(Kind::Process, seat(), |_| Ok(()), dies).expect("a worker");
        let failure = peer
            .run_both((), start)
            .expect_err("it is dead")
            .to_string();
        assert!(failure.contains("killed by SIGKILL"), "{failure}");
    }

    #[test]
    fn a_worker_that_is_never_started_goes_home_and_one_without_its_cpu_is_an_error() {
        let mut peer =
            PeerWorker::spawn(Kind::Thread, seat(), |_| Ok(()), doubles).expect("a worker");
        assert!(peer.run_both(1, |_, _| Ok(())).is_err());
        drop(peer);
        for kind in [Kind::Thread, Kind::Process] {
            let seat = Seat {
                cpu: Some(9999),
                ..seat()
            };
            assert!(PeerWorker::spawn(kind, seat, |_| Ok(()), doubles).is_err());
        }
    }
}
