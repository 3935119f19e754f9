//! The report of a mount: counts of its operations, conflicts, what could not be copied back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::errno::Errno;
use serde::Serialize;

use crate::log;
use crate::remote::{Remote, State};
use crate::store::Store;

use super::locked;

/// Conflicts kept in the report; all are in the log.
const MOST_CONFLICTS: usize = 1000;

/// Files without room that are kept in the report.
const MOST_WITHOUT_ROOM: usize = 20;

/// A file that both sides changed.
#[derive(Clone, Debug, Serialize)]
pub struct Conflict {
    /// Its name, as text (bytes that are no UTF-8 replaced).
    pub path: String,
    /// The name under which the local content was put beside it.
    pub kept_as: String,
    /// Seconds since 1970.
    pub when: u64,
}

/// A file that could not be copied back so far.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// Its name, as text.
    pub path: String,
    /// The error, in the system's words.
    pub why: String,
}

/// The whole report of a mount.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How often each operation was asked for, by the names in [`super::OPERATIONS`].
    pub operations: BTreeMap<&'static str, u64>,
    /// Files that are open for writing or not yet copied back.
    pub dirty: Vec<String>,
    /// Conflicts of this mount.
    pub conflicts: Vec<Conflict>,
    /// What could not be copied back, and is tried again.
    pub failures: Vec<Failed>,
    /// What could not be opened because the cache had no room for it; the last of them.
    pub no_room: Vec<Failed>,
    /// Whether the kernel reads and writes the copies itself.
    pub passthrough: bool,
    /// Why it does not; empty if it does.
    pub why_not: String,
    /// Bytes in the cache folder.
    pub cached_bytes: u64,
    /// `up`, or since when and why not.
    pub remote: String,
}

/// What is collected for the report.
#[derive(Default)]
pub struct ReportState {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    operations: BTreeMap<&'static str, u64>,
    conflicts: Vec<Conflict>,
    failures: BTreeMap<PathBuf, String>,
    no_room: Vec<(PathBuf, String)>,
    why_not: Option<String>,
}

impl ReportState {
    /// An operation was asked for.
    pub fn count(&self, operation: &'static str) {
        *locked(&self.held).operations.entry(operation).or_default() += 1;
    }

    /// Both sides changed `path`; ours is beside it.
    pub fn conflict(&self, path: &Path, kept_as: &Path) {
        let (path, kept_as) = (shown(path), shown(kept_as));
        log::note(&format!(
            "conflict: {path} was changed on the server too; the local version is {kept_as}"
        ));
        let when = log::now();
        let conflicts = &mut locked(&self.held).conflicts;
        conflicts.push(Conflict {
            path,
            kept_as,
            when,
        });
        let over = conflicts.len().saturating_sub(MOST_CONFLICTS);
        conflicts.drain(..over);
    }

    /// `path` was not copied back; it stays as it is in the cache.
    pub fn failed(&self, path: &Path, why: &str) {
        let before = locked(&self.held)
            .failures
            .insert(path.to_owned(), why.to_owned());
        if before.as_deref() != Some(why) {
            let path = shown(path);
            log::note(&format!(
                "{path} is not copied back: {why}; it is kept in the cache and tried again"
            ));
        }
    }

    /// `path` was not opened: the cache has no room for it.
    pub fn no_room(&self, path: &Path, why: &str) {
        let mut held = locked(&self.held);
        let before = held.no_room.len();
        held.no_room.retain(|(other, _)| other != path);
        let known = held.no_room.len() < before;
        held.no_room.push((path.to_owned(), why.to_owned()));
        let over = held.no_room.len().saturating_sub(MOST_WITHOUT_ROOM);
        held.no_room.drain(..over);
        drop(held);
        if !known {
            log::note(&format!("{} is not opened (ENOSPC): {why}", shown(path)));
        }
    }

    /// `path` has a copy in the cache.
    pub fn has_room(&self, path: &Path) {
        locked(&self.held)
            .no_room
            .retain(|(other, _)| other != path);
    }

