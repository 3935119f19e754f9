//! Many small files: made, read, listed.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::big_file::close;
use super::operation::{Done, Fresh, Operation, failed, interrupted, long_ago};
use crate::clock::Clock;
use crate::disk::{content, residency};
use crate::shared_folder::{SharedFolder, System};
use crate::xor;
use oscope_sys::cancel;
use oscope_sys::cancel::survive_size_limit;
use oscope_sys::error::Failure;

/// Bytes of each.
pub const LENGTH: u64 = 4 << 10;
/// Bytes asked for at once, so that the second answer is that there is no more.
const ASKED: usize = 8 << 10;
/// Where in the series that contents are taken from those of small files begin.
const FILES_FROM: u64 = 1 << 60;
const NAME: &str = "small";

/// What is in the files of one repetition.
#[derive(Debug, Clone)]
pub struct Contents(Vec<u8>);

impl Contents {
    /// Those of this repetition.
    pub fn of(repetition: u64) -> Self {
        let mut bytes = vec![0; LENGTH as usize];
        content::fill(FILES_FROM + repetition * LENGTH, &mut bytes);
        Self(bytes)
    }

    /// What is in the file of this number: its first eight bytes are the number.
    pub fn file(&mut self, number: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&number.to_le_bytes());
        &self.0
    }
}

/// The name of a file.
pub fn name(number: u64) -> String {
    format!("file-{number:06}")
}

/// Make a file on the server that was last modified long ago.
///
/// # Errors
/// `Failure::Unavailable` where there is no room, `Failure::Failed` with the kernel's reason.
pub fn make(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    File::create_new(path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_times(FileTimes::new().set_modified(long_ago()))
        })
        .map_err(|error| failed("making", path, &error))
}

/// Check that there is such a file on the server.
///
/// # Errors
/// `Failure::Failed` that names it.
pub fn compare(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let found = fs::read(path).map_err(|error| failed("reading", path, &error))?;
    match found == bytes {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "{} is not what was written",
            path.display()
        ))),
    }
}

/// Check that a folder on the server has so many entries.
///
/// # Errors
/// `Failure::Failed` with the number.
pub fn count(path: &Path, wanted: u64) -> Result<(), Failure> {
    let found = fs::read_dir(path).map_err(|error| failed("reading", path, &error))?;
    match found.count() as u64 {
        found if found == wanted => Ok(()),
        found => Err(Failure::failed(format!(
            "{} has {found} entries, and should have {wanted}",
            path.display()
        ))),
    }
}

/// `create`.
pub struct Create {
    files: u64,
    fresh: Fresh,
    place: PathBuf,
    contents: Contents,
}

impl Create {
    /// Nothing is there yet.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel refuses a handler.
    pub fn new(files: u64) -> Result<Self, Failure> {
        survive_size_limit()?;
        Ok(Self {
            files,
            fresh: Fresh::default(),
            place: PathBuf::new(),
            contents: Contents::of(0),
        })
    }

    fn make(&mut self, path: &Path, number: u64) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(self.contents.file(number))?;
        close(file)
    }
}

impl Operation for Create {
    fn files(&self) -> u64 {
        self.files
    }

    fn ready(&mut self, folder: &mut SharedFolder, _clock: &Clock) -> Result<(), Failure> {
        self.place = self.fresh.renew(folder)?;
        self.contents = Contents::of(self.fresh.number());
        Ok(())
    }

    fn act(&mut self, _clock: &Clock) -> Result<Done, Failure> {
        for number in 0..self.files {
            if cancel::requested() {
                return Err(interrupted());
            }
            let path = self.place.join(name(number));
            self.make(&path, number)
                .map_err(|error| failed("making", &path, &error))?;
        }
        Ok(Done {
            bytes: Some(self.files * LENGTH),
            files: self.files,
            ..Done::default()
        })
    }

    fn check(&mut self, folder: &SharedFolder) -> Result<(), Failure> {
        let served = self.fresh.served(folder);
        count(&served, self.files)?;
        (0..self.files)
            .try_for_each(|number| compare(&served.join(name(number)), self.contents.file(number)))
    }
}

