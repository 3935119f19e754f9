//! The server: a folder reached by SFTP version 3 over a child `ssh`, from many threads at once.
//!
//! The connection is kept by a thread of its own, which makes it anew with back-off (0.25 s, doubling to 10 s) when it
//! breaks. An operation waits for it at most as long as its own limit. Threads do not survive a fork: a daemon forks
//! first, connects then.

mod attributes;
mod clock;
mod content;
mod errno;
mod fetch;
mod handle;
mod handshake;
mod in_place;
mod leftovers;
mod link;
mod listing;
mod operations;
mod pipeline;
mod put;
mod session;
mod target;
mod temporary;
mod time;
mod upload;
mod window;
pub mod wire;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

#[cfg(test)]
pub use attributes::Extensions;
pub use attributes::{
    Attributes, Change, Changed, Kind, Put, PutError, Statvfs, Stored, Unsettled, Version,
};
pub use clock::Clock;
pub use content::SMALL;
pub use listing::{BOUNDS, Bounds};
pub use target::Target;
pub use temporary::{Journal, Temporary, is_temporary};
pub use time::Time;

use fetch::Fetch;
use link::Link;
use listing::Listing;
use pipeline::{RequestError, RequestPipeline};
use put::Putting;

use crate::digest::Digest;
use oscope_sys::error::Failure;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// An operation, the wait for a connection included; for fetching and putting, the time without progress.
    pub operation: Duration,
    /// Making one connection.
    pub connect: Duration,
}

/// Whether there is a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There is one.
    Up,
    /// There is none.
    Down {
        /// Since when.
        since: Instant,
        /// Attempts to make it that failed since then.
        tries: u32,
        /// Why, in one line.
        why: String,
    },
}

/// Bytes of a path at most: a server drops the connection at a packet that is too long for it.
const LONGEST_PATH: usize = 64 << 10;

/// Whether an operation is done again when the connection broke after it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// Doing it twice is as good as once.
    Yes,
    /// It is not known whether it was done: EIO.
    No,
}

/// A folder on a server.
pub struct Remote {
    link: Link,
    bounds: Bounds,
}

impl Remote {
    /// Connect, once; from then on the connection is kept.
    ///
    /// # Errors
    /// What `ssh` said last (unknown host key, refused, permission denied), no such folder, a server that lacks what is
    /// needed; with a remedy.
    pub fn connect(target: Target, limits: Limits) -> Result<Self, Failure> {
        let link = Link::connect(target, limits)?;
        Ok(Self {
            link,
            bounds: BOUNDS,
        })
    }

    /// Without a connection as yet: it is tried in the background, for ever.
    #[cfg(test)]
    pub fn offline(target: Target, limits: Limits) -> Self {
        let link = Link::start(target, limits, None);
        Self {
            link,
            bounds: BOUNDS,
        }
    }

    /// The same with other bounds for what a folder may list.
    #[cfg(test)]
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// End the connection; what waits for the server gets EIO at once, and so does all that comes later. Dropping does
    /// it too.
    pub fn close(&self) {
        self.link.close();
    }

    /// From now on `watcher` hears what a folder has become by a change of its names by us, before that change returns.
    pub fn watch_folders(&self, watcher: impl Fn(&Path, Attributes) + Send + Sync + 'static) {
        self.link.watch_folders(Box::new(watcher));
    }

    /// Close the server's handles that wait for a next request to go with: to be called now and then where there may be
    /// none.
    pub fn close_handles(&self) {
        self.link.send_put_off();
    }

    /// From now on each temporary is written down before it is made; a second journal is not taken.
    pub fn journal(&self, journal: Arc<dyn Journal>) {
        self.link.journal(journal);
    }

    /// Remove temporaries that an earlier life of this cache began. One that is not there may have got its own name, or
    /// be made yet by a server that is held up: it is looked for again as long as there is a connection, until it is
    /// old.
    pub fn sweep(&self, temporaries: &[Temporary]) {
        let mut lost = false;
        for Temporary { path, age } in temporaries {
            // Without a connection each would wait for its limit.
            let answer = match lost {
                true => Err(Errno::EIO),
                false => self.remove(path),
            };
            match answer {
                Ok(()) => self.link.gone(path),
                Err(Errno::ENOENT) if *age > leftovers::OLD => self.link.gone(path),
                Err(why) => {
                    lost |= why == Errno::EIO;
                    self.link.leave(path.clone());
                }
            }
        }
    }

    /// The server and its folder, as a person writes them.
    pub fn name(&self) -> String {
        let target = &self.link.target;
        format!("{}:{}", target.host, target.folder.display())
    }

    /// Whether the server runs `oscope-fs serve`: then it has exact times and special files.
    pub fn is_exact(&self) -> bool {
        self.link.extensions().exact
    }

