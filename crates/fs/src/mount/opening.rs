//! Open: a node is bound to a copy at the first open.

use std::fs::File;
use std::io;
use std::sync::Arc;

use fuser::BackingId;
use nix::errno::Errno;

use crate::blocks;
use crate::errno::errno;
use crate::lease::alone_within;
use crate::remote::{Attributes, State as Connection, Version};
use crate::store::{self, Dirty, Entry, Kept};

use super::file::{FileNode, digest};
use super::looked_up::Seen;
use super::released::WAIT_LONGER;
use super::{Handle, Shared, locked};

/// What an open is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Reading alone.
    Read,
    /// Writing, or reading and writing.
    Write,
    /// The content is thrown away (`O_TRUNC`, truncation to nothing), so it need not be fetched.
    Empty,
}

impl Use {
    /// The use that open(2)'s flags stand for. `O_RDONLY | O_TRUNC` empties the file on Linux.
    pub fn of(flags: i32) -> Self {
        match flags {
            flags if flags & libc::O_TRUNC != 0 => Self::Empty,
            flags if flags & libc::O_ACCMODE == libc::O_RDONLY => Self::Read,
            _ => Self::Write,
        }
    }
}

/// How the kernel is to be answered.
pub enum Opened {
    /// It reads and writes the copy itself.
    Passthrough(u64, Arc<BackingId>),
    /// It asks the daemon; the flag says whether the kernel's own pages of the file are still right.
    Daemon(u64, bool),
}

impl Shared {
    /// Opens a file for a thread of a program; `None`: the reply shows its attributes too. `register` gives the copy to
    /// the kernel (`open_backing` of the reply).
    pub(super) fn open(
        &self,
        ino: u64,
        flags: i32,
        thread: Option<u32>,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> Result<Opened, Errno> {
        let file = self.tree().file(ino).ok_or(Errno::EIO)?;
        // What O_RDONLY | O_TRUNC empties is copied back by its close, as is what a writer changes.
        let writable = Use::of(flags) != Use::Read;
        self.look_up_anew(ino, &file, writable)?;
        self.wait_for_release(ino, &file);
        let seen = thread.and_then(|thread| file.looked_up.within_open(thread));
        let _gate = file.gate();
        self.end_of_mapping(ino, &file);
        let wanted = Use::of(flags);
        let repeated = thread.map_or(Ok(false), |thread| {
            self.is_to_be_repeated(ino, &file, (wanted, seen), thread)
        });
        let opened = match repeated {
            Ok(true) => return Err(Errno::ESTALE),
            answer => answer.and_then(|_| self.bind(ino, &file, (wanted, seen))),
        };
        let opened = opened.and_then(|()| self.opened(ino, &file, writable, register));
        match &opened {
            Err(_) => self.finish(ino, &file),
            // From here on stores through a mapping may change its time: what a look-up has left in the kernel may no
            // longer be believed. No page is touched, so nothing waits for this.
            Ok(Opened::Passthrough(..)) if writable => {
                file.kernel_size.is_unknown();
                self.invalidate(
                    ino,
                    -1,
                    "the time of a store through a mapping may be shown late",
                );
            }
            Ok(Opened::Passthrough(..)) => self.opened_to_read(ino, &file),
            Ok(Opened::Daemon(..)) if thread.is_some() => self.opened_by_size(ino, &file, wanted),
            Ok(Opened::Daemon(..)) => {}
        }
        opened
    }

    /// With the gate held: has the node bound to a copy with the content that an open must see; `seen` is what the
    /// server has said since that began.
    pub(super) fn bind(
        &self,
        ino: u64,
        file: &FileNode,
        (wanted, seen): (Use, Option<Seen>),
    ) -> Result<(), Errno> {
        if file.copy().is_none() {
            self.bring(ino, file, (wanted, seen))?;
        }
        if wanted == Use::Read {
            return Ok(());
        }
        self.before_writing(ino, file, wanted)?;
        if wanted == Use::Empty {
            if let Some(copy) = file.copy() {
                copy.file().set_len(0).map_err(errno)?;
                file.wrote();
            }
        }
        Ok(())
    }

    /// With the gate held and nobody who has the file open: what was mapped after the last close may be so no more.
    /// Then the copy is let go of, and the server is asked as by every open.
    fn end_of_mapping(&self, ino: u64, file: &FileNode) {
        let closed = {
            let state = file.state();
            state.handles == 0 && state.mapped.is_some()
        };
        if closed && (!self.still_mapped(file) || self.wait_for_end(ino, file)) {
            self.finish(ino, file);
        }
    }

    /// The kernel lets go of a copy a moment after its release, which looks like a mapping: that is waited for, once,
    /// where the server has another version.
    fn wait_for_end(&self, ino: u64, file: &FileNode) -> bool {
        let copy = file.copy().filter(|_| !file.state().stays_mapped);
        let Some(copy) = copy.filter(|_| self.has_another(ino, file)) else {
            return false;
        };
        let ended = alone_within(copy.file(), WAIT_LONGER);
        file.state().stays_mapped = !ended;
        ended
    }

    /// With the gate held: writes down that the copy may change.
    fn before_writing(&self, ino: u64, file: &FileNode, wanted: Use) -> Result<(), Errno> {
        self.ask_base(ino, file)?;
        let (copy, base, known) = {
            let state = file.state();
            (state.copy.clone(), state.base, state.known)
        };
        let copy = copy.ok_or(Errno::EIO)?;
        if file.state().journalled {
            return Ok(());
        }
        let kept = base.filter(|_| wanted == Use::Write);
        let blocks = kept.map_or(Ok(None), |_| file.blocks_of(&copy))?;
        let hides = base.is_some_and(|base| self.may_hide(base, known));
        // Also of what is read in a moment: if the server's clock is set back, its version is young again.
        let small = kept.is_some_and(|base| base.size < blocks::LEAST);
        let content = match hides || small || blocks.is_some() {
            true => Some(digest(&copy, blocks.as_deref())?),
            false => None,
        };
        let written = content.filter(|_| hides);
        self.store.mark_dirty(&copy, base, written)?;
        let noted = file.look(&copy).map_err(errno)?;
        let mut state = file.state();
        state.journalled = true;
        state.noted = Some(noted);
        (state.content, state.acknowledged) = (content, None);
        state.blocks = blocks;
        Ok(())
    }

    /// Whether a version that was read then may be another's as well, of a change that came later in the same second.
    pub(super) fn may_hide(&self, version: Version, read: Option<i64>) -> bool {
        let settled = |read| self.remote.clock().is_settled(version.mtime, read);
        // There is but one content of no bytes.
        version.size > 0 && !read.is_some_and(settled)
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.remote.state(), Connection::Down { .. })
    }

