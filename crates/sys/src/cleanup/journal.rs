//! The journal's file: one JSON object a line, appended and brought to the device before anything is done.
//!
//! A line that was cut short by a kill was not acted upon, so that it means nothing.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::owner::{self, Owner};
use super::resource::Resource;
use crate::diagnostics::program;
use crate::error::Failure;

/// Where the state of this program lies, unless `OSCOPE_STATE` says otherwise.
const STATE: &str = "/var/lib/oscope";

/// Longest wait for another process that restores: swap may have to be read back.
const LOCK_LIMIT: Duration = Duration::from_secs(240);

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first one: which boot of the machine the rest is of.
    Boot(String),
    /// A resource is about to be made, or more is known of it.
    #[serde(rename = "made")]
    Logged(u64, Resource),
    /// A resource was undone.
    Undone(u64),
}

/// Whether a journal has entries left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Some.
    Something,
    /// None; the file is gone.
    Nothing,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    boot: String,
    entries: Vec<(u64, Resource)>,
    next: u64,
    /// Which process opened it.
    process: u32,
}

impl Journal {
    /// The journal of this process, new.
    ///
    /// # Errors
    /// `Failure::Unavailable` where none can be kept, with the remedy.
    pub fn create(directory: &Path) -> Result<Self, Failure> {
        prepare(directory)?;
        let path = directory.join(Owner::this()?.file_name());
        let boot = owner::boot()?;
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = file.map_err(|error| refused(&path, &error))?;
        let mut journal = Self {
            boot,
            path,
            file,
            entries: Vec::new(),
            next: 0,
            process: std::process::id(),
        };
        journal.begin(directory).inspect_err(|_| {
            // A name without a journal, of no use. If it stays, it is reported as such.
            let _ = journal.remove();
        })?;
        Ok(journal)
    }

    /// Whether this process opened it, and not one that forked this one.
    pub fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn begin(&mut self, directory: &Path) -> Result<(), Failure> {
        self.append(&Line::Boot(self.boot.clone()))?;
        // The name has to be on the device as well.
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| refused(directory, &error))
    }

    /// The journal that a dead process left.
    ///
    /// # Errors
    /// `Failure::Failed` if it is not one that this program wrote.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let about =
            |error: std::io::Error| Failure::system(&format!("journal {}", path.display()), error);
        let mut options = OpenOptions::new();
        let options = options.append(true).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path).map_err(about)?;
        let metadata = file.metadata().map_err(about)?;
        if !metadata.is_file() || !is_mine(&metadata) {
            return Err(Failure::failed(format!(
                "journal {} is another user's, or others may write to it",
                path.display()
            )));
        }
        let text = fs::read_to_string(path).map_err(about)?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            boot: String::new(),
            entries: Vec::new(),
            next: 0,
            process: std::process::id(),
        };
        for line in text.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else {
                break;
            };
            let line = serde_json::from_str(line)
                .map_err(|error| Failure::system(&format!("journal {}", path.display()), error))?;
            journal.take(line);
        }
        Ok(journal)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Boot(boot) => self.boot = boot,
            Line::Logged(number, resource) => {
                self.entries.retain(|(each, _)| *each != number);
                self.entries.push((number, resource));
                self.next = self.next.max(number + 1);
            }
            Line::Undone(number) => self.entries.retain(|(each, _)| *each != number),
        }
    }

    fn append(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line)
            .map_err(|error| Failure::system("writing an entry of the journal", error))?;
        text.push('\n');
        let before = self.file.metadata();
        let before = before.map_err(|error| refused(&self.path, &error))?.len();
        let written = self.file.write_all(text.as_bytes());
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|error| {
                // A line cut short would spoil the next one. What was not logged is not made either.
                let _ = self.file.set_len(before);
                refused(&self.path, &error)
            })
    }

    /// Enter a resource; its number.
    ///
    /// # Errors
    /// `Failure::Unavailable` if the journal cannot be written.
    pub fn enter(&mut self, resource: &Resource) -> Result<u64, Failure> {
        let number = self.next;
        self.replace(number, resource)?;
        Ok(number)
    }

    /// Enter a resource under this number.
    ///
    /// # Errors
    /// `Failure::Unavailable` if the journal cannot be written.
    pub fn replace(&mut self, number: u64, resource: &Resource) -> Result<(), Failure> {
        let line = Line::Logged(number, resource.clone());
        self.append(&line)?;
        self.take(line);
        Ok(())
    }

    /// Clear a resource that was undone. With the last one the file goes.
    ///
    /// # Errors
    /// `Failure::Unavailable` if the journal cannot be written.
    pub fn clear(&mut self, number: u64) -> Result<Left, Failure> {
        self.take(Line::Undone(number));
        if self.entries.is_empty() {
            self.remove()?;
            return Ok(Left::Nothing);
        }
        self.append(&Line::Undone(number))?;
        Ok(Left::Something)
    }

    /// Remove the file, if it is there.
    ///
    /// # Errors
    /// `Failure::Unavailable` if it cannot be removed.
    pub fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(refused(&self.path, &error)),
            _ => Ok(()),
        }
    }

    /// The boot of the machine that the resources are of.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// The resources with their numbers, the newest first.
    pub fn newest_first(&self) -> Vec<(u64, Resource)> {
        let mut entries = self.entries.clone();
        entries.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        entries
    }
}

