//! Waiting for the end of a program, with a limit on its time.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use oscope_sys::worker::{TimeLimit, is_dead};

/// Time that a process which was killed has to end. One that this process may not kill, or that waits for a device, is
/// given up then.
pub const GRACE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
const MOST_KILLS: u128 = TimeLimit::signals_in(GRACE);
/// Time between two looks whether a process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// How the wait for a program ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The program ended by itself.
    Ended,
    /// Its time was over, and it was killed.
    Killed,
    /// Its time was over, and it runs although it was killed.
    Survived,
}

/// Wait until the program has ended, and leave it to be reaped. Once its time is over, it is killed with its process
/// group until it ends, for at most [`GRACE`].
#[inline(always)]
pub fn wait_for_end(child: libc::pid_t) -> io::Result<Outcome> {
    let mut kills = 0;
    loop {
        // SAFETY: the kernel writes into a value of its own type.
        let answer = unsafe {
            let mut found: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                child as libc::id_t,
                &raw mut found,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if answer == 0 {
            return Ok(match kills {
                0 => Outcome::Ended,
                _ => Outcome::Killed,
            });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
        if TimeLimit::passed() {
            if kills == MOST_KILLS {
                return Ok(Outcome::Survived);
            }
            kill_group(child);
            kills += 1;
        }
    }
}

/// Kill a program and its process group. It has not been reaped, so the number is not another's.
pub fn kill_group(child: libc::pid_t) {
    // SAFETY: kill(2) takes two numbers.
    unsafe {
        libc::kill(-child, libc::SIGKILL);
        libc::kill(child, libc::SIGKILL);
    }
}

/// Whether a child of this process ends within `limit`. It stays to be reaped.
pub fn ends_within(child: Pid, limit: Duration) -> bool {
    let latest = Instant::now() + limit;
    while !is_dead(child) {
        if Instant::now() >= latest {
            return false;
        }
        sleep(POLL_INTERVAL);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::{geteuid, setuid};

    use super::*;
    use oscope_sys::worker::Child;

    /// Returns a child that the test has killed and waits for.
    #[expect(
        clippy::zombie_processes,
        reason = "the process that made it ends at once after it"
    )]
    fn sleeper() -> libc::pid_t {
        let child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep(1) is there");
        child.id() as libc::pid_t
    }

    /// Returns whether `check` holds in a process of its own, to whose only thread SIGALRM comes.
    fn holds_in_a_process(check: impl FnOnce() -> bool) -> bool {
        let mut child = Child::fork(|| {
            TimeLimit::prepare().expect("SIGALRM can be taken");
            assert!(check());
        })
        .expect("a process can be made");
        assert!(ends_within(child.process(), 30 * GRACE), "it hangs");
        let status = child.ended().expect("it is a child");
        status == Some(nix::sys::wait::WaitStatus::Exited(child.process(), 0))
    }

    #[test]
    fn a_program_whose_time_is_over_before_the_wait_begins_is_killed() {
        assert!(holds_in_a_process(|| {
            let child = sleeper();
            let timer = TimeLimit::start(POLL_INTERVAL).expect("it can be set");
            while !TimeLimit::passed() {
                std::hint::spin_loop();
            }
            let outcome = wait_for_end(child);
            drop(timer);
            matches!(outcome, Ok(Outcome::Killed))
        }));
    }

    #[test]
    fn a_program_that_may_not_be_killed_is_given_up() {
        if !geteuid().is_root() {
            return;
        }
        let (mut reader, writer) = oscope_sys::testing::pipe();
        assert!(holds_in_a_process(|| {
            let child = sleeper();
            (&writer)
                .write_all(&child.to_ne_bytes())
                .expect("it is open");
            setuid(65534.into()).expect("root may");
            let _timer = TimeLimit::start(POLL_INTERVAL).expect("it can be set");
            matches!(wait_for_end(child), Ok(Outcome::Survived))
        }));
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).expect("it was written");
        let survivor = Pid::from_raw(i32::from_ne_bytes(bytes));
        kill(survivor, Signal::SIGKILL).expect("root may");
    }
}
