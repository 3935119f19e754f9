//! What is looked after without a request: copies that a mapping may still write to, those that could not be
//! copied back, and renames of which no answer came.
//!
//! With passthrough a shared mapping holds the copy itself, not the kernel's open description: RELEASE comes when the
//! descriptor is closed, and the mapping goes on writing unseen (`backing_file_mmap`, fs/backing-file.c). Whether
//! anybody still has a copy open is found out by a lease (`lease`).

use std::collections::HashSet;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::errno::errno;
use crate::lease::alone;
use crate::log;
use crate::remote::{Attributes, Kind, Remote};
use crate::store::{CopyId, Entry};

use super::file::{FileNode, times};
use super::opening::adopt_dirty;
use super::tree::ROOT;
use super::{Shared, recover};

/// How often mapped copies are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Bytes of a mapped copy that are looked at in a millisecond, on average.
const LOOKED_AT_PER_MS: u64 = 16 << 10;

/// How often what could not be copied back is tried again.
const AGAIN: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// The thread that does it; ends when dropped.
pub struct MaintenanceThread {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceThread {
    /// Starts it.
    pub fn start(shared: &Arc<Shared>) -> Self {
        let (end, ended) = mpsc::channel();
        let shared = Arc::downgrade(shared);
        let work = move || {
            let mut tried = Instant::now();
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = Weak::upgrade(&shared) else {
                    return;
                };
                let again = tried.elapsed() >= AGAIN && !shared.is_down();
                if again {
                    tried = Instant::now();
                }
                // Before anything goes back under a name of an unresolved rename.
                shared.resolve_renames();
                shared.copy_back_idle(again);
                shared.free_not_opened();
                shared.store.trim(None);
                shared.remote.close_handles();
                shared.tree().drop_late();
            }
        };
        let thread = thread::Builder::new()
            .name("oscope-fs maintenance".into())
            .spawn(work);
        Self {
            end: Some(end),
            thread: thread.ok(),
        }
    }
}

impl Drop for MaintenanceThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Copies back files that nobody has open for writing but that may be mapped, and, if `again`, those that failed
    /// before.
    pub(super) fn copy_back_idle(&self, again: bool) {
        // Taken before the loop: in its head the lock would be held to the loop's end.
        let files = self.tree().files();
        for (ino, file) in files {
            let (idle, mapped) = {
                let state = file.state();
                (state.writers == 0 && state.journalled, state.mapped)
            };
            // Without a connection each would wait for its limit.
            if !idle || !(mapped.is_some() || again) || self.is_down() {
                continue;
            }
            let _gate = file.gate();
            let due = mapped.is_none_or(|due| due <= Instant::now());
            if file.state().writers > 0 {
                continue;
            }
            let mapped = self.still_mapped(&file);
            if due || !mapped {
                file.state().failed &= !again;
                self.finish_looked(ino, &file, mapped);
            }
        }
        if again {
            self.retry_left();
        }
    }

    /// What earlier lives left and no node is bound to: nobody may ever look it up.
    fn retry_left(&self) {
        self.resolve_left_renames();
        let files = self.tree().files();
        let bound: HashSet<_> = files
            .iter()
            .filter_map(|(_, file)| file.copy().map(|copy| copy.id()))
            .collect();
        for id in self.store.dirty() {
            if bound.contains(&id) || self.is_down() {
                continue;
            }
            let Ok(Some(entry)) = self.store.entry_of(id) else {
                continue;
            };
            if self.store.is_unresolved(entry.path()) {
                // By which name it goes has to be found out before.
                continue;
            }
            match self.node_of(&entry) {
                Ok(Some((ino, file))) => {
                    self.take_over(ino, &file, &entry);
                    self.tree().drop_unused(ino);
                }
                // Its name is that of something else, or its folder is gone: no program can open it by that meanwhile.
                Ok(None) => self.recover_one(id),
                Err(_) => {}
            }
        }
    }

    fn recover_one(&self, id: CopyId) {
        let (path, outcome) = recover::again(&self.remote, &self.store, id);
        match outcome {
            Err(why) => self
                .report_state
                .failed(&path, &self.why_not_back(&path, why)),
            Ok(line) => {
                line.iter().for_each(|line| log::note(line));
                self.report_state.went_back(&path);
            }
        }
    }

    /// The node of an entry's name, looked up name by name; made if the server has nothing there, for what is put there
    /// is to be under its gate. `None`: it cannot be a file's.
    fn node_of(&self, entry: &Entry) -> Result<Option<(u64, Arc<FileNode>)>, Errno> {
        let path = entry.path();
        let (mut ino, mut left) = (ROOT, path.iter().peekable());
        while let Some(name) = left.next() {
            let parent = ino;
            ino = match self.lookup(parent, name) {
                Ok(ino) => ino,
                Err(Errno::ENOENT) if left.peek().is_none() => {
                    let mut tree = self.tree();
                    match tree.child(parent, name) {
                        // In use here, though the server has removed it.
                        Some(ino) => ino,
                        None => tree.made(parent, name, seen(&self.remote, entry)?),
                    }
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
                Err(why) => return Err(why),
            };
        }
        let file = self.tree().file(ino);
        Ok(file.map(|file| (ino, file)))
    }

    /// Binds what was left to the node of its name, and copies it back.
    fn take_over(&self, ino: u64, file: &FileNode, entry: &Entry) {
        let _gate = file.gate();
        // Between the look-up and the gate it may have been opened, renamed, copied back or forgotten.
        let same = self.tree().path(ino).as_deref() == Some(entry.path());
        if !file.in_use() && same {
            let now = self.store.entry_of(entry.copy.id());
            if let Some(now) = now.ok().flatten().filter(|now| now.path() == entry.path()) {
                if let Some(dirty) = &now.dirty {
                    adopt_dirty(file, &now, dirty);
                }
            }
        }
        if file.state().writers == 0 {
            self.finish(ino, file);
        }
    }

    /// With the gate held and no handle left that writes: whether a mapping may still write to the copy.
    pub(super) fn still_mapped(&self, file: &FileNode) -> bool {
        let (copy, backing, handles) = {
            let state = file.state();
            (state.copy.clone(), state.backing.is_some(), state.handles)
        };
        // Without passthrough the kernel's own pages are mapped, and each change of theirs comes as a write before
        // RELEASE.
        let Some(copy) = copy.filter(|_| backing) else {
            return false;
        };
        // A reader's own open description hides whether there is a mapping beside it.
        let mapped = handles > 0 || !alone(copy.file());
        // Each look reads all of it: seldom for what is big.
        let size = copy.file().metadata().map_or(0, |found| found.len());
        let due = Instant::now() + LOOK + Duration::from_millis(size / LOOKED_AT_PER_MS);
        file.state().mapped = mapped.then_some(due);
        mapped
    }
}

/// What a file that the server does not have is to have there.
fn seen(remote: &Remote, entry: &Entry) -> Result<Attributes, Errno> {
    let (atime, mtime) = times(remote, entry.copy.file()).map_err(errno)?;
    Ok(Attributes {
        kind: Kind::File,
        size: entry.copy.file().metadata().map_err(errno)?.len(),
        mode: entry.kept.mode,
        uid: entry.kept.uid,
        gid: entry.kept.gid,
        atime,
        mtime,
        more: None,
    })
}
