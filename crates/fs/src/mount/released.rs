//! A close whose release is still on its way.
//!
//! close(2) returns after FLUSH; the kernel sends RELEASE at about that time, but does not wait for it. An open that
//! comes then must not take the closed file for one that is open and share its copy: the server may have another
//! version by now.

use std::time::{Duration, Instant};

use super::file::FileNode;
use super::{Shared, locked};

/// How long an open waits for the release of what was flushed. A descriptor that has a duplicate (dup, fork) is flushed
/// when the first of the two is closed, and may then stay open for ever: it costs this much, once a flush.
const WAIT: Duration = Duration::from_millis(100);

/// How long where the server has another version, which an open must see if the file is closed: a machine that is busy
/// may hold the release up for longer.
pub(super) const WAIT_LONGER: Duration = Duration::from_secs(2);

impl Shared {
    /// A descriptor of this handle was closed; whether it was the last one, only the release will tell.
    pub(super) fn flushed(&self, number: u64) {
        let file = match locked(&self.handles).get(&number) {
            Some(handle) => std::sync::Arc::clone(&handle.file),
            None => return,
        };
        file.state().flushed.insert(number);
    }

    /// Without the gate: waits while all that has the file open was flushed and may be about to be released.
    pub(super) fn wait_for_release(&self, ino: u64, file: &FileNode) {
        if file.is_released_within(WAIT) {
            return;
        }
        let flushed = file.state().flushed.clone();
        if !self.has_another(ino, file) || !file.is_released_within(WAIT_LONGER) {
            // They are open after all; what was flushed meanwhile may not be.
            file.state()
                .flushed
                .retain(|number| !flushed.contains(number));
        }
    }

    /// Whether the server has another version than the one that the copy is of.
    pub(super) fn has_another(&self, ino: u64, file: &FileNode) -> bool {
        let base = {
            let state = file.state();
            state.base.filter(|_| state.diverted.is_none())
        };
        base.is_some_and(|base| {
            !self.is_down() && self.lstat(ino).is_ok_and(|now| now.version() != base)
        })
    }
}

impl FileNode {
    /// Whether a handle is open that was not flushed, or none is: now, or within the limit.
    fn is_released_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state();
        while state.handles > 0 && state.flushed.len() as u64 == u64::from(state.handles) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, left);
        }
        true
    }
}
