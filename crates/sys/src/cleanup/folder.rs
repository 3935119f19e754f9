//! A scratch folder for one task.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
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
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER_PREFIX}{}-{number}", std::process::id());
        let path = place.join(name);
        // One that a dead process of the same number has left is the journal's of that process.
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        match make_new(&path)? {
            Ok(made) => return Ok((path, made)),
            // A process of the same number in another PID namespace was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Failure::unavailable_system(
                    &format!("no folder can be made in {}", place.display()),
                    error,
                    elsewhere,
                ));
            }
        }
    }
    Err(Failure::unavailable(
        format!(
            "{} has {MOST_TRIES} folders of killed processes",
            place.display()
        ),
        format!("run `{} restore`", program()),
    ))
}

/// The folder at `path` in the journal, and made; the kernel's reason where it cannot be: what is there is another's.
fn make_new(path: &Path) -> Result<io::Result<CleanupGuard>, Failure> {
    let made = CleanupGuard::log_intent(Resource::Folder {
        path: path.to_owned(),
    })?;
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(Ok(made)),
        Err(error) => {
            made.forget()?;
            Ok(Err(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn a_folder_that_another_made_meanwhile_stays() {
        let place = Folder::new();
        let path = place.0.join(format!("{FOLDER_PREFIX}1-0"));
        let theirs = make_new(&path).expect("a journal").expect("a new folder");
        fs::write(path.join("file"), "x").expect("a folder of ours");
        let refused = make_new(&path).expect("a journal");
        assert_eq!(
            refused.expect_err("the folder is there").kind(),
            ErrorKind::AlreadyExists
        );
        assert!(path.join("file").exists());
        drop(theirs);
        assert!(!path.exists());
    }
}
