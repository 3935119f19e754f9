//! Threads that wait for the server, so that some of the session's own are always free to hear the kernel.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::locked;

/// More requests than this at once wait for one another; each costs a thread.
const MOST: usize = 128;

/// So many of the session's own threads may wait for the server at once: what they do themselves is not handed over,
/// which costs the waking of a thread each time.
pub const HERE: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// A pool that makes a thread when none is idle.
#[derive(Clone, Default)]
pub struct Workers(Arc<Pool>);

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
    rest: Condvar,
    here: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Workers {
    /// Does `job` at once if no more than [`HERE`] callers are in one of theirs, else has it done by a thread of the
    /// pool.
    pub fn here_or_run(&self, job: impl FnOnce() + Send + 'static) {
        let here = &self.0.here;
        if here.fetch_add(1, Ordering::AcqRel) < HERE {
            // Its thread is not ours to lose; the panic has been printed.
            let _ = catch_unwind(AssertUnwindSafe(job));
            here.fetch_sub(1, Ordering::AcqRel);
        } else {
            here.fetch_sub(1, Ordering::AcqRel);
            self.run(job);
        }
    }

    /// Has `job` done by a thread. With no thread to be had (a limit of the system) it is done here.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = locked(&self.0.queue);
        queue.jobs.push_back(Box::new(job));
        if queue.idle >= queue.jobs.len() || queue.threads >= MOST {
            self.0.work.notify_one();
            return;
        }
        let pool = Arc::clone(&self.0);
        let made = thread::Builder::new()
            .name("oscope-fs work".into())
            .spawn(move || pool.serve());
        if made.is_ok() {
            queue.threads += 1;
        } else if queue.threads == 0 {
            let job = queue.jobs.pop_back();
            drop(queue);
            job.into_iter().for_each(|job| job());
        }
    }

    /// Waits until all jobs are done, and ends the threads.
    pub fn close(&self) {
        let mut queue = locked(&self.0.queue);
        queue.closed = true;
        self.0.work.notify_all();
        while queue.threads > 0 {
            queue = self
                .0
                .rest
                .wait(queue)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

impl Pool {
    fn serve(&self) {
        // A job that panics takes its thread with it: the count has to go down all the same.
        let _leave = Leave(self);
        loop {
            let mut queue = locked(&self.queue);
            while queue.jobs.is_empty() {
                if queue.closed {
                    return;
                }
                queue.idle += 1;
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                queue.idle -= 1;
            }
            let job = queue.jobs.pop_front();
            drop(queue);
            job.into_iter().for_each(|job| job());
        }
    }
}

struct Leave<'a>(&'a Pool);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        locked(&self.0.queue).threads -= 1;
        self.0.rest.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn jobs_that_wait_for_one_another_get_a_thread_each_and_all_are_done_at_the_end() {
        let (workers, done) = (Workers::default(), Arc::new(AtomicUsize::new(0)));
        let together = Arc::new(Barrier::new(20));
        for _ in 0..20 {
            let (together, done) = (Arc::clone(&together), Arc::clone(&done));
            workers.run(move || {
                together.wait();
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        for _ in 0..1000 {
            let done = Arc::clone(&done);
            workers.run(move || {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let caller = thread::current().id();
        let (workers_too, seen) = (workers.clone(), Arc::new(AtomicUsize::new(0)));
        let seen_there = Arc::clone(&seen);
        workers.here_or_run(move || {
            let inner = workers_too.clone();
            workers_too.here_or_run(move || {
                // The third is handed over: else nobody would hear the kernel.
                inner.here_or_run(move || {
                    assert_ne!(thread::current().id(), caller);
                    seen_there.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(thread::current().id(), caller);
            });
        });
        workers.here_or_run(|| panic!("on purpose"));
        workers.run(|| assert!(std::panic::catch_unwind(|| panic!("on purpose")).is_err()));
        workers.close();
        assert_eq!(seen.load(Ordering::Relaxed), 1);
        assert_eq!(done.load(Ordering::Relaxed), 1020);
    }
}