    /// `path` was copied back.
    pub fn went_back(&self, path: &Path) {
        if locked(&self.held).failures.remove(path).is_some() {
            log::note(&format!("{} is copied back after all", shown(path)));
        }
    }

    /// `path` is gone, and with it what was not copied back.
    pub fn removed(&self, path: &Path) {
        self.has_room(path);
        if locked(&self.held).failures.remove(path).is_some() {
            log::note(&format!(
                "{} was removed before it was copied back",
                shown(path)
            ));
        }
    }

    /// `from`, with all below it, has the name `to` now.
    pub fn renamed(&self, from: &Path, to: &Path) {
        let mut moved = Vec::new();
        let mut held = locked(&self.held);
        // Its next opening reports it anew, if that fails too.
        held.no_room.retain(|(path, _)| !path.starts_with(from));
        let failures = &mut held.failures;
        failures.retain(|path, why| match path.strip_prefix(from) {
            Ok(rest) => {
                // Joined with nothing, a path would end in a slash.
                let below = !rest.as_os_str().is_empty();
                let now = if below { to.join(rest) } else { to.to_owned() };
                moved.push((now, std::mem::take(why)));
                false
            }
            Err(_) => true,
        });
        failures.extend(moved);
    }

    /// The kernel cannot read and write the copies itself.
    pub fn no_passthrough(&self, why: &str) {
        let before = locked(&self.held).why_not.replace(why.to_owned());
        if before.is_none() {
            log::note(&format!(
                "no passthrough: {why}; the daemon reads and writes the copies"
            ));
        }
    }

    /// Whether the kernel can, as far as known.
    pub fn passthrough(&self) -> bool {
        locked(&self.held).why_not.is_none()
    }

    /// The report.
    pub fn report(&self, remote: &Remote, store: &Store) -> Report {
        let dirty = store.dirty_paths().iter().map(|path| shown(path)).collect();
        let held = locked(&self.held);
        let failed = |(path, why): (&PathBuf, &String)| Failed {
            path: shown(path),
            why: why.clone(),
        };
        Report {
            operations: held.operations.clone(),
            dirty,
            conflicts: held.conflicts.clone(),
            failures: held.failures.iter().map(failed).collect(),
            no_room: held
                .no_room
                .iter()
                .map(|(path, why)| failed((path, why)))
                .collect(),
            passthrough: held.why_not.is_none(),
            why_not: held.why_not.clone().unwrap_or_default(),
            cached_bytes: store.used_bytes(),
            remote: state(remote),
        }
    }
}

/// A path for a person: bytes that are no UTF-8 and control characters are escaped.
pub fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let letters = text.chars().flat_map(|letter| {
        let plain = !letter.is_control();
        let escaped = letter.escape_default().filter(move |_| !plain);
        std::iter::once(letter)
            .filter(move |_| plain)
            .chain(escaped)
    });
    letters.collect()
}

fn state(remote: &Remote) -> String {
    match remote.state() {
        State::Up => "up".to_owned(),
        State::Down { since, tries, why } => {
            format!(
                "down for {} s, tried {tries} times: {why}",
                since.elapsed().as_secs()
            )
        }
    }
}

/// The cache's disk has no room for what is known of a copy.
pub(super) fn unwritten(path: &Path, why: Errno) {
    log::note(&format!(
        "cannot write down how far the copying back of {} is: {}",
        shown(path),
        why.desc()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(state: &ReportState) -> Vec<PathBuf> {
        locked(&state.held).failures.keys().cloned().collect()
    }

    #[test]
    fn a_failure_follows_the_names_of_its_file() {
        let state = ReportState::default();
        for path in ["d/a", "d/b", "da"] {
            state.failed(Path::new(path), "no room");
        }
        state.renamed(Path::new("d"), Path::new("e/f"));
        assert_eq!(failing(&state), ["da", "e/f/a", "e/f/b"].map(PathBuf::from));
        state.renamed(Path::new("da"), Path::new("x"));
        state.renamed(Path::new("x"), Path::new("x"));
        state.removed(Path::new("e/f/a"));
        state.went_back(Path::new("e/f/b"));
        assert_eq!(failing(&state), [PathBuf::from("x")]);
    }
}
