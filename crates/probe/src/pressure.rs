//! Memory pressure made on purpose: a competitor for memory, in a memory control group with swap made for the run, or
//! for the whole machine.
//!
//! In a group, its limit plays the machine's memory: it holds for the competitor and the process measured together, so
//! that the machine itself has nothing to fear. Everything made is in the journal of [`oscope_sys::cleanup`], and is
//! undone with the values that hold it.

mod competitor;
mod group;
mod kills;
mod machine;
mod oom_guard;
mod swap;
mod turns;
pub mod xorshift;

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde::Deserialize;

use crate::workload::Context;
use competitor::{Competitor, Since};
use group::Group;
use kills::Kills;
use machine::Machine;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::worker::is_dead;
pub use swap::{Swap, SwapKind, swap_for, without_readahead};
pub use turns::Turns;

/// Bytes that play the machine's memory in a group, where the request says none.
const USUAL_LIMIT: u64 = 256 << 20;

/// Who runs short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The members of a control group made for the run.
    Group,
    /// Everything on this machine.
    Machine,
}

/// What pressure is wanted.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Who runs short of memory.
    pub scope: Scope,
    /// Bytes that play the machine's memory, and that the competitor maps; 0: 256 MiB for a group, all memory for the
    /// machine.
    pub limit: u64,
    /// What the swap lies on.
    pub swap: SwapKind,
    /// Bytes of swap.
    pub swap_bytes: u64,
    /// Least time before the competitor's resident set is judged.
    pub wait: Duration,
    /// Steps of the competitor while what is measured waits for it; 0: it runs freely.
    pub steps: u64,
    /// Where a swap file is made.
    pub directory: PathBuf,
    /// Bytes that the process measured takes beside the competitor.
    pub beside: u64,
}

/// Swap and group for one request. They exist while this lives.
#[derive(Debug)]
pub struct Pressure {
    // Before the swap: what is in the group has to be gone when the swap is read back.
    group: Option<Group>,
    _swap: Swap,
    /// Bytes that the competitor maps.
    bytes: u64,
    wait: Duration,
    steps: u64,
    /// Where the competitor runs.
    cpus: Vec<usize>,
    notes: Vec<String>,
}

impl Pressure {
    /// Make swap and group.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this machine cannot, with the remedy. What was made so far is undone.
    pub fn prepare(plan: Plan, context: &Context) -> Result<Self, Failure> {
        let bytes = match (plan.limit, plan.scope) {
            (0, Scope::Group) => USUAL_LIMIT,
            (0, Scope::Machine) => Machine::now()?.total,
            (limit, _) => limit - limit % page_bytes(),
        };
        refuse_panic(plan.scope)?;
        if plan.scope == Scope::Machine {
            Machine::now()?.judge(bytes, &plan)?;
        }
        let swap = swap_for(plan.swap, plan.swap_bytes, &plan.directory)?;
        let (cpus, crowded) = competitor_cpus(context.cpu, context.allowed());
        let group = match plan.scope {
            Scope::Group => Some(Group::make(bytes, &cpus)?),
            Scope::Machine => None,
        };
        let mut notes = vec![swap.note().to_owned()];
        notes.extend(crowded);
        notes.extend(group.iter().flat_map(Group::notes));
        Ok(Self {
            group,
            _swap: swap,
            bytes,
            wait: plan.wait,
            steps: plan.steps,
            cpus,
            notes,
        })
    }

