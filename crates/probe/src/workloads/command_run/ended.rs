//! How a program ended, and what it used.

use std::ffi::c_int;
use std::io;

use nix::sys::signal::Signal;
use nix::unistd::{SysconfVar, sysconf};

use super::accounts::Accounts;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;

/// Added to the number of the signal that ended a program, as shells do.
const SIGNAL_CODE: c_int = 128;
const US_NS: f64 = 1000.0;
/// The remedy where the program itself failed.
pub const FIX: &str = "correct the command, or count such runs too with --ignore-failure";

/// How much more than its launcher a program has to have in memory to be known to be larger, in pages, on a machine
/// with few CPUs.
const SLACK_PAGES: u64 = 64;

/// What a program used, as wait4(2) has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Time on a CPU, exact; its split into the next two is sampled at ticks.
    pub cpu_ns: f64,
    pub user_ns: f64,
    pub system_ns: f64,
    pub max_rss_bytes: f64,
    pub minor_faults: f64,
    pub major_faults: f64,
    pub voluntary_switches: f64,
    pub involuntary_switches: f64,
    pub blocks_in: f64,
    pub blocks_out: f64,
}

impl Usage {
    #[inline(always)]
    fn of(usage: &libc::rusage) -> Self {
        let time_ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * US_NS;
        let (user_ns, system_ns) = (time_ns(usage.ru_utime), time_ns(usage.ru_stime));
        Self {
            cpu_ns: user_ns + system_ns,
            user_ns,
            system_ns,
            max_rss_bytes: resident_bytes(usage),
            minor_faults: usage.ru_minflt as f64,
            major_faults: usage.ru_majflt as f64,
            voluntary_switches: usage.ru_nvcsw as f64,
            involuntary_switches: usage.ru_nivcsw as f64,
            blocks_in: usage.ru_inblock as f64,
            blocks_out: usage.ru_oublock as f64,
        }
    }
}

/// How a program ended, and what it used.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// As wait4(2) has it.
    pub status: c_int,
    /// Its time was over, and it was killed.
    pub timed_out: bool,
    pub usage: Usage,
    /// Largest resident set of the launcher so far, in bytes.
    pub launcher_rss_bytes: f64,
    pub accounts: Accounts,
    pub instructions: Option<f64>,
    pub cycles: Option<f64>,
    pub energy_j: Option<f64>,
}

impl Ended {
    /// Largest resident set of the program; `None` where the kernel's figure may be the launcher's, which execve(2)
    /// hands on to the program.
    pub fn max_rss_bytes(&self) -> Option<f64> {
        let own = self.usage.max_rss_bytes;
        (own > self.launcher_rss_bytes + slack_bytes()).then_some(own)
    }

    /// The exit code; 128 and the signal's number where a signal ended it.
    pub fn exit_code(&self) -> f64 {
        let code = match libc::WIFSIGNALED(self.status) {
            true => SIGNAL_CODE + libc::WTERMSIG(self.status),
            false => libc::WEXITSTATUS(self.status),
        };
        f64::from(code)
    }

    /// Whether the run counts. `said` is the end of its standard error.
    ///
    /// # Errors
    /// `Failure::Unavailable` that says how it ended and what it said: another run would end alike.
    pub fn judge(&self, said: &str, ignore_failure: bool, timeout_s: f64) -> Result<(), Failure> {
        let said = if said.is_empty() {
            String::new()
        } else {
            format!("; it said: {said}")
        };
        if self.timed_out {
            return Err(Failure::unavailable(
                format!("the command did not end within {timeout_s} s, and was killed{said}"),
                "allow more with --timeout",
            ));
        }
        if self.exit_code() == 0.0 || ignore_failure {
            return Ok(());
        }
        let how = match libc::WIFSIGNALED(self.status) {
            true => killed_by(libc::WTERMSIG(self.status)),
            false => format!("ended with exit code {}", libc::WEXITSTATUS(self.status)),
        };
        Err(Failure::unavailable(
            format!("the command {how}{said}"),
            FIX,
        ))
    }
}

fn killed_by(signal: c_int) -> String {
    match Signal::try_from(signal) {
        Ok(known) => format!("was killed by {known}"),
        Err(_) => format!("was killed by signal {signal}"),
    }
}

/// Largest resident set of this process so far, in bytes; infinite where the kernel does not report it, since no
/// program is known to be larger then.
#[inline(always)]
pub fn own_max_rss_bytes() -> f64 {
    // SAFETY: all zeroes is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into a value of its own type.
    match unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } {
        0 => resident_bytes(&usage),
        _ => f64::INFINITY,
    }
}

/// How much more than its launcher a program has to have in memory to be known to be larger, in bytes. The kernel sums
/// a process' pages up exactly for /proc only: wait4(2) and getrusage(2) leave out what a CPU has counted and not yet
/// handed on, up to 32 pages or two for each CPU (`percpu_counter_batch` in `lib/percpu_counter.c`).
fn slack_bytes() -> f64 {
    let cpus = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    let pages = SLACK_PAGES.max(2 * cpus.map_or(1, |cpus| cpus as u64));
    (pages * page_bytes()) as f64
}

#[inline(always)]
fn resident_bytes(usage: &libc::rusage) -> f64 {
    usage.ru_maxrss as f64 * 1024.0
}

/// Reap a program: its status, and what it used.
#[inline(always)]
pub fn reap(child: libc::pid_t) -> io::Result<(c_int, Usage)> {
    loop {
        let mut status = 0;
        // SAFETY: all zeroes is a valid `rusage`; the kernel writes both values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::wait4(child, &raw mut status, 0, &raw mut usage) } == child {
            return Ok((status, Usage::of(&usage)));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}