    /// With the gate held and a copy bound: one more handle.
    pub(super) fn opened(
        &self,
        ino: u64,
        file: &Arc<FileNode>,
        writable: bool,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> Result<Opened, Errno> {
        let copy = file.copy().ok_or(Errno::EIO)?;
        // The kernel wants all opens of one period alike, and the same backing for all.
        let first = file.state().handles == 0;
        let registered = match first && self.report_state.passthrough() {
            true => self.registered(register(copy.file())),
            false => None,
        };
        let pages = file.look(&copy).map_err(errno)?;
        let number = self.number();
        let backing = {
            let mut state = file.state();
            if first {
                state.backing = registered;
            }
            state.handles += 1;
            state.writers += u32::from(writable);
            state.backing.clone()
        };
        let handle = Handle {
            ino,
            file: Arc::clone(file),
            copy,
            writable,
        };
        locked(&self.handles).insert(number, handle);
        Ok(match backing {
            Some(backing) => Opened::Passthrough(number, backing),
            None => Opened::Daemon(number, !first || file.state().pages == Some(pages)),
        })
    }

    fn registered(&self, answer: io::Result<BackingId>) -> Option<Arc<BackingId>> {
        match answer {
            Ok(backing) => Some(Arc::new(backing)),
            Err(error) => {
                self.report_state
                    .no_passthrough(match error.raw_os_error() {
                        Some(libc::EPERM) => "the kernel lets only root register files",
                        Some(libc::ELOOP) => "the cache folder lies on a stacked file system",
                        _ => "the kernel refused to register a copy",
                    });
                None
            }
        }
    }
}

/// With the gate held: the node resumes a copy that an earlier life, or a copying back that failed, left dirty.
pub(super) fn adopt_dirty(file: &FileNode, entry: &Entry, dirty: &Dirty) {
    let suspect = dirty.other_boot && {
        // One that cannot be read is not known to be whole.
        let digest = store::digest(entry.copy.file()).ok();
        digest.is_none() || (digest != dirty.digest && digest != dirty.settled)
    };
    let mut state = file.state();
    state.suspect = suspect;
    state.copy = Some(entry.copy.clone());
    state.rebase(dirty.base, None);
    state.sending = dirty.sending;
    (state.content, state.sent) = (dirty.content, dirty.sent);
    state.filling = dirty.filling;
    state.journalled = true;
    state.noted = None;
    state.acknowledged = dirty.digest;
    state.diverted = dirty.beside();
    // A conflict is reported when the first putting beside is acknowledged.
    let unnamed = state.diverted.is_some() && dirty.digest.is_none();
    state.displaced_from = unnamed.then(|| entry.path().to_owned());
}

/// Of the server's attributes, what the store keeps.
pub(super) fn kept(of: &Attributes) -> Kept {
    Kept {
        mode: of.mode,
        uid: of.uid,
        gid: of.gid,
    }
}
