//! The folder that is mounted on: whether it will do, and taking a mount away.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::mount::{MntFlags, umount2};

use super::failed;
use super::mountinfo::{self, Mount};
use super::process::Process;
use super::record::{self, Record};
use crate::log::note;
use oscope_sys::error::{Failure, one_line};

/// fusermount3 asks the kernel only, which answers at once.
const LIMIT: Duration = Duration::from_secs(20);

/// How a mount is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Only where nobody uses it.
    Unused,
    /// At once, and for those who use it when they have closed it.
    Lazily,
}

/// What came of taking a mount away.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is gone.
    Gone,
    /// Somebody uses it. It has the words of fusermount3, which has one exit status for all failures; none where the
    /// kernel itself answered so.
    Busy(Option<String>),
}

/// See that `place` (absolute) is an empty folder on which nothing is mounted; take away a mount of ours whose process
/// is dead.
pub fn prepare(place: &Path) -> Result<(), Failure> {
    while let Some(mount) = look(place)? {
        if !mount.is_dead() {
            return Err(occupied(&mount));
        }
        take_away(place, Way::Lazily)?;
        note(&format!(
            "{}: the mount of a process that was killed is cleared",
            place.display()
        ));
    }
    let found = place.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed(
            format!("the mount point {} is missing", place.display()),
            format!("mkdir {}", place.display()),
        ),
        _ => unusable(place, &error),
    })?;
    if !found.is_dir() {
        return Err(failed(
            format!("the mount point {} is not a folder", place.display()),
            "name an empty folder",
        ));
    }
    let mut entries = place.read_dir().map_err(|error| unusable(place, &error))?;
    if entries.next().is_some() {
        return Err(failed(
            format!("the mount point {} is not empty", place.display()),
            "name an empty folder: what is in this one could not be reached",
        ));
    }
    Ok(())
}

/// The mount at `place`, if there is one.
pub fn look(place: &Path) -> Result<Option<Mount>, Failure> {
    mountinfo::at(place).map_err(|error| {
        failed(
            format!("/proc/self/mountinfo cannot be read ({error})"),
            "mount /proc",
        )
    })
}

/// Take the mount at `place` away: root itself, others by fusermount3.
pub fn take_away(place: &Path, way: Way) -> Result<Outcome, Failure> {
    if nix::unistd::geteuid().is_root() {
        let lazily = match way {
            Way::Unused => MntFlags::empty(),
            Way::Lazily => MntFlags::MNT_DETACH,
        };
        return match umount2(place, MntFlags::UMOUNT_NOFOLLOW | lazily) {
            Ok(()) => Ok(Outcome::Gone),
            Err(nix::Error::EBUSY) => Ok(Outcome::Busy(None)),
            Err(error) => Err(stays(place, error.desc())),
        };
    }
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if way == Way::Lazily {
        command.arg("-z");
    }
    let said = run(command.arg("--").arg(place)).map_err(|error| {
        failed(
            format!(
                "fusermount3 fails ({error}): {} stays mounted",
                place.display()
            ),
            "install the package fuse3",
        )
    })?;
    let Some(words) = said else {
        return Ok(Outcome::Gone);
    };
    // A mount that this user made and may take away stays where it is used.
    let own = nix::unistd::geteuid().as_raw();
    match look(place)? {
        Some(mount) if way == Way::Unused && mount.user == Some(own) => {
            Ok(Outcome::Busy(Some(words)))
        }
        _ => Err(stays(place, &words)),
    }
}

/// Run a command that is short; None where it ends well, else what it said on standard error.
///
/// Not by `oscope_sys::worker::program`, whose arguments are text: the name of a folder may hold any bytes.
fn run(command: &mut Command) -> io::Result<Option<String>> {
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    match Process::open(child.id()) {
        Some(process) => process.ended_within(LIMIT),
        None => drop(child.wait()?),
    }
    let Some(status) = child.try_wait()? else {
        child.kill()?;
        child.wait()?;
        let limit = LIMIT.as_secs();
        return Err(io::Error::other(format!("no end within {limit} s")));
    };
    if status.success() {
        return Ok(None);
    }
    let mut said = String::new();
    if let Some(mut stream) = child.stderr.take() {
        io::Read::read_to_string(&mut stream, &mut said)?;
    }
    Ok(Some(format!("{} ({status})", one_line(&said))))
}

fn occupied(mount: &Mount) -> Failure {
    let place = mount.place.display();
    if mount.is_ours() {
        let record = record::cache_of(&mount.place)
            .ok()
            .flatten()
            .and_then(|cache| Record::read(&cache));
        let what = record.map_or_else(|| mount.source.clone(), |record| record.target.shown());
        return failed(
            format!("the mount point {place} is busy: {what} is mounted there"),
            format!("oscope-fs umount {place}, or name another folder"),
        );
    }
    failed(
        format!(
            "the mount point {place} is busy: {} ({}) is mounted there",
            mount.source, mount.kind
        ),
        "name another folder",
    )
}

fn unusable(place: &Path, error: &io::Error) -> Failure {
    failed(
        format!(
            "the mount point {} cannot be looked at ({error})",
            place.display()
        ),
        "name an empty folder that is yours",
    )
}

fn stays(place: &Path, why: &str) -> Failure {
    failed(
        format!("{} stays mounted ({why})", place.display()),
        "see what is mounted: findmnt",
    )
}
