//! The store as it should be, in memory, and operations that are done to both. Each changes what is on disk in one
//! step: a kill leaves the state before it or the one after it.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::super::{Copy, Digest, Store};
use super::{KEPT, version};

const NAMES: [&str; 9] = ["a", "b", "d", "d/a", "d/b", "e/a", "e/b", "d/s/a", "e/s/a"];
const RENAMED: [&str; 9] = ["a", "b", "d", "e", "d/a", "e/b", "d/s", "e/s", "d/s/a"];

/// One file, as it can be seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub names: BTreeSet<String>,
    pub content: u32,
    pub version: Option<u32>,
    /// Base and what is being sent.
    pub dirty: Option<(Option<u32>, Option<u32>, Option<Digest>)>,
}

/// All that can be seen: files, unresolved renames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub files: BTreeSet<Seen>,
    pub unresolved_renames: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Fetch(String),
    Create(String),
    MarkDirty(String),
    Write(String),
    Sending(String),
    Acknowledged(String),
    Clean(String),
    Forget(String),
    Link(String, String),
    Begin(String, String),
    /// Of the rename that was begun just before.
    Finish,
    Cancel,
    /// Of the oldest unresolved rename.
    ResolveDone,
    ResolveNot,
    EvictAll,
    Checkpoint,
}

impl Step {
    /// Any three numbers are a step.
    pub fn decode((kind, first, second): (u8, u8, u8)) -> Self {
        let name = NAMES[usize::from(first) % NAMES.len()].to_owned();
        let from = RENAMED[usize::from(first) % RENAMED.len()].to_owned();
        let to = RENAMED[usize::from(second) % RENAMED.len()].to_owned();
        match kind % 24 {
            0..=3 => Self::Fetch(name),
            4..=5 => Self::Create(name),
            6..=7 => Self::MarkDirty(name),
            8..=10 => Self::Write(name),
            11 => Self::Sending(name),
            12 => Self::Acknowledged(name),
            13 => Self::Clean(name),
            14 => Self::Forget(name),
            15 => Self::Link(name, NAMES[usize::from(second) % NAMES.len()].to_owned()),
            16..=18 => Self::Begin(from, to),
            19 => Self::Finish,
            20 => Self::Cancel,
            21 => Self::ResolveDone,
            22 => Self::ResolveNot,
            _ if second % 2 == 0 => Self::EvictAll,
            _ => Self::Checkpoint,
        }
    }
}

/// The model. `begun`: the last step was a Begin.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub state: State,
    pub begun: bool,
    /// First names of clean files that a checkpoint covers as they are.
    pub safe: BTreeSet<Seen>,
    /// Files that somebody holds.
    pub held: BTreeSet<BTreeSet<String>>,
}