/// Where journals lie.
pub fn directory() -> PathBuf {
    let state = std::env::var_os("OSCOPE_STATE").filter(|state| !state.is_empty());
    state
        .map_or_else(|| PathBuf::from(STATE), PathBuf::from)
        .join("made")
}

/// The journals in a directory, by name.
///
/// # Errors
/// `Failure::Failed` if it cannot be read.
pub fn paths(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).map_err(|error| refused(directory, &error))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(|error| refused(directory, &error))?;
    paths.sort();
    Ok(paths)
}

/// Keep other processes from restoring at the same time; `None` where there is nothing to restore.
///
/// # Errors
/// `Failure::Unavailable` where the directory is not to be trusted, or another process restores for minutes.
pub fn lock(directory: &Path) -> Result<Option<Flock<File>>, Failure> {
    let mut opened = match File::open(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| refused(directory, &error))?,
    };
    trust(directory)?;
    let latest = Instant::now() + LOCK_LIMIT;
    loop {
        match Flock::lock(opened, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(Some(lock)),
            Err((_, error)) if Instant::now() >= latest => {
                return Err(Failure::unavailable(
                    format!("another process restores for {LOCK_LIMIT:?} already ({error})"),
                    format!("see what `{} restore` waits for, and end it", program()),
                )
                .because_of(error));
            }
            Err((file, _)) => opened = file,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Make the directory, where it is not there yet, for this user alone.
fn prepare(directory: &Path) -> Result<(), Failure> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(directory)
        .map_err(|error| refused(directory, &error))?;
    trust(directory)
}

/// A journal says what to undo, as root: nobody else may write one.
fn trust(directory: &Path) -> Result<(), Failure> {
    let metadata = fs::metadata(directory).map_err(|error| refused(directory, &error))?;
    if metadata.is_dir() && is_mine(&metadata) {
        return Ok(());
    }
    Err(Failure::unavailable(
        format!(
            "{} is another user's, or others may write to it",
            directory.display()
        ),
        format!(
            "run as the user that owns it, or chmod go-w {}",
            directory.display()
        ),
    ))
}

fn is_mine(metadata: &fs::Metadata) -> bool {
    metadata.uid() == nix::unistd::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unavailable_system(
        &format!(
            "no journal can be kept of what must be undone: {}",
            path.display()
        ),
        error,
        "run as root, or set OSCOPE_STATE to a folder of yours",
    )
}
