//! What changes files and names on the server.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;

use super::put::Putting;
use super::small::Filled;
use super::{
    Again, Attributes, Change, Kind, Put, PutError, Remote, Stored, check, operations, small,
};

impl Remote {
    /// A new empty file with this mode, whatever the server's umask. Two round trips.
    ///
    /// # Errors
    /// EEXIST where there is something, ENOENT, ENOTDIR, EACCES, ENOSPC, EROFS, ENAMETOOLONG; EIO without an answer in
    /// time, or where the connection broke: whether it was made is not known then.
    pub fn create(&self, path: &Path, mode: u32) -> Result<Attributes, Errno> {
        let made = self.run(Again::No, &[path], |pipeline| {
            operations::create(pipeline, path, mode)
        })?;
        self.with_mode(made, path, mode)
    }

    /// Put a file. Three round trips for a small one.
    ///
    /// Whether it was done is known even where the connection breaks in between. Its times where `order.times` is
    /// `None` are the server's.
    ///
    /// # Errors
    /// `Conflict`: not what the order expects is there, and nothing was changed. Else as for [`Self::create`] (without
    /// EEXIST), EISDIR where a folder is there; what reading `from` gives. The temporary is removed, if need be when
    /// there is a connection again.
    pub fn put(&self, from: &File, order: &Put<'_>) -> Result<Stored, PutError> {
        check(&[order.path])?;
        Putting::new(&self.link, from, order).replace()
    }

    /// Put a file into the one that is there, which stays the same one for its other names: two round trips for a small
    /// one. Not atomic, but for one request into an empty file. `None`: the connection broke meanwhile, and what is
    /// there may be what was there, all of the new, or a part of either; by the time that it is looked at, another's as
    /// well.
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub fn put_in_place(&self, from: &File, order: &Put<'_>) -> Result<Option<Stored>, PutError> {
        check(&[order.path])?;
        Putting::new(&self.link, from, order).in_place()
    }

    /// Put a small file into the empty one that is expected, which stays the same one: two round trips, where it may be
    /// written to. A server that can compares and fills it in one; what it refuses is put by [`Self::put`], where the
    /// folder may be written to. `None`: as for [`Self::put_in_place`].
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub fn put_into_empty(&self, from: &File, order: &Put<'_>) -> Result<Option<Stored>, PutError> {
        check(&[order.path])?;
        let in_place = || Putting::new(&self.link, from, order).in_place();
        let replace = || Putting::new(&self.link, from, order).replace().map(Some);
        let denied =
            |put: &Result<_, _>| matches!(put, Err(PutError::Errno(Errno::EACCES | Errno::EPERM)));
        if !self.link.extensions().fill {
            return Some(in_place())
                .filter(|put| !denied(put))
                .unwrap_or_else(replace);
        }
        match small::fill(&self.link, from, order)? {
            Filled::Stored(stored) => Ok(Some(stored)),
            Filled::Cut => Ok(None),
            Filled::Refused => Some(replace())
                .filter(|put| !denied(put))
                .unwrap_or_else(in_place),
        }
    }

