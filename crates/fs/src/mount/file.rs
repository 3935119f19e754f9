//! What a node has as a file: its copy while it is in use, who has it open, and what of it is on the server.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::BackingId;
use nix::errno::Errno;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;

use crate::blocks::Blocks;
use crate::errno::errno;
use crate::remote::{Remote, Time, Unsettled, Version};
use crate::store::{self, Copy, Digest};

use super::kernel_size::KernelSize;
use super::locked;
use super::looked_up::LookedUp;

/// Bytes of a file whose blocks are found at its opening for writing: that takes some 0.4 s a GiB. Of larger ones they
/// are known once they have been copied back.
const LOOKED_THROUGH: u64 = 1 << 30;

/// A file's part of its node.
#[derive(Default)]
pub struct FileNode {
    gate: Mutex<()>,
    state: Mutex<State>,
    released: Condvar,
    /// Writes that came through the daemon; with passthrough none do.
    pub writes: AtomicU64,
    /// It was found to have another name than the kernel may have looked up.
    pub renamed_late: AtomicBool,
    /// The size that the kernel takes it to have.
    pub kernel_size: KernelSize,
    /// What its last look-up has found.
    pub looked_up: LookedUp,
}

/// Changed only with the gate held; the lock around it is for reading it meanwhile.
#[derive(Default)]
pub struct State {
    /// There while the file is open, dirty, or written to by a mapping that outlived its descriptor.
    pub copy: Option<Copy>,
    /// What the server has if nobody else changed it; `None`: no file.
    pub base: Option<Version>,
    /// When that was read or put, by [`crate::remote::Clock::now`]: a change in the same second looks the same. `None`:
    /// that is not known.
    pub known: Option<i64>,
    /// Digest of what the base held, where its version may hide another's change, or where it costs little to know.
    pub content: Option<Digest>,
    /// What the base holds, by block, where that is known: of the copy, what differs from it is sent alone.
    pub blocks: Option<Arc<Blocks>>,
    /// What the copy looked like when it was let go of, and its blocks.
    pub let_go: Option<(Noted, Arc<Blocks>)>,
    /// Open descriptions of the kernel.
    pub handles: u32,
    /// Those of them of which a descriptor was closed: they are closed, or have duplicates.
    pub flushed: HashSet<u64>,
    /// Those that may write.
    pub writers: u32,
    /// Given to the kernel for every open of the same period; without it the daemon reads and writes.
    pub backing: Option<Arc<BackingId>>,
    /// What a copying back would have left on the server that ended without an answer.
    pub sending: Option<Version>,
    /// Digest of that.
    pub sent: Option<Digest>,
    /// Digest of what was being written in place when that ended without an answer.
    pub filling: Option<Digest>,
    /// The last copying back failed: it is tried again by the thread that tends, not by each release.
    pub failed: bool,
    /// The base is a version that cannot distinguish changes within one second, and the server could not be asked.
    pub unasked: bool,
    /// The store has it written down as dirty.
    pub journalled: bool,
    /// What the copy looked like when it was last the same as the server's.
    pub noted: Option<Noted>,
    /// What went back while somebody might have been writing: a copy that looks as noted may yet differ from it.
    pub acknowledged: Option<Digest>,
    /// Both sides changed: what is written here goes to this name, beside its own. The base is of that file.
    pub diverted: Option<PathBuf>,
    /// The folder's node in which it last had that name.
    pub beside_in: Option<u64>,
    /// The name that another's file has in its place, until ours is on the server under the new one.
    pub displaced_from: Option<PathBuf>,
    /// A reboot may have torn it: it goes beside its name, whatever the server has.
    pub suspect: bool,
    /// What went back without a sync on the server.
    pub unsynced: Option<Version>,
    /// The last descriptor that could write is closed, but a mapping may still change the copy.
    /// When to look at it next.
    pub mapped: Option<Instant>,
    /// An open has waited in vain for the end of its mapping.
    pub stays_mapped: bool,
    /// What the kernel's own pages of this file were read from.
    pub pages: Option<Noted>,
}

/// What of a copy changes when its content does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    writes: u64,
}

