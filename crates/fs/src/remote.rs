//! The server: a folder reached by SFTP version 3 over a child `ssh`, from many threads at once.
//!
//! The connection is kept by a thread of its own, which makes it anew with back-off (0.25 s, doubling to 10 s) when it
//! breaks. An operation waits for it at most as long as its own limit. Threads do not survive a fork: a daemon forks
//! first, connects then.

mod attributes;
mod changes;
mod clock;
mod content;
mod errno;
mod fetch;
mod gathered;
mod handle;
mod handshake;
mod in_place;
mod leftovers;
mod link;
mod listing;
mod operations;
mod pipeline;
mod put;
mod request_error;
mod session;
mod small;
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
pub use small::ONE_REQUEST;
pub use target::Target;
pub use temporary::{Journal, Temporary, is_temporary};
pub use time::Time;

use fetch::Fetch;
use link::Link;
use listing::Listing;
use pipeline::RequestPipeline;
use request_error::RequestError;

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
    /// trips, or one where the server can and `size`, the bytes that it is thought to have, is small.
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
        size: u64,
        watch: &dyn Fn(u64) -> Result<(), Errno>,
    ) -> Result<Attributes, Errno> {
        check(&[path])?;
        let limit = self.link.limits.operation;
        Fetch::new(path, into, watch, (limit, size)).run(&self.link)
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

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// EINVAL where it is not one, ENOENT, EACCES; EIO without an answer in time.
    pub fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.run(Again::Yes, &[path], |pipeline| {
            operations::read_link(pipeline, path)
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
