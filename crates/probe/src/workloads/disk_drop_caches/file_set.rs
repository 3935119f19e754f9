//! Many small files in a folder of their own, removed again however the probe ends.
//!
//! A dentry and an inode stay in memory only while the file has a name, so that the files cannot be unlinked early. A
//! child therefore waits for the probe's end, which it sees as the end of a pipe, and removes the files after SIGKILL
//! too. Only if both are killed at once, or the machine stops, does the folder `oscope-PID-XXXXXX` stay.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, mkdtemp, unlinkat};

use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::worker::CleanupProcess;

/// Files in a folder of their own. Dropping it removes them.
#[derive(Debug)]
pub struct FileSet {
    path: PathBuf,
    folder: Folder,
    _guard: CleanupProcess,
}

impl FileSet {
    /// Make `count` empty files in a new folder in `directory`, and write them out.
    ///
    /// # Errors
    /// `Failure::Unavailable` if the directory takes no folder, `Failure::Failed` if a file cannot be made; nothing is
    /// left then.
    pub fn make(directory: &Path, count: u32) -> Result<Self, Failure> {
        let path = new_folder(directory)?;
        let opened = Folder::open(directory, &path, count)
            .map_err(|error| Failure::system(&format!("opening {}", path.display()), error));
        let guarded = opened.and_then(|folder| Ok((guard(&folder)?, folder)));
        let (guard, folder) = guarded.inspect_err(|_| {
            // It is empty, and nobody else knows of it.
            let _ = std::fs::remove_dir(&path);
        })?;
        let file_set = Self {
            path,
            folder,
            _guard: guard,
        };
        file_set.fill()?;
        file_set.sync()?;
        Ok(file_set)
    }

    /// How many files there are.
    pub fn count(&self) -> u32 {
        self.folder.count
    }

    /// Look at each file, which brings its dentry and its inode into memory.
    ///
    /// # Errors
    /// `Failure::Failed` that names the file that is gone.
    pub fn look(&self) -> Result<(), Failure> {
        self.each("looking at", |name| {
            fstatat(&self.folder.itself, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|_| ())
        })
    }

    /// Write out all that is dirty on the file system of the files, syncfs(2).
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn sync(&self) -> Result<(), Failure> {
        nix::unistd::syncfs(&self.folder.itself).map_err(|error| Failure::system("syncfs", error))
    }

    fn fill(&self) -> Result<(), Failure> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        self.each("making", |name| {
            openat(&self.folder.itself, name, flags, Mode::S_IRUSR).map(|_| ())
        })
    }

    fn each(&self, doing: &str, act: impl Fn(&CStr) -> Result<(), Errno>) -> Result<(), Failure> {
        for number in 0..self.folder.count {
            if cancel::requested() {
                return Err(Failure::failed(format!("interrupted while {doing} files")));
            }
            act(FileName::of(number).as_c_str()).map_err(|error| {
                let path = self.path.display();
                Failure::system(&format!("{doing} file {number} in {path}"), error)
            })?;
        }
        Ok(())
    }
}

impl Drop for FileSet {
    fn drop(&mut self) {
        if let Err(error) = self.folder.remove() {
            eprintln!(
                "oscope-probe: cannot remove {}: {error}",
                self.path.display()
            );
        }
    }
}

/// A folder that did not exist before, named for this process.
fn new_folder(directory: &Path) -> Result<PathBuf, Failure> {
    let template = directory.join(format!("oscope-{}-XXXXXX", std::process::id()));
    mkdtemp(&template).map_err(|error| {
        Failure::unavailable_system(
            &format!("no folder can be made in {}", directory.display()),
            error,
            "choose another with --set directory=DIR",
        )
    })
}

/// The name of a file, made without allocating: who removes the files after a fork may not.
struct FileName([u8; 9]);

impl FileName {
    fn of(number: u32) -> Self {
        let mut name = [0; 9];
        for (place, byte) in name[..8].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(number >> (28 - 4 * place) & 0xf) as usize];
        }
        Self(name)
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("the last byte alone is zero")
    }
}

/// A folder whose files are named by number, held open so that no other can be meant.
#[derive(Debug)]
struct Folder {
    itself: OwnedFd,
    parent: OwnedFd,
    name: CString,
    count: u32,
}

