//! CPUs that another thread may run on, narrowed for a moment, and restored as they were, also after a kill.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::CleanupGuard;
use super::resource::{Outcome, Resource};
use crate::affinity::members;
use crate::error::Failure;

/// Enter in the journal that `thread`, which may run on `before`, is going to be narrowed to one of `narrow` for
/// moments; `None` where it has ended.
///
/// # Errors
/// `Failure::Unavailable` where no journal can be kept, with the remedy.
pub fn log_intent(
    thread: Pid,
    before: &CpuSet,
    narrow: &[usize],
) -> Result<Option<CleanupGuard>, Failure> {
    let Some(started) = start_time(thread.as_raw()) else {
        return Ok(None);
    };
    CleanupGuard::log_intent(Resource::Affinity {
        thread: thread.as_raw(),
        started,
        before: members(before),
        narrow: narrow.to_vec(),
    })
    .map(Some)
}

/// Let a thread run on the CPUs `before` again, if it is the same and may run on a single one of `narrow` now.
///
/// # Errors
/// `Failure::Unavailable` where the kernel refuses.
pub fn put_back(
    thread: i32,
    started: u64,
    before: &[usize],
    narrow: &[usize],
) -> Result<Outcome, Failure> {
    // Another may have the number now.
    if start_time(thread) != Some(started) {
        return Ok(Outcome::Gone);
    }
    let refused = |error: Errno| {
        let list: Vec<String> = before.iter().map(ToString::to_string).collect();
        Failure::unavailable_system(
            &format!("the CPUs of thread {thread}"),
            std::io::Error::from(error),
            format!("as root: taskset -cp {} {thread}", list.join(",")),
        )
    };
    let pid = Pid::from_raw(thread);
    let now = members(&sched_getaffinity(pid).map_err(refused)?);
    match now[..] {
        [one] if narrow.contains(&one) && now != before => {}
        // It is as it was, or somebody has set it since and will have meant it.
        _ => return Ok(Outcome::Gone),
    }
    let mut set = CpuSet::new();
    before
        .iter()
        .try_for_each(|&cpu| set.set(cpu))
        .map_err(refused)?;
    match sched_setaffinity(pid, &set) {
        Ok(()) => Ok(Outcome::Undone),
        Err(Errno::ESRCH) => Ok(Outcome::Gone),
        Err(error) => Err(refused(error)),
    }
}

/// When a thread started, in clock ticks after boot: field 22 of proc_pid_stat(5); `None` if there is none.
fn start_time(thread: i32) -> Option<u64> {
    let path = format!("/proc/{thread}/stat");
    let stat = fs::read_to_string(Path::new(&path)).ok()?;
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::{Pinned, allowed};

    #[test]
    fn a_thread_that_was_left_narrow_is_put_back_and_no_other() {
        let before = allowed().expect("some CPU is allowed");
        let [first, second, ..] = before[..] else {
            return eprintln!("skipped: one CPU is allowed; run with two");
        };
        let thread = nix::unistd::gettid().as_raw();
        let started = start_time(thread).expect("the thread runs");
        let back = |started, narrow: &[usize]| put_back(thread, started, &before, narrow);
        assert_eq!(back(started, &[first]), Ok(Outcome::Gone));
        let _pinned = Pinned::to(first).expect("it is allowed");
        assert_eq!(back(started, &[second]), Ok(Outcome::Gone));
        assert_eq!(back(started + 1, &[first]), Ok(Outcome::Gone));
        assert_eq!(back(started, &[first]), Ok(Outcome::Undone));
        assert_eq!(allowed().expect("the kernel reports it"), before);
    }
}
