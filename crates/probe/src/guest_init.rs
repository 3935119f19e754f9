//! The first process of a guest: makes a small system around the probe, runs it, and switches the guest off.
//!
//! Nothing below depends on the host's disk: the root is the initramfs, and files of workloads lie on ext4 on a RAM
//! disk. The wire is three ports of virtio, which have the names that virtme-ng gives them; the console is for people.

mod covered;
mod machine;
mod ports;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;

use machine::{MOUNTS, Mount, SHARED_MEMORY, mount, restart, show_loopback};
use oscope_sys::error::Failure;

/// Where the kernel looks for its first process in an initramfs.
const NAME: &str = "/init";
/// This program, by the name that a workload shows.
const PROBE: &str = "/oscope-probe";
/// The RAM disk, and where it is mounted: what a workload writes, it writes here.
const DISK: &str = "/dev/ram0";
const DATA: &str = "/tmp";
/// Where workloads put a scratch file by default: on the same disk.
const SCRATCH: &str = "/var/tmp";
/// Where the probe notes what it made.
const STATE: &str = "/run/oscope";
/// Any will do, as long as it is always the same: from it follow the order of names in a folder and the place of a
/// file's blocks.
const DISK_ID: &str = "05c09e00-0000-4000-8000-000000000001";

/// Whether this process is to be the first one of a guest, whatever its arguments: the kernel adds those of its own
/// that it does not know.
pub fn is_wanted() -> bool {
    std::process::id() == 1 && env::args_os().next().as_deref() == Some(OsStr::new(NAME))
}

/// Whether this process was started by the first one of a guest, as [`run`] is.
pub fn is_around() -> bool {
    let line = fs::read("/proc/1/cmdline").unwrap_or_default();
    let first = line.split(|&byte| byte == 0).next();
    parent_id() == 1
        && first == Some(NAME.as_bytes())
        && fs::read_link("/proc/1/exe").is_ok_and(|path| path == Path::new(PROBE))
}

/// Be the first process of a guest; the console shows how it ended.
pub fn run() -> ! {
    let outcome = match serve() {
        Ok(ending) => ending,
        Err(failure) => format!("the guest cannot be used: {failure}"),
    };
    eprintln!("oscope-init: {outcome}");
    restart()
}

/// Make the system, run the probe in it and say how it ended.
fn serve() -> Result<String, Failure> {
    let covered = covered::set_aside(&[SHARED_MEMORY, DATA, SCRATCH])?;
    for one in MOUNTS {
        mount(one)?;
    }
    let handed_on = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(handed_on, "+memory").map_err(|error| Failure::system(handed_on, error))?;
    fs::create_dir_all(STATE).map_err(|error| Failure::system(STATE, error))?;
    show_loopback()?;
    make_disk()?;
    fs::create_dir_all("/var")
        .and_then(|()| symlink(DATA, SCRATCH))
        .map_err(|error| Failure::system(SCRATCH, error))?;
    covered::put_back(&covered)?;
    let options = fs::read_to_string("/proc/cmdline")
        .map_err(|error| Failure::system("/proc/cmdline", error))?;
    let mut probe = Command::new(PROBE);
    probe
        .arg("run")
        .args(clock(&options))
        .current_dir(DATA)
        .env_clear()
        .env("PATH", "/bin")
        .env("TMPDIR", DATA)
        .env("OSCOPE_STATE", STATE)
        .stdin(ports::input("virtme.stdin")?)
        .stdout(ports::output("virtme.stdout")?)
        .stderr(ports::output("virtme.stderr")?);
    let child = probe
        .spawn()
        .map_err(|error| Failure::system(&format!("starting {PROBE}"), error))?;
    let ending = reap(Pid::from_raw(child.id() as libc::pid_t))?;
    Ok(format!("the probe {ending}"))
}

/// The probe's arguments for the clock that the kernel's command line names.
fn clock(options: &str) -> Vec<String> {
    let named = options
        .split_whitespace()
        .find_map(|option| option.strip_prefix("oscope.clock="));
    named
        .map(|kind| vec!["--clock".to_owned(), kind.to_owned()])
        .unwrap_or_default()
}

/// A file system on the RAM disk: without a journal, whose thread would write by the clock, since nothing outlives the
/// guest; and without what a kernel thread would initialise later.
fn make_disk() -> Result<(), Failure> {
    let seed = format!("hash_seed={DISK_ID},lazy_itable_init=0,nodiscard");
    let words = [
        "-q",
        "-F",
        "-t",
        "ext4",
        "-b",
        "4096",
        "-I",
        "256",
        "-N",
        "8192",
        "-m",
        "0",
        "-O",
        "^has_journal",
        "-U",
        DISK_ID,
        "-E",
        &seed,
        DISK,
    ];
    let made = Command::new("/bin/mke2fs")
        .args(words)
        .env("MKE2FS_CONFIG", "/etc/mke2fs.conf")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::system("starting mke2fs", error))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        return Err(Failure::failed(format!(
            "mke2fs {DISK}: {}: {}",
            ending(made.status),
            said.trim()
        )));
    }
    mount(&Mount {
        source: DISK,
        target: DATA,
        kind: "ext4",
        flags: MsFlags::MS_NOATIME,
        options: "",
    })?;
    let lost = Path::new(DATA).join("lost+found");
    fs::remove_dir(&lost).map_err(|error| Failure::system(&lost.display().to_string(), error))
}

/// Wait for every child, those that lost their parent too, until the probe ends; say how.
fn reap(probe: Pid) -> Result<String, Failure> {
    loop {
        match wait() {
            Ok(WaitStatus::Exited(child, status)) if child == probe => {
                return Ok(format!("ended with status {status}"));
            }
            Ok(WaitStatus::Signaled(child, signal, _)) if child == probe => {
                return Ok(format!("was killed by {}", Signal::as_str(signal)));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                return Err(Failure::system(
                    "waiting for the probe",
                    io::Error::from(errno),
                ));
            }
        }
    }
}

fn ending(status: ExitStatus) -> String {
    status
        .code()
        .map_or_else(|| status.to_string(), |code| format!("status {code}"))
}

#[cfg(test)]
mod tests {
    use super::{clock, is_around, is_wanted};

    #[test]
    fn the_kernel_command_line_names_the_clock() {
        assert_eq!(
            clock("quiet oscope.clock=instructions panic=-1\n"),
            ["--clock", "instructions"]
        );
        assert!(clock("quiet panic=-1\n").is_empty());
    }

    #[test]
    fn no_other_process_takes_itself_for_the_first_one() {
        assert!(!is_wanted());
        assert!(!is_around());
    }
}
