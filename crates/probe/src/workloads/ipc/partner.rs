//! The other side: a thread or a process made before the clock starts, kept for the whole request, that does one job after the other.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::placement::Seats;
use super::usage::Usage;
use crate::region::{Mark, Region};
use oscope_sys::affinity;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::futex;
use oscope_sys::process::{Child, WorkerHandle, refused};
use oscope_sys::shared_memory::Shared;

/// What a partner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A thread of this process.
    Thread,
    /// A forked process, which the kernel kills at the end of the thread that made it.
    Process,
}

/// Somebody who does jobs `J`, each with a result `R`, at the same time as the calling thread does its own share.
///
/// Both lie in shared memory: they must hold no reference to what only one process has. Dropping it ends the process and reaps it, or joins the
/// thread, which must not be left waiting for the calling side then: drop the channel's own end first.
pub struct PeerWorker<J, R> {
    board: Arc<Shared<SharedSlot<J, R>>>,
    being: WorkerHandle,
    crowded: bool,
    /// Why it is of no use any more.
    broken: Option<Failure>,
}

/// What both sides did in one measurement.
#[derive(Debug, Clone, Copy)]
pub struct Together<T, R> {
    /// What the calling thread's share gave.
    pub own: T,
    /// What the partner's job gave.
    pub other: R,
    /// What the calling thread used.
    pub own_usage: Usage,
    /// What the partner used.
    pub other_usage: Usage,
}

/// Where jobs and results are handed over. `state` says whose turn it is to touch the rest.
#[repr(C, align(128))]
struct SharedSlot<J, R> {
    state: AtomicU32,
    job: UnsafeCell<MaybeUninit<(Mark, J)>>,
    result: UnsafeCell<MaybeUninit<(R, Usage)>>,
}

/// The partner is at its seat and has nothing to do; until it is there, the board is all zeros.
const IDLE: u32 = 1;
/// There is a job.
const CALLED: u32 = 2;
/// The partner is at the gate: running, or asleep where both sides share a CPU.
const READY: u32 = 3;
/// The gate is open.
const OPEN: u32 = 4;
/// The result is there.
const DONE: u32 = 5;
/// The partner is to go home.
const DISMISSED: u32 = 6;
/// The partner could not do what is asked of every partner, and has gone home.
const LOST: u32 = 7;

/// Looks at the board before somebody who waits on a CPU of its own lets others run.
const SPIN_LIMIT: u32 = 20_000;
/// Time between two looks of the calling thread, from then on.
const PAUSE: Duration = Duration::from_micros(50);
/// Time after which a partner without a job looks again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a process has for dying by itself, once its end of the channel is closed.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

impl<J, R> SharedSlot<J, R> {
    /// Go on to this state, and wake the other side if it sleeps meanwhile.
    ///
    /// Where both share a CPU they sleep: one that yields instead forgoes its share of the CPU for a while (sched_yield, kernel/sched/fair.c),
    /// and the transfer that follows would be scheduled otherwise than any other.
    fn set_state(&self, state: u32, sleeps: bool) {
        self.state.store(state, Ordering::Release);
        if sleeps {
            futex::wake(&self.state);
        }
    }

    /// As `set_state`, unless the state is another by now; whether it was this one.
    fn set_state_if(&self, before: u32, state: u32, sleeps: bool) -> bool {
        let changed =
            self.state
                .compare_exchange(before, state, Ordering::AcqRel, Ordering::Acquire);
        if sleeps {
            futex::wake(&self.state);
        }
        changed.is_ok()
    }
}

// SAFETY: job and result are touched by one side at a time, which the state says; it is handed over by Release and Acquire.
unsafe impl<J: Send, R: Send> Sync for SharedSlot<J, R> {}

