//! Operations on names: make, remove, rename, link.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fuser::{RenameFlags, Request};
use nix::errno::Errno;

use crate::log;
use crate::remote::{Attributes, Change, Kind, is_temporary};

use super::Shared;
use super::file::FileNode;
use super::unresolved_rename::{UnresolvedRename, gates};
/// Of a folder: what is made in it has its group.
const SET_GROUP_ID: u32 = 0o2000;

/// Who makes something.
#[derive(Clone, Copy)]
pub struct Maker {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Maker {
    /// Who sent a request.
    pub fn of(request: &Request) -> Self {
        Self {
            uid: request.uid(),
            gid: request.gid(),
        }
    }
}

impl Shared {
    /// Makes a folder.
    pub(super) fn make_folder(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        by: Maker,
    ) -> Result<u64, Errno> {
        let path = self.free_path(parent, name)?;
        let made = self.remote.make_folder(&path, mode & 0o7777)?;
        let made = self.owned(parent, &path, made, by);
        // Under one lock: another's file in the folder must not be overlooked.
        let mut tree = self.tree();
        tree.taken(parent, name);
        let ino = tree.made(parent, name, made);
        tree.list_nothing(ino);
        Ok(ino)
    }

    /// Makes a symbolic link.
    pub(super) fn make_link(
        &self,
        parent: u64,
        name: &OsStr,
        target: &Path,
        by: Maker,
    ) -> Result<u64, Errno> {
        let path = self.free_path(parent, name)?;
        let made = self.remote.make_link(target, &path)?;
        Ok(self.enter_made(parent, name, self.owned(parent, &path, made, by)))
    }

    /// Makes an empty file without opening it (mknod).
    pub(super) fn make_file(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        by: Maker,
    ) -> Result<u64, Errno> {
        let path = self.free_path(parent, name)?;
        let asked = self.remote.clock().now();
        let made = self.remote.create(&path, mode & 0o7777)?;
        self.remote.clock().observe(made.mtime, asked);
        Ok(self.enter_made(parent, name, self.owned(parent, &path, made, by)))
    }

    /// Makes a fifo, a socket or a device: its mode with its kind, and the device that it stands for.
    pub(super) fn make_special(
        &self,
        parent: u64,
        name: &OsStr,
        (mode, device): (u32, u32),
        by: Maker,
    ) -> Result<u64, Errno> {
        let path = self.free_path(parent, name)?;
        let made = self.remote.make_special(&path, mode, device)?;
        Ok(self.enter_made(parent, name, self.owned(parent, &path, made, by)))
    }

    /// The node of what this mount has just made.
    fn enter_made(&self, parent: u64, name: &OsStr, made: Attributes) -> u64 {
        let mut tree = self.tree();
        tree.taken(parent, name);
        tree.made(parent, name, made)
    }

    /// What root on the server made for another user becomes that user's, where users share the mount: there the
    /// numbers of both sides are the same ones. A group that it has of its folder (the set-group-id bit) stays.
    pub(super) fn owned(
        &self,
        parent: u64,
        path: &Path,
        made: Attributes,
        by: Maker,
    ) -> Attributes {
        let folder = self.tree().attributes(parent);
        let inherits = folder.is_some_and(|(folder, _)| folder.mode & SET_GROUP_ID != 0);
        let gid = match made.gid {
            0 if !inherits => by.gid,
            gid => gid,
        };
        if !self.options.allow_other || made.uid != 0 || (by.uid, gid) == (made.uid, made.gid) {
            return made;
        }
        let change = Change {
            owner: Some((by.uid, gid)),
            // The owner clears the set-id bits that it was made with.
            mode: (made.mode & 0o6000 != 0 && made.kind != Kind::Link).then_some(made.mode),
            ..Change::default()
        };
        match self.remote.set(path, &change) {
            Ok((_, now)) => now,
            Err(why) => {
                log::note(&format!(
                    "{} stays root's: {}",
                    super::report::shown(path),
                    why.desc()
                ));
                made
            }
        }
    }

    /// Gives a file one more name.
    pub(super) fn link(&self, ino: u64, parent: u64, name: &OsStr) -> Result<(), Errno> {
        // What is no regular file has no content here, and no gate.
        let file = self.tree().file(ino);
        let _gate = file.as_ref().map(|file| file.gate());
        let at = self.free_path(parent, name)?;
        let of = self.tree().path(ino).ok_or(Errno::ENOENT)?;
        let made = self.remote.hard_link(&of, &at)?;
        let copy = match file.as_ref().map(|file| file.copy()) {
            Some(Some(copy)) => Some(copy),
            Some(None) => self.store.entry(&of)?.map(|entry| entry.copy),
            None => None,
        };
        {
            let mut tree = self.tree();
            tree.linked(ino, parent, name);
            tree.became(ino, made);
        }
        copy.map_or(Ok(()), |copy| self.store.linked(&copy, &at))
    }

