//! The cache folder: its layout, its lock, and files that are written whole or not at all.
//!
//! `lock` (flock, and the number of the process), `target` (format and whose files these are), `copies/ID` (the content
//! of a file), `entries/ID.json` (what that copy is: a copy without it is a leftover, it was half-made),
//! `renames/N.intent` and `N.done`, `settled` (what a reboot has not harmed), `temporaries` (names under which files
//! were being put), `spare` (space for the journal when the disk is full), `torn/ID` (copies whose entry a power cut
//! destroyed: put aside for the person, never deleted).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::types::CopyId;
use crate::errno::errno;
use crate::remote::Target;
use oscope_sys::error::Failure;

/// Format of the folder; a folder of another one is refused.
const FORMAT: u32 = 1;
/// What a folder may hold that has no `target` yet: a start that was killed, and the daemon's own log and socket.
const BEFORE_TARGET: [&str; 5] = ["lock", "log", "socket", "target.new", "settled"];
/// Bytes of `spare`: some blocks, of any file system's size.
const SPARE_BYTES: usize = 64 << 10;

/// The smallest page of any Linux: a write within one is not divided.
const PAGE_BYTES: usize = 4096;

/// How much a record matters, which decides what may be given for it on a full disk and whether it is forced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// What is asked can be refused: `ENOSPC` harms nothing.
    Refusable,
    /// Something was done already (on the server) and has to be written down: the spare space may be used.
    Done,
}

/// The folder, made and locked.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: Flock<File>,
}

#[derive(Serialize, Deserialize)]
struct TargetRecord {
    format: u32,
    target: String,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Folder {
    /// Makes the folder if it is missing, locks it, and checks whose it is.
    pub(super) fn open(path: &Path, target_key: &str) -> Result<Self, Failure> {
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            Failure::remediable(
                format!(
                    "the cache folder {} cannot be {what}: {why}",
                    path.display()
                ),
                "choose another with --cache DIR",
            )
        };
        let path = std::path::absolute(path).map_err(|e| failed("found", &e))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|e| failed("made", &e))?;
        check_owner(&path)?;
        let foreign = foreign_content(&path).map_err(|e| failed("read", &e))?;
        if let Some(name) = foreign {
            return Err(Failure::remediable(
                format!(
                    "{} is no cache of oscope-fs: it holds {name:?} and no file `target`",
                    path.display()
                ),
                "name an empty or a new folder with --cache DIR",
            ));
        }
        let lock = lock(&path)?;
        let folder = Self { path, _lock: lock };
        folder.check_target(target_key)?;
        for name in ["copies", "entries", "renames"] {
            match DirBuilder::new().mode(0o700).create(folder.path.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed("made", &e));
                }
                _ => {}
            }
        }
        Ok(folder)
    }

    fn check_target(&self, target_key: &str) -> Result<(), Failure> {
        let at = self.path.join("target");
        let failed = |why: String| {
            Failure::remediable(
                format!("{} cannot be used: {why}", at.display()),
                "choose another folder with --cache DIR, or move this one away",
            )
        };
        let text = match fs::read(&at) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let record = TargetRecord {
                    format: FORMAT,
                    target: target_key.into(),
                };
                let text = serde_json::to_vec(&record).map_err(|e| failed(e.to_string()))?;
                return write_whole(&self.path, "target", &text, true)
                    .map_err(|e| failed(e.desc().into()));
            }
            Err(e) => return Err(failed(e.to_string())),
        };
        let format: AnyFormat = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
        if format.format != FORMAT {
            return Err(Failure::remediable(
                format!(
                    "{} is of format {}, this oscope-fs knows format {FORMAT}",
                    self.path.display(),
                    format.format
                ),
                "finish with `recover` of the oscope-fs that made it, or choose another folder with --cache DIR",
            ));
        }
        let record: TargetRecord =
            serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
        if record.target != target_key {
            return Err(Failure::remediable(
                format!(
                    "the cache folder {} belongs to another target: {}, not {}",
                    self.path.display(),
                    Target::of_key(&record.target),
                    Target::of_key(target_key)
                ),
                "choose another folder with --cache DIR, or leave --cache out",
            ));
        }
        Ok(())
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the content of a copy is.
    pub(super) fn copy_path(&self, id: CopyId) -> PathBuf {
        self.path.join("copies").join(id.name())
    }

    /// Where the record of a copy is.
    pub(super) fn entry_path(&self, id: CopyId) -> PathBuf {
        self.path
            .join("entries")
            .join(format!("{}.json", id.name()))
    }

    /// Replaces `place/name` by this content, so that a kill leaves the old or the new; `durable`: so that a power cut
    /// does. The content is text, and may be followed by blanks.
    ///
    /// What is there and small is written over in one pwrite(2) within a page, which a signal does not divide
    /// (mm/filemap.c, generic_perform_write: it looks for a fatal signal between pages): 4 us, and no space is needed.
    /// To rename over it costs 120 us on ext4, which begins to write to the disk then (fs/ext4/namei.c, ext4_rename:
    /// ext4_alloc_da_blocks).
    pub(super) fn write(
        &self,
        place: &str,
        name: &str,
        content: &[u8],
        durable: bool,
    ) -> Result<(), Errno> {
        let place = self.path.join(place);
        if !durable && write_over(&place.join(name), content).map_err(errno)? {
            return Ok(());
        }
        write_whole(&place, name, content, durable)
    }

    /// Gives up the spare space; says whether there was any.
    pub(super) fn spend_spare(&self) -> bool {
        fs::remove_file(self.path.join("spare")).is_ok()
    }

    /// Sets the spare space aside again, as much of it as there is. On a full disk that may be nothing: then only what
    /// can be refused is at stake, see [`Need`].
    pub(super) fn refill_spare(&self) {
        let at = self.path.join("spare");
        if fs::symlink_metadata(&at).is_ok_and(|m| m.len() >= SPARE_BYTES as u64) {
            return;
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&at);
        let Ok(file) = file else { return };
        let block = [0x5a_u8; 4096];
        for offset in (0..SPARE_BYTES).step_by(block.len()) {
            if file.write_all_at(&block, offset as u64).is_err() {
                return;
            }
        }
    }

    /// Puts the copy aside whose record cannot be read; says where it is.
    pub(super) fn put_aside(&self, id: CopyId) -> Result<PathBuf, Errno> {
        let place = self.path.join("torn");
        match DirBuilder::new().mode(0o700).create(&place) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(errno(e)),
            _ => {}
        }
        let at = (0..)
            .map(|n: u32| place.join(format!("{}.{n}", id.name())))
            .find(|p| fs::symlink_metadata(p).is_err());
        let at = at.ok_or(Errno::EEXIST)?;
        fs::rename(self.copy_path(id), &at).map_err(errno)?;
        Ok(at)
    }
}

