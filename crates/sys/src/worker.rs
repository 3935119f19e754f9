//! Workers: threads and processes that start together, do jobs, are watched, and end with who made them.
//!
//! | what is needed | use |
//! |---|---|
//! | jobs done at the same time, each by a thread on a CPU of its own | [`run_pinned`] |
//! | one thread or process at the other end of a channel, for job after job | [`PeerWorker`] |
//! | a process for one job, with one answer | [`Child`] and [`Answer`] |
//! | a process that works until it is dropped | [`Child`], with [`notify_pipe`] to start or stop it |
//! | a process that cleans up after a kill of its parent | [`CleanupProcess`] |
//! | another program | [`program::Program`] |
//! | a process in this memory, until it executes a program or ends | [`VforkStack`] |
//!
//! What all have in common:
//!
//! - A process ends when its parent does, also by SIGKILL; only a [`CleanupProcess`] lives on, until it has cleaned up.
//! - Dropping the value ends the worker and waits for its end. A [`PeerWorker`] owns the calling side's end of the
//!   channel and closes it first, since a thread that waits for that side could not be joined otherwise.
//! - The death of a worker is noticed by every wait for it, and the error says how it ended.
//! - Values go through a [`Slot`] in [shared memory](crate::shared_memory), and must hold no pointer.

mod answer;
mod barrier;
mod child;
mod cleanup_process;
mod handle;
mod notify;
mod peer;
pub mod program;
mod slot;
mod team;
mod time_limit;
mod vfork;

pub use answer::Answer;
pub use barrier::{StartBarrier, Waits};
pub use child::{Child, describe_exit, is_dead, pidfd};
pub use cleanup_process::CleanupProcess;
pub use handle::Kind;
pub use notify::{Listener, Notice, Notifier, notify_pipe};
pub use peer::{Arrival, Opener, PeerWorker, Seat};
pub use slot::Slot;
pub use team::{assign_cpus, run_pinned, take_seat};
pub use time_limit::TimeLimit;
pub use vfork::VforkStack;

use std::time::Duration;

use crate::error::Failure;

/// Time after which one who waits checks again whether the other side lives, or a signal came before the wait began.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The kernel's refusal of one more thread or process.
fn refused(what: &str, error: &std::io::Error) -> Failure {
    Failure::unavailable(
        format!("no second {what} can be made: {error}"),
        "raise ulimit -u, ulimit -v or the control group's pids.max",
    )
    .because_of(error)
}
