//! `evict`: the files that are measured lose their pages in the page cache.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::place::neighbour;
use super::{Cause, Disturbance, Kind, Site};
use crate::disk::residency::{DROP_CACHES, take_turn};
use oscope_sys::error::Failure;
use oscope_sys::worker::Listener;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "evict",
    purpose: "Drops the files named with --path from the page cache, again and again; without one, as root, those of \
        the whole machine",
    raises: &["block_inputs", "major_faults", "io_pressure_us"],
    kind: Kind::Machine(make),
};

/// Between two drops of files.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two drops of all files of the machine, which every program pays for.
const LONG_PAUSE: Duration = Duration::from_millis(50);

enum Dropped {
    Files(Vec<(PathBuf, File)>),
    Everything,
}

struct Evict {
    cpu: usize,
    dropped: Dropped,
}

fn make(site: &Site) -> Result<Box<dyn Disturbance>, Failure> {
    // Dropping is work, which is not to compete with what is measured.
    let cpu = neighbour(site.cpu, &site.allowed).map_or(site.cpu, |found| found.cpu);
    let mut files = Vec::new();
    for path in &site.paths {
        let opened = File::open(path).map_err(|error| {
            Failure::unavailable_system(
                &format!("--path {}", path.display()),
                error,
                "name files that you may read",
            )
        })?;
        files.push((path.clone(), opened));
    }
    if files.is_empty() {
        open_knob()?;
        return Ok(Box::new(Evict {
            cpu,
            dropped: Dropped::Everything,
        }));
    }
    Ok(Box::new(Evict {
        cpu,
        dropped: Dropped::Files(files),
    }))
}

fn open_knob() -> Result<File, Failure> {
    OpenOptions::new()
        .write(true)
        .open(DROP_CACHES)
        .map_err(|error| {
            Failure::unavailable_system(
                &format!("evict without a file needs {DROP_CACHES}"),
                error,
                "name the files with --path FILE, or run as root",
            )
        })
}

impl Disturbance for Evict {
    fn cpu(&self) -> usize {
        self.cpu
    }

    fn place(&self) -> String {
        match &self.dropped {
            Dropped::Files(files) => format!("{} files named", files.len()),
            Dropped::Everything => {
                "the page cache of the whole machine: every program pays for it".to_owned()
            }
        }
    }

    /// Drops.
    fn step(&mut self, stop: &Listener, left: Duration) -> Result<u64, Failure> {
        let pause = match &self.dropped {
            Dropped::Files(files) => {
                for (path, file) in files {
                    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(
                        |error| Failure::system(&format!("evicting {}", path.display()), error),
                    )?;
                }
                PAUSE
            }
            Dropped::Everything => {
                take_turn(open_knob()?)?
                    .write_all(b"1")
                    .map_err(|error| Failure::system(DROP_CACHES, error))?;
                LONG_PAUSE
            }
        };
        stop.is_closed_within(pause.min(left));
        Ok(1)
    }
}
