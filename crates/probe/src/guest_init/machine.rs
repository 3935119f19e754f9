//! What only the first process of a machine does: mounting, the loopback interface, and switching off.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use nix::mount::MsFlags;
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use oscope_sys::error::Failure;

/// A file system to be mounted.
#[derive(Debug)]
pub struct Mount {
    /// The device, or a word for people.
    pub source: &'static str,
    /// The folder, which is made.
    pub target: &'static str,
    /// The file system's name in the kernel.
    pub kind: &'static str,
    /// Options of every file system (mount(2)).
    pub flags: MsFlags,
    /// Options of this one.
    pub options: &'static str,
}

const fn of(kind: &'static str, target: &'static str, options: &'static str) -> Mount {
    Mount {
        source: kind,
        target,
        kind,
        flags: MsFlags::empty(),
        options,
    }
}

/// Where programs share memory (shm_overview(7)).
pub const SHARED_MEMORY: &str = "/dev/shm";

/// In the order in which they are mounted. Nothing at /run: the root file system is memory, and has the kernel modules
/// there. Version 2 of the control groups, since a memory limit of version 1 needs a guard against the OOM killer.
pub const MOUNTS: &[Mount] = &[
    of("proc", "/proc", ""),
    of("sysfs", "/sys", ""),
    of("devtmpfs", "/dev", ""),
    of("devpts", "/dev/pts", "ptmxmode=0666"),
    of("tmpfs", SHARED_MEMORY, "mode=1777"),
    of("cgroup2", "/sys/fs/cgroup", ""),
];

/// Mount it.
///
/// # Errors
/// `Failure::Failed` with the kernel's reason, such as a file system that it was not built with.
pub fn mount(one: &Mount) -> Result<(), Failure> {
    let doing = format!("mounting {} at {}", one.kind, one.target);
    fs::create_dir_all(one.target).map_err(|error| Failure::system(&doing, error))?;
    nix::mount::mount(
        Some(one.source),
        one.target,
        Some(one.kind),
        one.flags,
        Some(one.options),
    )
    .map_err(|error| Failure::system(&doing, error))
}

/// Switch the interface `lo` on (netdevice(7)).
///
/// # Errors
/// `Failure::Failed` with the kernel's reason.
pub fn show_loopback() -> Result<(), Failure> {
    let failed = |error| Failure::system("switching on the interface lo", error);
    let (kind, flags) = (SockType::Datagram, SockFlag::SOCK_CLOEXEC);
    let socket = socket(AddressFamily::Inet, kind, flags, None)
        .map_err(|error| failed(io::Error::from(error)))?;
    // SAFETY: a plain structure, for which all zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a whole ifreq with its name ended by NUL.
    match unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS,
            ptr::from_ref(&request),
        )
    } {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// End the guest by a restart, at which QEMU exits (`-no-reboot`): switching off takes ACPI, which a guest may lack.
pub fn restart() -> ! {
    let Err(error) = reboot(RebootMode::RB_AUTOBOOT);
    eprintln!(
        "oscope-init: the guest cannot be ended: {}",
        io::Error::from(error)
    );
    // The first process must not end: the kernel would panic, and hide the line above.
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