fn below(name: &str, folder: &str) -> bool {
    name == folder
        || name
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    fn take(&mut self, name: &str) -> Option<Seen> {
        let found = self
            .state
            .files
            .iter()
            .find(|file| file.names.contains(name))
            .cloned()?;
        self.state.files.remove(&found);
        Some(found)
    }

    fn get(&self, name: &str) -> Option<&Seen> {
        self.state
            .files
            .iter()
            .find(|file| file.names.contains(name))
    }

    /// Takes the name off its file.
    fn detach(&mut self, name: &str) {
        if let Some(mut file) = self.take(name) {
            file.names.remove(name);
            if !file.names.is_empty() {
                self.written(file);
            }
        }
    }

    fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Seen)) {
        if let Some(mut file) = self.take(name) {
            let before = file.clone();
            edit(&mut file);
            if file == before {
                self.state.files.insert(file);
            } else {
                self.written(file);
            }
        }
    }

    /// Its record is written anew: no checkpoint covers it, even if it is as it was once.
    fn written(&mut self, file: Seen) {
        self.safe.remove(&file);
        self.state.files.insert(file);
    }

    fn rename(&mut self, from: &str, to: &str) {
        if self.get(from).is_some_and(|file| file.names.contains(to)) {
            return;
        }
        let names: Vec<String> = self
            .state
            .files
            .iter()
            .flat_map(|file| file.names.iter().cloned())
            .collect();
        for name in names.iter().filter(|name| below(name, to)) {
            self.detach(name);
        }
        for name in names.iter().filter(|name| below(name, from)) {
            let new = format!("{to}{}", &name[from.len()..]);
            self.edit(name, |file| {
                file.names.remove(name);
                file.names.insert(new);
            });
        }
    }

    /// Whether the step means something here; those that leave two files with one name have tests of their own.
    pub fn allows(&self, step: &Step) -> bool {
        let clear = |from: &str, to: &str, late: bool| {
            let dirty = self
                .state
                .files
                .iter()
                .filter(|file| file.dirty.is_some())
                .flat_map(|file| &file.names);
            let in_the_way = |name: &&String| below(name, to) && (late || *name != to);
            !below(from, to) && !below(to, from) && !dirty.clone().any(|name| in_the_way(&name))
        };
        match step {
            Step::Link(name, to) => self.get(name).is_some() && self.get(to).is_none(),
            Step::Begin(from, to) => clear(from, to, false),
            Step::Finish | Step::Cancel => self.begun,
            Step::ResolveDone => {
                !self.begun
                    && self
                        .state
                        .unresolved_renames
                        .first()
                        .is_some_and(|(from, to)| clear(from, to, true))
            }
            Step::ResolveNot => !self.begun && !self.state.unresolved_renames.is_empty(),
            _ => true,
        }
    }

    /// Does it; `number` is what is written, and the time of what is sent.
    pub fn apply(&mut self, step: &Step, number: u32) {
        let begun = std::mem::take(&mut self.begun);
        let file = |name: &str, dirty: bool| Seen {
            names: [name.to_owned()].into(),
            content: number,
            version: (!dirty).then_some(number),
            dirty: dirty.then_some((None, None, None)),
        };
        match step {
            Step::Fetch(name) | Step::Create(name)
                if self.get(name).is_none_or(|file| file.dirty.is_none()) =>
            {
                self.detach(name);
                self.state
                    .files
                    .insert(file(name, matches!(step, Step::Create(_))));
            }
            Step::Fetch(_) | Step::Create(_) => {}
            Step::MarkDirty(name) => self.edit(name, |file| {
                file.dirty = file.dirty.or(Some((file.version, None, None)));
            }),
            Step::Write(name) => self.edit(name, |file| {
                if file.dirty.is_some() {
                    file.content = number;
                }
            }),
            Step::Sending(name) => self.edit(name, |file| {
                if let Some(dirty) = &mut file.dirty {
                    dirty.1 = Some(number);
                }
            }),
            Step::Acknowledged(name) => self.edit(name, |file| {
                if file.dirty.is_some() {
                    file.dirty = Some((Some(number), None, Some([number as u8; 16])));
                    file.version = Some(number);
                }
            }),
            Step::Clean(name) => self.edit(name, |file| {
                (file.dirty, file.version) = (None, Some(number))
            }),
            Step::Forget(name) => self.detach(name),
            Step::Link(name, to) => self.edit(name, |file| file.names.extend([to.clone()])),
            Step::Begin(from, to) => {
                let mut names = self.state.files.iter().flat_map(|file| &file.names);
                if names.any(|name| below(name, from) || below(name, to)) {
                    self.state
                        .unresolved_renames
                        .push((from.clone(), to.clone()));
                    self.begun = true;
                }
            }
            Step::Finish if begun => {
                if let Some((from, to)) = self.state.unresolved_renames.pop() {
                    self.rename(&from, &to);
                }
            }
            Step::Cancel if begun => drop(self.state.unresolved_renames.pop()),
            Step::Finish | Step::Cancel => {}
            Step::ResolveDone => {
                let (from, to) = self.state.unresolved_renames.remove(0);
                self.rename(&from, &to);
            }
            Step::ResolveNot => drop(self.state.unresolved_renames.remove(0)),
            Step::EvictAll => {
                let held = self.held.clone();
                self.state
                    .files
                    .retain(|file| file.dirty.is_some() || held.contains(&file.names));
            }
            Step::Checkpoint => self.safe = self.state.files.clone(),
        }
    }
}

