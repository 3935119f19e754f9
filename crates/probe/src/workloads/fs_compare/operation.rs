//! What every operation on a shared folder can do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::clock::Clock;
use crate::shared_folder::SharedFolder;
use oscope_sys::error::Failure;

/// When files of the server were last modified, in seconds since 1970. Long ago: SFTP and git know whole seconds, so
/// that a file of this second may yet change unseen, and is not trusted.
pub const LONG_AGO_S: u64 = 1_000_000_000;

/// The same as a time.
pub fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO_S)
}

/// An operation: made ready, done within the measured region, checked. The three come in this order, again and again.
pub trait Operation {
    /// Files that it is of.
    fn files(&self) -> u64;

    /// Bring server and client to where each repetition begins, whatever the last one left.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is no room, `Failure::Failed` with the kernel's reason.
    fn ready(&mut self, folder: &mut SharedFolder, clock: &Clock) -> Result<(), Failure>;

    /// What is measured.
    ///
    /// # Errors
    /// `Failure::Failed` if it went wrong, or a signal came.
    fn act(&mut self, clock: &Clock) -> Result<Done, Failure>;

    /// That the server has what it should have, once all of it lies there.
    ///
    /// # Errors
    /// `Failure::Failed` that says what is wrong.
    fn check(&mut self, folder: &SharedFolder) -> Result<(), Failure>;
}

/// What one operation did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    /// Contents read or written, where the program that did it is this one, or its work is known.
    pub bytes: Option<u64>,
    /// Files that were worked on.
    pub files: u64,
    /// Nanoseconds of open(2), where there is one file.
    pub open_ns: Option<f64>,
    /// Nanoseconds of close(2), where there is one file.
    pub close_ns: Option<f64>,
}

/// A part of the measured region, in nanoseconds.
///
/// # Errors
/// Those of `part`.
#[inline(always)]
pub fn timed<T>(
    clock: &Clock,
    part: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, f64), Failure> {
    let begin = clock.begin();
    let given = part()?;
    let ticks = clock.end().wrapping_sub(begin) as i64 as f64;
    Ok((given, clock.nanoseconds(ticks - clock.overhead)))
}

/// The failure of what was being done to a file.
pub fn failed(doing: &str, path: &Path, error: &io::Error) -> Failure {
    let doing = format!("{doing} {}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Failure::unavailable_system(
                &doing,
                error,
                "choose --set size=SMALLER, fewer files, or --set directory=DIR on a disk with more room",
            )
        }
        _ => Failure::system(&doing, error),
    }
}

/// The failure after a signal.
pub fn interrupted() -> Failure {
    Failure::failed("interrupted by a signal")
}

/// New folders for the client to work in, one for each repetition: what the client remembers of an older one is of no
/// use.
#[derive(Debug, Default)]
pub struct Fresh {
    made: u64,
    name: PathBuf,
}

impl Fresh {
    /// Remove the last one on the server, and make the next one through the mount.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn renew(&mut self, folder: &SharedFolder) -> Result<PathBuf, Failure> {
        if self.made > 0 {
            let last = self.served(folder);
            match fs::remove_dir_all(&last) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("removing", &last, &error));
                }
                _ => {}
            }
        }
        self.made += 1;
        self.name = PathBuf::from(format!("new-{}", self.made));
        let next = folder.mounted().join(&self.name);
        fs::create_dir(&next).map_err(|error| failed("making", &next, &error))?;
        Ok(next)
    }

    /// How many there were so far.
    pub fn number(&self) -> u64 {
        self.made
    }

    /// Where the server has the last one.
    pub fn served(&self, folder: &SharedFolder) -> PathBuf {
        folder.served().join(&self.name)
    }
}
