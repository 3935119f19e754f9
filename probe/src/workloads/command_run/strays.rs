//! Processes that a program leaves behind, such as a daemon: found and ended, so that they run neither in the next repetition nor afterwards.
//!
//! A launcher makes itself the reaper of its orphaned descendants (`PR_SET_CHILD_SUBREAPER`, prctl(2)): whatever a program forked, in whatever
//! session or process group, becomes the launcher's child when its own parent ends. So does the probe, for what its own programs (`--prepare`)
//! leave behind, and for what a launcher that was killed leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::Failure;

/// Generations of descendants ended in a row: one that forks faster than it is ended is given up.
const MOST_ROUNDS: usize = 1000;

/// The probe as the reaper of what programs leave behind; dropping it makes it an ordinary process again.
#[derive(Debug)]
pub struct Strays {
    /// Children that the probe had before, which are its own; the error where /proc does not list children.
    own: Result<BTreeSet<i32>, String>,
}

impl Strays {
    /// Become the reaper.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel refuses.
    pub fn adopt() -> Result<Self, Failure> {
        set_child_subreaper(true)
            .map_err(|error| Failure::system("asking to reap orphaned processes", error))?;
        Ok(Self::that_have(children(Path::new("/proc"))))
    }

    fn that_have(own: io::Result<Vec<i32>>) -> Self {
        Self {
            own: own
                .map(BTreeSet::from_iter)
                .map_err(|error| format!("/proc does not list children: {error}")),
        }
    }

    /// End the processes that programs left behind. Every one that a program started has been orphaned by then.
    ///
    /// `spared` is a child of which this process has made use since then. Returns a note where there were some, and where they could not be
    /// searched for.
    pub fn end(&self, spared: Option<Pid>) -> Option<String> {
        match self.end_all(spared) {
            Ok(0) => None,
            Ok(_) => Some(
                "the command left processes behind, such as a daemon; they were ended after each run"
                    .to_owned(),
            ),
            Err(why) => Some(format!(
                "processes that the command may have left behind were not searched for: {why}"
            )),
        }
    }

    /// Returns how many processes it ended.
    fn end_all(&self, spared: Option<Pid>) -> Result<usize, String> {
        let own = self.own.as_ref().map_err(Clone::clone)?;
        let mut ended = 0;
        for _ in 0..MOST_ROUNDS {
            let mut left = children(Path::new("/proc"))
                .map_err(|error| format!("/proc does not list children: {error}"))?;
            left.retain(|child| {
                !own.contains(child) && spared.is_none_or(|spared| spared.as_raw() != *child)
            });
            if left.is_empty() {
                break;
            }
            for child in left.into_iter().map(Pid::from_raw) {
                // One that has ended by itself only has to be reaped.
                if waitpid(child, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive) {
                    continue;
                }
                // It is a child that has not been waited for, so the number is not another's.
                ended += usize::from(kill(child, Signal::SIGKILL).is_ok());
                let _ = waitpid(child, None);
            }
        }
        Ok(ended)
    }
}

/// Whether this process, which waits for all its own children, has others: one system call, where a search takes several. One that has ended
/// is reaped.
#[inline(always)]
pub fn are_there() -> bool {
    // SAFETY: without a status to write, waitpid(2) takes numbers only.
    unsafe {
        libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) >= 0
            || *libc::__errno_location() != libc::ECHILD
    }
}

impl Drop for Strays {
    fn drop(&mut self) {
        let _ = set_child_subreaper(false);
    }
}

/// Returns the children of this process, orphans that it adopted included.
///
/// `/proc/PID/task/TID/children` (proc_pid_task(5)) needs a kernel with `CONFIG_PROC_CHILDREN`; without it the parent of every process is read.
///
/// # Errors
/// That of `proc`, where neither is possible.
fn children(proc: &Path) -> io::Result<Vec<i32>> {
    let process = std::process::id();
    match fs::read_to_string(proc.join(format!("self/task/{process}/children"))) {
        Ok(text) => Ok(text
            .split_ascii_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect()),
        Err(_) => children_by_parent(proc, process),
    }
}

/// Returns the processes whose parent is `parent`, by the `stat` of each (proc_pid_stat(5)).
fn children_by_parent(proc: &Path, parent: u32) -> io::Result<Vec<i32>> {
    // Without it, the folder is not that of a mounted /proc.
    fs::metadata(proc.join("self/stat"))?;
    let processes = fs::read_dir(proc)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |process: &i32| {
        // A process that has ended meanwhile has no file, and has been reaped by its parent.
        let stat = fs::read_to_string(proc.join(format!("{process}/stat"))).unwrap_or_default();
        parent_in(&stat) == Some(parent)
    };
    Ok(processes.filter(is_child).collect())
}

/// Returns the parent in a `stat`: the second field after the name, which ends with the last bracket.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::process::{Command, id};

    use super::{Strays, children, children_by_parent, parent_in};

    #[test]
    fn the_parents_of_all_processes_lead_to_a_child() {
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep(1) is there");
        let number = i32::try_from(child.id()).expect("a process number is an i32");
        let by_parent = children_by_parent(Path::new("/proc"), id()).expect("/proc is mounted");
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
        assert!(
            by_parent.contains(&number),
            "{number} is not in {by_parent:?}"
        );
        assert!(!by_parent.contains(&i32::try_from(id()).expect("as above")));
        let after = children_by_parent(Path::new("/proc"), id()).expect("/proc is mounted");
        assert!(!after.contains(&number), "{number} is still in {after:?}");
    }

    #[test]
    fn the_name_of_a_program_does_not_mislead() {
        assert_eq!(parent_in("7 (a) S 1 (b) R 42 7 7 0 -1"), Some(42));
        assert_eq!(parent_in("7 (a"), None);
    }

    #[test]
    fn where_no_children_are_listed_a_note_names_the_reason() {
        let refused = children(Path::new("/dev/null")).expect_err("it is no folder");
        let note = Strays::that_have(Err(refused))
            .end(None)
            .expect("no search was possible");
        assert!(
            note.contains("were not searched for: /proc does not list children"),
            "{note}"
        );
        let other = Strays::that_have(Err(io::Error::other("hidden"))).end(None);
        assert!(other.expect("no search was possible").ends_with("hidden"));
    }
}
