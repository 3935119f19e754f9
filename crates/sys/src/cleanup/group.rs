//! Removing a control group with all that is in it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Failure, errno_message};

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Kill what is in the group at `path`, and remove it. A group is busy for a moment after its last process has gone.
///
/// # Errors
/// `Failure::Unavailable` if it is still busy after `patience`; those of [`empty`].
pub fn remove(path: &Path, patience: Duration) -> Result<(), Failure> {
    let latest = Instant::now() + patience;
    loop {
        empty(path)?;
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= latest => {
                return Err(Failure::unavailable(
                    format!("still {} after {patience:?}", errno_message(&error)),
                    by_hand(path),
                )
                .because_of(error));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Kill all members: with `cgroup.kill` where the kernel has it, else one by one. They may be dying already.
///
/// # Errors
/// `Failure::Failed` with the kernel's reason if it does not list the members; `Failure::Unavailable` if it refuses a
/// write to `cgroup.kill`.
pub(super) fn empty(path: &Path) -> Result<(), Failure> {
    let members = match fs::read_to_string(path.join("cgroup.procs")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(Failure::from)?,
    };
    let own = std::process::id() as i32;
    // A process of another PID namespace is listed as 0, and kill(0) would hit this process's own group.
    let members: Vec<i32> = members
        .lines()
        .filter_map(|member| member.parse().ok())
        .filter(|&member| member > 0)
        .collect();
    // It would end this process, too.
    if !members.contains(&own) && kill_all(&path.join("cgroup.kill"))? {
        return Ok(());
    }
    for member in members.into_iter().filter(|&member| member != own) {
        // At worst it is gone.
        let _ = kill(Pid::from_raw(member), Signal::SIGKILL);
    }
    Ok(())
}

/// How to remove the group at `path` without this program.
fn by_hand(path: &Path) -> String {
    format!(
        "end the processes in {0}/cgroup.procs, then as root: rmdir {0}",
        path.display()
    )
}

/// Kill the group and all groups below it at once, so that no member forks in between; false where the kernel cannot:
/// in version 1, and before Linux 5.14.
fn kill_all(path: &Path) -> Result<bool, Failure> {
    // `fs::write` would make the file where there is none.
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(b"1"));
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // The group was removed after the file was opened.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(true),
        Err(error) => Err(Failure::unavailable_system(
            &format!("writing 1 to {}", path.display()),
            error,
            by_hand(path.parent().unwrap_or(path)),
        )),
    }
}
