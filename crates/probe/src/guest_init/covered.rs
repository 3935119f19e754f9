//! What the initramfs has in folders over which a guest mounts something, such as a program of the user's below /tmp.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use oscope_sys::error::Failure;

/// Where it waits, in the root file system, for the mounts.
const ASIDE: &str = "/covered";

/// A folder that was moved.
#[derive(Debug)]
pub struct Covered {
    folder: PathBuf,
    aside: PathBuf,
}

/// Move the folders that there are out of the way of what will be mounted over them.
///
/// # Errors
/// `Failure::Failed` with the kernel's reason.
pub fn set_aside(folders: &[&str]) -> Result<Vec<Covered>, Failure> {
    move_aside(folders, Path::new(ASIDE))
}

fn move_aside(folders: &[&str], to: &Path) -> Result<Vec<Covered>, Failure> {
    let mut moved = Vec::new();
    for (number, folder) in folders.iter().map(PathBuf::from).enumerate() {
        if !folder.exists() {
            continue;
        }
        let aside = to.join(number.to_string());
        fs::create_dir_all(to)
            .and_then(|()| fs::rename(&folder, &aside))
            .map_err(|error| Failure::system(&folder.display().to_string(), error))?;
        moved.push(Covered { folder, aside });
    }
    Ok(moved)
}

/// Copy what was in the folders into what is mounted over them.
///
/// # Errors
/// `Failure::Failed` with the kernel's reason, such as a file system that is full.
pub fn put_back(all: &[Covered]) -> Result<(), Failure> {
    for Covered { folder, aside } in all {
        copy(aside, folder)
            .and_then(|()| fs::remove_dir_all(aside))
            .map_err(|error| Failure::system(&folder.display().to_string(), error))?;
    }
    Ok(())
}

/// Copy all that is in a folder, with its permissions.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (there, here, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            fs::create_dir_all(&here)?;
            copy(&there, &here)?;
            fs::set_permissions(&here, entry.metadata()?.permissions())?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&there)?, &here)?;
        } else {
            fs::copy(&there, &here)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use oscope_sys::testing::Folder;

    use super::*;

    #[test]
    fn what_was_in_a_folder_is_in_the_one_that_takes_its_place() {
        let root = Folder::new();
        let at = |name: &str| root.0.join(name);
        fs::create_dir_all(at("tmp/deep")).unwrap();
        fs::write(at("tmp/deep/program"), "content").unwrap();
        fs::set_permissions(at("tmp/deep/program"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("deep/program", at("tmp/link")).unwrap();
        let folders = [at("missing"), at("tmp")].map(|path| path.display().to_string());
        let covered =
            move_aside(&[&folders[0], &folders[1]], &at("covered")).expect("it is renamed");
        assert!(!at("tmp").exists());
        fs::create_dir(at("tmp")).unwrap();
        put_back(&covered).expect("there is room");
        assert_eq!(fs::read_to_string(at("tmp/link")).unwrap(), "content");
        let mode = fs::metadata(at("tmp/deep/program"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(!at("missing").exists());
        assert_eq!(fs::read_dir(at("covered")).unwrap().count(), 0);
    }
}
