//! What only the first process of a machine does: mounting, the loopback interface, and switching off.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::Duration;

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
    pub flags: libc::c_ulong,
    /// Options of this one.
    pub options: &'static str,
}

const fn of(kind: &'static str, target: &'static str, options: &'static str) -> Mount {
    Mount {
        source: kind,
        target,
        kind,
        flags: 0,
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
    let text = |text: &str| {
        CString::new(text).map_err(|error| Failure::failed(format!("{doing}: {error}")))
    };
    let (source, target, kind, options) = (
        text(one.source)?,
        text(one.target)?,
        text(one.kind)?,
        text(one.options)?,
    );
    // SAFETY: all five are texts that end with NUL and live until the call returns (mount(2)).
    let done = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            one.flags,
            options.as_ptr().cast(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Failure::system(&doing, io::Error::last_os_error())),
    }
}

/// Switch the interface `lo` on (netdevice(7)).
///
/// # Errors
/// `Failure::Failed` with the kernel's reason.
pub fn show_loopback() -> Result<(), Failure> {
    let failed = |error| Failure::system("switching on the interface lo", error);
    // SAFETY: makes a descriptor, or returns -1.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // SAFETY: it was just made, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
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
    // SAFETY: takes no memory of ours (reboot(2)).
    unsafe { libc::reboot(libc::RB_AUTOBOOT) };
    eprintln!(
        "oscope-init: the guest cannot be ended: {}",
        io::Error::last_os_error()
    );
    // The first process must not end: the kernel would panic, and hide the line above.
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
