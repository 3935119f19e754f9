//! Removing a control group with all that is in it.

use std::fs;
use std::io::ErrorKind;
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
/// `Failure::Failed` if it is still busy after `patience`.
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
                    format!(
                        "end the processes in {0}/cgroup.procs, then as root: rmdir {0}",
                        path.display()
                    ),
                )
                .because_of(error));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Kill the members; they may be dying already.
fn empty(path: &Path) -> Result<(), Failure> {
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
    // All at once, so that no member forks in between (cgroup v2 since Linux 5.14); it would end this process, too.
    if !members.contains(&own) && fs::write(path.join("cgroup.kill"), "1").is_ok() {
        return Ok(());
    }
    for member in members.into_iter().filter(|&member| member != own) {
        // At worst it is gone.
        let _ = kill(Pid::from_raw(member), Signal::SIGKILL);
    }
    Ok(())
}
