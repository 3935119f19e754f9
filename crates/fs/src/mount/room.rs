//! Room in the cache for a copy. What has none fails with `ENOSPC`, which a program would take for the server's disk:
//! so the log and `status` say that it is the cache.

use std::path::Path;

use nix::errno::Errno;

use super::Shared;
use crate::store::Copy;

impl Shared {
    /// A new empty copy for a file, with `room` bytes set aside.
    pub(super) fn new_copy(&self, path: &Path, room: u64) -> Result<Copy, Errno> {
        self.store.make(room).inspect_err(|why| {
            if is_room(*why) {
                self.report_state
                    .no_room(path, &self.store.why_no_room(room));
            }
        })
    }

    /// Its fetching failed: where the disk of the cache became full meanwhile, that is reported.
    pub(super) fn not_fetched(&self, path: &Path, why: Errno) {
        if is_room(why) {
            self.report_state.no_room(path, &self.store.disk_is_full());
        }
    }
}

fn is_room(why: Errno) -> bool {
    matches!(why, Errno::ENOSPC | Errno::EDQUOT)
}
