//! Small files in ten folders, as of a source tree: made on the server, compared there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::operation::{LONG_AGO_S, failed, interrupted};
use super::small_files::{Contents, compare, count, make, name};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Folders in which the files are, in turn.
const FOLDERS: u64 = 10;

/// Where below the tree's root a file is.
pub fn place(number: u64) -> PathBuf {
    PathBuf::from(format!("folder-{}", number % FOLDERS)).join(name(number))
}

fn folders(files: u64) -> u64 {
    FOLDERS.min(files)
}

/// Make the tree, `root` included.
///
/// # Errors
/// `Failure::Unavailable` where there is no room; `Failure::Failed` after a signal, or with the kernel's reason.
pub fn grow(root: &Path, files: u64) -> Result<(), Failure> {
    let folder = |path: &Path| fs::create_dir(path).map_err(|error| failed("making", path, &error));
    folder(root)?;
    for number in 0..folders(files) {
        folder(&root.join(format!("folder-{number}")))?;
    }
    let mut contents = Contents::of(0);
    for number in 0..files {
        if cancel::requested() {
            return Err(interrupted());
        }
        make(&root.join(place(number)), contents.file(number))?;
    }
    Ok(())
}

/// Check that all of the tree is there, with its times, and no more.
///
/// # Errors
/// `Failure::Failed` that names what is wrong.
pub fn compare_all(root: &Path, files: u64) -> Result<(), Failure> {
    count(root, folders(files))?;
    let mut contents = Contents::of(0);
    let mut below = 0;
    for number in 0..folders(files) {
        let inside = (number..files).step_by(FOLDERS as usize).count() as u64;
        count(&root.join(format!("folder-{number}")), inside)?;
        below += inside;
    }
    debug_assert_eq!(below, files);
    for number in 0..files {
        let path = root.join(place(number));
        compare(&path, contents.file(number))?;
        let status = fs::metadata(&path).map_err(|error| failed("looking at", &path, &error))?;
        if status.mtime() != LONG_AGO_S as i64 {
            return Err(Failure::failed(format!(
                "{} has another time of change than it was packed with",
                path.display()
            )));
        }
    }
    Ok(())
}
