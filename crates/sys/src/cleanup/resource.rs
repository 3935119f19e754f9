//! The kinds of resources that are made outside this process, and how each is undone.
//!
//! Undoing may be tried again at any time: what is gone already is no error. What is there and does not look as it was
//! made is left alone.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};

use super::{affinity, group, module, setting, swap_area};
use crate::diagnostics::program;
use crate::error::Failure;
use crate::machine::memory;

/// What the name of every file made here begins with.
pub const FILE_PREFIX: &str = ".oscope-swap-";
/// What the name of every folder made here begins with.
pub const FOLDER_PREFIX: &str = ".oscope-folder-";
/// What the name of every control group made here begins with.
pub const GROUP_PREFIX: &str = "oscope-";
/// Longest wait for something that is still held for a moment, such as a device that udev looks at.
const PATIENCE: Duration = Duration::from_secs(10);
/// Memory that must be left beside what is read back from swap, in bytes.
const MARGIN_BYTES: u64 = 64 << 20;

/// A resource, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Resource {
    /// A file of our naming.
    File {
        /// Where.
        path: PathBuf,
    },
    /// A folder of our naming, with all that is in it.
    Folder {
        /// Where.
        path: PathBuf,
    },
    /// A swap area that is switched on.
    Swap {
        /// The file or device.
        path: PathBuf,
        /// What its header says.
        uuid: String,
    },
    /// A zram device.
    Zram {
        /// Its number, and what distinguishes it from a later one of that number; unknown until the kernel has made it.
        device: Option<Device>,
        /// The numbers there were before.
        before: Vec<u32>,
    },
    /// A control group, with the processes in it.
    Group {
        /// Its folder.
        path: PathBuf,
    },
    /// A kernel module that was loaded.
    Module {
        /// As the kernel names it.
        name: String,
    },
    /// A setting of the kernel.
    Setting {
        /// Its file.
        path: PathBuf,
        /// What it was.
        before: String,
        /// What it was set to.
        set: String,
    },
    /// The CPUs that another thread may run on.
    Affinity {
        /// Its number.
        thread: i32,
        /// When it started, in clock ticks after boot.
        started: u64,
        /// What they were.
        before: Vec<usize>,
        /// To one of which they were narrowed.
        narrow: Vec<usize>,
    },
}

/// A zram device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The N of `/dev/zramN`.
    pub number: u32,
    /// The kernel's serial number of all disks (Documentation/ABI/stable/sysfs-block, `diskseq`).
    pub sequence: u64,
}

/// What came of undoing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was there, and is undone.
    Undone,
    /// There was nothing to undo any more.
    Gone,
}

impl Resource {
    /// Undo what was made since the machine was started.
    ///
    /// # Errors
    /// `Failure::Unavailable` or `Failure::Failed` where it is not what was made, and so must not be undone, or where
    /// the kernel refuses.
    pub fn undo(&self) -> Result<Outcome, Failure> {
        match self {
            Self::File { path } => remove_file(path),
            Self::Folder { path } => remove_folder(path),
            Self::Swap { path, uuid } => switch_off(path, uuid),
            Self::Zram { device, before } => match device {
                Some(device) => remove_device(*device),
                None => judge_unknown(before),
            },
            Self::Group { path } => remove_group(path),
            Self::Module { name } => module::unload(name),
            Self::Setting { path, before, set } => setting::put_back(path, before, set),
            Self::Affinity {
                thread,
                started,
                before,
                narrow,
            } => affinity::put_back(*thread, *started, before, narrow),
        }
    }

