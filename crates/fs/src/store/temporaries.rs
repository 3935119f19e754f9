//! The names under which files are being put on the server: written down before each is made, so that the next life can
//! remove what a kill left there.
//!
//! `temporaries` in the cache folder has a line for each that begins (`+SECONDS HEX`) and each that is gone (`-HEX`). A
//! line is one write(2) to the end of the file, which a kill leaves there whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;

use super::folder::write_whole;
use crate::errno::errno;
use crate::hex;
use crate::remote::{Journal, Temporary, is_temporary};

/// The name in the cache folder.
const NAME: &str = "temporaries";

/// Bytes from which on the file is written anew, with what is not gone.
const LONG: u64 = 64 << 10;

/// The temporaries of one cache folder that may be on the server.
#[derive(Debug)]
pub struct Temporaries {
    folder: PathBuf,
    open: Mutex<Open>,
    /// Those that an earlier life left.
    earlier: Vec<PathBuf>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    /// With the seconds since 1970 at which each began.
    there: BTreeMap<PathBuf, u64>,
}

impl Temporaries {
    /// Reads what an earlier life left.
    pub(super) fn open(folder: &Path) -> Result<Self, Errno> {
        let at = folder.join(NAME);
        let bytes = match fs::read(&at) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(errno(error)),
        };
        let there = read(&bytes);
        let file = append(&at).map_err(errno)?;
        // What a power cut left of a last line must not be the beginning of the next one.
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at as u64 + 1);
        file.set_len(whole).map_err(errno)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            earlier: there.keys().cloned().collect(),
            open: Mutex::new(Open {
                file,
                bytes: whole,
                there,
            }),
        })
    }

    /// Those of earlier lives that are not known to be gone.
    pub fn earlier(&self) -> Vec<Temporary> {
        let open = self.lock();
        let now = now();
        let left = self.earlier.iter().filter_map(|path| {
            let begun = open.there.get(path)?;
            Some(Temporary {
                path: path.clone(),
                age: Duration::from_secs(now.saturating_sub(*begun)),
            })
        });
        left.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With what is not gone alone.
    fn shorten(&self, open: &mut Open) -> io::Result<()> {
        let text: String = open
            .there
            .iter()
            .map(|(path, begun)| begun_line(path, *begun))
            .collect();
        write_whole(&self.folder, NAME, text.as_bytes(), false)?;
        open.file = append(&self.folder.join(NAME))?;
        open.bytes = text.len() as u64;
        Ok(())
    }
}

impl Journal for Temporaries {
    fn begins(&self, temporary: &Path) {
        let mut open = self.lock();
        let begun = now();
        open.there.insert(temporary.to_path_buf(), begun);
        open.add(&begun_line(temporary, begun));
    }

    fn gone(&self, temporary: &Path) {
        let mut open = self.lock();
        if open.there.remove(temporary).is_none() {
            return;
        }
        open.add(&format!("-{}\n", hex::of_path(temporary)));
        if open.bytes > LONG.max(4 * open.there.len() as u64 * 128) {
            // On a full disk it goes on growing, or not even that: see `add`.
            let _ = self.shorten(&mut open);
        }
    }
}

impl Open {
    /// On a full disk copying back goes on: then a kill may leave a temporary on the server, or have the next life look
    /// for one in vain.
    fn add(&mut self, line: &str) {
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => self.bytes += line.len() as u64,
            // A part of a line must not be the beginning of the next one.
            Err(_) => drop(self.file.set_len(self.bytes)),
        }
    }
}

fn append(at: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(at)
}

/// Only what is named as a temporary is one: nothing else is ever removed for what this file says.
fn read(bytes: &[u8]) -> BTreeMap<PathBuf, u64> {
    let mut there = BTreeMap::new();
    for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else {
            continue;
        };
        if let Some(path) = line.strip_prefix('-').and_then(hex::to_path) {
            there.remove(&path);
        }
        let begun = line.strip_prefix('+').and_then(|rest| rest.split_once(' '));
        let begun =
            begun.and_then(|(begun, path)| Some((begun.parse().ok()?, hex::to_path(path)?)));
        let ours = |path: &Path| path.file_name().is_some_and(is_temporary);
        if let Some((begun, path)) = begun.filter(|(_, path)| ours(path)) {
            there.insert(path, begun);
        }
    }
    there
}

fn begun_line(path: &Path, begun: u64) -> String {
    format!("+{begun} {}\n", hex::of_path(path))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