impl<J, R> PeerWorker<J, R>
where
    J: Copy + Send + 'static,
    R: Copy + Send + 'static,
{
    /// Make a partner for the other seat whose jobs are done by `work`. Of a process, this side's copy of `work` is dropped, with the descriptors
    /// that it owns. In a process, `work` must not print, and what it allocates is its own.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a limit forbids one more thread or process, `Failure::Failed` where the kernel refuses something else.
    pub fn spawn(
        kind: Kind,
        seats: &Seats,
        work: impl FnMut(J) -> R + Send + 'static,
    ) -> Result<Self, Failure> {
        // SAFETY: an atomic may be 0, and memory that may be uninitialised may be zeros.
        let board = Arc::new(unsafe { Shared::zeroed() }?);
        let being = match kind {
            Kind::Thread => thread(Arc::clone(&board), seats, work)?,
            Kind::Process => process(&board, seats, work)?,
        };
        let mut partner = Self {
            board,
            being,
            crowded: seats.crowded,
            broken: None,
        };
        // It has reached its seat once it is idle.
        partner.wait_for(IDLE)?;
        Ok(partner)
    }

    /// The partner's process, if it is one.
    pub fn process(&self) -> Option<Pid> {
        match &self.being {
            WorkerHandle::Process(child) => Some(child.process()),
            WorkerHandle::Thread(_) => None,
        }
    }

    /// Have the partner do `job` and the calling thread `own`, both from the same moment; the region lasts until `own` has ended.
    ///
    /// The partner stands at the gate, running, when the clock starts, and its process has passed the region's mark. Where both share a CPU it sleeps
    /// there, and is woken within the clock. The partner's usage is taken
    /// past the gate (about 1 us), the calling thread's just outside the clock. A share that is given up (`Err`) must hang up, so that the partner does not wait for it for ever.
    ///
    /// # Errors
    /// How the partner died, if it did; else what `own` gave; `Failure::Failed` after a signal.
    pub fn measure<T>(
        &mut self,
        region: &mut Region,
        job: J,
        own: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Together<T, R>, Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        let measured = self.try_measure(region, job, own);
        if let Err(failure) = &measured {
            self.broken = Some(failure.clone());
        }
        measured
    }

    fn try_measure<T>(
        &mut self,
        region: &mut Region,
        job: J,
        own: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Together<T, R>, Failure> {
        let board = Arc::clone(&self.board);
        // SAFETY: the partner is idle, so the job is this side's.
        unsafe { (*board.job.get()).write((region.mark(), job)) };
        board.state.store(CALLED, Ordering::Release);
        futex::wake(&board.state);
        self.wait_for(READY)?;
        let before = Usage::now()?;
        let given = region.measure(|| {
            board.set_state(OPEN, self.crowded);
            own()
        });
        let own_usage = Usage::now()?.since(before);
        let own = match given {
            Ok(own) => own,
            Err(failure) => return Err(self.cause(failure)),
        };
        self.wait_for(DONE)?;
        // SAFETY: the partner has written its result, and left the board to this side.
        let (other, other_usage) = unsafe { (*board.result.get()).assume_init() };
        board.state.store(IDLE, Ordering::Relaxed);
        Ok(Together {
            own,
            other,
            own_usage,
            other_usage,
        })
    }

    /// The result of a job that a failed measurement left behind, if it ended.
    pub fn left_behind(&self) -> Option<R> {
        // SAFETY: the partner has written its result, and left the board to this side.
        self.is_done()
            .then(|| unsafe { (*self.board.result.get()).assume_init().0 })
    }

    fn is_done(&self) -> bool {
        self.board.state.load(Ordering::Acquire) == DONE
    }

    /// Wait until the board is in this state, or the partner has died.
    fn wait_for(&mut self, wanted: u32) -> Result<(), Failure> {
        let board = Arc::clone(&self.board);
        let mut looks = 0;
        loop {
            let state = board.state.load(Ordering::Acquire);
            if state == wanted {
                return Ok(());
            }
            looks += 1;
            if self.crowded {
                self.check()?;
                let _ = futex::wait(&board.state, state, POLL_INTERVAL);
            } else if looks < SPIN_LIMIT {
                std::hint::spin_loop();
            } else {
                self.check()?;
                thread::sleep(PAUSE);
            }
        }
    }

    /// Whether waiting for the partner has a meaning.
    fn check(&mut self) -> Result<(), Failure> {
        if cancel::requested() {
            return Err(Failure::failed("interrupted by a signal"));
        }
        match self.being.death()? {
            // What it did before it went counts first.
            Some(_) if self.board.state.load(Ordering::Acquire) == DONE => Ok(()),
            Some(_) if self.board.state.load(Ordering::Acquire) == LOST => Err(Failure::failed(
                "the other side cannot be kept on its CPU, or its use of it cannot be read",
            )),
            Some(death) => Err(Failure::failed(death)),
            None => Ok(()),
        }
    }

    /// Why the own share was given up: if the partner has died, that is why.
    fn cause(&mut self, failure: Failure) -> Failure {
        let latest = Instant::now() + LAST_MOMENTS;
        while Instant::now() < latest && !cancel::requested() && !self.is_done() {
            match self.being.death() {
                Ok(None) => thread::sleep(PAUSE),
                Ok(Some(death)) => return Failure::failed(death),
                Err(failure) => return failure,
            }
        }
        failure
    }
}

impl<J, R> Drop for PeerWorker<J, R> {
    fn drop(&mut self) {
        // A process ends with its value.
        if let WorkerHandle::Thread(thread) = &mut self.being {
            self.board.state.store(DISMISSED, Ordering::Release);
            futex::wake(&self.board.state);
            // A panic of the thread has been reported already, by its message and as the death of the partner.
            thread.take().map(JoinHandle::join);
        }
    }
}

fn thread<J, R>(
    board: Arc<Shared<SharedSlot<J, R>>>,
    seats: &Seats,
    work: impl FnMut(J) -> R + Send + 'static,
) -> Result<WorkerHandle, Failure>
where
    J: Copy + Send + 'static,
    R: Copy + Send + 'static,
{
    let (cpu, crowded) = (seats.partner, seats.crowded);
    let life = move || {
        live(
            &board,
            Life {
                cpu,
                crowded,
                marks: false,
            },
            work,
        )
    };
    thread::Builder::new()
        .spawn(life)
        .map(|thread| WorkerHandle::Thread(Some(thread)))
        .map_err(|error| refused("thread", &error))
}

fn process<J: Copy, R: Copy>(
    board: &SharedSlot<J, R>,
    seats: &Seats,
    work: impl FnMut(J) -> R,
) -> Result<WorkerHandle, Failure> {
    let life = Life {
        cpu: seats.partner,
        crowded: seats.crowded,
        marks: true,
    };
    Child::fork(|| live(board, life, work)).map(WorkerHandle::Process)
}

/// How a partner lives.
struct Life {
    /// The CPU to stay on.
    cpu: Option<usize>,
    /// Whether the calling side has no other CPU than this.
    crowded: bool,
    /// Whether the marks are to be passed: a tracer knows the threads of the calling process without.
    marks: bool,
}

/// The partner's life: one job after the other until it is dismissed.
fn live<J: Copy, R: Copy>(board: &SharedSlot<J, R>, life: Life, mut work: impl FnMut(J) -> R) {
    if life.cpu.is_some_and(|cpu| affinity::pin(cpu).is_err()) {
        return board.set_state(LOST, life.crowded);
    }
    // The calling side may have dismissed this one already.
    board.set_state_if(0, IDLE, life.crowded);
    loop {
        match board.state.load(Ordering::Acquire) {
            CALLED => {
                // SAFETY: the calling side has written the job, and left the board to this side.
                let (mark, job) = unsafe { (*board.job.get()).assume_init() };
                match at_the_gate(board, &life, mark, || work(job)) {
                    // SAFETY: the board is still this side's.
                    Some(result) => unsafe {
                        (*board.result.get()).write(result);
                    },
                    None => return,
                }
                board.set_state_if(OPEN, DONE, life.crowded);
            }
            DISMISSED => return,
            other => drop(futex::wait(&board.state, other, POLL_INTERVAL)),
        }
    }
}

/// Wait at the gate and do the work; `None` if it did not open.
fn at_the_gate<J, R, T>(
    board: &SharedSlot<J, R>,
    life: &Life,
    mark: Mark,
    work: impl FnOnce() -> T,
) -> Option<(T, Usage)> {
    if life.marks {
        mark.begin();
    }
    let ready = board.set_state_if(CALLED, READY, life.crowded);
    let mut looks = 0;
    while ready && board.state.load(Ordering::Acquire) == READY {
        looks += 1;
        if life.crowded {
            let _ = futex::wait(&board.state, READY, POLL_INTERVAL);
        } else if looks >= SPIN_LIMIT {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    let before = Usage::now();
    let open = board.state.load(Ordering::Acquire) == OPEN;
    let result = open.then(work);
    let after = Usage::now();
    if life.marks {
        mark.end();
    }
    match (before, after) {
        (Ok(before), Ok(after)) => Some((result?, after.since(before))),
        _ => {
            board.set_state(LOST, life.crowded);
            None
        }
    }
}
