//! A look-up that asked the server, as the question that an open has to ask.
//!
//! The kernel looks a name up within open(2), then opens the file. Where the look-up asked the server, what it said is
//! younger than the beginning of the open, and need not be asked for again. So that a look-up and an open that follow
//! each other belong to one call, the kernel may not remember such a name: it would open it later without a look-up
//! (`fuse_dentry_revalidate`, fs/fuse/dir.c). It may remember another name of the same file: one that has several is
//! asked for at its opening. An open that looks nothing up (`/proc/self/fd`, a file that is a mount point) may yet
//! follow the look-up of another call, within [`SAME_CALL`].

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::remote::Attributes;

use super::locked;

/// How long after a look-up was answered its call may open the file.
const SAME_CALL: Duration = Duration::from_millis(5);

/// What the server said of a file, and when it was asked, by [`crate::remote::Clock::now`].
#[derive(Clone, Copy)]
pub struct Seen {
    /// Of the file.
    pub attributes: Attributes,
    /// Before this the server may have had others.
    pub asked: i64,
}

/// The last look-up of a file, if it asked the server. Its lock is held for a look or a change alone.
#[derive(Default)]
pub struct LookedUp(Mutex<Option<(u32, Instant, Seen)>>);

impl LookedUp {
    /// The kernel is given the file, by name: for a thread of a program where the server was asked.
    pub fn given(&self, seen: Option<(u32, Seen)>) {
        *locked(&self.0) = seen.map(|(thread, seen)| (thread, Instant::now(), seen));
    }

    /// What the look-up within an open of this thread has brought, if it is that of the same call.
    pub fn within_open(&self, thread: u32) -> Option<Seen> {
        let (by, given, seen) = locked(&self.0).take()?;
        // Threads of other PID namespaces have no number here.
        (thread != 0 && by == thread && given.elapsed() < SAME_CALL).then_some(seen)
    }
}
