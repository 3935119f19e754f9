//! `migrate`: moves a thread to another CPU and back, again and again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::place::neighbour;
use super::target::{Target, cpu_of};
use super::{Cause, Disturbance, Kind, Site};
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::affinity::log_intent;
use oscope_sys::error::Failure;
use oscope_sys::worker::Listener;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "migrate",
    purpose: "Moves the measuring thread to another CPU and back, up to 4000 times a second",
    raises: &["migrations"],
    kind: Kind::Machine(make),
};

/// Between two moves there and back.
const PAUSE: Duration = Duration::from_micros(200);
/// Between two looks for new threads while there are any. Looking takes long, and nothing is moved meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// Threads that are moved by narrowing the CPUs that they may run on for a moment. What they may is in the journal
/// meanwhile: after a kill in that moment the next command puts it back.
struct Mover {
    /// The CPU that is measured on, and the one that threads are moved to.
    cpus: [usize; 2],
    target: Target,
    known: BTreeMap<Pid, CleanupGuard>,
    looked: Option<Instant>,
}

fn make(site: &Site) -> Result<Box<dyn Disturbance>, Failure> {
    let target = site.target.ok_or_else(|| {
        Failure::unavailable(
            "migrate needs to know the thread to move",
            "name it with --thread TID, or use oscope run --inject migrate",
        )
    })?;
    // Moving is work, which is not to compete with what is measured; and there must be a CPU to move to.
    let found = neighbour(site.cpu, &site.allowed)?;
    if let Target::Thread(thread) = target {
        let mask = sched_getaffinity(thread).map_err(|error| refused(thread, error))?;
        sched_setaffinity(thread, &mask).map_err(|error| refused(thread, error))?;
    }
    Ok(Box::new(Mover {
        cpus: [site.cpu, found.cpu],
        target,
        known: BTreeMap::new(),
        looked: None,
    }))
}

fn refused(thread: Pid, error: Errno) -> Failure {
    Failure::unavailable_system(
        &format!("the thread {thread} cannot be moved"),
        std::io::Error::from(error),
        "name a living thread of your own, or run as root",
    )
}

impl Disturbance for Mover {
    fn cpu(&self) -> usize {
        self.cpus[1]
    }

    /// What is moved arrives on the very CPU on which this waits for the move. It would keep that for its whole slice
    /// of some milliseconds, and be moved some 300 times a second: so this goes first.
    fn ready(&mut self) -> Result<(), Failure> {
        let parameters = libc::sched_param { sched_priority: 1 };
        // SAFETY: the parameters live until the call has returned; it changes nothing but this process's scheduling.
        let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
        match Errno::result(code) {
            // Without the right to it the moves are fewer; `done` reports their number.
            Ok(_) | Err(Errno::EPERM) => Ok(()),
            Err(error) => Err(Failure::system("sched_setscheduler", error)),
        }
    }

    fn place(&self) -> String {
        match self.target {
            Target::Thread(thread) => format!("the thread {thread}"),
            Target::ProbesOf(_) => "the measuring thread of each probe".to_owned(),
        }
    }

    /// Moves.
    fn step(&mut self, stop: &Listener, left: Duration) -> Result<u64, Failure> {
        if self.known.is_empty() || self.looked.is_none_or(|then| then.elapsed() >= LOOK) {
            self.look()?;
        }
        let mut moves = 0;
        let threads: Vec<Pid> = self.known.keys().copied().collect();
        for thread in threads {
            match self.move_once(thread) {
                Ok(true) => moves += 1,
                Ok(false) => {}
                // It has ended; another may come.
                Err(Errno::ESRCH) => drop(self.known.remove(&thread)),
                Err(error) => return Err(refused(thread, error)),
            }
        }
        stop.is_closed_within(PAUSE.min(left));
        Ok(moves)
    }
}

impl Mover {
    /// Learn which threads there are, and what they may.
    fn look(&mut self) -> Result<(), Failure> {
        let found = self.target.threads();
        self.known.retain(|thread, _| found.contains(thread));
        for thread in found {
            if self.known.contains_key(&thread) {
                continue;
            }
            let Ok(mask) = sched_getaffinity(thread) else {
                continue;
            };
            if !self.may_move(&mask) {
                continue;
            }
            if let Some(entry) = log_intent(thread, &mask, &self.cpus)? {
                self.known.insert(thread, entry);
            }
        }
        self.looked = Some(Instant::now());
        Ok(())
    }

    /// A probe is moved only while it is pinned to the CPU that is measured on. Before and after a request it looks at
    /// the CPUs that it may run on, and would take the narrowed ones for them.
    fn may_move(&self, mask: &CpuSet) -> bool {
        let [measured, _] = self.cpus;
        let mut pinned = CpuSet::new();
        match self.target {
            Target::Thread(_) => true,
            Target::ProbesOf(_) => pinned.set(measured).is_ok() && pinned == *mask,
        }
    }

    /// Move a thread away from where it is, and let it go back; whether it was moved.
    fn move_once(&mut self, thread: Pid) -> Result<bool, Errno> {
        let mask = sched_getaffinity(thread)?;
        if !self.may_move(&mask) {
            return Ok(false);
        }
        let here = cpu_of(thread).ok_or(Errno::ESRCH)?;
        let [measured, other] = self.cpus;
        let there = if here == other { measured } else { other };
        let mut narrow = CpuSet::new();
        narrow.set(there)?;
        sched_setaffinity(thread, &narrow)?;
        // Where it has chosen other CPUs meanwhile, they are not taken from it.
        if sched_getaffinity(thread)? == narrow {
            sched_setaffinity(thread, &mask)?;
        }
        Ok(true)
    }
}