    /// Removes a name of a file or link. What is open goes on without a name, and is not copied back.
    pub(super) fn unlink(&self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let (ino, file) = self.child_file(parent, name).unzip();
        let _gate = file.as_ref().map(|file| file.gate());
        // While the gate was waited for, a folder above may have been renamed.
        let path = self.tree().path_of(parent, name).ok_or(Errno::ENOENT)?;
        match self.remote.remove(&path) {
            // Removed on the server meanwhile, but here it was still in use and so still there.
            Err(Errno::ENOENT) if file.as_ref().is_some_and(|file| file.in_use()) => {}
            answer => answer?,
        }
        self.tree().removed(parent, name);
        self.store.forget(&path);
        self.lost_name(&path, ino, file.as_deref());
        Ok(())
    }

    /// With the gate held: the name no longer stands for the file.
    pub(super) fn lost_name(&self, path: &Path, ino: Option<u64>, file: Option<&FileNode>) {
        let other = ino.and_then(|ino| self.tree().path(ino));
        match other {
            Some(other) => self.report_state.renamed(path, &other),
            None => self.report_state.removed(path),
        }
        let Some(file) = file.filter(|_| ino.is_some_and(|ino| self.tree().names(ino) == 0)) else {
            return;
        };
        let closed = {
            let mut state = file.state();
            let closed = state.handles == 0;
            // Removed on purpose: what had not gone back stays away.
            state.journalled &= !closed;
            closed
        };
        if closed {
            self.free(file);
        }
    }

    /// Removes an empty folder. Temporary files that a broken copying back left in it do not count.
    pub(super) fn remove_folder(&self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let path = self.tree().path_of(parent, name).ok_or(Errno::ENOENT)?;
        match self.remote.remove_folder(&path) {
            Err(Errno::ENOTEMPTY) => {
                let inside = self.remote.list(&path)?;
                if !inside.iter().all(|(name, _)| is_temporary(name)) {
                    return Err(Errno::ENOTEMPTY);
                }
                for (name, _) in inside {
                    self.remote.remove(&path.join(name))?;
                }
                self.remote.remove_folder(&path)?;
            }
            answer => answer?,
        }
        self.tree().removed(parent, name);
        Ok(())
    }

    /// Renames. All open files that move, or are replaced, are held meanwhile, so that none is copied back to a name
    /// that goes.
    pub(super) fn rename(
        &self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if flags.intersects(RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        if is_temporary(to.1) {
            return Err(Errno::EPERM);
        }
        // A rename that is repeated has to know the outcome of the first.
        self.resolve_renames();
        let (files, replaced) = self.moving(from, to);
        let _gates = gates(&files);
        // While the gates were waited for, a folder above may have been renamed.
        let (old, new) = {
            let tree = self.tree();
            let old = tree.path_of(from.0, from.1).ok_or(Errno::ENOENT)?;
            (old, tree.path_of(to.0, to.1).ok_or(Errno::ENOENT)?)
        };
        let record = self.store.begin_rename(&old, &new)?;
        let answer = match flags.contains(RenameFlags::RENAME_NOREPLACE) {
            true => self.remote.rename_new(&old, &new),
            false => self.remote.rename(&old, &new),
        };
        match answer {
            Ok(()) => self.rename_done(from, to, &files, replaced, &record),
            // Whether it was done is not known: it is found out when there is a connection again.
            Err(Errno::EIO) => {
                super::locked(&self.unresolved_renames).push(Arc::new(UnresolvedRename {
                    from: (from.0, from.1.to_owned()),
                    to: (to.0, to.1.to_owned()),
                    record: record.given_up(),
                    settled: Mutex::default(),
                }));
                Err(Errno::EIO)
            }
            Err(why) => {
                self.store.cancel_rename(&record);
                Err(why)
            }
        }
    }

    pub(super) fn child_file(&self, parent: u64, name: &OsStr) -> Option<(u64, Arc<FileNode>)> {
        let tree = self.tree();
        let ino = tree.child(parent, name)?;
        Some((ino, tree.file(ino)?))
    }

    /// The path of a name that is to be made.
    pub(super) fn free_path(&self, parent: u64, name: &OsStr) -> Result<std::path::PathBuf, Errno> {
        if is_temporary(name) {
            // Such a name would be hidden, and taken for one of ours.
            return Err(Errno::EPERM);
        }
        self.tree().path_of(parent, name).ok_or(Errno::ENOENT)
    }

    /// Whether access(2) may say yes: the server is the judge when it is asked, but what nobody may execute is no
    /// program.
    pub(super) fn may(&self, ino: u64, execute: bool) -> Result<(), Errno> {
        let (of, _) = self.tree().attributes(ino).ok_or(Errno::ESTALE)?;
        let program = of.kind != Kind::File || of.mode & 0o111 != 0;
        (program || !execute).then_some(()).ok_or(Errno::EACCES)
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// ESTALE: its name stands for something else now, which the kernel then looks up. Those of the server.
    pub(super) fn read_link(&self, ino: u64) -> Result<std::path::PathBuf, Errno> {
        let path = self.tree().path(ino).ok_or(Errno::ENOENT)?;
        match self.remote.read_link(&path) {
            Err(Errno::EINVAL) => self.lstat(ino).and_then(|_| self.remote.read_link(&path)),
            answer => answer,
        }
    }
}