    /// A new folder with this mode, whatever the server's umask; it keeps the set-group-id bit that it has of its
    /// parent.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn make_folder(&self, path: &Path, mode: u32) -> Result<Attributes, Errno> {
        let made = self.run(Again::No, &[path], |pipeline| {
            operations::make_folder(pipeline, path, mode)
        })?;
        self.with_mode(made, path, mode)
    }

    /// A fifo, a socket or a device (`mode` has its kind) with this mode, whatever the server's umask.
    ///
    /// # Errors
    /// EPERM where the server does not run `oscope-fs serve`, or does not let us; else as for [`Self::create`].
    pub fn make_special(&self, path: &Path, mode: u32, device: u32) -> Result<Attributes, Errno> {
        let made = self.run(Again::No, &[path], |pipeline| {
            operations::make_special(pipeline, path, mode, device)
        })?;
        self.with_mode(made, path, mode & 0o7777)
    }

    /// Remove an empty folder.
    ///
    /// # Errors
    /// ENOTEMPTY, ENOTDIR, ENOENT, EACCES, EROFS; EBUSY where nothing else explains it; EIO as for [`Self::create`].
    pub fn remove_folder(&self, path: &Path) -> Result<(), Errno> {
        self.run(Again::No, &[path], |pipeline| {
            operations::remove_folder(pipeline, path)
        })
    }

    /// Remove a name that is not a folder's.
    ///
    /// # Errors
    /// EISDIR, ENOENT, EACCES, EROFS; EBUSY where nothing else explains it; EIO as for [`Self::create`].
    pub fn remove(&self, path: &Path) -> Result<(), Errno> {
        self.run(Again::No, &[path], |pipeline| {
            operations::remove(pipeline, path)
        })
    }

    /// Rename, over what is there.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EISDIR, ENOTEMPTY, EINVAL (a folder into itself), EXDEV, EACCES, EROFS, ENOSPC; EIO as for
    /// [`Self::create`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.run(Again::No, &[from, to], |pipeline| {
            operations::rename(pipeline, from, to)
        })
    }

    /// Rename where nothing is. Atomic for regular files on an OpenSSH server; of others, a name that is made in
    /// between may be lost.
    ///
    /// # Errors
    /// EEXIST where `to` is there, else as for [`Self::rename`].
    pub fn rename_new(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.run(Again::No, &[from, to], |pipeline| {
            operations::rename_new(pipeline, from, to)
        })
    }

    /// A symbolic link at `at`, with `target` as its text (as it is: not relative to the target's folder).
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn make_link(&self, target: &Path, at: &Path) -> Result<Attributes, Errno> {
        let made = self.run(Again::No, &[target, at], |pipeline| {
            operations::make_link(pipeline, target, at)
        })?;
        self.known(made, at)
    }

    /// A further name `at` for the file `of`: the attributes of `at`.
    ///
    /// # Errors
    /// EOPNOTSUPP where the server cannot, EPERM, EXDEV, else as for [`Self::create`].
    pub fn hard_link(&self, of: &Path, at: &Path) -> Result<Attributes, Errno> {
        let made = self.run(Again::No, &[of, at], |pipeline| {
            operations::hard_link(pipeline, of, at)
        })?;
        self.known(made, at)
    }

    /// Change attributes: what they were just before (`None`: the server did not say), and what they are then, in one
    /// round trip. Where the connection broke meanwhile it is done twice: then what they were is what the first left.
    /// Owner and times of a link are the link's own, where the server has `lsetstat`.
    ///
    /// # Errors
    /// EPERM, EACCES, ENOENT, EISDIR (the size of a folder), ENOSPC, EROFS; EIO without an answer in time.
    pub fn set(
        &self,
        path: &Path,
        change: &Change,
    ) -> Result<(Option<Attributes>, Attributes), Errno> {
        self.run(Again::Yes, &[path], |pipeline| {
            operations::set(pipeline, path, change)
        })
    }

    /// What was made gets the mode that it was to have, where the server's umask took some of it; a set-id bit that it
    /// has of its folder stays. Done again where the connection breaks, unlike the making.
    fn with_mode(
        &self,
        made: Option<Attributes>,
        path: &Path,
        mode: u32,
    ) -> Result<Attributes, Errno> {
        let made = self.known(made, path)?;
        // Another may have put a link there since: its target would get the mode.
        if made.kind == Kind::Link || (made.mode ^ mode) & 0o777 == 0 {
            return Ok(made);
        }
        let whole = Change {
            mode: Some(mode | (made.mode & 0o7000)),
            ..Change::default()
        };
        self.set(path, &whole).map(|(_, now)| now)
    }

    /// Attributes of what was made: asked for once more where the connection broke after it was.
    fn known(&self, made: Option<Attributes>, path: &Path) -> Result<Attributes, Errno> {
        made.map_or_else(|| self.lstat(path), Ok)
    }
}
