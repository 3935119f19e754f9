//! A memory control group made for a run, version 1 or 2.
//!
//! Source: `Documentation/admin-guide/cgroup-v1/memory.rst` and `cgroup-v2.rst` of Linux.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::Pid;

use super::kills::Kills;
use super::oom_guard::OomGuard;
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::resource::{GROUP_PREFIX, Resource};
use oscope_sys::error::Failure;
use oscope_sys::machine::cgroup::{self, Groups};
use oscope_sys::machine::memory;
use oscope_sys::machine::memory::page_bytes;

/// How willingly the kernel swaps in a group of version 1: its own default, whatever this machine's is.
const SWAPPINESS: &str = "60";

/// The group. Dropping it kills what is in it, and removes it.
#[derive(Debug)]
pub struct Group {
    version: u8,
    path: PathBuf,
    // In the order in which they are undone: what is in the group ends while its OOM guard lives.
    _made: CleanupGuard,
    oom_guard: Option<OomGuard>,
}

impl Group {
    /// Make a group whose members together may have `limit` bytes of memory; who keeps it runs on `cpus`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where none can be made, with the remedy.
    pub fn make(limit: u64, cpus: &[usize]) -> Result<Self, Failure> {
        let groups = cgroup::own_groups("memory").map_err(|reason| {
            Failure::unavailable(reason, "mount cgroup2, or choose --set pressure=none")
        })?;
        let room = memory::room().map_err(Failure::failed)?;
        if limit > room {
            return Err(Failure::unavailable(
                format!(
                    "the group may take {limit} B, and {room} B are available (MemAvailable, cgroup limits)"
                ),
                "choose less with --set limit=SIZE, or free memory",
            ));
        }
        let parent = parent(&groups)?;
        Self::make_below(parent, groups.version, limit, cpus)
    }

    fn make_below(parent: &Path, version: u8, limit: u64, cpus: &[usize]) -> Result<Self, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{GROUP_PREFIX}{}-{number}", std::process::id()));
        let made = CleanupGuard::log_intent(Resource::Group { path: path.clone() })?;
        if let Err(error) = fs::create_dir(&path) {
            // A group of that name, with its processes, is another's.
            made.forget()?;
            return Err(refused(&path, &error));
        }
        let mut group = Self {
            version,
            path,
            _made: made,
            oom_guard: None,
        };
        match version {
            1 => {
                group.set("memory.limit_in_bytes", &limit.to_string())?;
                group.set("memory.swappiness", SWAPPINESS)?;
                group.oom_guard = Some(OomGuard::fork(&group.path, limit, cpus)?);
            }
            // Beyond `high` a member is slowed down and made to reclaim, which keeps the OOM killer away while swap has
            // room.
            _ => {
                group.set("memory.high", &limit.to_string())?;
                let most = limit + limit / 4;
                group.set("memory.max", &(most - most % page_bytes()).to_string())?;
            }
        }
        Ok(group)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        fs::write(&path, value).map_err(|error| refused(&path, &error))?;
        let now = fs::read_to_string(&path).map_err(|error| refused(&path, &error))?;
        if now.trim() == value {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "{} is {} and not {value}",
            path.display(),
            now.trim()
        )))
    }

    /// Have a process enter the group; what it touches from then on counts here.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn take(&self, process: Pid) -> Result<(), Failure> {
        let path = self.path.join("cgroup.procs");
        fs::write(&path, process.to_string()).map_err(|error| {
            let doing = format!("process {process} cannot enter {}", path.display());
            Failure::system(&doing, error)
        })
    }

    /// Put the group into the state in which each repetition is to begin.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn arm(&self) -> Result<(), Failure> {
        self.oom_guard.as_ref().map_or(Ok(()), OomGuard::arm)
    }

    /// The process that keeps the group from the OOM killer, where it needs one.
    pub fn oom_guard(&self) -> Option<Pid> {
        self.oom_guard.as_ref().map(OomGuard::process)
    }

    /// How the limit is held.
    pub fn notes(&self) -> Vec<String> {
        let how = match self.version {
            1 => {
                "pressure: a control group of version 1; where the kernel finds nothing to reclaim, the limit is \
                 exceeded by 2 MiB for some milliseconds, and the competitor stopped, instead of killing"
            }
            _ => {
                "pressure: a control group of version 2; its limit is memory.high, and memory.max a quarter more"
            }
        };
        let guard = self.oom_guard.as_ref().and_then(OomGuard::note);
        [how.to_owned()].into_iter().chain(guard.cloned()).collect()
    }

    /// As [`Group::take`], of the competitor.
    ///
    /// # Errors
    /// As there.
    pub fn admit_competitor(&self, process: Pid) -> Result<(), Failure> {
        if let Some(guard) = &self.oom_guard {
            guard.stop_at_times(process);
        }
        self.take(process)
    }

    /// Where the kernel counts the processes that it killed for this group.
    pub fn kills(&self) -> Kills {
        let name = match self.version {
            1 => "memory.oom_control",
            _ => "memory.events",
        };
        Kills::in_file(self.path.join(name))
    }
}

#[cfg(test)]
impl Group {
    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Below which group one with a memory limit can be made: in version 1 this process's own; in version 2 the nearest
/// that hands the controller on, which one with processes of its own cannot do, the topmost excepted ("no internal
/// processes").
fn parent(groups: &Groups) -> Result<&Path, Failure> {
    let hands_on = |folder: &&PathBuf| {
        let controllers = fs::read_to_string(folder.join("cgroup.subtree_control"));
        controllers.is_ok_and(|all| all.split_whitespace().any(|name| name == "memory"))
    };
    let found = match groups.version {
        1 => groups.folders.first(),
        _ => groups.folders.iter().find(hands_on),
    };
    let top = groups
        .folders
        .last()
        .map_or(Path::new("/sys/fs/cgroup"), PathBuf::as_path);
    found.map(PathBuf::as_path).ok_or_else(|| {
        Failure::unavailable(
            format!("no control group from this process's up to {} hands the memory controller on", top.display()),
            format!(
                "as root: echo +memory > {}/cgroup.subtree_control; in a container, run on the host instead",
                top.display()
            ),
        )
    })
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "run as root, with a writable /sys/fs/cgroup"
        }
        _ => "run on a kernel with CONFIG_MEMCG, as root",
    };
    Failure::unavailable_system(
        &format!("no memory control group can be made: {}", path.display()),
        error,
        remedy,
    )
}

#[cfg(test)]
mod tests;