/// Does the step to the store, as the mount does it. `rename` is what the last Begin gave.
pub fn perform(
    store: &Store,
    step: &Step,
    number: u32,
    rename: &mut Option<super::super::Rename>,
) -> Option<Copy> {
    let entry = |name: &str| store.entry(Path::new(name)).unwrap();
    let write = |copy: &Copy| copy.file().write_all_at(&content(number), 0).unwrap();
    let allowed = |result: Result<(), Errno>| {
        assert!(matches!(result, Ok(()) | Err(Errno::EBUSY)), "{result:?}")
    };
    let mut held = None;
    match step {
        Step::Fetch(name) | Step::Create(name) => {
            let copy = store.make(16).unwrap();
            write(&copy);
            allowed(match step {
                Step::Fetch(_) => store.keep(&copy, Path::new(name), version(number), true, KEPT),
                _ => store.keep_dirty(&copy, Path::new(name), (None, None), KEPT),
            });
            held = Some(copy);
        }
        Step::MarkDirty(name) => {
            entry(name)
                .inspect(|entry| store.mark_dirty(&entry.copy, entry.version, None).unwrap());
        }
        Step::Write(name) => {
            entry(name)
                .filter(|entry| entry.dirty.is_some())
                .inspect(|entry| write(&entry.copy));
        }
        Step::Sending(name) => {
            entry(name).inspect(|entry| {
                store
                    .mark_sending(&entry.copy, version(number), None, None)
                    .unwrap()
            });
        }
        Step::Acknowledged(name) => {
            let digest = [number as u8; 16];
            entry(name).inspect(|entry| {
                store
                    .mark_acknowledged(&entry.copy, version(number), digest)
                    .unwrap()
            });
        }
        Step::Clean(name) => {
            entry(name).inspect(|entry| {
                store
                    .mark_clean(&entry.copy, version(number), true)
                    .unwrap()
            });
        }
        Step::Forget(name) => store.forget(Path::new(name)),
        Step::Link(name, to) => {
            entry(name).inspect(|entry| store.linked(&entry.copy, Path::new(to)).unwrap());
        }
        Step::Begin(from, to) => {
            *rename = Some(store.begin_rename(Path::new(from), Path::new(to)).unwrap())
        }
        Step::Finish => drop(
            rename
                .take()
                .inspect(|rename| store.finish_rename(rename).unwrap()),
        ),
        Step::Cancel => drop(rename.take().inspect(|rename| store.cancel_rename(rename))),
        Step::ResolveDone => store.finish_rename(&store.unresolved_renames()[0]).unwrap(),
        Step::ResolveNot => store.cancel_rename(&store.unresolved_renames()[0]),
        Step::EvictAll => while store.lock().evict_one(None) {},
        Step::Checkpoint => store.checkpoint().unwrap(),
    }
    held
}

fn content(number: u32) -> [u8; 16] {
    let mut content = [0; 16];
    content
        .chunks_exact_mut(4)
        .for_each(|part| part.copy_from_slice(&number.to_le_bytes()));
    content
}

/// What can be seen of the store. Panics on content that nobody wrote, and on names that lead nowhere or elsewhere.
pub fn observe(store: &Store) -> State {
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let ids: Vec<_> = store.lock().slots.keys().copied().collect();
    let mut files = BTreeSet::new();
    for id in &ids {
        let entry = store
            .entry_of(*id)
            .unwrap()
            .expect("an entry that is listed has its copy");
        let mut bytes = [0; 17];
        assert_eq!(
            entry.copy.file().read_at(&mut bytes, 0).unwrap(),
            16,
            "a copy has its whole content"
        );
        let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(bytes[..16], content(number), "content that nobody wrote");
        for path in &entry.paths {
            assert_eq!(
                store.entry(path).unwrap().unwrap().copy.id(),
                *id,
                "{path:?} leads to its copy"
            );
        }
        let mtime =
            |version: Option<crate::remote::Version>| version.map(|version| version.mtime.coarse());
        files.insert(Seen {
            names: entry.paths.iter().map(text).collect(),
            content: number,
            version: mtime(entry.version),
            dirty: entry
                .dirty
                .map(|dirty| (mtime(dirty.base), mtime(dirty.sending), dirty.digest)),
        });
    }
    assert_eq!(files.len(), ids.len(), "no two entries are the same");
    assert_eq!(
        store.lock().names.len(),
        files.iter().map(|file| file.names.len()).sum::<usize>()
    );
    let unresolved_renames = store.unresolved_renames();
    State {
        files,
        unresolved_renames: unresolved_renames
            .iter()
            .map(|rename| (text(&rename.from), text(&rename.to)))
            .collect(),
    }
}