impl Folder {
    fn open(parent: &Path, path: &Path, count: u32) -> io::Result<Self> {
        let name = path.file_name().expect("mkdtemp gave it a name");
        Ok(Self {
            itself: File::open(path)?.into(),
            parent: File::open(parent)?.into(),
            name: CString::new(name.as_bytes())?,
            count,
        })
    }

    /// Remove the files made so far and the folder, by system calls alone. What was not made by us stays, and the
    /// folder with it.
    fn remove(&self) -> Result<(), Errno> {
        let mut result = Ok(());
        for number in 0..self.count {
            let name = FileName::of(number);
            match unlinkat(&self.itself, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => result = Err(error),
            }
        }
        result.and(unlinkat(
            &self.parent,
            self.name.as_c_str(),
            UnlinkatFlags::RemoveDir,
        ))
    }
}

/// A process that removes the folder when this one has died.
fn guard(folder: &Folder) -> Result<CleanupProcess, Failure> {
    CleanupProcess::fork(|| {
        let _ = folder.remove();
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, fork};

    use super::*;

    fn inodes(path: &Path) -> usize {
        std::fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn names_are_the_numbers_in_hexadecimal() {
        assert_eq!(FileName::of(0).as_c_str(), c"00000000");
        assert_eq!(FileName::of(0x00ab_cdef).as_c_str(), c"00abcdef");
    }

    #[test]
    fn files_are_there_while_it_lives_and_gone_after() {
        let file_set = FileSet::make(Path::new("/var/tmp"), 300).unwrap();
        assert_eq!(inodes(&file_set.path), 300);
        assert_eq!(file_set.look(), Ok(()));
        let (path, guard) = (file_set.path.clone(), file_set._guard.process());
        drop(file_set);
        assert!(!path.exists());
        assert_eq!(waitpid(guard, None), Err(Errno::ECHILD));
    }

    #[test]
    fn two_in_a_process_do_not_wait_for_each_other() {
        let first = FileSet::make(Path::new("/var/tmp"), 1).unwrap();
        let second = FileSet::make(Path::new("/var/tmp"), 1).unwrap();
        drop(first);
        assert!(second.path.exists());
    }

    #[test]
    fn a_file_that_somebody_removed_is_named() {
        let file_set = FileSet::make(Path::new("/var/tmp"), 3).unwrap();
        std::fs::remove_file(file_set.path.join("00000001")).unwrap();
        let refused = file_set.look().unwrap_err().to_string();
        assert!(refused.contains("file 1 in /var/tmp/oscope-"), "{refused}");
    }

    #[test]
    fn what_is_not_ours_stays() {
        let file_set = FileSet::make(Path::new("/var/tmp"), 3).unwrap();
        let foreign = file_set.path.join("foreign");
        std::fs::write(&foreign, "").unwrap();
        let path = file_set.path.clone();
        drop(file_set);
        assert_eq!(inodes(&path), 1);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_directory_that_takes_nothing_is_reported_and_nothing_is_left() {
        let refused = FileSet::make(Path::new("/proc"), 3).unwrap_err();
        assert!(matches!(refused, Failure::Unavailable { .. }), "{refused}");
    }

    /// The owner is a child that is killed, so that nobody but its guard can clean up.
    #[test]
    fn an_owner_that_is_killed_leaves_nothing() {
        let home = std::env::temp_dir().join(format!("oscope-killed-{}", std::process::id()));
        std::fs::create_dir(&home).unwrap();
        let path = new_folder(&home).unwrap();
        let folder = Folder::open(&home, &path, 2).unwrap();
        for number in 0..2 {
            let name = FileName::of(number);
            File::create(path.join(name.as_c_str().to_str().unwrap())).unwrap();
        }
        // SAFETY: the child makes async-signal-safe calls only, and kills itself.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let _guard = guard(&folder);
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
                unreachable!("SIGKILL cannot be survived");
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).unwrap();
            }
        }
        let latest = Instant::now() + Duration::from_secs(30);
        while path.exists() {
            assert!(Instant::now() < latest, "the files stay");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_dir(home).unwrap();
    }
}
