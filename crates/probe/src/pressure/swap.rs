//! Swap made for a run: a file or a zram device, switched on before all other swap, and gone again with this value.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, posix_fallocate};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, fstatfs};
use nix::sys::statvfs::fstatvfs;
use serde::Deserialize;

use oscope_sys::cancel;
use oscope_sys::cancel::survive_size_limit;
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::resource::{self, Device, FILE_PREFIX, Resource, device_folder};
use oscope_sys::cleanup::setting::{PAGE_CLUSTER, borrow};
use oscope_sys::cleanup::swap_area;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory;
use oscope_sys::machine::memory::page_bytes;

/// The highest priority there is, with the flag that says so (swapon(2)): what is swapped out while this swap exists
/// goes here.
const FIRST: libc::c_int = 0x8000 | 0x7fff;
/// `FS_NOCOW_FL` of `include/uapi/linux/fs.h`.
const NO_COPY_ON_WRITE: libc::c_int = 0x0080_0000;
/// Fewest pages of a swap area, mkswap(8).
const LEAST_PAGES: u64 = 10;
/// Space left free on the file system, and memory beside zram, in bytes.
const MARGIN_BYTES: u64 = 64 << 20;
/// Longest wait for another run's swap to go, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(20);

/// What the swap made for the run lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwapKind {
    /// A file where the file system takes one for swap, else zram.
    Auto,
    /// A file.
    File,
    /// A compressed block device in memory.
    Zram,
}

/// Swap that is switched on. Dropping it switches it off, which reads back what is in it, and removes what it lies on.
#[derive(Debug)]
pub struct Swap {
    path: PathBuf,
    note: String,
    // In the order in which they are undone.
    _on: CleanupGuard,
    _below: CleanupGuard,
    _turn: Flock<File>,
}

impl Swap {
    /// What was made, in a line.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Whether it lies on a file.
    pub fn is_file(&self) -> bool {
        !self.path.starts_with("/dev")
    }

    /// Bytes in use.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it, or it was switched off meanwhile.
    pub fn used_bytes(&self) -> Result<u64, Failure> {
        swap_area::used_kib(&self.path)?
            .map(|used| used * 1024)
            .ok_or_else(|| {
                Failure::failed(format!("swap on {} was switched off", self.path.display()))
            })
    }
}

