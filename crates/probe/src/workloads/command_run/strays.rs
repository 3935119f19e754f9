//! Processes that a program leaves behind, such as a daemon: found and ended, so that they run neither in the next
//! repetition nor afterwards.
//!
//! A launcher makes itself the reaper of its orphaned descendants (`PR_SET_CHILD_SUBREAPER`, prctl(2)): whatever a
//! program forked, in whatever session or process group, becomes the launcher's child when its own parent ends. So does
//! the probe, for what its own programs (`--prepare`) leave behind, and for what a launcher that was killed leaves
//! behind.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, Uid, User};

use super::wait::{GRACE, ends_within};
use oscope_sys::error::Failure;

/// Generations of descendants ended in a row: one that forks faster than it is ended is given up.
const MOST_ROUNDS: usize = 1000;

/// The probe as the reaper of what programs leave behind; dropping it makes it an ordinary process again.
#[derive(Debug)]
pub struct Strays {
    /// Children that the probe had before, which are its own; the error where /proc does not list children.
    own: Result<BTreeSet<i32>, Failure>,
    /// Children that could not be ended: they are waited for no more.
    given_up: RefCell<BTreeSet<i32>>,
}

/// What programs left behind.
#[derive(Debug, Default)]
pub struct Left {
    /// Processes that were ended.
    ended: usize,
    /// Those that could not be ended, and why.
    survivors: BTreeSet<String>,
    /// Why they could not be searched for.
    unsearched: Option<String>,
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
            own: own.map(BTreeSet::from_iter).map_err(unlisted),
            given_up: RefCell::default(),
        }
    }

    /// End the processes that programs left behind. Every one that a program started has been orphaned by then. One
    /// that this process may not kill, or that does not end by it, is given up.
    ///
    /// `spared` is a child of which this process has made use since then.
    pub fn end(&self, spared: Option<Pid>) -> Left {
        let mut left = Left::default();
        if let Err(why) = self.end_all(spared, &mut left) {
            left.unsearched = Some(why.to_string());
        }
        left
    }

    fn end_all(&self, spared: Option<Pid>, left: &mut Left) -> Result<(), Failure> {
        let own = self.own.as_ref().map_err(Clone::clone)?;
        let mut given_up = BTreeSet::new();
        for _ in 0..MOST_ROUNDS {
            let mut found = children(Path::new("/proc")).map_err(unlisted)?;
            found.retain(|child| {
                let is_spared = spared.is_some_and(|spared| spared.as_raw() == *child);
                !own.contains(child) && !is_spared && !given_up.contains(child)
            });
            if found.is_empty() {
                break;
            }
            for child in found {
                match self.end_one(Pid::from_raw(child)) {
                    Ok(ended) => left.ended += usize::from(ended),
                    Err(alive) => {
                        left.survivors.insert(alive.to_string());
                        given_up.insert(child);
                    }
                }
            }
        }
        *self.given_up.borrow_mut() = given_up;
        Ok(())
    }

    /// Returns whether it had to be killed; the error says which process lives on, and why.
    fn end_one(&self, child: Pid) -> Result<bool, Failure> {
        // One that has ended by itself only has to be reaped.
        if waitpid(child, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive) {
            return Ok(false);
        }
        // It is a child that has not been waited for, so the number is not another's.
        let killed = kill(child, Signal::SIGKILL);
        let waited_before = self.given_up.borrow().contains(&child.as_raw());
        let patience = match killed {
            Ok(()) if !waited_before => GRACE,
            _ => Duration::ZERO,
        };
        if !ends_within(child, patience) {
            let why = killed
                .err()
                .map_or("it was killed and does not end", Errno::desc);
            return Err(Failure::failed(format!("{} ({why})", described(child))));
        }
        let _ = waitpid(child, None);
        Ok(killed.is_ok())
    }
}

fn unlisted(error: io::Error) -> Failure {
    Failure::failed(format!("/proc does not list children: {error}")).because_of(error)
}

