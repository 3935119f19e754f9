//! The life of a mount's process: what a signal does before the mount stands, while it does, and while it ends.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mountpoint::{self, Outcome, Way};
use super::{failed, mountinfo, signals};
use crate::log::note;
use oscope_sys::error::Failure;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is not mounted as yet.
    Starting,
    /// It is mounted.
    Mounted,
    /// A signal had it unmounted, or it is unmounted and copies back.
    Ending,
}

/// What the process is about, for signals to end it in order.
pub struct Life {
    place: PathBuf,
    phase: Mutex<Phase>,
}

impl Life {
    /// Begin: from now on SIGINT, SIGTERM and SIGHUP end the process in order. While it is starting, so does the end of
    /// whoever reads `caller`.
    pub fn begin(place: &Path, caller: Option<OwnedFd>) -> Result<Arc<Self>, Failure> {
        let cannot = |error: std::io::Error| {
            failed(
                format!("signals cannot be watched ({error})"),
                "see the limits of this user: ulimit -a",
            )
        };
        let signals = signals::watch().map_err(cannot)?;
        let life = Arc::new(Self {
            place: place.to_owned(),
            phase: Mutex::new(Phase::Starting),
        });
        let watching = Arc::clone(&life);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || watching.watch(&signals, caller))
            .map_err(cannot)?;
        Ok(life)
    }

    /// It is mounted.
    pub fn mounted(&self) {
        *self.phase() = Phase::Mounted;
    }

    /// It is unmounted, and what is left is copied back: a signal now ends the process at once.
    pub fn unmounted(&self) {
        *self.phase() = Phase::Ending;
    }

    fn watch(&self, signals: &OwnedFd, mut caller: Option<OwnedFd>) {
        loop {
            if signals::wait(signals, caller.as_ref()) {
                signals::taken(signals);
            } else {
                caller = None;
                if *self.phase() != Phase::Starting {
                    continue;
                }
            }
            let mut phase = self.phase();
            match *phase {
                Phase::Starting => self.give_up(),
                Phase::Mounted => {
                    *phase = Phase::Ending;
                    drop(phase);
                    self.unmount();
                }
                Phase::Ending => {
                    note(
                        "ended at once by a further signal; what is not copied back is kept: oscope-fs recover",
                    );
                    std::process::exit(1);
                }
            }
        }
    }

    /// The mount may have been made a moment ago: it would stay, dead.
    fn give_up(&self) -> ! {
        if mountpoint::look(&self.place)
            .is_ok_and(|mount| mount.is_some_and(|mount| mount.is_ours()))
        {
            let _ = mountpoint::take_away(&self.place, Way::Lazily);
        }
        note("ended by a signal before it was mounted");
        std::process::exit(1);
    }

    fn unmount(&self) {
        let place = self.place.display();
        match mountpoint::take_away(&self.place, Way::Unused) {
            Ok(Outcome::Gone) => note(&format!("{place}: unmounted by a signal")),
            Ok(Outcome::Busy(words)) => {
                let users = mountinfo::users_of(&self.place).0.join(", ");
                note(&format!(
                    "{place}: unmounted by a signal, but still used by {}{}: this process ends when they have closed \
                     it, or at once by a further signal",
                    if users.is_empty() { "others" } else { &users },
                    words.map(|words| format!(" ({words})")).unwrap_or_default()
                ));
                if let Err(failure) = mountpoint::take_away(&self.place, Way::Lazily) {
                    note(&failure.explained());
                }
            }
            // Somebody else has unmounted it in this moment, or it stays and the next signal ends the process.
            Err(failure) => note(&failure.explained()),
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
