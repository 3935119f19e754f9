//! A fresh process for a few milliseconds: the probe executes itself anew, and takes over what it found of the machine.
//!
//! The frequency of the clock, the self-check and the survey of the machine take some 20 ms and are the same for each process of a boot. execve(2)
//! gives a new address space, which the kernel places anew (address space layout randomisation), and ends all other threads. The process number, the
//! affinity, the limits and what else belongs to the task remain.

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

use crate::clock::{Clock, ClockKind, Wanted};
use crate::error::Failure;

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
}

/// Execute this program anew, with the same standard streams, as `oscope-probe run` that takes over `environment`. Returns only where that fails.
pub fn replace_process(environment: &Value, wanted: Wanted) -> Failure {
    match prepare(environment) {
        Ok(file) => {
            let clock = wanted.to_possible_value().expect("no clock is skipped");
            let error = Command::new(program())
                .args(["run", "--clock", clock.get_name(), "--renewed"])
                .arg(file.as_raw_fd().to_string())
                .exec();
            Failure::system("executing the probe anew", error)
        }
        Err(error) => Failure::system("preparing a fresh process", error),
    }
}

/// A file in memory with the environment, which alone, beside the standard streams, stays open when another program is executed.
fn prepare(environment: &Value) -> io::Result<File> {
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
    file.write_all(&serde_json::to_vec(environment)?)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// The path of this program, so that the process keeps its name; where another file is there by now, what is running.
fn program() -> PathBuf {
    let same = |path: &PathBuf| {
        let (named, own) = (path.metadata().ok()?, PathBuf::from(THIS_PROGRAM).metadata().ok()?);
        Some((named.dev(), named.ino()) == (own.dev(), own.ino()))
    };
    std::env::current_exe()
        .ok()
        .filter(|path| same(path) == Some(true))
        .unwrap_or_else(|| THIS_PROGRAM.into())
}

/// The clock, with what reading it costs measured anew, and the environment to greet with, from the file at `descriptor`, which is closed.
///
/// # Errors
/// `Failure::Request` if that is no file with the environment of a probe with this clock.
pub fn take_over(descriptor: RawFd, wanted: Wanted) -> Result<(Clock, Value), Failure> {
    if descriptor <= libc::STDERR_FILENO {
        return Err(Failure::request("renewed", "is a standard stream"));
    }
    // SAFETY: whoever executed this program left the descriptor to it, and nothing else here knows of it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let mut text = Vec::new();
    file.read_to_end(&mut text)
        .map_err(|error| Failure::request("renewed", error.to_string()))?;
    read(&text, wanted)
}

fn read(text: &[u8], wanted: Wanted) -> Result<(Clock, Value), Failure> {
    let wrong = |error: serde_json::Error| Failure::request("renewed", error.to_string());
    let mut environment: Value = serde_json::from_slice(text).map_err(wrong)?;
    let Known { clock } = Known::deserialize(&environment).map_err(wrong)?;
    let clock = Clock::reopen(wanted, clock.kind, clock.hz)?;
    environment["clock"] = json!(clock);
    Ok((clock, environment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(clock: &Clock) -> Value {
        json!({"clock": clock, "uid": 7})
    }

    #[test]
    fn the_frequency_is_taken_over_and_the_cost_of_reading_is_not() {
        let mut former = Clock::open(Wanted::Monotonic).expect("there is always one");
        former.overhead = 1e6;
        let file = prepare(&environment(&former)).expect("there is memory");
        let descriptor = OwnedFd::from(file);
        let number = descriptor.as_raw_fd();
        std::mem::forget(descriptor);
        let (clock, environment) = take_over(number, Wanted::Monotonic).expect("an environment");
        assert_eq!((clock.kind, clock.hz), (former.kind, former.hz));
        assert!(clock.overhead < 1e5);
        assert_eq!(environment["clock"], json!(clock));
        assert_eq!(environment["uid"], 7);
    }

    #[test]
    fn figures_are_taken_over_to_the_last_bit() {
        let clock = Clock::open(Wanted::Monotonic).expect("there is always one");
        for number in 0..200 {
            let ratio = 1.0 + f64::from(number) / 3e9;
            let text = json!({"clock": clock, "ratio": ratio}).to_string();
            let (_, environment) = read(text.as_bytes(), Wanted::Monotonic).expect("an environment");
            assert_eq!(environment["ratio"].as_f64(), Some(ratio));
        }
    }

    #[test]
    fn what_is_no_environment_of_this_clock_is_refused() {
        assert!(read(b"{}", Wanted::Monotonic).is_err());
        assert!(take_over(0, Wanted::Monotonic).is_err());
        let clock = Clock::open(Wanted::Monotonic).expect("there is always one");
        let other = Clock {
            hz: f64::NAN,
            ..clock
        };
        let text = environment(&other).to_string();
        assert!(read(text.as_bytes(), Wanted::Monotonic).is_err());
    }

    #[test]
    fn the_program_is_this_one() {
        let own = PathBuf::from(THIS_PROGRAM).metadata().expect("it runs");
        assert_eq!(program().metadata().expect("it is there").ino(), own.ino());
        assert_ne!(program(), PathBuf::from(THIS_PROGRAM));
    }
}
