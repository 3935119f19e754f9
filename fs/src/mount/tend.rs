//! What is looked after without a request: copies that a mapping may still write to, and those that could not be copied back.
//!
//! With passthrough a shared mapping holds the copy itself, not the kernel's open description: RELEASE comes when the
//! descriptor is closed, and the mapping goes on writing unseen (`backing_file_mmap`, fs/backing-file.c). Whether
//! anybody still has a copy open is found out by a lease: the kernel grants a write lease only to who alone has the file
//! open (fcntl(2), `check_conflicting_open` in fs/locks.c).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::Shared;
use super::file::FileNode;

/// How often mapped copies are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Bytes of a mapped copy that are looked at in a millisecond, on average.
const LOOKED_AT_PER_MS: u64 = 16 << 10;

/// How often what could not be copied back is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// fcntl(2) command, `include/uapi/asm-generic/fcntl.h`; the libc crate lacks it.
const F_SETSIG: i32 = 10;

/// The thread that does it; ends when dropped.
pub struct Tender {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tender {
    /// Starts it.
    pub fn start(shared: &Arc<Shared>) -> Self {
        let (end, ended) = mpsc::channel();
        let shared = Arc::downgrade(shared);
        let work = move || {
            let mut tried = Instant::now();
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = Weak::upgrade(&shared) else {
                    return;
                };
                let again = tried.elapsed() >= AGAIN && !shared.is_down();
                if again {
                    tried = Instant::now();
                }
                shared.tend(again);
            }
        };
        let thread = thread::Builder::new()
            .name("oscope-fs tend".into())
            .spawn(work);
        Self {
            end: Some(end),
            thread: thread.ok(),
        }
    }
}

impl Drop for Tender {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Copies back files that nobody has open for writing but that may be mapped, and, if `again`, those that failed before.
    fn tend(&self, again: bool) {
        // Taken before the loop: in its head the lock would be held to the loop's end.
        let files = self.tree().files();
        for (ino, file) in files {
            let (idle, mapped) = {
                let state = file.state();
                (state.writers == 0 && state.journalled, state.mapped)
            };
            if !idle || !(mapped.is_some() || again) {
                continue;
            }
            let _gate = file.gate();
            let due = mapped.is_none_or(|due| due <= Instant::now());
            if file.state().writers == 0 && (due || !self.still_mapped(&file)) {
                self.finish(ino, &file);
            }
        }
    }

    /// With the gate held and no handle left that writes: whether a mapping may still write to the copy.
    pub(super) fn still_mapped(&self, file: &FileNode) -> bool {
        let (copy, backing, handles) = {
            let state = file.state();
            (state.copy.clone(), state.backing.is_some(), state.handles)
        };
        // Without passthrough the kernel's own pages are mapped, and each change of theirs comes as a write before RELEASE.
        let Some(copy) = copy.filter(|_| backing) else {
            return false;
        };
        // A reader's own open description hides whether there is a mapping beside it.
        let mapped = handles > 0 || !alone(copy.file());
        // Each look reads all of it: seldom for what is big.
        let size = copy.file().metadata().map_or(0, |found| found.len());
        let due = Instant::now() + LOOK + Duration::from_millis(size / LOOKED_AT_PER_MS);
        file.state().mapped = mapped.then_some(due);
        mapped
    }
}

/// Whether this is the only open description of its file, mappings included. Where there are no leases it counts as such:
/// what a mapping changes later is seen by the store at the next open, by the copy's times.
pub(super) fn alone(file: &File) -> bool {
    // Who opens the copy while the lease is held has the kernel send a signal; this one is ignored, SIGIO would kill.
    // SAFETY: fcntl with an integer argument touches no memory of ours.
    unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) };
    // SAFETY: as above.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    if taken < 0 {
        return Errno::last() != Errno::EAGAIN;
    }
    // SAFETY: as above.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    true
}