impl FileNode {
    /// Excludes all else that fetches, copies back, opens, closes, renames or removes this file. Held while the server
    /// is asked.
    pub fn gate(&self) -> MutexGuard<'_, ()> {
        locked(&self.gate)
    }

    /// The state; never held while the server or the disk is asked.
    pub fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Waits until a handle is released, or for that long.
    pub fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        let waited = self.released.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A handle was released.
    pub fn released(&self) {
        self.released.notify_all();
    }

    /// Whether there is a copy that the node is bound to.
    pub fn in_use(&self) -> bool {
        self.state().copy.is_some()
    }

    /// The copy while the node is bound to one.
    pub fn copy(&self) -> Option<Copy> {
        self.state().copy.clone()
    }

    /// What the copy looks like now.
    pub fn look(&self, copy: &Copy) -> io::Result<Noted> {
        let found = copy.file().metadata()?;
        Ok(Noted {
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            inode: found.ino(),
            writes: self.writes.load(Ordering::Relaxed),
        })
    }

    /// Whether the server has what the copy holds, if its size and times show each change.
    pub fn is_sent(&self) -> bool {
        let (copy, noted) = {
            let state = self.state();
            let tried = state.acknowledged.is_some() && !state.failed;
            (state.copy.clone(), state.noted.filter(|_| tried))
        };
        let now = copy.and_then(|copy| self.look(&copy).ok());
        now.is_some() && now == noted
    }

    /// The blocks of a copy that nobody can write to yet; `None` if it is small or very large.
    ///
    /// # Errors
    /// Those of fstat(2) and read(2).
    pub fn blocks_of(&self, copy: &Copy) -> Result<Option<Arc<Blocks>>, Errno> {
        let look = self.look(copy).map_err(errno)?;
        match self.state().let_go.clone() {
            Some((noted, blocks)) if noted == look => return Ok(Some(blocks)),
            _ if look.size() > LOOKED_THROUGH => return Ok(None),
            _ => {}
        }
        Ok(Blocks::of(copy.file()).map_err(errno)?.map(Arc::new))
    }

    /// A write came through the daemon.
    pub fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// What distinguishes the base from another's change that has the same version; `None`: its version does.
    pub fn unsettled(&self) -> Option<Unsettled> {
        let (read, content) = (self.known, self.content);
        (read.is_some() || content.is_some()).then_some(Unsettled { read, content })
    }

    /// The server has another base than before, which was read at `known`: its blocks are not known.
    pub fn rebase(&mut self, base: Option<Version>, known: Option<i64>) {
        (self.base, self.known, self.blocks) = (base, known, None);
    }

    /// The blocks of the base. Where its version cannot decide they count only if they are of the content that is
    /// compared.
    pub fn known_blocks(&self) -> Option<Arc<Blocks>> {
        let same = |blocks: &&Arc<Blocks>| self.content.is_none_or(|of| of == blocks.digest());
        self.blocks.as_ref().filter(same).cloned()
    }

    /// Whether the copy may be stored to by a mapping of which this program hears nothing.
    pub fn may_be_stored_to(&self) -> bool {
        self.backing.is_some() && (self.writers > 0 || self.mapped.is_some())
    }

    /// This mount has set a time, by which the version `before` became `now`: what was not synced of that is not now.
    pub fn dated(&mut self, before: Option<Version>, now: Version) {
        if self.unsynced.is_some() && self.unsynced == before {
            self.unsynced = Some(now);
        }
    }

    /// Whether the server has this content, but perhaps not on its disk.
    pub fn is_unsynced(&self) -> bool {
        self.unsynced.is_some() && self.unsynced == self.base
    }
}

impl Noted {
    /// Bytes of content.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The digest of a copy, of which these are the blocks if they are known.
///
/// # Errors
/// Those of read(2).
pub fn digest(copy: &Copy, blocks: Option<&Blocks>) -> Result<Digest, Errno> {
    match blocks {
        Some(blocks) => Ok(blocks.digest()),
        None => store::digest(copy.file()).map_err(errno),
    }
}

/// Gives a copy the times that the server has (access, modification).
pub fn set_times(file: &File, (access, modification): (Time, Time)) -> nix::Result<()> {
    futimens(file, &spec(access), &spec(modification))
}

/// Gives a copy the time of modification that the server has; its time of access stays.
pub fn set_modification(file: &File, modification: Time) -> nix::Result<()> {
    futimens(file, &TimeSpec::UTIME_OMIT, &spec(modification))
}

fn spec(time: Time) -> TimeSpec {
    TimeSpec::new(time.seconds, time.nanoseconds.into())
}

/// The copy's times (access, modification) as the server can have them.
pub fn times(remote: &Remote, file: &File) -> io::Result<(Time, Time)> {
    let found = file.metadata()?;
    let exact = remote.is_exact();
    Ok((
        Time::new(found.atime(), found.atime_nsec()).kept(exact),
        Time::new(found.mtime(), found.mtime_nsec()).kept(exact),
    ))
}
