//! A scratch folder for one task.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::CleanupGuard;
use super::resource::{FOLDER_PREFIX, Resource};
use crate::diagnostics::program;
use crate::error::Failure;

/// Folders of one process tried until a name is free.
const MOST_TRIES: u32 = 1000;

/// A new folder of this process in `place`, for this user alone, in the journal before it is made. `elsewhere` says
/// how another place is chosen.
///
/// # Errors
/// `Failure::Unavailable` where none can be made, or no journal can be kept of it, with the remedy.
pub fn make(place: &Path, elsewhere: &str) -> Result<(PathBuf, CleanupGuard), Failure> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..MOST_TRIES {
        // Nobody else in this process may take the name between the look and the making: a folder that could not be
        // made is undone as well.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER_PREFIX}{}-{number}", std::process::id());
        let path = place.join(name);
        // One that a dead process of the same number has left is the journal's of that process.
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        let made = CleanupGuard::log_intent(Resource::Folder { path: path.clone() })?;
        let done = DirBuilder::new().mode(0o700).create(&path);
        return match done {
            Ok(()) => Ok((path, made)),
            Err(error) => Err(Failure::unavailable_system(
                &format!("no folder can be made in {}", place.display()),
                error,
                elsewhere,
            )),
        };
    }
    Err(Failure::unavailable(
        format!(
            "{} has {MOST_TRIES} folders of killed processes",
            place.display()
        ),
        format!("run `{} restore`", program()),
    ))
}