impl Left {
    /// What is to be known of what programs left behind; `None` where they left nothing.
    pub fn note(&self) -> Option<String> {
        let ended =
            "the command left processes behind, such as a daemon; they were ended after each run";
        self.problem()
            .or_else(|| (self.ended > 0).then(|| ended.to_owned()))
    }

    /// What may run on: processes that could not be ended, or were not searched for.
    pub fn problem(&self) -> Option<String> {
        if !self.survivors.is_empty() {
            let all: Vec<&str> = self.survivors.iter().map(String::as_str).collect();
            return Some(format!(
                "a process was left behind that cannot be ended, and may disturb the runs: {}; end it as its user or \
                 as root",
                all.join(", ")
            ));
        }
        let why = self.unsearched.as_ref()?;
        Some(format!(
            "processes that the command may have left behind were not searched for: {why}"
        ))
    }
}

/// The name and the user of a process, without its number, so that the same program is described alike after each run.
pub fn described(process: Pid) -> String {
    let folder = Path::new("/proc").join(process.to_string());
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let user = fs::metadata(folder).map_or_else(|_| "?".to_owned(), |known| user(known.uid()));
    format!("{} of user {user}", name.trim_end())
}

fn user(number: u32) -> String {
    match User::from_uid(Uid::from_raw(number)) {
        Ok(Some(user)) => user.name,
        _ => number.to_string(),
    }
}

/// Whether this process, which waits for all its own children, has others: one system call, where a search takes
/// several. One that has ended is reaped.
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
/// `/proc/PID/task/TID/children` (proc_pid_task(5)) needs a kernel with `CONFIG_PROC_CHILDREN`; without it the parent
/// of every process is read.
///
/// # Errors
/// The errno of reading `proc`, such as `ENOENT` where it is not mounted.
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
    use std::io::{self, Read, Write};
    use std::path::Path;
    use std::process::{Command, id};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::{Pid, geteuid, setuid};

    use super::{Strays, children, children_by_parent, parent_in};
    use oscope_sys::worker::Child;

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
            .note()
            .expect("no search was possible");
        assert!(
            note.contains("were not searched for: /proc does not list children"),
            "{note}"
        );
        let other = Strays::that_have(Err(io::Error::other("hidden"))).end(None);
        assert!(
            other
                .note()
                .expect("no search was possible")
                .ends_with("hidden")
        );
    }

    /// Only root can make a process that another user may not kill.
    #[test]
    fn a_process_that_may_not_be_killed_is_reported_and_not_waited_for() {
        if !geteuid().is_root() {
            return;
        }
        let (mut reader, mut writer) = oscope_sys::testing::pipe();
        let leave = |seconds: &str| {
            let line = format!("sleep {seconds} >/dev/null 2>&1 & echo $!");
            let said = Command::new("sh").args(["-c", &line]).output();
            let said = String::from_utf8(said.expect("sh(1) is there").stdout);
            said.expect("it is a number").trim().parse::<i32>()
        };
        // In a process of its own, which gives up its rights.
        let reporter = Child::fork(|| {
            let strays = Strays::adopt().expect("the kernel allows it");
            let survivor = leave("60").expect("it said its number");
            setuid(65534.into()).expect("root may");
            let ended = leave("61").expect("it said its number");
            let first = strays.end(None);
            let gone = !Path::new(&format!("/proc/{ended}")).exists();
            let again = strays.end(None).note();
            let report = (survivor, first.note(), again, first.ended, gone);
            write!(writer, "{report:?}").expect("the pipe is open");
        })
        .expect("a process can be made");
        drop(writer);
        let mut report = String::new();
        reader.read_to_string(&mut report).expect("it is open");
        drop(reporter);
        let survivor = report.trim_start_matches('(').split(',').next();
        let survivor = survivor.and_then(|number| number.parse().ok());
        let survivor = survivor.expect("it reported");
        kill(Pid::from_raw(survivor), Signal::SIGKILL).expect("root may, and it lives");
        let note = "Some(\"a process was left behind that cannot be ended, and may disturb the runs: \
            sleep of user root (Operation not permitted); end it as its user or as root\")";
        assert_eq!(report, format!("({survivor}, {note}, {note}, 1, true)"));
    }
}