/// Wait until no other process of this kind has swap: the kernel alternates between two areas of one priority
/// (swapon(2)), so that each would hold pages of the other's measurement. A lock on the very list of swap needs no
/// file, and ends with its holder.
fn turn() -> Result<Flock<File>, Failure> {
    let path = "/proc/swaps";
    let mut list = File::open(path).map_err(|error| {
        Failure::unavailable_system(path, error, "run a kernel with CONFIG_SWAP")
    })?;
    let latest = Instant::now() + PATIENCE;
    loop {
        list = match Flock::lock(list, FlockArg::LockExclusiveNonblock) {
            Ok(turn) => return Ok(turn),
            Err((list, _)) => list,
        };
        if cancel::requested() {
            return Err(Failure::failed("interrupted while another run had swap"));
        }
        if Instant::now() >= latest {
            return Err(Failure::unavailable(
                format!("another run of this program has had swap for {PATIENCE:?}"),
                "wait for its end, or end it",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Make `bytes` of swap, in whole pages, and switch it on; a file lies in `directory`.
///
/// # Errors
/// `Failure::Unavailable` where this machine cannot, with the remedy. What was made so far is undone.
pub fn swap_for(kind: SwapKind, bytes: u64, directory: &Path) -> Result<Swap, Failure> {
    let bytes = bytes.next_multiple_of(page_bytes());
    if bytes < LEAST_PAGES * page_bytes() {
        return Err(Failure::request(
            "swap_size",
            format!(
                "must be at least {} B, not {bytes}",
                LEAST_PAGES * page_bytes()
            ),
        ));
    }
    match kind {
        SwapKind::File => file(bytes, directory),
        SwapKind::Zram => zram(bytes),
        SwapKind::Auto => match file(bytes, directory) {
            Err(Failure::Unavailable {
                message,
                errno,
                remedy,
            }) => match zram(bytes) {
                Ok(mut swap) => {
                    swap.note = format!("{}, since {message}", swap.note);
                    Ok(swap)
                }
                Err(Failure::Unavailable { message: other, .. }) => Err(Failure::Unavailable {
                    message: format!("{message}; nor zram: {other}"),
                    errno,
                    remedy,
                }),
                Err(other) => Err(other),
            },
            other => other,
        },
    }
}

/// Have the kernel read one page at a time from swap (`vm.page-cluster` = 0), until the value is dropped; `None` where
/// it does so already.
///
/// # Errors
/// `Failure::Unavailable` where it cannot be set.
pub fn without_readahead() -> Result<Option<CleanupGuard>, Failure> {
    borrow(
        Path::new(PAGE_CLUSTER),
        "0",
        "run a kernel with CONFIG_SWAP",
    )
}

fn file(bytes: u64, directory: &Path) -> Result<Swap, Failure> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    must_be_root()?;
    let turn = turn()?;
    let refused = |doing: &str, error: &std::io::Error| {
        Failure::unavailable_system(
            &format!(
                "no swap file can be made in {}: {doing}",
                directory.display()
            ),
            error,
            "choose another with --set directory=DIR, less with --set swap_size=SIZE, or --set swap=zram",
        )
    };
    let folder = directory
        .canonicalize()
        .map_err(|error| refused("looking at it", &error))?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{FILE_PREFIX}{}-{number}", std::process::id()));
    survive_size_limit()?;
    let below = CleanupGuard::log_intent(Resource::File { path: path.clone() })?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = match options.open(&path) {
        Ok(file) => file,
        Err(error) => {
            // A file of that name is another's.
            below.forget()?;
            return Err(refused("making it", &error));
        }
    };
    fill(&file, bytes).map_err(|error| refused("giving it its space", &error))?;
    let uuid = swap_area::new_uuid()?;
    swap_area::format(&file, bytes, page_bytes(), &uuid)
        .map_err(|error| refused("writing its header", &error))?;
    // The file itself, also where somebody has renamed a folder above it meanwhile.
    let through = format!("/proc/self/fd/{}", file.as_raw_fd());
    let on = switch_on(&path, through.as_ref(), uuid)?;
    Ok(Swap {
        note: format!("swap: a file of {bytes} B in {}", folder.display()),
        path,
        _on: on,
        _below: below,
        _turn: turn,
    })
}

/// Give the file blocks of its own, without holes (swapon(8)).
fn fill(file: &File, bytes: u64) -> std::io::Result<()> {
    let space = fstatvfs(file)?;
    let free = space.blocks_available() * space.fragment_size();
    if free < bytes + MARGIN_BYTES {
        return Err(Errno::ENOSPC.into());
    }
    if fstatfs(file)?.filesystem_type() == BTRFS_SUPER_MAGIC {
        let flags = NO_COPY_ON_WRITE;
        // SAFETY: FS_IOC_SETFLAGS reads an int, which lives here (ioctl_iflags(2)).
        Errno::result(unsafe {
            libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags)
        })?;
    }
    loop {
        match posix_fallocate(file, 0, bytes as libc::off_t) {
            Err(Errno::EINTR) => {}
            other => return other.map_err(std::io::Error::from),
        }
    }
}

fn zram(bytes: u64) -> Result<Swap, Failure> {
    must_be_root()?;
    let turn = turn()?;
    let room = memory::machine_room().map_err(Failure::failed)?;
    if room < bytes + MARGIN_BYTES {
        return Err(Failure::unavailable(
            format!("{bytes} B of zram may take as much memory, and {room} B are available"),
            "choose less with --set swap_size=SIZE, or --set swap=file",
        ));
    }
    let (number, below) = zram_device()?;
    let size = device_folder(number).join("disksize");
    fs::write(&size, bytes.to_string()).map_err(|error| no_zram("giving it its size", &error))?;
    let path = PathBuf::from(format!("/dev/zram{number}"));
    let uuid = swap_area::new_uuid()?;
    let mut options = OpenOptions::new();
    let opened = options.write(true).open(&path);
    opened
        .and_then(|file| swap_area::format(&file, bytes, page_bytes(), &uuid))
        .map_err(|error| no_zram("writing its header", &error))?;
    let algorithm = fs::read_to_string(device_folder(number).join("comp_algorithm"));
    let algorithm = algorithm.as_deref().map(memory::chosen_word);
    Ok(Swap {
        note: format!(
            "swap: zram of {bytes} B, compressed by {}",
            algorithm.ok().flatten().unwrap_or("an unknown algorithm")
        ),
        _on: switch_on(&path, &path, uuid)?,
        path,
        _below: below,
        _turn: turn,
    })
}

/// A new zram device: its number, and what takes it down.
fn zram_device() -> Result<(u32, CleanupGuard), Failure> {
    let control = "/sys/class/zram-control/hot_add";
    fs::metadata(control).map_err(|error| no_zram(control, &error))?;
    let before = resource::device_numbers()?;
    let mut below = CleanupGuard::log_intent(Resource::Zram {
        device: None,
        before: before.clone(),
    })?;
    // Reading it makes a device and returns its number (Documentation/admin-guide/blockdev/zram.rst).
    let number = fs::read_to_string(control).map_err(|error| no_zram(control, &error))?;
    let number = number.trim().parse().map_err(|error| {
        Failure::failed(format!(
            "{control} returned {number:?}, which is not a number: {error}"
        ))
    })?;
    let sequence = resource::sequence(number)?
        .ok_or_else(|| Failure::failed(format!("zram{number} is gone")))?;
    let device = Device { number, sequence };
    below.update(Resource::Zram {
        device: Some(device),
        before,
    })?;
    Ok((number, below))
}

fn no_zram(doing: &str, error: &std::io::Error) -> Failure {
    Failure::unavailable_system(
        &format!("no zram device can be made: {doing}"),
        error,
        "run as root on a kernel with CONFIG_ZRAM (modprobe zram), or choose --set swap=file",
    )
}

fn must_be_root() -> Result<(), Failure> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::unavailable(
        "making swap needs root (CAP_SYS_ADMIN)",
        "run as root",
    ))
}

/// Switch on what is open or lies at `through`. The kernel has to list it as `path`, by which it is undone.
fn switch_on(path: &Path, through: &Path, uuid: String) -> Result<CleanupGuard, Failure> {
    let made = CleanupGuard::log_intent(Resource::Swap {
        path: path.to_owned(),
        uuid,
    })?;
    // SAFETY: the text lives during the call, and ends with a NUL.
    let answer = through.with_nix_path(|path| unsafe { libc::swapon(path.as_ptr(), FIRST) });
    let error = match answer.and_then(Errno::result) {
        Ok(_) if swap_area::used_kib(path)?.is_some() => return Ok(made),
        Ok(_) => {
            resource::swap_off(through)
                .map_err(|error| Failure::system("switching renamed swap off", error))?;
            return Err(Failure::failed(format!(
                "{} was renamed while it was made swap",
                path.display()
            )));
        }
        Err(error) => error,
    };
    let remedy = match error {
        Errno::EPERM => "run as root, outside a container that lacks CAP_SYS_ADMIN",
        Errno::ENOSYS => "run a kernel with CONFIG_SWAP",
        _ => "choose another folder with --set directory=DIR (ext4 or XFS), or --set swap=zram",
    };
    Err(Failure::unavailable_system(
        &format!("{} is not taken as swap (swapon)", path.display()),
        std::io::Error::from(error),
        remedy,
    ))
}
