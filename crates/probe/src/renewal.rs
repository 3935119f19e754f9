//! A fresh process for a few milliseconds: the probe executes itself anew, and takes over what it found of the machine.
//!
//! The frequency of the clock, the self-check and the survey of the machine take some 20 ms and are the same for each
//! process of a boot. execve(2) gives a new address space, which the kernel places anew (address space layout
//! randomisation), and ends all other threads. The process number, the affinity, the limits and what else belongs to
//! the task remain.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock::{Clock, ClockKind, RequestedClock};
use oscope_sys::error::Failure;

/// This program, also where its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The part of the environment that is looked at.
#[derive(Deserialize)]
struct Known {
    clock: KnownClock,
}

#[derive(Deserialize)]
struct KnownClock {
    kind: ClockKind,
    hz: f64,
    why: Option<String>,
}

/// What a process leaves to the one that takes its place.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// Its environment, as JSON.
    pub environment: Vec<u8>,
    /// What it had read of its input, but not used.
    pub unused_input: Vec<u8>,
}

/// Execute this program anew, or the build of the probe at `other`, with the same standard streams, as `oscope-probe
/// run` that takes over `environment` and `unused_input`. Returns only where that fails.
pub fn replace_process(
    environment: &Value,
    unused_input: &[u8],
    wanted: RequestedClock,
    other: Option<PathBuf>,
) -> Failure {
    match prepare(environment, unused_input) {
        Ok(file) => {
            let clock = wanted.to_possible_value().expect("no clock is skipped");
            let error = Command::new(other.unwrap_or_else(program))
                .args(["run", "--clock", clock.get_name(), "--renewed"])
                .arg(file.as_raw_fd().to_string())
                .exec();
            Failure::system("executing the probe anew", error)
        }
        Err(error) => Failure::system("preparing a fresh process", error),
    }
}

/// A file in memory with what is left, which alone, beside the standard streams, stays open when another program is
/// executed.
fn prepare(environment: &Value, unused_input: &[u8]) -> io::Result<File> {
    // SAFETY: it marks descriptors and closes none.
    let marked = unsafe {
        libc::close_range(
            libc::STDERR_FILENO as libc::c_uint + 1,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
        )
    };
    if marked != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut file = File::from(memfd_create("oscope-environment", MFdFlags::empty())?);
    let mut text = serde_json::to_vec(environment)?;
    // JSON that is written compactly is one line.
    text.push(b'\n');
    text.extend_from_slice(unused_input);
    file.write_all(&text)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// The path of this program, so that the process keeps its name; where another file is there by now, what is running.
fn program() -> PathBuf {
    let same = |path: &PathBuf| {
        let (named, own) = (
            path.metadata().ok()?,
            PathBuf::from(THIS_PROGRAM).metadata().ok()?,
        );
        Some((named.dev(), named.ino()) == (own.dev(), own.ino()))
    };
    std::env::current_exe()
        .ok()
        .filter(|path| same(path) == Some(true))
        .unwrap_or_else(|| THIS_PROGRAM.into())
}

/// What the process before left in the file at `descriptor`, which is closed.
///
/// # Errors
/// `Failure::Request` if that is no such file.
pub fn take_over(descriptor: RawFd) -> Result<Left, Failure> {
    if descriptor <= libc::STDERR_FILENO {
        return Err(Failure::request("renewed", "is a standard stream"));
    }
    // SAFETY: whoever executed this program left the descriptor to it, and nothing else here knows of it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let mut environment = Vec::new();
    file.read_to_end(&mut environment)
        .map_err(|error| Failure::request("renewed", error.to_string()))?;
    let end = environment
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or_else(|| Failure::request("renewed", "has no line"))?;
    let unused_input = environment.split_off(end + 1);
    Ok(Left {
        environment,
        unused_input,
    })
}

/// The clock, with what reading it costs measured anew, and the environment to greet with.
///
/// # Errors
/// `Failure::Request` if `text` is no environment of a probe with this clock.
pub fn read(text: &[u8], wanted: RequestedClock) -> Result<(Clock, Value), Failure> {
    let wrong = |error: serde_json::Error| Failure::request("renewed", error.to_string());
    let mut environment: Value = serde_json::from_slice(text).map_err(wrong)?;
    let Known { clock } = Known::deserialize(&environment).map_err(wrong)?;
    let clock = Clock::reopen(wanted, clock.kind, clock.hz, clock.why)?;
    environment["clock"] = json!(clock);
    Ok((clock, environment))
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;

    fn environment(clock: &Clock) -> Value {
        json!({"clock": clock, "uid": 7})
    }

    #[test]
    fn the_frequency_is_taken_over_and_the_cost_of_reading_is_not() {
        let mut former = Clock::open(RequestedClock::Monotonic).expect("there is always one");
        former.overhead = 1e6;
        let file = prepare(&environment(&former), b"\nmore").expect("there is memory");
        let left = take_over(file.into_raw_fd()).expect("what was left");
        assert_eq!(left.unused_input, b"\nmore");
        let (clock, environment) =
            read(&left.environment, RequestedClock::Monotonic).expect("an environment");
        assert_eq!((clock.kind, clock.hz), (former.kind, former.hz));
        assert!(clock.overhead < 1e5);
        assert_eq!(environment["clock"], json!(clock));
        assert_eq!(environment["uid"], 7);
    }

    #[test]
    fn why_it_is_this_clock_is_taken_over() {
        let why = Some("the counters of two CPUs differ".to_owned());
        let former = Clock::open(RequestedClock::Monotonic).expect("there is always one");
        let former = Clock { why, ..former };
        let text = environment(&former).to_string();
        let (clock, _) = read(text.as_bytes(), RequestedClock::Auto).expect("an environment");
        assert_eq!((clock.kind, clock.why), (former.kind, former.why));
    }

    #[test]
    fn figures_are_taken_over_to_the_last_bit() {
        let clock = Clock::open(RequestedClock::Monotonic).expect("there is always one");
        for number in 0..200 {
            let ratio = 1.0 + f64::from(number) / 3e9;
            let text = json!({"clock": clock, "ratio": ratio}).to_string();
            let (_, environment) =
                read(text.as_bytes(), RequestedClock::Monotonic).expect("an environment");
            assert_eq!(environment["ratio"].as_f64(), Some(ratio));
        }
    }

    #[test]
    fn what_is_no_environment_of_this_clock_is_refused() {
        assert!(read(b"{}", RequestedClock::Monotonic).is_err());
        assert!(take_over(0).is_err());
        let clock = Clock::open(RequestedClock::Monotonic).expect("there is always one");
        let other = Clock {
            hz: f64::NAN,
            ..clock
        };
        let text = environment(&other).to_string();
        assert!(read(text.as_bytes(), RequestedClock::Monotonic).is_err());
    }

    #[test]
    fn the_program_is_this_one() {
        let own = PathBuf::from(THIS_PROGRAM).metadata().expect("it runs");
        assert_eq!(
            program().metadata().expect("the file exists").ino(),
            own.ino()
        );
        assert_ne!(program(), PathBuf::from(THIS_PROGRAM));
    }
}