    /// Undo what was made in this boot of the machine, or in an earlier one, of which only files are left.
    ///
    /// # Errors
    /// As for [`Resource::undo`].
    pub fn undo_of_boot(&self, same: bool) -> Result<Outcome, Failure> {
        match self {
            Self::File { .. } | Self::Folder { .. } => self.undo(),
            _ if same => self.undo(),
            _ => Ok(Outcome::Gone),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::File { path } => write!(to, "file {}", path.display()),
            Self::Folder { path } => write!(to, "folder {}", path.display()),
            Self::Swap { path, .. } => write!(to, "swap on {}", path.display()),
            Self::Zram {
                device: Some(device),
                ..
            } => write!(to, "zram device /dev/zram{}", device.number),
            Self::Zram { device: None, .. } => write!(to, "zram device not yet known"),
            Self::Group { path } => write!(to, "control group {}", path.display()),
            Self::Module { name } => write!(to, "kernel module {name}"),
            Self::Setting { path, before, .. } => {
                write!(to, "setting {} = {before}", path.display())
            }
            Self::Affinity { thread, before, .. } => {
                write!(to, "thread {thread} on CPUs {before:?}")
            }
        }
    }
}

/// Why something that is not as it was made is left alone.
pub fn strange(what: &Path, why: &str) -> Failure {
    Failure::unavailable(
        format!("{} {why}, so that it is left alone", what.display()),
        format!(
            "look at {}, and remove it if it is nobody's",
            what.display()
        ),
    )
}

fn name_begins(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.is_absolute() && name.is_some_and(|name| name.starts_with(prefix))
}

fn remove_file(path: &Path) -> Result<Outcome, Failure> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Gone),
        other => other.map_err(Failure::from)?,
    };
    let owned = metadata.uid() == nix::unistd::geteuid().as_raw();
    if !name_begins(path, FILE_PREFIX)
        || !metadata.is_file()
        || metadata.mode() & 0o7777 != 0o600
        || !owned
    {
        return Err(strange(path, "is not the file that was made"));
    }
    // The kernel refuses to remove one that is used as swap (EPERM, unlink(2)).
    fs::remove_file(path).map_err(Failure::from)?;
    Ok(Outcome::Undone)
}

/// What is in it is ours: nobody else may write there.
fn remove_folder(path: &Path) -> Result<Outcome, Failure> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Gone),
        other => other.map_err(Failure::from)?,
    };
    let owned = metadata.uid() == nix::unistd::geteuid().as_raw();
    if !name_begins(path, FOLDER_PREFIX)
        || !metadata.is_dir()
        // One that is made in a folder with the set-group-ID bit has it too (inode(7)).
        || metadata.mode() & 0o5777 != 0o700
        || !owned
    {
        return Err(strange(path, "is not the folder that was made"));
    }
    fs::remove_dir_all(path).map_err(Failure::from)?;
    Ok(Outcome::Undone)
}

fn switch_off(path: &Path, uuid: &str) -> Result<Outcome, Failure> {
    let Some(used_kib) = swap_area::used_kib(path)? else {
        return Ok(Outcome::Gone);
    };
    if !swap_area::has_uuid(path, uuid).map_err(Failure::from)? {
        return Err(strange(path, "is other swap than was made"));
    }
    let room = memory::machine_room().map_err(Failure::failed)?;
    if room < used_kib * 1024 + MARGIN_BYTES {
        return Err(Failure::unavailable(
            format!("{used_kib} KiB in it do not fit into {room} B of memory available"),
            format!(
                "end programs that use much memory, then: {} restore",
                program()
            ),
        ));
    }
    let latest = Instant::now() + PATIENCE;
    loop {
        match swap_off(path) {
            Ok(()) => return Ok(Outcome::Undone),
            Err(Errno::EINVAL) if swap_area::used_kib(path)?.is_none() => return Ok(Outcome::Gone),
            // A signal asks to stop, which is what this is about.
            Err(Errno::EINTR) if Instant::now() < latest => {}
            Err(error) => {
                return Err(Failure::unavailable_system(
                    "swapoff",
                    io::Error::from(error),
                    format!("as root: swapoff {}", path.display()),
                ));
            }
        }
    }
}

