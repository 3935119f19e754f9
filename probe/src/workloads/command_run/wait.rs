//! Waiting for the end of a program, with a limit on its time.

use std::io;
use std::ptr::null_mut;
use std::time::Duration;

use crate::error::Failure;
use crate::workloads::process_create::limit;

/// A limit on the time of a program; dropping it lifts it. The signal breaks the wait.
pub struct Timer;

impl Timer {
    #[inline(always)]
    pub fn start(limit: Duration) -> Result<Self, Failure> {
        limit::forget();
        let timer = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            it_value: libc::timeval {
                tv_sec: limit.as_secs() as libc::time_t,
                tv_usec: limit.subsec_micros().into(),
            },
        };
        // SAFETY: the value lives during the call.
        match unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) } {
            0 => Ok(Self),
            _ => Err(Failure::system("setitimer", io::Error::last_os_error())),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: all zeroes is a timer that is switched off.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &std::mem::zeroed(), null_mut()) };
    }
}

/// Wait until the program has ended, and leave it to be reaped. Returns whether its time was over, and it was killed.
#[inline(always)]
pub fn wait_for_end(child: libc::pid_t) -> io::Result<bool> {
    let mut killed = false;
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
            return Ok(killed);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
        if limit::passed() {
            kill_group(child);
            killed = true;
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

pub fn has_ended(child: libc::pid_t) -> bool {
    crate::workloads::ipc::being::is_dead(nix::unistd::Pid::from_raw(child))
}
