//! Renames: of a file, or of a folder with all that is cached below it, in one step that a kill cannot divide.
//!
//! `renames/N.intent` is written before the server is asked: when the mount dies in between, the next life asks the
//! server which it was. That it was done is one rename(2) of that record, to `renames/M-N.done`; only then the records
//! of the copies are written anew, one by one. A record of a copy that is older than M still has the old names: loading
//! applies the rename to it.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::folder::Need;
use super::index::CacheIndex;
use super::record::{Stay, rename_to_bytes, renamed};
use super::types::{CopyId, Rename};
use crate::errno::errno;

/// `renames/…` of a rename that the server has not answered yet.
pub(super) fn intent_name(number: u64) -> String {
    format!("{number:016x}.intent")
}

/// `renames/…` of a rename that was done at `sequence`; what became dirty after `begun` may be of either file.
pub(super) fn done_name(sequence: u64, begun: u64) -> String {
    format!("{sequence:016x}-{begun:016x}.done")
}

/// Which names of a copy outlive a rename that was begun at `begun`.
pub(super) fn stay_of(id: CopyId, dirty: bool, begun: u64) -> Stay {
    match (dirty, id.0 > begun) {
        (false, _) => Stay::Nowhere,
        (true, false) => Stay::Below,
        (true, true) => Stay::Anywhere,
    }
}

/// A copy and the names that it had and has.
struct Move {
    id: CopyId,
    old: Vec<PathBuf>,
    new: Vec<PathBuf>,
}

impl CacheIndex {
    /// Writes down what the server is about to be asked, if anything cached is concerned.
    pub(super) fn begin_rename(&mut self, from: &Path, to: &Path) -> Result<Rename, Errno> {
        let rename = |number| Rename {
            from: from.into(),
            to: to.into(),
            number,
            late: false,
        };
        if from == to || self.concerned(from, to).is_empty() {
            return Ok(rename(None));
        }
        let number = self.next_sequence();
        let bytes = rename_to_bytes(from, to).map_err(|_| Errno::EIO)?;
        self.write_making_room(
            "renames",
            &intent_name(number),
            &bytes,
            false,
            None,
            Need::Refusable,
        )?;
        self.unresolved_renames
            .insert(number, (from.into(), to.into()));
        Ok(rename(Some(number)))
    }

    /// The server has done it.
    pub(super) fn finish_rename(&mut self, rename: &Rename) -> Result<(), Errno> {
        let (from, to) = (&rename.from, &rename.to);
        let concerned = self.concerned(from, to);
        // Of two links of one file rename(2) says that nothing is done.
        let same = from == to
            || self
                .names
                .get(from)
                .is_some_and(|id| self.names.get(to) == Some(id));
        if rename.number.is_none() && (same || concerned.is_empty()) {
            return Ok(());
        }
        if same {
            let known = rename
                .number
                .is_some_and(|number| self.unresolved_renames.contains_key(&number));
            self.cancel_rename(rename);
            return if known { Ok(()) } else { Err(Errno::EINVAL) };
        }
        let sequence = self.next_sequence();
        let begun = match rename.number {
            Some(number) if !rename.late => number,
            _ => 0,
        };
        let done = self.rename_path(&done_name(sequence, begun));
        let recorded = match rename.number {
            Some(number) => {
                // Whoever finishes it twice would move what has the old name by now.
                self.unresolved_renames
                    .remove(&number)
                    .ok_or(Errno::EINVAL)?;
                fs::rename(self.rename_path(&intent_name(number)), &done).map_err(errno)
            }
            None => {
                let bytes = rename_to_bytes(from, to).map_err(|_| Errno::EIO)?;
                self.write_making_room(
                    "renames",
                    &done_name(sequence, begun),
                    &bytes,
                    false,
                    None,
                    Need::Done,
                )
            }
        };
        let written = self.move_names(from, to, begun, concerned);
        if written.is_ok() {
            // One that stays is applied to older records only, of which there are none.
            let _ = fs::remove_file(&done);
            if let (Some(number), Err(_)) = (rename.number, recorded) {
                let _ = fs::remove_file(self.rename_path(&intent_name(number)));
            }
            return Ok(());
        }
        recorded.and(written)
    }

    /// The server has not done it.
    pub(super) fn cancel_rename(&mut self, rename: &Rename) {
        let Some(number) = rename.number else { return };
        if self.unresolved_renames.remove(&number).is_some() {
            // One that stays is asked about again in the next life, with the same answer.
            let _ = fs::remove_file(self.rename_path(&intent_name(number)));
        }
    }

    /// Where a rename is written down.
    fn rename_path(&self, name: &str) -> PathBuf {
        self.folder.path().join("renames").join(name)
    }

    /// The copies that have `from` or `to` or something below them as a name.
    fn concerned(&self, from: &Path, to: &Path) -> BTreeSet<CopyId> {
        let below = |name: &Path| {
            let name = name.to_path_buf();
            self.names
                .range::<Path, _>((Bound::Included(name.as_path()), Bound::Unbounded))
                .take_while(|(other, _)| other.starts_with(&name))
                .map(|(_, id)| *id)
                .collect::<Vec<_>>()
        };
        let named = below(from).into_iter().chain(below(to));
        let displaced = self.displaced.iter().copied().filter(|id| {
            let names = self.slots.get(id).map(|slot| slot.record.names.as_slice());
            names
                .unwrap_or_default()
                .iter()
                .any(|name| name.starts_with(from) || name.starts_with(to))
        });
        named.chain(displaced).collect()
    }

    /// In memory all of them move, whatever the disk says; the error is the first in writing that down.
    fn move_names(
        &mut self,
        from: &Path,
        to: &Path,
        begun: u64,
        ids: BTreeSet<CopyId>,
    ) -> Result<(), Errno> {
        let mut moves = Vec::new();
        for id in ids {
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            let stay = stay_of(id, slot.record.dirty.is_some(), begun);
            let old = slot.record.names.clone();
            let new = renamed(&old, from, to, stay);
            if old == new && stay == Stay::Nowhere {
                continue;
            }
            if new.is_empty() {
                self.remove(id);
                continue;
            }
            slot.record.names.clone_from(&new);
            moves.push(Move { id, old, new });
        }
        // Of two copies with one name the later has it, here and (by its record) in the next life: what moved comes
        // after what stayed, and what has its name after what was displaced from it.
        moves.sort_by_key(|moved| (moved.old != moved.new, !self.displaced.contains(&moved.id)));
        self.move_in_index(&moves);
        let mut result = Ok(());
        for moved in moves {
            if moved.old == moved.new && !self.displaced.contains(&moved.id) {
                continue;
            }
            let Some(record) = self.slots.get(&moved.id).map(|slot| slot.record.clone()) else {
                continue;
            };
            result = result.and(self.write_record(moved.id, record, Need::Done));
        }
        result
    }

    fn move_in_index(&mut self, moves: &[Move]) {
        for moved in moves {
            for name in &moved.old {
                if !moved.new.contains(name) && self.names.get(name) == Some(&moved.id) {
                    self.names.remove(name);
                }
            }
        }
        for moved in moves {
            for name in moved.new.iter().filter(|name| !moved.old.contains(name)) {
                if let Some(before) = self.names.insert(name.clone(), moved.id) {
                    self.displaced.insert(before);
                }
            }
        }
    }
}
