//! The folder of our own in which source and destination lie, and which is gone with the workload; after a kill, the
//! journal of [`oscope_sys::cleanup`] has it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::files::{Content, Files, One};
use oscope_sys::cancel;
use oscope_sys::cleanup::{self, CleanupGuard};
use oscope_sys::error::{Failure, errno_message};
use oscope_sys::machine::memory;

/// Room that a file takes beside its content, in bytes: a page that is not full, and what the file system and the
/// kernel keep of it.
const BESIDE_BYTES: u64 = 8 << 10;
/// Memory that must be left beside the files where they lie in memory.
const MARGIN_BYTES: u64 = 64 << 20;

/// Source and destination, made and filled.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    files: Vec<One>,
    _made: CleanupGuard,
}

impl Folder {
    /// Make it below `place`, with the files to send in it, all in the page cache.
    ///
    /// # Errors
    /// `Failure::Request` for a place that is no folder, `Failure::Unavailable` where there is no room, or no journal
    /// can be kept of it.
    pub fn make(place: &Path, wanted: Files) -> Result<Self, Failure> {
        let refused = |error: io::Error| {
            Failure::request(
                "folder",
                format!("{}: {}", place.display(), errno_message(&error)),
            )
        };
        let place = place.canonicalize().map_err(refused)?;
        if !place.is_dir() {
            return Err(refused(ErrorKind::NotADirectory.into()));
        }
        check_room(
            &place,
            room_for(wanted),
            "source and destination",
            "choose --set size=SMALLER, fewer files, or --set folder=DIR on a disk with more room",
        )?;
        let (root, made) = cleanup::folder::make(&place, "choose another with --set folder=DIR")?;
        let folder = Self {
            root,
            files: (0..)
                .zip(wanted.lengths())
                .map(|(number, length)| One::of(number, length))
                .collect(),
            _made: made,
        };
        for part in [folder.source(), folder.destination()] {
            fs::create_dir(&part)
                .map_err(|error| Failure::system(&part.display().to_string(), &error))?;
        }
        folder.fill(wanted.content)?;
        Ok(folder)
    }

    fn fill(&self, content: Content) -> Result<(), Failure> {
        let source = self.source();
        self.files.iter().try_for_each(|one| {
            if cancel::requested() {
                return Err(Failure::failed(
                    "interrupted while making the files to send",
                ));
            }
            one.make(&source, content)
        })
    }

    /// Where the files to send lie.
    pub fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    /// Where they are to arrive.
    pub fn destination(&self) -> PathBuf {
        self.root.join("destination")
    }

    /// The files, in the order in which they are sent.
    pub fn files(&self) -> &[One] {
        &self.files
    }

    /// Remove what arrived, so that the next transfer finds nothing that is there already.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn clear(&self) -> Result<(), Failure> {
        let destination = self.destination();
        let failed = |error: io::Error| {
            let doing = format!("clearing {}", destination.display());
            Failure::system(&doing, &error)
        };
        for entry in fs::read_dir(&destination).map_err(failed)? {
            if cancel::requested() {
                return Ok(());
            }
            let path = entry.map_err(failed)?.path();
            fs::remove_file(path).map_err(failed)?;
        }
        Ok(())
    }
}

/// Bytes of both sides' files, with what belongs to them.
fn room_for(wanted: Files) -> u64 {
    let one = wanted.total().saturating_add(wanted.files * BESIDE_BYTES);
    one.saturating_mul(2)
}

/// Check that `whose` files fit into `place`, in memory too if it lies there: who fills the last of it brings on the
/// OOM killer.
///
/// # Errors
/// `Failure::Unavailable` with this remedy where they do not, `Failure::Failed` where the kernel does not report it.
pub fn check_room(
    place: &Path,
    needed: u64,
    whose: &str,
    remedy: &'static str,
) -> Result<(), Failure> {
    let found = statvfs(place).map_err(|error| {
        Failure::system(&place.display().to_string(), std::io::Error::from(error))
    })?;
    let free = found
        .blocks_available()
        .saturating_mul(found.fragment_size());
    let short = |what: &str, has: u64| {
        let message = format!("{whose} need {needed} B, and {what} has {has} B");
        Failure::unavailable(message, remedy)
    };
    if free < needed {
        return Err(short(&place.display().to_string(), free));
    }
    let memory = memory::room().map_err(Failure::failed)?;
    if is_in_memory(place)? && memory < needed.saturating_add(MARGIN_BYTES) {
        return Err(short("memory", memory));
    }
    Ok(())
}

fn is_in_memory(place: &Path) -> Result<bool, Failure> {
    use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
    let found = statfs(place).map_err(|error| {
        Failure::system(&place.display().to_string(), std::io::Error::from(error))
    })?;
    // Of fs/ramfs/inode.c (include/uapi/linux/magic.h).
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.filesystem_type()))
}
