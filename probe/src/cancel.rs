//! SIGTERM and SIGINT: a flag that the harness and long workloads look at.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::error::Failure;

static REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Take SIGTERM and SIGINT from now on, and the end of the parent like a SIGTERM: a laboratory that is killed must not leave a
/// probe measuring for nobody. Blocking calls are not restarted, so that a wait for the next request ends too.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses the handler.
pub fn install() -> Result<(), Failure> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        unsafe { sigaction(signal, &action) }
            .map_err(|error| Failure::system(&format!("taking {signal}"), error))?;
    }
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)
        .map_err(|error| Failure::system("asking for a signal at the parent's end", error))
}

/// Whether one of the signals came.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Give up the request under way, as if a signal had come.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}
