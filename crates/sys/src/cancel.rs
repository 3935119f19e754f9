//! What asks the probe to stop: a flag that the harness and long workloads look at.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::getppid;

use crate::error::Failure;

/// Signals that [`install`] takes; whoever sleeps must let them through.
pub const SIGNALS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

static REQUESTED: AtomicBool = AtomicBool::new(false);
static PARENT: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(_signal: libc::c_int) {
    request();
}

/// The kernel sends the parent-death signal when the *thread* that started this process ends
/// (PR_SET_PDEATHSIG(2const)), such as one of a laboratory's pool. Only the end of the whole process, after which this
/// one has another parent, counts.
extern "C" fn note_if_orphaned(_signal: libc::c_int) {
    if getppid().as_raw() != PARENT.load(Ordering::Relaxed) {
        request();
    }
}

/// Take SIGTERM and SIGINT from now on, and the end of the parent likewise: a laboratory that is killed must not leave
/// a probe measuring for nobody. SIGHUP is the sign of it, and means nothing else here. Blocking calls are not
/// restarted, so that a wait for the next request ends too.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses a handler.
pub fn install() -> Result<(), Failure> {
    PARENT.store(getppid().as_raw(), Ordering::Relaxed);
    for signal in SIGNALS {
        let handler = match signal {
            Signal::SIGHUP => note_if_orphaned,
            _ => note,
        };
        handle(signal, SigHandler::Handler(handler))?;
    }
    nix::sys::prctl::set_pdeathsig(Signal::SIGHUP)
        .map_err(|error| Failure::system("asking for a signal at the parent's end", error))?;
    // The parent may have ended before it was asked for.
    note_if_orphaned(0);
    Ok(())
}

/// Take SIGTERM, SIGINT and SIGHUP from now on as a command at a terminal does. The first one asks it to stop, a second
/// one ends it at once; a SIGHUP that is ignored stays so, and the parent's end means nothing.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses a handler.
pub fn install_for_command() -> Result<(), Failure> {
    for signal in SIGNALS {
        let action = SigAction::new(
            SigHandler::Handler(note),
            SaFlags::SA_RESETHAND,
            SigSet::empty(),
        );
        let take = |action: &SigAction| {
            // SAFETY: `note` stores to an atomic, which is async-signal-safe; what is set again is what was there.
            unsafe { sigaction(signal, action) }
        };
        take(&action)
            .and_then(|former| match former.handler() {
                SigHandler::SigIgn if signal == Signal::SIGHUP => take(&former),
                _ => Ok(former),
            })
            .and_then(|_| SigSet::from(signal).thread_unblock())
            .map_err(|error| Failure::system(&format!("taking {signal}"), error))?;
    }
    Ok(())
}

/// Have `signal` handled so, whatever was inherited: neither ignored nor blocked. Blocking calls are not restarted
/// after it.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses.
pub fn handle(signal: Signal, handler: SigHandler) -> Result<(), Failure> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: this crate's handlers load and store atomics and ask for the parent's number, which is async-signal-safe.
    unsafe { sigaction(signal, &action) }
        .and_then(|_| SigSet::from(signal).thread_unblock())
        .map_err(|error| Failure::system(&format!("taking {signal}"), error))
}

/// Whether the probe is to stop.
#[inline(always)]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Give up the request under way, as if a signal had come.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// Beyond RLIMIT_FSIZE, write(2) answers EFBIG, but only where SIGXFSZ has not ended the process (setrlimit(2)). A
/// handler, unlike ignoring, is not inherited by programs that are started.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses a handler.
pub fn survive_size_limit() -> Result<(), Failure> {
    handle(Signal::SIGXFSZ, SigHandler::Handler(ignore))
}
