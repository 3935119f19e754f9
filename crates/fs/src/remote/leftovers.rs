//! Temporaries that a broken connection may have left on the server, until they are known to be gone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::pipeline::RequestPipeline;
use super::session::{Session, locked};
use super::target::Target;
use super::temporary::Journal;
use super::wire::{Status, kind};

/// When one that is not there is looked for again: a server that was held up may still make it, from what it had
/// received.
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
        let mut pipeline = RequestPipeline::new(session, target, now + limit);
        let asked: Vec<u32> = due
            .iter()
            .map(|left| pipeline.ask_path(kind::REMOVE, &left.path))
            .collect();
        for (mut left, id) in due.into_iter().zip(asked) {
            match pipeline.status(id) {
                Ok(Ok(())) => {
                    self.gone(&left.path);
                    continue;
                }
                Ok(Err(why)) => match pause(left.looked, why == Status::NoSuchFile) {
                    None => {
                        self.gone(&left.path);
                        continue;
                    }
                    Some(pause) => {
                        left.due = Instant::now() + pause;
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

/// How long to wait after one could not be removed; `None`: it will never be there. What the server does not let us
/// remove, such as from a file system that is read-only for now, stays to be removed.
fn pause(looked: usize, is_missing: bool) -> Option<Duration> {
    let longest = (!is_missing).then(|| AGAIN[AGAIN.len() - 1]);
    AGAIN.get(looked).copied().or(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_does_not_let_us_remove_is_never_given_up() {
        for is_missing in [true, false] {
            assert_eq!(pause(0, is_missing), Some(AGAIN[0]));
            assert_eq!(pause(2, is_missing), Some(AGAIN[2]));
        }
        assert_eq!(pause(3, true), None);
        assert_eq!(pause(1000, false), Some(AGAIN[2]));
    }
}
