//! What this process makes outside its own life, such as swap and control groups, and the journal by which it is undone
//! after a kill.
//!
//! The order is: an entry in the journal, on the device (fsync); the resource; the undoing; the entry cleared. So the
//! journal names at least what is there. [`restore`] undoes what dead processes left. It touches nothing
//! that a journal does not name, nor what a journal names but does not look as this program makes it.
//!
//! Processes are not in it: the kernel ends those of a dead owner (PR_SET_PDEATHSIG), and what lies in a control group
//! goes with the group.

pub mod affinity;
pub mod folder;
mod group;
mod journal;
pub mod module;
mod owner;
pub mod resource;
pub mod setting;
pub mod swap_area;
pub mod tunable;

use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::diagnostics;
use crate::error::Failure;
use journal::{Journal, Left};
use owner::Owner;
use resource::{Outcome, Resource};

/// The journal of this process, while it has entries.
static JOURNAL: Mutex<Option<Journal>> = Mutex::new(None);

/// No process has this number (fork(2) returns it to the child).
const NOBODY: u32 = 0;

/// The journal of this process, if it has one. That of the process which forked this one is its own: here it is closed,
/// and stays on the device.
fn journal_of_this_process() -> MutexGuard<'static, Option<Journal>> {
    let mut journal = JOURNAL.lock().unwrap_or_else(|broken| broken.into_inner());
    if journal
        .as_ref()
        .is_some_and(|open| !open.is_of_this_process())
    {
        *journal = None;
    }
    journal
}

/// A resource in the journal. Dropping it undoes the resource and clears the entry; what cannot be undone now is
/// reported and stays in the journal.
#[derive(Debug)]
pub struct CleanupGuard {
    number: u64,
    resource: Resource,
    process: u32,
}

impl CleanupGuard {
    /// Enter a resource that is about to be made.
    ///
    /// # Errors
    /// `Failure::Unavailable` where no journal can be kept, with the remedy.
    pub fn log_intent(resource: Resource) -> Result<Self, Failure> {
        let mut journal = journal_of_this_process();
        let number = match &mut *journal {
            Some(journal) => journal.enter(&resource)?,
            none => none
                .insert(Journal::create(&journal::directory())?)
                .enter(&resource)?,
        };
        Ok(Self {
            number,
            resource,
            process: std::process::id(),
        })
    }

    /// Say more of the resource, once more is known.
    ///
    /// # Errors
    /// `Failure::Failed` if the journal cannot be written.
    pub fn update(&mut self, resource: Resource) -> Result<(), Failure> {
        let mut journal = journal_of_this_process();
        let journal = journal.as_mut();
        journal
            .ok_or_else(|| Failure::failed("the journal of what was made is closed"))?
            .replace(self.number, &resource)?;
        self.resource = resource;
        Ok(())
    }

    /// Clear the entry and undo nothing: the resource was not made, or by somebody else.
    ///
    /// # Errors
    /// `Failure::Failed` if the journal cannot be written.
    pub fn forget(mut self) -> Result<(), Failure> {
        self.process = NOBODY;
        self.clear()
    }

    fn undo_and_clear(&self) -> Result<(), Failure> {
        self.resource.undo()?;
        self.clear()
    }

    fn clear(&self) -> Result<(), Failure> {
        let mut journal = journal_of_this_process();
        if let Some(open) = journal.as_mut() {
            if open.clear(self.number)? == Left::Nothing {
                *journal = None;
            }
        }
        Ok(())
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        // A forked child has a copy of this, and the resource is its parent's; what was forgotten is nobody's.
        if self.process != std::process::id() {
            return;
        }
        if let Err(failure) = self.undo_and_clear() {
            diagnostics::warn(format_args!(
                "cannot undo {}: {failure}; `{} restore` tries again once this process has ended",
                self.resource,
                diagnostics::program()
            ));
        }
    }
}

/// Undo what dead processes left, newest first, and hand a JSON object on each resource to `report`. Whether nothing is
/// left.
///
/// # Errors
/// `Failure::Failed` if the journals cannot be read.
pub fn restore(report: &mut dyn FnMut(Value)) -> Result<bool, Failure> {
    restore_in(&journal::directory(), report)
}

/// As [`restore`], of the journals in `directory`.
///
/// # Errors
/// As for [`restore`].
pub(crate) fn restore_in(directory: &Path, report: &mut dyn FnMut(Value)) -> Result<bool, Failure> {
    let Some(_lock) = journal::lock(directory)? else {
        return Ok(true);
    };
    let mut clean = true;
    for path in journal::paths(directory)? {
        let Some(owner) = Owner::of_file(&path) else {
            continue;
        };
        let restored = match owner.may_live() {
            Ok(true) => continue,
            Ok(false) => restore_one(&path, owner.process, report),
            Err(failure) => Err(failure),
        };
        clean &= restored.unwrap_or_else(|failure| {
            report(failed(&path.display(), failure));
            false
        });
    }
    Ok(clean)
}

/// Undo what one journal of a dead process names.
fn restore_one(path: &Path, process: u32, report: &mut dyn FnMut(Value)) -> Result<bool, Failure> {
    let mut journal = match Journal::open(path) {
        Ok(journal) => journal,
        Err(failure) => {
            let remedy = format!("see what {} names, and remove it", path.display());
            report(json!({"failed": failure.to_string(), "remedy": remedy}));
            return Ok(false);
        }
    };
    let same_boot = journal.boot() == owner::boot()?;
    let (mut clean, mut cleared) = (true, Ok(()));
    for (number, resource) in journal.newest_first() {
        match resource.undo_of_boot(same_boot) {
            Ok(outcome) => {
                if outcome == Outcome::Undone {
                    report(json!({"restored": resource.to_string(), "of": process}));
                }
                // What stays in the journal is found gone the next time.
                cleared = cleared.and(journal.clear(number).map(drop));
            }
            Err(failure) => {
                clean = false;
                report(failed(&resource, failure));
            }
        }
    }
    if clean {
        journal.remove()?;
    } else {
        cleared?;
    }
    Ok(clean)
}

/// What is reported where `what` could not be undone.
fn failed(what: &dyn Display, failure: Failure) -> Value {
    let (message, remedy) = match failure {
        Failure::Unavailable {
            message, remedy, ..
        } => (message, remedy),
        other => (other.to_string(), None),
    };
    json!({"failed": format!("{what}: {message}"), "remedy": remedy})
}

#[cfg(test)]
mod tests;
