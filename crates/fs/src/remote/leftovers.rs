//! Temporaries that a broken connection may have left on the server, until they are known to be gone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::session::{Session, locked};
use super::talk::RequestPipeline;
use super::target::Target;
use super::temporary::Journal;
use super::wire::kind;

/// When one that is not there is looked for again: a server that was held up may still make it, from what it had received.
const AGAIN: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(15),
    Duration::from_secs(60),
];

struct Leftover {
    path: PathBuf,
    due: Instant,
    looked: usize,
}

/// From this age on one that is not there is not looked for again: all of those pauses are over.
pub const OLD: Duration = Duration::from_secs(77);

/// Temporaries to be removed.
#[derive(Default)]
pub struct Leftovers {
    all: Mutex<Vec<Leftover>>,
    /// Records each that begins, and each that is gone.
    pub journal: OnceLock<Arc<dyn Journal>>,
}

impl Leftovers {
    /// One more, due at once.
    pub fn add(&self, path: PathBuf) {
        let mut all = locked(&self.all);
        if all.iter().all(|left| left.path != path) {
            all.push(Leftover {
                path,
                due: Instant::now(),
                looked: 0,
            });
        }
    }

    /// One is about to be made.
    pub fn begins(&self, path: &Path) {
        if let Some(journal) = self.journal.get() {
            journal.begins(path);
        }
    }

    /// One is not on the server, and will not be.
    pub fn gone(&self, path: &Path) {
        if let Some(journal) = self.journal.get() {
            journal.gone(path);
        }
    }

    /// In what time one is due; `None`: there are none.
    pub fn due(&self) -> Option<Duration> {
        let next = locked(&self.all).iter().map(|left| left.due).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Remove those that are due. What gets no answer stays due for the next connection.
    pub fn sweep(&self, session: &Session, target: &Target, limit: Duration) {
        let now = Instant::now();
        let mut all = locked(&self.all);
        let (due, later) = std::mem::take(&mut *all)
            .into_iter()
            .partition(|left| left.due <= now);
        *all = later;
        drop(all);
        let due: Vec<Leftover> = due;
        let mut talk = RequestPipeline::new(session, target, now + limit);
        let asked: Vec<u32> = due
            .iter()
            .map(|left| talk.ask_path(kind::REMOVE, &left.path))
            .collect();
        for (mut left, id) in due.into_iter().zip(asked) {
            match talk.status(id) {
                Ok(Ok(())) => {
                    self.gone(&left.path);
                    continue;
                }
                // Not there, as yet; or the server does not let us, for now.
                Ok(Err(_)) => match AGAIN.get(left.looked) {
                    None => {
                        self.gone(&left.path);
                        continue;
                    }
                    Some(pause) => {
                        left.due = Instant::now() + *pause;
                        left.looked += 1;
                    }
                },
                Err(_) => {
                    // The session is given up: it does not answer. A pause, so that this is not asked without end.
                    session.late(limit);
                    left.due = Instant::now() + Duration::from_secs(1);
                }
            }
            locked(&self.all).push(left);
        }
    }
}