    /// Start the competitor. Where its steps are counted, wait for the first ones; else wait at least as long as
    /// planned and until its resident set moves by less than 1 % in a second.
    ///
    /// # Errors
    /// `Failure::Failed` if it ended before, or a signal came.
    pub fn compete(&mut self) -> Result<Competition, Failure> {
        let kills = match &self.group {
            Some(group) => group.kills(),
            None => Kills::of_machine(),
        };
        let kills = Since::now(kills)?;
        self.group.as_ref().map_or(Ok(()), Group::arm)?;
        let turns = (self.steps > 0)
            .then(|| Turns::of(self.steps))
            .transpose()?;
        let mut competitor = Competitor::fork(self.bytes, &self.cpus, turns.as_ref())?;
        if let Some(group) = &self.group {
            group.admit_competitor(competitor.process())?;
        }
        let started = Instant::now();
        competitor.start()?;
        let (resident_kib, at_rest) = match &turns {
            Some(turns) => (competitor.wait_for(turns, &kills)?, true),
            None => competitor.settle(self.wait, &kills)?,
        };
        let waited = started.elapsed();
        if !at_rest {
            self.notes.push(format!(
                "the competitor's resident set still moved after {} s",
                waited.as_secs()
            ));
        }
        Ok(Competition {
            resident_kib,
            waited,
            oom_guard: self.group.as_ref().and_then(Group::oom_guard),
            competitor,
            turns: turns.map(Rc::new),
            kills,
        })
    }

    /// Have the calling process enter the group, with what it touches from then on. Of the machine, every process is
    /// part already.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn join(&self) -> Result<(), Failure> {
        let group = self.group.as_ref();
        group.map_or(Ok(()), |group| group.take(nix::unistd::getpid()))
    }

    /// Notes for the record: the swap that was made, and what was not as it should be.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// A running competitor; killed and reaped when dropped.
#[derive(Debug)]
pub struct Competition {
    /// Its resident set when that was stable, in KiB.
    pub resident_kib: u64,
    /// How long that took, from its start.
    pub waited: Duration,
    competitor: Competitor,
    turns: Option<Rc<Turns>>,
    /// Without it, who finds no memory would sleep for ever.
    oom_guard: Option<Pid>,
    kills: Since,
}

impl Competition {
    /// Make sure that it still competes, and that its group is looked after.
    ///
    /// # Errors
    /// `Failure::Failed` that says how it ended.
    pub fn check(&mut self) -> Result<(), Failure> {
        if self.oom_guard.is_some_and(is_dead) {
            return Err(Failure::failed(
                "the process that keeps the group from the OOM killer has ended: somebody killed it; measure again",
            ));
        }
        self.competitor.check(&self.kills)
    }

    /// What is measured has to give the competitor its turns by, where it does not run freely.
    pub fn turns(&self) -> Option<Rc<Turns>> {
        self.turns.clone()
    }

    /// Processes that the kernel killed for want of memory since the competitor started: of the group, or of the
    /// machine.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn oom_kills(&self) -> Result<u64, Failure> {
        self.kills.count()
    }
}

/// Every allowed CPU but the measured one; a note where there is no other.
fn competitor_cpus(measured: Option<usize>, allowed: &[usize]) -> (Vec<usize>, Option<String>) {
    let mut others = allowed.to_vec();
    others.retain(|&cpu| Some(cpu) != measured);
    match measured {
        Some(_) if others.is_empty() => (
            allowed.to_vec(),
            Some("the competitor shares the one CPU with what is measured".to_owned()),
        ),
        _ => (others, None),
    }
}

/// Do not press where the kernel panics instead of killing a process (`vm.panic_on_oom`,
/// Documentation/admin-guide/sysctl/vm.rst): 2 for want of memory anywhere, 1 only where the whole machine is out of
/// it.
fn refuse_panic(scope: Scope) -> Result<(), Failure> {
    let path = "/proc/sys/vm/panic_on_oom";
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::system("reading /proc/sys/vm/panic_on_oom", error))?;
    let least = match scope {
        Scope::Group => 2,
        Scope::Machine => 1,
    };
    match text.trim().parse::<u8>() {
        Ok(value) if value < least => Ok(()),
        _ => Err(Failure::unavailable(
            format!(
                "the kernel panics where memory runs out (vm.panic_on_oom is {})",
                text.trim()
            ),
            "as root: sysctl vm.panic_on_oom=0",
        )),
    }
}

#[cfg(test)]
mod tests;