/// What is done with small files that the server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Each is read.
    Read,
    /// Their names and attributes are.
    List,
}

/// `read-small` and `list`.
pub struct Existing {
    look: Look,
    system: System,
    served: PathBuf,
    mounted: PathBuf,
    /// The XOR of each.
    folds: Vec<u32>,
}

impl Existing {
    /// Make the files in the server's folder.
    ///
    /// # Errors
    /// `Failure::Unavailable` if there is no room; `Failure::Failed` after a signal, or with the kernel's reason.
    pub fn make(
        folder: &SharedFolder,
        system: System,
        look: Look,
        files: u64,
    ) -> Result<Self, Failure> {
        survive_size_limit()?;
        let served = folder.served().join(NAME);
        fs::create_dir(&served).map_err(|error| failed("making", &served, &error))?;
        let mut contents = Contents::of(0);
        let mut folds = Vec::new();
        for number in 0..files {
            if cancel::requested() {
                return Err(interrupted());
            }
            let bytes = contents.file(number);
            make(&served.join(name(number)), bytes)?;
            folds.push(xor::fold(bytes));
        }
        Ok(Self {
            look,
            system,
            served,
            mounted: folder.mounted().join(NAME),
            folds,
        })
    }

    fn read(&self) -> Result<Done, Failure> {
        let mut buffer = [0; ASKED];
        for (number, wanted) in (0..).zip(&self.folds) {
            if cancel::requested() {
                return Err(interrupted());
            }
            let path = self.mounted.join(name(number));
            let found =
                fold(&path, &mut buffer).map_err(|error| failed("reading", &path, &error))?;
            if found != (LENGTH, *wanted) {
                return Err(Failure::failed(format!(
                    "{} was read as another file than the server has",
                    path.display()
                )));
            }
        }
        Ok(Done {
            bytes: Some(self.folds.len() as u64 * LENGTH),
            files: self.folds.len() as u64,
            ..Done::default()
        })
    }

    fn list(&self) -> Result<Done, Failure> {
        let mut files = 0;
        let refused = |error| failed("listing", &self.mounted, &error);
        for entry in fs::read_dir(&self.mounted).map_err(refused)? {
            if cancel::requested() {
                return Err(interrupted());
            }
            // By its path, as programs do: an lstat(2) for each.
            let path = entry.map_err(refused)?.path();
            let status =
                fs::symlink_metadata(&path).map_err(|error| failed("looking at", &path, &error))?;
            if !status.is_file() || status.len() != LENGTH {
                return Err(Failure::failed(format!(
                    "{} is listed as another file than the server has",
                    path.display()
                )));
            }
            files += 1;
        }
        Ok(Done {
            bytes: Some(0),
            files,
            ..Done::default()
        })
    }
}

impl Operation for Existing {
    fn files(&self) -> u64 {
        self.folds.len() as u64
    }

    fn ready(&mut self, folder: &mut SharedFolder, _clock: &Clock) -> Result<(), Failure> {
        folder.renew_unless_new()?;
        if (self.system, self.look) == (System::Local, Look::Read) {
            for number in 0..self.folds.len() as u64 {
                residency::evict(&self.served.join(name(number)))?;
            }
        }
        Ok(())
    }

    fn act(&mut self, _clock: &Clock) -> Result<Done, Failure> {
        match self.look {
            Look::Read => self.read(),
            Look::List => self.list(),
        }
    }

    fn check(&mut self, _folder: &SharedFolder) -> Result<(), Failure> {
        count(&self.served, self.folds.len() as u64)
    }
}

/// Open, read to the end and close a file: its length and its XOR.
fn fold(path: &Path, buffer: &mut [u8]) -> std::io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let (mut length, mut folded) = (0, 0);
    loop {
        let read = match file.read(buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        folded ^= xor::fold_at(&buffer[..read], length);
        length += read as u64;
    }
    close(file)?;
    Ok((length, folded))
}
