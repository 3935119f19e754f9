//! Whether a copy is what the server has, where the version cannot decide: the content is fetched and compared.
//!
//! A version that was less than two seconds old when it was read is not trusted. What was written a moment ago is
//! mostly the same still: then the copy stays, which costs no new file in the cache.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::errno::errno;
use crate::remote::{Attributes, Remote, Time, Version};
use crate::store::Entry;

use super::Shared;
use super::file::{FileNode, set_times};
use super::opening::kept;

/// Bytes up to which a file is fetched into memory to be compared: about one request. Of a bigger one a new copy is
/// made.
const SMALL: u64 = 256 << 10;

impl Shared {
    /// With the gate held: the version of a clean cached copy if the server has the same content, and when that was
    /// asked.
    pub(super) fn same_on_server(
        &self,
        ino: u64,
        entry: &Entry,
    ) -> Result<Option<(Option<Version>, i64)>, Errno> {
        let began = self.remote.clock().now();
        let (path, changes) = {
            let tree = self.tree();
            (tree.path(ino).ok_or(Errno::ESTALE)?, tree.changes(ino))
        };
        let Some(got) = self.compare(&path, entry.copy.file())? else {
            return Ok(None);
        };
        self.tree().note(ino, got, changes);
        let (version, trusted) = (
            got.version(),
            self.remote.clock().can_trust(got.mtime, began),
        );
        if trusted || entry.version != Some(version) {
            set_times(entry.copy.file(), (got.atime, got.mtime))?;
            self.store.mark_clean(&entry.copy, version, trusted)?;
        }
        self.store.set_kept(&entry.copy, kept(&got))?;
        Ok(Some((Some(version), began)))
    }

    /// With the gate held: makes sure that what could not be asked when the copy was bound is so, before it is built
    /// upon. If the server has another content the base becomes one that it never has: both sides change, and ours goes
    /// beside.
    pub(super) fn ask_base(&self, ino: u64, file: &FileNode) -> Result<(), Errno> {
        let (copy, base, unasked) = {
            let state = file.state();
            (state.copy.clone(), state.base, state.unasked)
        };
        let (Some(copy), Some(base), true) = (copy, base, unasked) else {
            return Ok(());
        };
        let began = self.remote.clock().now();
        let path = self.tree().path(ino);
        if let Some(path) = path {
            let found = self.new_copy(&path, base.size)?;
            let got = fetched(&self.remote, &path, found.file(), base.size);
            let same = match got {
                Ok(got) => same(copy.file(), found.file())?.then_some(got),
                Err(Errno::EFBIG | Errno::ENOENT) => None,
                Err(why) => return Err(why),
            };
            let mut state = file.state();
            let base = same.map_or(NEVER, |got| got.version());
            state.rebase(Some(base), Some(began));
        }
        file.state().unasked = false;
        Ok(())
    }

    /// The server's attributes if it has the content of a small copy.
    fn compare(&self, path: &Path, copy: &File) -> Result<Option<Attributes>, Errno> {
        let size = copy.metadata().map_err(errno)?.len();
        if size > SMALL {
            return Ok(None);
        }
        let found = in_memory()?;
        match fetched(&self.remote, path, &found, size) {
            Ok(got) => Ok(same(copy, &found)?.then_some(got)),
            Err(Errno::EFBIG) => Ok(None),
            Err(why) => Err(why),
        }
    }
}

/// Fetches no more than about `size` bytes; `EFBIG` if there is more.
pub(super) fn fetched(
    remote: &Remote,
    path: &Path,
    into: &File,
    size: u64,
) -> Result<Attributes, Errno> {
    let watch = |so_far: u64| match so_far > size {
        true => Err(Errno::EFBIG),
        false => Ok(()),
    };
    remote.fetch(path, into, size, &watch)
}

/// An empty file that is on no disk.
pub(super) fn in_memory() -> Result<File, Errno> {
    let name = CString::new("oscope-fs").map_err(|_| Errno::EINVAL)?;
    Ok(File::from(memfd_create(&*name, MFdFlags::MFD_CLOEXEC)?))
}

/// A version that no file of a server has: the largest size that a file can have, and one more.
const NEVER: Version = Version {
    size: 1 << 63,
    mtime: Time::whole(0),
};

/// Whether two files hold the same.
fn same(one: &File, other: &File) -> Result<bool, Errno> {
    Ok(length(one)? == length(other)? && begins_with(one, other)?)
}

fn length(file: &File) -> Result<u64, Errno> {
    Ok(file.metadata().map_err(errno)?.len())
}

/// Whether a file begins with all that another one holds.
pub(super) fn begins_with(one: &File, other: &File) -> Result<bool, Errno> {
    let size = length(other)?;
    if length(one)? < size {
        return Ok(false);
    }
    let step = usize::try_from(size.min(SMALL)).unwrap_or(0);
    let (mut left, mut right) = (vec![0; step], vec![0; step]);
    let mut offset = 0;
    while offset < size {
        let length = step.min(usize::try_from(size - offset).unwrap_or(step));
        one.read_exact_at(&mut left[..length], offset)
            .and_then(|()| other.read_exact_at(&mut right[..length], offset))
            .map_err(errno)?;
        if left[..length] != right[..length] {
            return Ok(false);
        }
        offset += length as u64;
    }
    Ok(true)
}
