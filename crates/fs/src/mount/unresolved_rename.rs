//! Renames of which no answer came: whether they were done is found out when there is a connection again.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use fuser::INodeNo;
use nix::errno::Errno;

use crate::remote::Remote;
use crate::store::Rename;

use super::file::FileNode;
use super::{Shared, locked};

/// A rename whose outcome is not known; the program that asked for it got EIO.
pub struct UnresolvedRename {
    /// Folder and name that it had.
    pub from: (u64, OsString),
    /// Folder and name that it was to have.
    pub to: (u64, OsString),
    /// What is written down of it.
    pub record: Rename,
    /// It is done with. Held while that is worked out, and taken before any gate.
    pub settled: Mutex<bool>,
}

/// Whether the server has done a rename: the old name is gone, and the new one is there.
///
/// # Errors
/// `EIO`, `EACCES`: the server does not say whether the names are there.
pub fn was_renamed(remote: &Remote, from: &Path, to: &Path) -> Result<bool, Errno> {
    let there = |path| match remote.lstat(path) {
        Ok(_) => Ok(true),
        // A server that reports the error number itself has the latter where a folder on the way is a file by now.
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
        Err(why) => Err(why),
    };
    Ok(!there(from)? && there(to)?)
}

/// Files with their node numbers, in the order in which their gates are taken.
pub type Files = Vec<(u64, Arc<FileNode>)>;

impl Shared {
    /// Finds the outcome of unresolved renames, if there is a connection. Call it without gates: it takes them.
    pub(super) fn resolve_renames(&self) {
        if locked(&self.unresolved_renames).is_empty() || self.is_down() {
            return;
        }
        let unresolved_renames = locked(&self.unresolved_renames).clone();
        for unresolved in unresolved_renames {
            if self.resolve(&unresolved).is_ok() {
                locked(&self.unresolved_renames).retain(|other| !Arc::ptr_eq(other, &unresolved));
            }
        }
    }

    /// Where it was done, all here gets its new name; but not over a file that is in use under that name, whose changes
    /// would be lost: then all stays as it is, and goes back under the old name.
    fn resolve(&self, unresolved: &UnresolvedRename) -> Result<(), Errno> {
        let (from, to) = (
            (unresolved.from.0, unresolved.from.1.as_os_str()),
            (unresolved.to.0, unresolved.to.1.as_os_str()),
        );
        let record = &unresolved.record;
        let mut settled = locked(&unresolved.settled);
        if *settled {
            return Ok(());
        }
        let (files, replaced) = self.moving(from, to);
        let _gates = gates(&files);
        let done = was_renamed(&self.remote, &record.from, &record.to)?;
        *settled = true;
        let (same, taken) = {
            let tree = self.tree();
            let same = tree.path_of(from.0, from.1).as_ref() == Some(&record.from)
                && tree.path_of(to.0, to.1).as_ref() == Some(&record.to);
            let below = replaced.map_or_else(Vec::new, |ino| tree.files_below(ino));
            (same, below.iter().any(|(_, file)| file.in_use()))
        };
        if !done || !same || taken {
            self.store.cancel_rename(record);
            return Ok(());
        }
        for (_, file) in &files {
            // The kernel may know it by its old name yet.
            file.renamed_late.store(true, Ordering::Relaxed);
        }
        if let Err(why) = self.rename_done(from, to, &files, replaced, record) {
            not_written_down(record, why);
        }
        self.forget_names_of_kernel([&unresolved.from, &unresolved.to]);
        Ok(())
    }

    /// Finds the outcome of renames that earlier lives left. Call it without gates: it takes them.
    pub(super) fn resolve_left_renames(&self) {
        // Taken before the loop: in its head the lock would be held to the loop's end.
        let left_renames = locked(&self.left_renames).clone();
        for rename in left_renames {
            if !self.is_down() && self.resolve_left(&rename).is_ok() {
                locked(&self.left_renames).retain(|other| *other != rename);
            }
        }
    }

    /// Where it was done, what is left below it gets its new name.
    ///
    /// # Errors
    /// EBUSY: a file is in use under one of the names: it must not change places with what is left. As for
    /// [`was_renamed`].
    fn resolve_left(&self, rename: &Rename) -> Result<(), Errno> {
        let concerned =
            |path: &Path| path.starts_with(&rename.from) || path.starts_with(&rename.to);
        let mut files: Files = {
            let tree = self.tree();
            let mut files = tree.files();
            files.retain(|(ino, _)| tree.paths(*ino).iter().any(|path| concerned(path)));
            files
        };
        files.sort_by_key(|(ino, _)| *ino);
        let _gates = gates(&files);
        if !was_renamed(&self.remote, &rename.from, &rename.to)? {
            self.store.cancel_rename(rename);
            return Ok(());
        }
        if files.iter().any(|(_, file)| file.in_use()) {
            return Err(Errno::EBUSY);
        }
        let _names = self.names_change();
        if let Err(why) = self.store.finish_rename(rename) {
            not_written_down(rename, why);
        }
        let moved = self.store.dirty_paths();
        let mut left = locked(&self.left);
        left.retain(|path| !path.starts_with(&rename.from));
        left.extend(
            moved
                .into_iter()
                .filter(|path| path.starts_with(&rename.to)),
        );
        Ok(())
    }

