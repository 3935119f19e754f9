//! Create: a new file on the server, bound from its first moment to a copy that is empty and dirty.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use fuser::BackingId;
use nix::errno::Errno;

use super::file::set_times;
use super::names::Maker;
use super::opening::{Opened, kept};
use super::{Shared, locked};
use crate::errno::errno;

impl Shared {
    /// Makes a new file and opens it; opens the one that was made on the server since the kernel looked, unless it has
    /// to be new (`O_EXCL`).
    pub(super) fn create_or_open(
        &self,
        (parent, name): (u64, &OsStr),
        mode: u32,
        flags: i32,
        by: Maker,
        register: impl Fn(&File) -> io::Result<BackingId>,
    ) -> Result<(u64, Opened), Errno> {
        match self.create((parent, name), mode, flags, by, &register) {
            Err(Errno::EEXIST) if flags & libc::O_EXCL == 0 => {
                let ino = self.lookup_anew(parent, name)?;
                Ok((ino, self.open(ino, flags, None, register)?))
            }
            made => made,
        }
    }

    /// Makes a new file and opens it. `Err(EEXIST)`: there is one.
    pub(super) fn create(
        &self,
        (parent, name): (u64, &OsStr),
        mode: u32,
        flags: i32,
        by: Maker,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> Result<(u64, Opened), Errno> {
        let path = self.tree().path_of(parent, name).ok_or(Errno::ENOENT)?;
        // Before the server makes the file: a full cache must not leave an empty one there.
        let spare = locked(&self.spare).take();
        let copy = spare.map_or_else(|| self.new_copy(&path, 0), Ok)?;
        let known = self.child_file(parent, name);
        // What is in use here goes beside by itself, whole, when it is closed.
        if known.is_none_or(|(_, file)| !file.in_use()) {
            self.put_leftover_beside(parent, name, &path)?;
        }
        let began = self.remote.clock().now();
        let made = self.remote.create(&path, mode & 0o7777)?;
        let made = self.owned(parent, &path, made, by);
        self.remote.clock().observe(made.mtime, began);
        let mut tree = self.tree();
        tree.taken(parent, name);
        let ino = tree.made(parent, name, made);
        let file = tree.file(ino).ok_or(Errno::EIO)?;
        // Against the order of locks, but nobody else can hold the gate of a node that was made just now.
        let _gate = file.gate();
        drop(tree);
        self.follow_displaced();
        set_times(copy.file(), (made.atime, made.mtime))?;
        self.under_its_names(ino, &copy, |path| {
            self.store
                .keep_dirty(&copy, path, (Some(made.version()), None), kept(&made))
        })?;
        let noted = file.look(&copy).map_err(errno)?;
        {
            let mut state = file.state();
            state.copy = Some(copy);
            state.rebase(Some(made.version()), Some(began));
            state.journalled = true;
            state.noted = Some(noted);
        }
        self.report_state.has_room(&path);
        let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
        Ok((ino, self.opened(ino, &file, writable, register)?))
    }

    /// Makes an empty copy for the next file, while nobody waits for it.
    pub(super) fn prepare(&self) {
        if locked(&self.spare).is_some() {
            return;
        }
        // Lack of room is reported when it matters: to the program that makes the next file.
        let made = self.store.make_ready().ok();
        *locked(&self.spare) = made;
    }
}
