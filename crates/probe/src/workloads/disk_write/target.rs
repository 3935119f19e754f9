//! The file that is written: one of this process without a name, or one that is named.
//!
//! A named file gets its name only when it is whole: it is written without one (O_TMPFILE), so that nothing stays of it
//! when the probe is killed, and what it replaces is there until then. File systems without O_TMPFILE (NFS, FAT) have
//! it under its name, or under one beside it, from the start.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;
use serde::Deserialize;

use crate::disk::scratch::unnamed;
use oscope_sys::error::{Failure, errno_message};

/// What happens to a regular file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Existing {
    /// Nothing is written.
    Refuse,
    /// It is replaced once the new one is whole.
    Replace,
}

/// What happens to a named file that could not be written as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It is removed.
    Remove,
    /// It is kept.
    Keep,
}

/// Where the files of a request go.
#[derive(Debug)]
pub struct Destination {
    /// The name to give; `None` for scratch files.
    path: Option<PathBuf>,
    /// Where scratch files are made.
    directory: PathBuf,
    existing: Existing,
    on_failure: OnFailure,
    /// Device and inode number of the file of an earlier repetition.
    own: Option<(u64, u64)>,
}

/// A file to be written. Dropping it removes it.
#[derive(Debug)]
pub struct Target {
    /// The file, open for writing and reading.
    pub file: File,
    /// The name that it has so far.
    name: Option<PathBuf>,
    /// The permissions of the file that it replaces.
    replaced: Option<Permissions>,
}

impl Target {
    /// A file that has its name from the start, or one beside it where another file has it still.
    fn under_a_name(path: &Path, replaced: Option<Permissions>) -> Result<Self, Failure> {
        let name = match replaced {
            Some(_) => beside(path),
            None => path.to_owned(),
        };
        Ok(Self {
            file: create(&name).map_err(refused(&name))?,
            name: Some(name),
            replaced,
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let Some(name) = &self.name else { return };
        if let Err(error) = fs::remove_file(name) {
            eprintln!("oscope-probe: cannot remove {}: {error}", name.display());
        }
    }
}

impl Destination {
    /// The file `file`, or scratch files in `directory` if it is empty.
    ///
    /// # Errors
    /// `Failure::Request` if there is something of that name that may not be replaced.
    pub fn new(
        file: PathBuf,
        directory: PathBuf,
        existing: Existing,
        on_failure: OnFailure,
    ) -> Result<Self, Failure> {
        let destination = Self {
            path: (!file.as_os_str().is_empty()).then_some(file),
            directory,
            existing,
            on_failure,
            own: None,
        };
        destination.to_be_replaced()?;
        Ok(destination)
    }

    /// What the file is called in messages.
    pub fn name(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => format!("a scratch file in {}", self.directory.display()),
        }
    }

    /// A new file, to be written. That of the last repetition goes first, so that there need not be room for two.
    ///
    /// # Errors
    /// `Failure::Request` for a name that cannot be had, `Failure::Unavailable` where there can be no scratch file.
    pub fn open(&mut self) -> Result<Target, Failure> {
        let Some(path) = self.path.clone() else {
            return Ok(Target {
                file: unnamed(&self.directory)?,
                name: None,
                replaced: None,
            });
        };
        self.remove_own(&path)?;
        let replaced = self.to_be_replaced()?;
        let replaced = replaced.map(|metadata| metadata.permissions());
        match nameless(&path) {
            Ok(file) => Ok(Target {
                file,
                name: None,
                replaced,
            }),
            // Not supported by the file system, or (EISDIR) not known to the kernel.
            Err(error) if [libc::EOPNOTSUPP, libc::EISDIR].contains(&errno(&error)) => {
                Target::under_a_name(&path, replaced)
            }
            Err(error) => Err(refused(&path)(error)),
        }
    }

    /// Give the file, now whole, its name; a scratch file goes.
    ///
    /// # Errors
    /// `Failure::Failed` if the name cannot be given; the new file is then removed, and what it was to replace stays.
    pub fn keep(&mut self, mut target: Target) -> Result<(), Failure> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let metadata = target.file.metadata();
        let named = metadata.and_then(|metadata| give_name(&mut target, path).map(|()| metadata));
        let metadata = named.map_err(|error| {
            Failure::failed(format!(
                "naming {}: {}; what was written is removed",
                path.display(),
                errno_message(&error)
            ))
            .because_of(error)
        })?;
        self.own = Some(identity(&metadata));
        Ok(())
    }