    /// Has the kernel look names up anew. In a thread of its own: the kernel waits for the end of every request that
    /// changes the folder, of which this may be called within one.
    fn forget_names_of_kernel(&self, names: [&(u64, OsString); 2]) {
        let Some(kernel) = self.kernel.get().cloned() else {
            return;
        };
        let names = names.map(Clone::clone);
        let thread = thread::Builder::new().name("oscope-fs names".into());
        // Without it the kernel believes the names for their time, as before.
        let _ = thread.spawn(move || {
            for (parent, name) in names {
                // What it does not know it has not to forget.
                let _ = kernel.inval_entry(INodeNo(parent), &name);
            }
        });
    }

    /// Without gates: a file is about to be opened or cut by a name that it may have lost by a rename of which no
    /// answer came, and which the kernel has looked up before.
    ///
    /// # Errors
    /// ESTALE: the kernel has to look the name up anew. EIO: whether the file has that name is not known, and what is
    /// written could replace another's content.
    pub(super) fn look_up_anew(
        &self,
        ino: u64,
        file: &FileNode,
        writes: bool,
    ) -> Result<(), Errno> {
        self.resolve_renames();
        if file.renamed_late.swap(false, Ordering::Relaxed) {
            return Err(Errno::ESTALE);
        }
        if !writes || locked(&self.unresolved_renames).is_empty() {
            return Ok(());
        }
        let path = self.tree().path(ino);
        let concerned = |record: &Rename| {
            path.as_ref()
                .is_some_and(|path| path.starts_with(&record.from) || path.starts_with(&record.to))
        };
        let unresolved_renames = locked(&self.unresolved_renames);
        match unresolved_renames
            .iter()
            .any(|unresolved| concerned(&unresolved.record))
        {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    /// Where a path leads if the unresolved renames were done: copied back under its old name, a file would be there
    /// twice. Gates may be held.
    ///
    /// # Errors
    /// As for [`was_renamed`].
    pub(super) fn resolved_name(&self, path: PathBuf) -> Result<PathBuf, Errno> {
        let concerned: Vec<Rename> = {
            let unresolved_renames = locked(&self.unresolved_renames);
            let records = unresolved_renames
                .iter()
                .map(|unresolved| &unresolved.record);
            records
                .filter(|record| path.starts_with(&record.from))
                .cloned()
                .collect()
        };
        for record in concerned {
            if !was_renamed(&self.remote, &record.from, &record.to)? {
                continue;
            }
            if let Ok(rest) = path.strip_prefix(&record.from) {
                return Ok(match rest.as_os_str().is_empty() {
                    true => record.to,
                    false => record.to.join(rest),
                });
            }
        }
        Ok(path)
    }

    /// All files that a rename moves or replaces, and the node that it replaces.
    pub(super) fn moving(&self, from: (u64, &OsStr), to: (u64, &OsStr)) -> (Files, Option<u64>) {
        let tree = self.tree();
        let ends = [tree.child(from.0, from.1), tree.child(to.0, to.1)];
        let mut files: Vec<_> = ends
            .iter()
            .flatten()
            .flat_map(|ino| tree.files_below(*ino))
            .collect();
        files.sort_by_key(|(ino, _)| *ino);
        files.dedup_by_key(|(ino, _)| *ino);
        (files, ends[1])
    }

    /// With the gates of those files held: the server has done it.
    pub(super) fn rename_done(
        &self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        files: &[(u64, Arc<FileNode>)],
        replaced: Option<u64>,
        record: &Rename,
    ) -> Result<(), Errno> {
        let _names = self.names_change();
        self.tree().moved(from, to);
        let lost = files.iter().find(|(ino, _)| Some(*ino) == replaced);
        self.lost_name(&record.to, replaced, lost.map(|(_, file)| file.as_ref()));
        self.report_state.renamed(&record.from, &record.to);
        self.store.finish_rename(record)
    }
}

/// The gates of files that are in the order of their nodes.
pub fn gates(files: &[(u64, Arc<FileNode>)]) -> Vec<MutexGuard<'_, ()>> {
    files.iter().map(|(_, file)| file.gate()).collect()
}

fn not_written_down(rename: &Rename, why: Errno) {
    crate::log::note(&format!(
        "that {} was renamed cannot be written down: {}",
        rename.to.display(),
        why.desc()
    ));
}
