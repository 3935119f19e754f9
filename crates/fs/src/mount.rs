//! The FUSE file system over `remote` and `store`.
//!
//! # Locks, in the order in which they may be taken
//!
//! 0. `UnresolvedRename::settled`: held while it is found out whether a rename was done.
//! 1. `FileNode::gate`, one a file: held while its copy is fetched, copied back, opened, closed, renamed or removed,
//!    the server's answer included. Who needs several (rename) takes them in order of node number. Then
//!    `Shared::following`, while the store records names that were taken.
//! 2. `Shared::names`: held while the tree and the store come to agree on names; never while the server is asked.
//! 3. `Shared::tree`: nodes, names, cached attributes. Never held while the server or the disk is asked.
//! 4. `FileNode::state`: what a reader may see of a file while its gate is held by somebody else. Never held while the
//!    server or the disk is asked; changed only with the gate held (but for `flushed`).
//! 5. `Shared::handles`, `Shared::folders`, `FileNode::kernel_size`, `FileNode::looked_up`, those of the report and of
//!    the worker threads: held for a look-up or a change alone.
//!
//! # Who waits for what
//!
//! The session's threads read requests of the kernel and do what memory and local disk can answer (read, write,
//! attributes that are fresh). What may ask the server some of them do too, but never all at once: the rest is given to
//! worker threads, which send the reply. Who does it waits for gates and for the server; the server waits for nobody,
//! and each of its answers has a time limit, so each gate is given back. Three wait for the kernel, the first two
//! without a gate: an open for a release that is on its way, within a time limit (`released`); a setting of times for
//! the writes of pages that are mapped (`change`), which the session's other threads answer by themselves; and an open
//! for the end of the kernel's use of a copy that was released, within a time limit (`opening`), which needs no answer.

mod ahead;
mod attributes;
mod back;
mod beside;
mod change;
mod closing;
mod conflict;
mod creating;
mod data;
mod fetching;
mod file;
mod filling;
mod folders;
mod kernel_size;
mod leftover;
mod looked_up;
mod lookup;
mod maintenance;
mod names;
mod opening;
mod operations;
mod ours;
mod recover;
mod refresh;
mod released;
mod replies;
mod report;
mod requests;
mod room;
mod running;
mod same;
mod session;
mod tree;
mod unresolved_rename;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use crate::remote::Remote;
use crate::store::{Copy, Rename, Store};

pub use operations::OPERATIONS;
pub use recover::{Recovered, recover};
pub use refresh::Refreshed;
pub use report::{Report, shown};
pub use running::Mounted;

use file::FileNode;
use folders::Folder;
use report::ReportState;
use tree::Tree;
use unresolved_rename::UnresolvedRename;

/// How a mount is to behave.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long attributes and listings are believed.
    pub attribute_time: Duration,
    /// Small files are fetched ahead where a round trip takes as long or longer.
    pub fetch_ahead_from: Duration,
    /// Whether the kernel is to read and write the copies itself, where it can.
    pub passthrough: bool,
    /// Whether other users may use the mount; the kernel then checks permissions by the server's modes and owners.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
}

/// A mount's parts, shared by its threads.
pub struct Shared {
    remote: Arc<Remote>,
    store: Arc<Store>,
    options: Options,
    tree: Mutex<Tree>,
    handles: Mutex<HashMap<u64, Handle>>,
    folders: Mutex<HashMap<u64, Arc<Folder>>>,
    /// Held by who changes names in the tree and in the store, so that others see both changed or neither.
    names: RwLock<()>,
    next: AtomicU64,
    report_state: ReportState,
    /// Held while the store follows what the tree displaced: who waits for it finds the store as the tree is.
    following: Mutex<()>,
    /// An empty copy, ready for the next file that is made.
    spare: Mutex<Option<Copy>>,
    /// Dirty files of earlier lives that no node is bound to yet.
    left: Mutex<HashSet<PathBuf>>,
    /// Renames of which no answer came.
    unresolved_renames: Mutex<Vec<Arc<UnresolvedRename>>>,
    /// Those of earlier lives that recovery could not resolve. No node was at their names when this life began.
    left_renames: Mutex<Vec<Rename>>,
    /// The way to tell the kernel something that it has not asked for; there once it is mounted.
    kernel: OnceLock<fuser::Notifier>,
}

/// One open description of a file.
#[derive(Clone)]
struct Handle {
    ino: u64,
    file: Arc<FileNode>,
    copy: Copy,
    writable: bool,
}

impl Shared {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        locked(&self.tree)
    }

    /// While this is held no rename ends.
    fn names_stay(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the end of a rename, in the tree and in the store.
    fn names_change(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, number: u64) -> Option<Handle> {
        locked(&self.handles).get(&number).cloned()
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What the mount has done and what is wrong with it.
    pub fn report(&self) -> Report {
        self.report_state.report(&self.remote, &self.store)
    }

    /// The same while the mount runs: what the server has is not left, though the kernel may yet have it open.
    pub fn present_report(&self) -> Report {
        let mut report = self.report();
        // Taken before the loop: in its head the lock would be held to the loop's end.
        let files = self.tree().files();
        for (ino, file) in files {
            if file.is_sent() {
                let names: Vec<_> = self
                    .tree()
                    .paths(ino)
                    .iter()
                    .map(|name| shown(name))
                    .collect();
                report.dirty.retain(|name| !names.contains(name));
            }
        }
        report
    }
}

/// The lock, also after a thread panicked with it: what it guards is changed in single steps.
pub fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
