//! Reading a cache folder when it is opened: after an orderly end, a kill, or a power cut.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Instant, SystemTime};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::folder::{Folder, Need};
use super::index::{CacheIndex, Slot, fresh_dirty, occupied};
use super::record::{Record, Stamp, rename_from_bytes, renamed};
use super::rename::stay_of;
use super::types::CopyId;
use crate::errno::errno;

/// What a checkpoint leaves: records up to this number, and the content of their copies, are on disk.
#[derive(Serialize, Deserialize)]
struct Settled {
    sequence: u64,
}

/// A rename that was done, but perhaps not written into all records.
struct Done {
    sequence: u64,
    begun: u64,
    from: PathBuf,
    to: PathBuf,
    at: PathBuf,
}

/// A record with what belongs to it.
struct Found {
    id: CopyId,
    record: Record,
    bytes: u64,
    used: SystemTime,
    /// It is not as it was read: write it anew.
    changed: bool,
}

/// What a checkpoint writes.
pub(super) fn settled_bytes(sequence: u64) -> Result<Vec<u8>, Errno> {
    serde_json::to_vec(&Settled { sequence }).map_err(|_| Errno::EIO)
}

/// Reads all that is in the folder, fixes what a kill left half done, and removes what belongs to nothing. Also: a line
/// for each thing that was there and cannot be used, for the person.
pub(super) fn load(
    folder: Folder,
    boot_id: String,
    limit: u64,
) -> Result<(CacheIndex, Vec<String>), Errno> {
    let mut damaged = Vec::new();
    let settled = settled_sequence(folder.path());
    let (unresolved_renames, done) = read_renames(folder.path())?;
    let mut found = read_entries(&folder, &boot_id, settled, &mut damaged)?;
    let numbers = found.iter().flat_map(|f| [f.id.0, f.record.sequence]);
    let numbers = numbers
        .chain(unresolved_renames.keys().copied())
        .chain(done.iter().map(|d| d.sequence))
        .chain([settled]);
    let sequence = numbers.max().unwrap_or(0);
    let gone = apply_renames(&mut found, &done);
    let mut index = CacheIndex {
        folder,
        boot_id,
        limit,
        slots: HashMap::new(),
        names: BTreeMap::new(),
        order: BTreeMap::new(),
        loose: HashMap::new(),
        live: HashSet::new(),
        unresolved_renames,
        displaced: HashSet::new(),
        used: 0,
        sequence,
        tick: 0,
        recounted: Instant::now(),
    };
    for id in gone {
        let _ = fs::remove_file(index.folder.entry_path(id));
    }
    let changed = index.place(found);
    remove_leftovers(&index)?;
    index.folder.refill_spare();
    let mut written = Ok(());
    for id in changed {
        let Some(record) = index.slots.get(&id).map(|slot| slot.record.clone()) else {
            continue;
        };
        written = written.and(index.write_record(id, record, Need::Done));
    }
    if written.is_ok() {
        for rename in done {
            let _ = fs::remove_file(rename.at);
        }
    }
    Ok((index, damaged))
}

impl CacheIndex {
    /// Puts the records in their places, oldest first, so that of two with one name the later has it; the earlier one
    /// loses it if it is clean. Gives those to be written anew.
    fn place(&mut self, mut found: Vec<Found>) -> Vec<CopyId> {
        found.sort_by_key(|f| f.used);
        for (tick, f) in (1_u64..).zip(&found) {
            self.order.insert(tick, f.id);
            self.tick = tick;
        }
        let ticks: HashMap<CopyId, u64> =
            self.order.iter().map(|(tick, id)| (*id, *tick)).collect();
        found.sort_by_key(|f| f.record.sequence);
        let mut changed = Vec::new();
        for f in found {
            if f.changed {
                changed.push(f.id);
            }
            self.used += f.bytes;
            let names = f.record.names.clone();
            let tick = ticks.get(&f.id).copied().unwrap_or(0);
            self.slots.insert(
                f.id,
                Slot {
                    record: f.record,
                    pin: Weak::new(),
                    bytes: f.bytes,
                    tick,
                },
            );
            for name in names {
                let Some(before) = self
                    .names
                    .insert(name.clone(), f.id)
                    .filter(|before| *before != f.id)
                else {
                    continue;
                };
                self.displace(before, &name, &mut changed);
            }
        }
        changed
    }

    fn displace(&mut self, id: CopyId, name: &Path, changed: &mut Vec<CopyId>) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if slot.record.dirty.is_some() {
            self.displaced.insert(id);
            return;
        }
        slot.record.names.retain(|other| other != name);
        if slot.record.names.is_empty() {
            self.remove(id);
        } else {
            changed.push(id);
        }
    }
}

fn settled_sequence(folder: &Path) -> u64 {
    let read = fs::read(folder.join("settled"))
        .ok()
        .and_then(|text| serde_json::from_slice::<Settled>(&text).ok());
    // Without it nothing is known to have outlived a power cut: that is what 0 says.
    read.map_or(0, |settled| settled.sequence)
}

type Doubts = BTreeMap<u64, (PathBuf, PathBuf)>;

