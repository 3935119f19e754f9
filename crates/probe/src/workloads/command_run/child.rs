//! From the fork of a child to its program: with calls that are async-signal-safe only (signal-safety(7)).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::ptr::null_mut;

use nix::sched::CpuSet;

/// What the child does before it executes the program.
pub struct Errand<'a> {
    pub path: &'a CStr,
    pub arguments: *const *const c_char,
    pub environment: *const *const c_char,
    pub folder: Option<&'a CStr>,
    pub cpus: &'a CpuSet,
    /// What becomes standard input, output and error.
    pub streams: [RawFd; 3],
    /// What went wrong, as `errno` has it; 0 for nothing.
    pub error: c_int,
}

/// In the child. It never returns: it executes the program, or leaves the error and ends.
pub extern "C" fn begin(errand: *mut c_void) -> c_int {
    // SAFETY: `start` hands over an `Errand` that lives while the parent waits, and nobody else uses meanwhile.
    let errand = unsafe { &mut *errand.cast::<Errand>() };
    // SAFETY: all calls are async-signal-safe; pointers are of C strings and arrays that the parent keeps.
    unsafe {
        if prepared(errand) {
            libc::execve(errand.path.as_ptr(), errand.arguments, errand.environment);
        }
        errand.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// Give the child its own process group, CPUs, streams, folder and signals; false where the kernel refuses one.
///
/// # Safety
/// In a child that is about to execute a program.
unsafe fn prepared(errand: &Errand) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        // It ends with the launcher.
        let kill = libc::SIGKILL as libc::c_ulong;
        let mut done = libc::prctl(libc::PR_SET_PDEATHSIG, kill) == 0 && libc::setpgid(0, 0) == 0;
        let cpus = std::ptr::from_ref(errand.cpus).cast::<libc::cpu_set_t>();
        done = done && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) == 0;
        for (stream, number) in errand.streams.iter().zip(0..) {
            done = done && libc::dup2(*stream, number) == number;
        }
        if let Some(folder) = errand.folder {
            done = done && libc::chdir(folder.as_ptr()) == 0;
        }
        // The Rust runtime ignores it, which a program would inherit.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        done && libc::sigprocmask(libc::SIG_SETMASK, &raw const none, null_mut()) == 0
    }
}

/// Have no descriptor of this process but the three streams be a program's, whoever opened it. Linux before 5.11 knows
/// no such call; all that the probe opens is marked so anyway.
pub fn close_on_execution() {
    // SAFETY: it changes no memory, and no descriptor's meaning in this process.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}