/// Switch off the swap area at `path`.
///
/// # Errors
/// The errno of swapoff(2), such as `EPERM` or `ENOMEM`.
pub fn swap_off(path: &Path) -> nix::Result<()> {
    use nix::NixPath;
    // SAFETY: the text lives during the call, and ends with a NUL.
    let answer = path.with_nix_path(|path| unsafe { libc::swapoff(path.as_ptr()) })?;
    Errno::result(answer).map(drop)
}

/// The folder of a zram device.
pub fn device_folder(number: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{number}"))
}

/// The numbers of the zram devices there are.
///
/// # Errors
/// `Failure::Failed` if `/sys/block` cannot be read.
pub fn device_numbers() -> Result<Vec<u32>, Failure> {
    let entries =
        fs::read_dir("/sys/block").map_err(|error| Failure::system("reading /sys/block", error))?;
    Ok(entries
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .to_str()?
                .strip_prefix("zram")?
                .parse()
                .ok()
        })
        .collect())
}

/// The serial number of a zram device; `None` if there is no such device.
///
/// # Errors
/// `Failure::Failed` if the kernel does not report it.
pub fn sequence(number: u32) -> Result<Option<u64>, Failure> {
    let path = device_folder(number).join("diskseq");
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map(Some).map_err(|error| {
            Failure::failed(format!("{} holds no number: {error}", path.display()))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound && !device_folder(number).exists() => {
            Ok(None)
        }
        Err(error) => Err(Failure::system(&path.display().to_string(), error)),
    }
}

fn remove_device(device: Device) -> Result<Outcome, Failure> {
    match sequence(device.number)? {
        Some(sequence) if sequence == device.sequence => {}
        // Another's that has the number now.
        Some(_) | None => return Ok(Outcome::Gone),
    }
    let folder = device_folder(device.number);
    let latest = Instant::now() + PATIENCE;
    // Both are refused while the device is in use, or looked at by udev.
    write_until(&folder.join("reset"), "1", latest)?;
    let remove = Path::new("/sys/class/zram-control/hot_remove");
    write_until(remove, &device.number.to_string(), latest)?;
    Ok(Outcome::Undone)
}

fn write_until(path: &Path, text: &str, latest: Instant) -> Result<(), Failure> {
    loop {
        match fs::write(path, text) {
            Ok(()) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < latest => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => {
                return Err(Failure::unavailable_system(
                    &format!("writing {text} to {}", path.display()),
                    error,
                    "see with swapon and findmnt what uses it, and end that",
                ));
            }
        }
    }
}

/// A device that the kernel was asked for, whose number did not come to be written down: it cannot be distinguished
/// from one that another program is about to use, and takes no memory.
fn judge_unknown(before: &[u32]) -> Result<Outcome, Failure> {
    let unused = |number: &u32| {
        let state = fs::read_to_string(device_folder(*number).join("initstate"));
        state.is_ok_and(|state| state.trim() == "0")
    };
    let mut numbers = device_numbers()?;
    numbers.retain(|number| !before.contains(number) && unused(number));
    match numbers.first() {
        None => Ok(Outcome::Gone),
        Some(number) => Err(Failure::unavailable(
            format!("/dev/zram{number} is unused, and may have been left"),
            format!("as root: echo {number} > /sys/class/zram-control/hot_remove"),
        )),
    }
}

fn remove_group(path: &Path) -> Result<Outcome, Failure> {
    let kind = match statfs(path) {
        Err(Errno::ENOENT) => return Ok(Outcome::Gone),
        other => other
            .map_err(|error| Failure::from(io::Error::from(error)))?
            .filesystem_type(),
    };
    let is_group = kind == CGROUP_SUPER_MAGIC || kind == CGROUP2_SUPER_MAGIC;
    if !is_group || !name_begins(path, GROUP_PREFIX) {
        return Err(strange(path, "is not the control group that was made"));
    }
    group::remove(path, PATIENCE)?;
    Ok(Outcome::Undone)
}