    /// Remove a file that is not whole, or keep it where that is wanted; says which.
    pub fn give_up(&self, mut target: Target) -> String {
        let (OnFailure::Keep, Some(path)) = (self.on_failure, &self.path) else {
            return "what was written is removed".to_owned();
        };
        let kept = match (target.name.take(), &target.replaced) {
            (Some(name), _) => Ok(name),
            (None, None) => link(&target.file, path).map(|()| path.clone()),
            (None, Some(_)) => link(&target.file, &beside(path)).map(|()| beside(path)),
        };
        match kept {
            Ok(name) => format!("what was written is kept as {}", name.display()),
            Err(error) => format!(
                "what was written could not be kept ({}) and is removed",
                errno_message(&error)
            ),
        }
    }

    /// Remove the file of the last repetition, unless somebody has put another in its place.
    fn remove_own(&mut self, path: &Path) -> Result<(), Failure> {
        let Some(own) = self.own.take() else {
            return Ok(());
        };
        match fs::symlink_metadata(path) {
            Ok(metadata) if identity(&metadata) == own => {
                fs::remove_file(path).map_err(refused(path))
            }
            _ => Ok(()),
        }
    }

    /// What is there under the name and may be replaced.
    fn to_be_replaced(&self) -> Result<Option<Metadata>, Failure> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(path)(error)),
        };
        let what = match what(&metadata) {
            None if self.existing == Existing::Replace => return Ok(Some(metadata)),
            None => "there already; name another file, or have it replaced with existing=replace",
            Some(what) => what,
        };
        Err(Failure::request(
            "file",
            format!("{} is {what}", path.display()),
        ))
    }
}

/// What it is that cannot be replaced; `None` for a regular file.
fn what(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    Some(if kind.is_file() {
        return None;
    } else if kind.is_dir() {
        "a directory; name a file in it"
    } else if kind.is_symlink() {
        "a symbolic link; name the file itself"
    } else if kind.is_fifo() {
        "a FIFO; name a regular file"
    } else if kind.is_socket() {
        "a socket; name a regular file"
    } else {
        "a device, which is not written to; name a regular file"
    })
}

fn give_name(target: &mut Target, path: &Path) -> io::Result<()> {
    let Some(permissions) = target.replaced.take() else {
        return match target.name.take() {
            // It was made under its name.
            Some(_) => Ok(()),
            None => link(&target.file, path),
        };
    };
    let mode = permissions.mode() & 0o777;
    target.file.set_permissions(Permissions::from_mode(mode))?;
    // A power failure after the renaming must not leave neither the old file nor the new one.
    target.file.sync_all()?;
    if target.name.is_none() {
        let name = beside(path);
        link(&target.file, &name)?;
        target.name = Some(name);
    }
    if let Some(name) = &target.name {
        fs::rename(name, path)?;
    }
    target.name = None;
    Ok(())
}

/// Give a file without a name this one (open(2), O_TMPFILE); fails if the name is taken.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let here = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(
        AT_FDCWD,
        here.as_str(),
        AT_FDCWD,
        path,
        AtFlags::AT_SYMLINK_FOLLOW,
    )?)
}

/// A new file without a name where `path` is to be.
fn nameless(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(ErrorKind::IsADirectory.into()),
    };
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o666)
        .custom_flags(libc::O_TMPFILE)
        .open(folder)
}

/// A new file of this name; fails if the name is taken.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
}

/// A name in the same folder that shows whose it is.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".oscope-{}", std::process::id()));
    name.into()
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

fn refused(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| {
        Failure::request(
            "file",
            format!("{}: {}", path.display(), errno_message(&error)),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::tests::Folder;
    use super::*;

    /// As on a file system without O_TMPFILE.
    #[test]
    fn a_file_under_its_name_from_the_start_is_kept_or_removed_all_the_same() {
        let folder = Folder::new();
        let mut destination = Destination::new(
            folder.file(),
            PathBuf::new(),
            Existing::Replace,
            OnFailure::Remove,
        )
        .unwrap();
        let target = || Target::under_a_name(&folder.file(), None).unwrap();
        destination.give_up(target());
        assert!(folder.names().is_empty());
        destination.keep(target()).unwrap();
        assert_eq!(folder.names(), ["file"]);
        assert!(
            Target::under_a_name(&folder.file(), None).is_err(),
            "the name is taken"
        );

        let old = fs::metadata(folder.file()).unwrap();
        let target = Target::under_a_name(&folder.file(), Some(old.permissions())).unwrap();
        target.file.write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::metadata(folder.file()).unwrap().len(), 0);
        destination.keep(target).unwrap();
        assert_eq!(fs::read(folder.file()).unwrap(), b"new");
        assert_eq!(folder.names(), ["file"]);
    }
}
