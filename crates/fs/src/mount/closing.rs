//! Release: what is left goes back, and the copy is freed at the last one.

use super::file::{FileNode, set_modification};
use super::{Handle, Shared, locked};

impl Shared {
    /// The kernel let go of a handle: what a shared mapping changed since the last flush goes back now.
    pub(super) fn release(&self, number: u64) {
        let Some(handle) = locked(&self.handles).remove(&number) else {
            return;
        };
        let copy = handle.copy.id();
        self.release_handle(number, handle);
        // Held by nobody here any more, it may have to go.
        self.store.trim(Some(copy));
    }

    fn release_handle(&self, number: u64, handle: Handle) {
        let file = &handle.file;
        let _gate = file.gate();
        {
            let mut state = file.state();
            state.handles -= 1;
            state.writers -= u32::from(handle.writable);
            state.flushed.remove(&number);
            state.stays_mapped = false;
        }
        file.released();
        if is_left(file) && self.still_mapped(file) {
            // The flush has copied it back. What a mapping changes from then on is found by the thread that tends; so
            // is the end of the kernel's own use of the copy, which may come a moment after its release.
            self.free(file);
        } else {
            self.finish_looked(handle.ino, file, false);
        }
    }

    /// With the gate held: as [`Self::finish`], also where it failed before.
    pub(super) fn retry(&self, ino: u64, file: &FileNode) {
        file.state().failed = false;
        self.finish(ino, file);
    }

    /// With the gate held: copies back what is left when nobody writes any more, unless that failed before, and frees
    /// the copy when nobody has it open. A failure is already reported and recorded as dirty: trying again at once
    /// would make a program wait twice.
    pub(super) fn finish(&self, ino: u64, file: &FileNode) {
        // Asked before the copy is read: what can no longer be written to then is read whole.
        let mapped = is_left(file) && self.still_mapped(file);
        self.finish_looked(ino, file, mapped);
    }

    /// The same, when it is known whether the copy is still mapped.
    pub(super) fn finish_looked(&self, ino: u64, file: &FileNode, mapped: bool) {
        if is_left(file) && self.copy_back(ino, file, false).is_ok() && !mapped {
            self.settle(ino, file);
        }
        self.free(file);
    }

    /// With the gate held: nobody can write to the copy, and the server has it.
    fn settle(&self, ino: u64, file: &FileNode) {
        let (copy, base, known, diverted) = {
            let state = file.state();
            if state.diverted.is_some() && state.handles > 0 {
                // Forgotten now, what is written through a later open that shares the copy would not be written down.
                return;
            }
            (
                state.copy.clone(),
                state.base,
                state.known,
                state.diverted.is_some(),
            )
        };
        let Some(copy) = copy else { return };
        let path = self.tree().path(ino);
        if let Some(path) = &path {
            // Without a name it goes nowhere, whatever the server has.
            let Some(base) = base else { return };
            match diverted {
                // The name stands for the server's version, which is not in the cache.
                true => self.forget_names(ino),
                false => {
                    let clock = self.remote.clock();
                    let trusted = known.is_some_and(|known| clock.can_trust(base.mtime, known));
                    let settled = set_modification(copy.file(), base.mtime)
                        .and_then(|()| self.store.mark_clean(&copy, base, trusted));
                    if let Err(error) = settled {
                        self.report_state.failed(path, error.desc());
                        return;
                    }
                }
            }
        }
        let mut state = file.state();
        (state.journalled, state.mapped) = (false, None);
        (state.noted, state.acknowledged) = (None, None);
        (state.diverted, state.displaced_from, state.beside_in) = (None, None, None);
        state.suspect = false;
    }

    /// The copy is none of these names' any more.
    fn forget_names(&self, ino: u64) {
        let paths = self.tree().paths(ino);
        paths.iter().for_each(|path| self.store.forget(path));
    }

    /// With the gate held: unbinds the copy if nothing needs it.
    pub(super) fn free(&self, file: &FileNode) {
        let copy = {
            let state = file.state();
            if state.handles > 0 || state.journalled {
                return;
            }
            state.copy.clone()
        };
        let pages = copy.as_ref().and_then(|copy| file.look(copy).ok());
        let mut state = file.state();
        let blocks = state.blocks.take();
        state.rebase(None, None);
        (state.copy, state.backing) = (None, None);
        (state.content, state.sent) = (None, None);
        (state.unasked, state.failed) = (false, false);
        state.pages = pages;
        let known = pages.zip(blocks);
        state.let_go = known.or_else(|| state.let_go.take());
    }
}

/// Nobody has it open to write, and it may not be on the server yet, though that has not been tried in vain.
fn is_left(file: &FileNode) -> bool {
    let state = file.state();
    state.writers == 0 && state.journalled && !state.failed
}
