//! Threads that start together, each on a CPU of its own.

use std::sync::atomic::Ordering;
use std::thread::{Builder, scope, yield_now};

use super::barrier::{StartBarrier, Waits};
use crate::affinity::{self, Pinned};
use crate::error::Failure;

/// The CPU of each of `threads` threads (0: one for each CPU): every allowed one in turn, beginning with `first`, or
/// the lowest.
pub fn assign_cpus(first: Option<usize>, allowed: &[usize], threads: usize) -> Vec<usize> {
    let begin = allowed.iter().position(|&cpu| Some(cpu) == first);
    let threads = match threads {
        0 => allowed.len(),
        some => some,
    };
    let turns = allowed.iter().cycle().skip(begin.unwrap_or(0));
    turns.copied().take(threads).collect()
}

/// Put the calling thread on the first of the threads' `cpus`, while what is given lives, unless the harness keeps it
/// on one: `pinned`.
///
/// One thread alone stays where it is; of several, the calling one has a CPU too.
///
/// # Errors
/// `Failure::Failed` where it cannot be pinned.
pub fn take_seat(pinned: Option<usize>, cpus: &[usize]) -> Result<Option<Pinned>, Failure> {
    match (pinned, cpus) {
        (None, &[first, _, ..]) => Pinned::to(first).map(Some),
        _ => Ok(None),
    }
}

/// Do every job by a thread of its own, the first by the calling thread, which must be on the first of the `cpus`; what
/// they gave, in order.
///
/// The threads are made, pinned and waiting before `measure` is called; it calls what it is given once. That opens the
/// gate, does the first job and returns when all are done. No thread sleeps in between, since waking an idle CPU takes
/// tens of microseconds; where there are more threads than CPUs, they yield to each other.
///
/// # Errors
/// `Failure::Unavailable` where a limit forbids so many threads, `Failure::Failed` where one cannot be pinned. A job
/// that panics panics here.
pub fn run_pinned<T: Send>(
    cpus: &[usize],
    jobs: Vec<impl FnOnce() -> T + Send>,
    measure: impl FnOnce(&mut dyn FnMut()),
) -> Result<Vec<T>, Failure> {
    let gate = &StartBarrier::default();
    let mut jobs = cpus.iter().zip(jobs);
    let Some((_, first)) = jobs.next() else {
        return Ok(Vec::new());
    };
    scope(|scope| {
        let mut others = Vec::new();
        for (&cpu, job) in jobs {
            let work = move || {
                let pinned = affinity::pin(cpu);
                if gate.pass(Waits::Yields) {
                    pinned.map(|()| job())
                } else {
                    Err(Failure::failed("a thread was sent home"))
                }
            };
            match Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => others.push(thread),
                Err(error) => {
                    gate.shut();
                    return Err(refused(cpus.len(), &error));
                }
            }
        }
        while (gate.arrived().load(Ordering::Acquire) as usize) < others.len() {
            yield_now();
        }
        let mut first = Some(first);
        let mut given = None;
        measure(&mut || {
            gate.open(Waits::Yields);
            given = first.take().map(|job| job());
            while !others.iter().all(|thread| thread.is_finished()) {
                yield_now();
            }
        });
        let Some(given) = given else {
            gate.shut();
            return Err(Failure::failed("the threads were not started"));
        };
        let others = others.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        std::iter::once(Ok(given)).chain(others).collect()
    })
}

fn refused(threads: usize, error: &std::io::Error) -> Failure {
    Failure::unavailable(
        format!("{threads} threads cannot be made: {error}"),
        "ask for fewer threads, or raise ulimit -u, ulimit -v or the control group's pids.max",
    )
    .because_of(error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn every_job_is_done_within_the_measurement_on_its_own_cpu() {
        let allowed = affinity::allowed().expect("they can be read");
        for threads in [1, 2, 7] {
            let cpus = assign_cpus(allowed.last().copied(), &allowed, threads);
            let _pinned = Pinned::to(cpus[0]).expect("it is allowed");
            let measuring = &AtomicBool::new(false);
            let jobs = (0..threads)
                .map(|number| {
                    move || {
                        assert!(measuring.load(Ordering::SeqCst));
                        (number, affinity::allowed().expect("they can be read"))
                    }
                })
                .collect();
            let given = run_pinned(&cpus, jobs, |work| {
                measuring.store(true, Ordering::SeqCst);
                work();
                measuring.store(false, Ordering::SeqCst);
            });
            let expected: Vec<_> = cpus.iter().map(|&cpu| vec![cpu]).enumerate().collect();
            assert_eq!(given, Ok(expected));
        }
    }

    #[test]
    fn only_one_of_several_threads_that_nobody_pinned_takes_a_seat() {
        let allowed = affinity::allowed().expect("they can be read");
        let first = allowed[0];
        for (pinned, cpus) in [(Some(first), &[first, first][..]), (None, &[first])] {
            let seat = take_seat(pinned, cpus).expect("it is allowed");
            assert!(seat.is_none());
        }
        let seat = take_seat(None, &[first, first]).expect("it is allowed");
        assert_eq!(affinity::allowed(), Ok(vec![first]));
        drop(seat);
        assert_eq!(affinity::allowed(), Ok(allowed));
        assert!(take_seat(None, &[9999, first]).is_err());
    }

    #[test]
    fn a_cpu_that_cannot_be_had_is_an_error_and_no_thread_hangs() {
        let first = affinity::allowed().expect("they can be read")[0];
        let jobs = vec![|| (); 3];
        assert!(run_pinned(&[first, 9999, first], jobs, |work| work()).is_err());
    }

    #[test]
    fn without_a_measurement_nobody_works_and_nobody_hangs() {
        let first = affinity::allowed().expect("they can be read")[0];
        let jobs = vec![|| panic!("the gate is closed"); 2];
        assert!(run_pinned(&[first, first], jobs, |_work| ()).is_err());
    }

    #[test]
    #[should_panic(expected = "a broken job")]
    fn a_panic_of_a_job_comes_through() {
        let first = affinity::allowed().expect("they can be read")[0];
        let jobs = (0..2)
            .map(|number| move || assert!(number == 0, "a broken job"))
            .collect();
        let _ = run_pinned(&[first, first], jobs, |work| work());
    }

    #[test]
    fn seats_begin_with_the_pinned_cpu_and_go_round() {
        assert_eq!(assign_cpus(Some(5), &[1, 3, 5, 7], 6), [5, 7, 1, 3, 5, 7]);
        assert_eq!(assign_cpus(None, &[1, 3], 3), [1, 3, 1]);
        assert_eq!(assign_cpus(Some(3), &[1, 3], 0), [3, 1]);
    }
}