    /// Whether there is a connection.
    pub fn state(&self) -> State {
        self.link.state()
    }

    /// What the server can do, by the last connection; before the first one, nothing.
    #[cfg(test)]
    pub fn extensions(&self) -> Extensions {
        self.link.extensions()
    }

    /// What a name stands for; a link is not followed. One round trip.
    ///
    /// # Errors
    /// ENOENT (also where something on the way is not a folder), EACCES, ENAMETOOLONG; EIO without an answer in time.
    pub fn lstat(&self, path: &Path) -> Result<Attributes, Errno> {
        self.run(Again::Yes, &[path], |pipeline| {
            operations::lstat(pipeline, path)
        })
    }

    /// The shortest time in which the present connection has answered; `None` before it has.
    pub fn round_trip(&self) -> Option<Duration> {
        self.link.round_trip()
    }

    /// What is in a folder, without `.` and `..`, with what each name stands for. Names are any bytes but `/` and zero.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EACCES; EFBIG: the server lists more than [`BOUNDS`] lets in; EIO without an answer in time, or
    /// where the server sends names too slowly.
    pub fn list(&self, path: &Path) -> Result<Vec<(OsString, Attributes)>, Errno> {
        let limit = self.link.limits.operation;
        let bounds = self.bounds;
        self.run(Again::Yes, &[path], |pipeline| {
            operations::list(pipeline, path, Listing::new(bounds, limit))
        })
    }

    /// The whole file into `into`, from offset 0 (truncated first), by pipelined reads; a small one takes two round
    /// trips.
    ///
    /// `watch` receives the bytes so far and may end it. The attributes are those of the open file, with size and mtime
    /// the same before and after: a file that changes meanwhile is fetched anew. After a broken connection it goes on
    /// where it was. To be asked for regular files only: the server's open of a fifo waits for its other end.
    ///
    /// # Errors
    /// ENOENT, EACCES, EISDIR; what `watch` gives; what writing to `into` gives; EIO where the file changed three
    /// times, or without progress for the limit.
    pub fn fetch(
        &self,
        path: &Path,
        into: &File,
        watch: &dyn Fn(u64) -> Result<(), Errno>,
    ) -> Result<Attributes, Errno> {
        check(&[path])?;
        Fetch::new(path, into, watch, self.link.limits.operation).run(&self.link)
    }

    /// The digest of what a file holds, with its attributes, kept nowhere. `None`: it is no regular file, or changes
    /// just now.
    ///
    /// # Errors
    /// ENOENT, EACCES; EIO without progress for the limit.
    pub fn digest(&self, path: &Path) -> Result<Option<(Attributes, Digest)>, Errno> {
        let limit = self.link.limits.operation;
        self.run(Again::Yes, &[path], |pipeline| {
            content::digest(pipeline, path, limit)
        })
    }

    /// The server's clock.
    pub fn clock(&self) -> &Clock {
        &self.link.clock
    }

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

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// EINVAL where it is not one, ENOENT, EACCES; EIO without an answer in time.
    pub fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.run(Again::Yes, &[path], |pipeline| {
            operations::read_link(pipeline, path)
        })
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

    /// The room of the server's file system.
    ///
    /// # Errors
    /// EOPNOTSUPP where the server does not report it; EIO without an answer in time.
    pub fn room(&self) -> Result<Statvfs, Errno> {
        self.run(Again::Yes, &[], operations::room)
    }

    /// Do an operation, within the limit.
    fn run<T>(
        &self,
        again: Again,
        paths: &[&Path],
        mut work: impl FnMut(&mut RequestPipeline<'_>) -> Result<T, RequestError>,
    ) -> Result<T, Errno> {
        check(paths)?;
        let limit = self.link.limits.operation;
        let deadline = Instant::now() + limit;
        loop {
            let session = self.link.session(deadline)?;
            let mut pipeline = self.link.pipeline(&session, deadline);
            match work(&mut pipeline) {
                Ok(value) => {
                    self.link.tell_folders(&mut pipeline);
                    return Ok(value);
                }
                Err(RequestError::Errno(error)) => return Err(error),
                Err(RequestError::Unsent) => {}
                Err(RequestError::Lost) if again == Again::Yes => {}
                Err(RequestError::Lost) => return Err(Errno::EIO),
                Err(RequestError::Late) => {
                    session.late(limit);
                    return Err(Errno::EIO);
                }
            }
        }
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

/// Paths that can be sent.
fn check(paths: &[&Path]) -> Result<(), Errno> {
    for path in paths.iter().map(|path| path.as_os_str().as_bytes()) {
        if path.len() > LONGEST_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        if path.contains(&0) {
            return Err(Errno::EINVAL);
        }
    }
    Ok(())
}
