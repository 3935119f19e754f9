//! Children in a session of their own.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpid, getppid, setsid};

/// Kill a child that has a session of its own, and what it started.
pub fn kill(child: &Child) {
    // Not waited for as yet, so the number is still its own. It may have ended by itself.
    let group = Pid::from_raw(child.id() as i32);
    let _ = killpg(group, Signal::SIGKILL);
}

/// Have a child be in a session of its own, ended with the thread that starts it.
pub fn in_own_session(command: &mut Command) {
    let parent = getpid();
    // SAFETY: the closure calls setsid, prctl and getppid only: they are async-signal-safe and allocate nothing.
    unsafe {
        command.pre_exec(move || own_session(parent));
    }
}

/// In the child, between fork and exec: a session of its own (no terminal to ask at), ended with the thread that
/// started it.
fn own_session(parent: Pid) -> io::Result<()> {
    setsid()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    match getppid() == parent {
        true => Ok(()),
        // The parent ended before it could be asked to tell.
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}