/// The identity of this boot, from /proc/sys/kernel/random/boot_id.
pub(super) fn boot_id() -> Result<String, Failure> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|s| s.trim().to_owned())
        .map_err(|e| {
            Failure::remediable(
                format!("/proc/sys/kernel/random/boot_id cannot be read: {e}"),
                "mount /proc: without it a copy that a power cut tore looks like a whole one",
            )
        })
}

/// Says whether it could; `false`: nothing was changed, or only to be replaced as a whole at once.
fn write_over(path: &Path, content: &[u8]) -> io::Result<bool> {
    let file = match OpenOptions::new()
        .write(true)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
    {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let there = file.metadata()?.len();
    if content.len() > PAGE_BYTES || there > PAGE_BYTES as u64 {
        return Ok(false);
    }
    let mut padded = content.to_vec();
    padded.resize(content.len().max(there as usize), b' ');
    Ok(matches!(file.write_at(&padded, 0), Ok(written) if written == padded.len()))
}

pub(super) fn write_whole(
    place: &Path,
    name: &str,
    content: &[u8],
    durable: bool,
) -> Result<(), Errno> {
    let temporary = place.join(format!("{name}.new"));
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, place.join(name))?;
        if durable {
            File::open(place)?.sync_all()?;
        }
        Ok(())
    })();
    written.map_err(|error| {
        // A half-written temporary would hold the very space that is short. It may be missing: nothing to tell.
        let _ = fs::remove_file(&temporary);
        errno(error)
    })
}

fn check_owner(path: &Path) -> Result<(), Failure> {
    let refuse = |why: String, remedy: String| Err(Failure::remediable(why, remedy));
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(e) => {
            return refuse(
                format!("{}: {e}", path.display()),
                "choose another folder with --cache DIR".into(),
            );
        }
    };
    let shown = path.display();
    if !metadata.is_dir() {
        return refuse(
            format!("the cache folder {shown} is a link or no folder"),
            "name a folder with --cache DIR".into(),
        );
    }
    if metadata.uid() != geteuid().as_raw() {
        return refuse(
            format!(
                "the cache folder {shown} belongs to user {}",
                metadata.uid()
            ),
            "choose one of your own with --cache DIR".into(),
        );
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse(
            format!(
                "the cache folder {shown} is open to others (mode {:03o})",
                metadata.mode() & 0o777
            ),
            format!("chmod 700 {shown}, or choose another with --cache DIR"),
        );
    }
    Ok(())
}

/// A name in a folder without `target` that no start of ours can have left.
fn foreign_content(path: &Path) -> io::Result<Option<String>> {
    if path.join("target").try_exists()? {
        return Ok(None);
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !BEFORE_TARGET.contains(&name.as_str()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn lock(path: &Path) -> Result<Flock<File>, Failure> {
    let at = path.join("lock");
    let failed = |why: &dyn std::fmt::Display| {
        Failure::remediable(
            format!("{} cannot be locked: {why}", at.display()),
            "choose another folder with --cache DIR",
        )
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(&at)
        .map_err(|e| failed(&e))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => {
            let text = format!("{}\n", std::process::id());
            lock.set_len(0)
                .and_then(|()| lock.write_all_at(text.as_bytes(), 0))
                .map_err(|e| failed(&e))?;
            Ok(lock)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|e| failed(&e))?;
            let by = match text.trim() {
                "" => "another process".to_owned(),
                number => format!("process {number}"),
            };
            Err(Failure::remediable(
                format!("the cache folder {} is in use by {by}", path.display()),
                "unmount that one first (oscope-fs umount), or choose another folder with --cache DIR",
            ))
        }
        Err((_, error)) => Err(failed(&error.desc())),
    }
}