fn read_renames(folder: &Path) -> Result<(Doubts, Vec<Done>), Errno> {
    let number = |text: &str| CopyId::parse(text).map(|id| id.0);
    let mut unresolved_renames = BTreeMap::new();
    let mut done = Vec::new();
    for (name, at) in files(&folder.join("renames"))? {
        let intent = name.strip_suffix(".intent").and_then(number);
        let parts = name
            .strip_suffix(".done")
            .and_then(|parts| parts.split_once('-'));
        let parts = parts.and_then(|(sequence, begun)| Some((number(sequence)?, number(begun)?)));
        if name.ends_with(".new") {
            let _ = fs::remove_file(&at);
            continue;
        }
        if intent.is_none() && parts.is_none() {
            continue;
        }
        // Torn by a power cut: it was never forced to disk, so neither was what it speaks of.
        let Some((from, to)) = rename_from_bytes(&fs::read(&at).map_err(errno)?) else {
            let _ = fs::remove_file(&at);
            continue;
        };
        if let Some(number) = intent {
            unresolved_renames.insert(number, (from, to));
        } else if let Some((sequence, begun)) = parts {
            done.push(Done {
                sequence,
                begun,
                from,
                to,
                at,
            });
        }
    }
    done.sort_by_key(|rename| rename.sequence);
    Ok((unresolved_renames, done))
}

fn read_entries(
    folder: &Folder,
    boot_id: &str,
    settled: u64,
    damaged: &mut Vec<String>,
) -> Result<Vec<Found>, Errno> {
    let mut found = Vec::new();
    for (name, at) in files(&folder.path().join("entries"))? {
        if name.ends_with(".new") {
            let _ = fs::remove_file(&at);
            continue;
        }
        let Some(id) = name.strip_suffix(".json").and_then(CopyId::parse) else {
            continue;
        };
        let used = fs::symlink_metadata(&at)
            .and_then(|metadata| metadata.modified())
            .map_err(errno)?;
        let text = fs::read(&at).map_err(errno)?;
        let record = Record::from_bytes(&text);
        let metadata = match fs::symlink_metadata(folder.copy_path(id)) {
            Ok(metadata) => Some(metadata),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(errno(e)),
        };
        match (record, metadata) {
            (Some(record), Some(metadata)) => {
                let bytes = occupied(&metadata);
                match judge(record, Stamp::of(&metadata), boot_id, settled) {
                    Some(record) => found.push(Found {
                        id,
                        record,
                        bytes,
                        used,
                        changed: false,
                    }),
                    None => drop(fs::remove_file(&at)),
                }
            }
            // Made ready by `Store::make_ready` and never used; what has content was torn, as below.
            (None, metadata)
                if text.is_empty() && metadata.as_ref().is_none_or(|m| m.len() == 0) =>
            {
                drop(fs::remove_file(&at));
            }
            (record, metadata) => {
                if let Some(line) = explain(folder, id, record, metadata.is_some())? {
                    damaged.push(line);
                }
                let _ = fs::remove_file(&at);
            }
        }
    }
    Ok(found)
}

/// Whether the record can be believed: a clean copy of an earlier boot only if a checkpoint covered it, for its content
/// may never have reached the disk; one of this boot that was written to since is dirty.
fn judge(mut record: Record, stamp: Stamp, boot_id: &str, settled: u64) -> Option<Record> {
    if record.dirty.is_some() {
        return Some(record);
    }
    let changed = record.stamp != stamp;
    if record.boot_id != boot_id && (changed || record.sequence > settled) {
        return None;
    }
    if changed {
        record.dirty = Some(fresh_dirty(record.version, None, boot_id));
    }
    Some(record)
}

/// What to tell of a record or a copy that is of no use alone.
fn explain(
    folder: &Folder,
    id: CopyId,
    record: Option<Record>,
    has_copy: bool,
) -> Result<Option<String>, Errno> {
    Ok(match (record, has_copy) {
        (None, true) => {
            let at = folder.put_aside(id)?;
            Some(format!(
                "what {} was of cannot be read any more: it was put aside, look into it or remove it",
                at.display()
            ))
        }
        (None, false) => None,
        (Some(record), _) => record.dirty.map(|_| {
            let name = record
                .names
                .first()
                .map(|name| name.display().to_string())
                .unwrap_or_default();
            format!(
                "the local copy of {name:?} had changes and is gone from {}",
                folder.path().display()
            )
        }),
    })
}

/// Applies to each record the renames that are younger; gives the copies that lost their last name.
fn apply_renames(found: &mut Vec<Found>, done: &[Done]) -> Vec<CopyId> {
    let mut gone = Vec::new();
    found.retain_mut(|f| {
        for rename in done
            .iter()
            .filter(|rename| rename.sequence > f.record.sequence)
        {
            let stay = stay_of(f.id, f.record.dirty.is_some(), rename.begun);
            let names = renamed(&f.record.names, &rename.from, &rename.to, stay);
            f.changed |= names != f.record.names;
            f.record.names = names;
        }
        if f.record.names.is_empty() {
            gone.push(f.id);
        }
        !f.record.names.is_empty()
    });
    gone
}

fn remove_leftovers(index: &CacheIndex) -> Result<(), Errno> {
    for (name, at) in files(&index.folder.path().join("copies"))? {
        if CopyId::parse(&name).is_some_and(|id| !index.slots.contains_key(&id)) {
            fs::remove_file(&at).map_err(errno)?;
        }
    }
    Ok(())
}

/// Names (those that are text: all of ours are) and paths in a sub-folder.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>, Errno> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(errno)? {
        let entry = entry.map_err(errno)?;
        if let Ok(name) = entry.file_name().into_string() {
            files.push((name, entry.path()));
        }
    }
    Ok(files)
}
