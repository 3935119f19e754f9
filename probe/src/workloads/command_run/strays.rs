//! Processes that a program leaves behind, such as a daemon: found and ended, so that they run neither in the next repetition nor afterwards.
//!
//! The probe makes itself the reaper of its orphaned descendants (`PR_SET_CHILD_SUBREAPER`, prctl(2)): whatever a program forked, in whatever
//! session or process group, becomes the probe's child when its own parent ends.

use std::collections::BTreeSet;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::Failure;

/// Generations of descendants ended in a row: one that forks faster than it is ended is given up.
const MOST_ROUNDS: usize = 1000;

/// The probe as the reaper of what programs leave behind; dropping it makes it an ordinary process again.
#[derive(Debug)]
pub struct Strays {
    /// Children that the probe had before, which are its own.
    own: BTreeSet<i32>,
}

impl Strays {
    /// Become the reaper.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel refuses.
    pub fn adopt() -> Result<Self, Failure> {
        set_child_subreaper(true)
            .map_err(|error| Failure::system("asking to reap orphaned processes", error))?;
        Ok(Self {
            own: children().collect(),
        })
    }

    /// End all that is left of programs; a note where there was something. Every one that a program started has been orphaned by then.
    pub fn end(&self) -> Option<String> {
        let mut ended = 0;
        for _ in 0..MOST_ROUNDS {
            let left: Vec<i32> = children()
                .filter(|child| !self.own.contains(child))
                .collect();
            if left.is_empty() {
                break;
            }
            for child in left.into_iter().map(Pid::from_raw) {
                // One that has ended by itself only has to be reaped.
                if waitpid(child, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive) {
                    continue;
                }
                // It is a child that has not been waited for, so the number is not another's.
                ended += usize::from(kill(child, Signal::SIGKILL).is_ok());
                let _ = waitpid(child, None);
            }
        }
        (ended > 0).then(|| {
            "the command left processes behind, such as a daemon; they were ended after each run".to_owned()
        })
    }
}

impl Drop for Strays {
    fn drop(&mut self) {
        let _ = set_child_subreaper(false);
    }
}

/// The children of the main thread, which orphans become (`/proc/PID/task/TID/children`, proc_pid_task(5)).
fn children() -> impl Iterator<Item = i32> {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect::<Vec<_>>()
        .into_iter()
}
