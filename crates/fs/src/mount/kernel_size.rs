//! The size that the kernel takes a file to have.
//!
//! Without passthrough the kernel ends a read at that size, and begins an append there (`generic_write_checks`,
//! fs/read_write.c). It was shown the size with the attributes, and believes it for their time. An open asks the server
//! for the version, and may find another size: then the kernel has to be shown that before the file is open. `ESTALE`
//! has it look the name up anew and repeat the open (`do_filp_open`, fs/namei.c); the copy stays bound for that one.
//!
//! What is opened without a name (`/proc/self/fd`) is repeated without a look-up. Then the file is opened as it is: the
//! kernel has to ask for the attributes where it reads at the end, and appends are written where the copy ends.
//!
//! The kernel leaves out attributes that come during a write, or after younger ones (`fuse_change_attributes`,
//! fs/fuse/inode.c): what it was shown it need not have taken. So an append goes to the end of the copy at any time;
//! by its offset only past the kernel's pages, where the parts of a long one come in any order.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::errno::errno;

use super::file::FileNode;
use super::looked_up::Seen;
use super::opening::Use;
use super::{Shared, locked};

/// How long a copy stays bound for an open that is to be repeated.
const KEPT: Duration = Duration::from_millis(500);

/// How long an open by the same thread counts as the repeated one: the kernel repeats each once.
const REPEATED: Duration = Duration::from_secs(10);

/// What the kernel knows of a file's size. Its lock is held for a look or a change alone.
#[derive(Default)]
pub struct KernelSize(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// In bytes; `None`: it was never shown one.
    size: Option<u64>,
    /// The threads of programs whose opens were answered that they are to be repeated, and when.
    repeat: HashMap<u32, Instant>,
    /// Where the kernel takes the end to be, and where it is.
    ends: Option<(u64, u64)>,
}

impl KernelSize {
    /// The kernel is shown this size.
    pub fn shown(&self, size: u64) {
        let mut known = locked(&self.0);
        (known.size, known.ends) = (Some(size), None);
    }

    /// The kernel writes to the copy itself.
    pub fn is_unknown(&self) {
        *locked(&self.0) = Known::default();
    }

    /// The kernel counts a write, or room that was reserved, up to there.
    pub fn grown(&self, end: u64) {
        let mut known = locked(&self.0);
        known.size = known.size.map(|size| size.max(end));
    }

    /// Where an append past the kernel's pages goes that it has sent for `offset`.
    pub fn place(&self, offset: u64) -> u64 {
        match locked(&self.0).ends {
            Some((believed, end)) if offset >= believed => end + (offset - believed),
            _ => offset,
        }
    }

    /// Whether a thread's open is to be repeated of a file that has this size, and that nobody has open.
    fn repeat(&self, size: u64, thread: u32) -> bool {
        let differs = self.differs(size);
        if differs {
            locked(&self.0).repeat.insert(thread, Instant::now());
        }
        differs
    }

    /// Whether the kernel was shown another size than this one.
    fn differs(&self, size: u64) -> bool {
        locked(&self.0).size.is_some_and(|known| known != size)
    }

    /// Whether a thread's open is one that is repeated.
    fn is_repeated(&self, thread: u32) -> bool {
        locked(&self.0).repeat.remove(&thread).is_some()
    }

    /// The first open of a file of this size is done. Whether the kernel takes it to have another.
    fn is_wrong(&self, size: u64) -> bool {
        let mut known = locked(&self.0);
        let wrong = known.size.filter(|known| *known != size);
        known.ends = wrong.map(|believed| (believed, size));
        wrong.is_some()
    }

    /// Whether a copy need no longer be kept for an open that was to be repeated.
    fn is_not_repeated(&self) -> bool {
        let mut known = locked(&self.0);
        let last = known.repeat.values().max().copied();
        known.repeat.retain(|_, at| at.elapsed() < REPEATED);
        last.is_some_and(|at| at.elapsed() >= KEPT)
    }
}

impl Shared {
    /// With the gate held: brings the copy for the first open of a file that the kernel does not read and write itself.
    /// True: the kernel has to be shown its size, and to repeat the open, for which the copy stays bound.
    pub(super) fn is_to_be_repeated(
        &self,
        ino: u64,
        file: &FileNode,
        (wanted, seen): (Use, Option<Seen>),
        thread: u32,
    ) -> Result<bool, Errno> {
        let repeated = file.kernel_size.is_repeated(thread);
        // While others have it open, the kernel counts what they write.
        let first = file.state().handles == 0;
        if !first || self.report_state.passthrough() || wanted == Use::Empty {
            return Ok(false);
        }
        if file.copy().is_none() {
            self.bring(ino, file, (wanted, seen))?;
        }
        Ok(!repeated && file.kernel_size.repeat(size(file)?, thread))
    }

    /// With the gate held: the file was opened, and is read and written through this program.
    pub(super) fn opened_by_size(&self, ino: u64, file: &FileNode, wanted: Use) {
        if wanted == Use::Empty {
            // The kernel makes it empty when it has the reply (fuse_open, fs/fuse/file.c).
            file.kernel_size.shown(0);
        } else if file.state().handles == 1
            && size(file).is_ok_and(|size| file.kernel_size.is_wrong(size))
        {
            // No page is touched, so nothing waits for this.
            self.invalidate(ino, -1, "the end of a file may be read late");
        }
    }

    /// With the gate held: the kernel reads the copy itself, to its end. Attributes that have another size are old.
    pub(super) fn opened_to_read(&self, ino: u64, file: &FileNode) {
        if size(file).is_ok_and(|size| file.kernel_size.differs(size)) {
            self.invalidate(ino, -1, "the size of a file may be shown late");
        }
    }

    /// Frees copies that were kept for an open that was not repeated.
    pub(super) fn free_not_opened(&self) {
        // Taken before the loop: in its head the lock would be held to the loop's end.
        let files = self.tree().files();
        for (_, file) in files {
            if file.kernel_size.is_not_repeated() {
                let _gate = file.gate();
                self.free(&file);
            }
        }
    }
}

/// Bytes of the copy that the file is bound to.
fn size(file: &FileNode) -> Result<u64, Errno> {
    let copy = file.copy().ok_or(Errno::EIO)?;
    Ok(copy.file().metadata().map_err(errno)?.len())
}
