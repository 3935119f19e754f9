//! The connection as a thing that comes and goes: a thread that makes it, and makes it anew when it breaks.
//!
//! That thread starts every `ssh`, for `ssh` ends with the thread that started it. No lock is held while it connects.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attributes::{Attributes, Extensions};
use super::clock::Clock;
use super::handshake::{explain, greet, not_started};
use super::leftovers::Leftovers;
use super::pipeline::RequestPipeline;
use super::session::{Session, locked};
use super::target::Target;
use super::temporary::Journal;
use super::{Limits, State};
use crate::log;
use oscope_sys::error::Failure;

/// How long after one loss of the connection the next is not logged.
const NOTED: Duration = Duration::from_secs(60);

/// The first pause after a failed attempt, and after a connection that broke.
const FIRST: Duration = Duration::from_millis(250);

/// The longest pause; shorter where an operation would not wait for [`ATTEMPTS`] of them.
const LAST: Duration = Duration::from_secs(10);

/// How many attempts an operation that waits for the connection sees at least, where they fail at once.
const ATTEMPTS: u32 = 4;

/// How long the thread sleeps at most when nothing is to be done.
const IDLE: Duration = Duration::from_secs(3600);

struct Now {
    session: Option<Arc<Session>>,
    /// One that is being made: to be ended if all ends.
    coming: Option<Arc<Session>>,
    since: Instant,
    tries: u32,
    why: String,
    extensions: Extensions,
    closing: bool,
}

/// What the thread and its users share.
struct LinkState {
    now: Mutex<Now>,
    changed: Condvar,
    leftovers: Leftovers,
}

/// The connection to a target.
pub struct Link {
    /// Where to.
    pub target: Arc<Target>,
    /// How long things may take.
    pub limits: Limits,
    /// The server's.
    pub clock: Clock,
    shared: Arc<LinkState>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Hears what a folder has become by a change of ours.
    watcher: OnceLock<Watcher>,
}

/// Receives the path and the attributes of a folder.
pub type Watcher = Box<dyn Fn(&Path, Attributes) + Send + Sync>;

impl Link {
    /// Connect in the background; with `first`, only once, and the outcome is sent there.
    pub fn start(
        target: Target,
        limits: Limits,
        first: Option<SyncSender<Result<(), Failure>>>,
    ) -> Self {
        let shared = Arc::new(LinkState {
            now: Mutex::new(Now {
                session: None,
                coming: None,
                since: Instant::now(),
                tries: 0,
                why: "not yet connected".to_owned(),
                extensions: Extensions::default(),
                closing: false,
            }),
            changed: Condvar::new(),
            leftovers: Leftovers::default(),
        });
        let target = Arc::new(target);
        let connection = ConnectionThread {
            shared: Arc::clone(&shared),
            target: Arc::clone(&target),
            limits,
        };
        let thread = thread::Builder::new().name("sftp-connection".into());
        let thread = thread.spawn(move || connection.run(first));
        if let Err(error) = &thread {
            let mut now = locked(&shared.now);
            now.closing = true;
            now.why = format!("no thread for the connection: {error}");
        }
        Self {
            target,
            limits,
            clock: Clock::default(),
            shared,
            thread: Mutex::new(thread.ok()),
            watcher: OnceLock::new(),
        }
    }

    /// Connect, and wait for the outcome.
    pub fn connect(target: Target, limits: Limits) -> Result<Self, Failure> {
        let (sender, outcome) = mpsc::sync_channel(1);
        let link = Self::start(target, limits, Some(sender));
        match outcome.recv() {
            Ok(Ok(())) => Ok(link),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(explain(&link.target, &locked(&link.shared.now).why)),
        }
    }

    /// The session that is up, waited for until `deadline`.
    ///
    /// # Errors
    /// EIO: there is none within that time, or no more.
    pub fn session(&self, deadline: Instant) -> Result<Arc<Session>, Errno> {
        let mut now = locked(&self.shared.now);
        loop {
            match &now.session {
                _ if now.closing => return Err(Errno::EIO),
                Some(session) if !session.ended() => return Ok(Arc::clone(session)),
                _ => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::EIO);
            }
            let waited = self.shared.changed.wait_timeout(now, left);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// From now on this hears what folders become by changes of ours; a second one is not taken.
    pub fn watch_folders(&self, watcher: Watcher) {
        let _ = self.watcher.set(watcher);
    }

    /// Say what folders have become in the course of an operation.
    pub fn tell_folders(&self, pipeline: &mut RequestPipeline<'_>) {
        let folders = std::mem::take(&mut pipeline.folders);
        if let Some(watcher) = self.watcher.get() {
            for (path, now) in folders {
                watcher(&path, now);
            }
        }
    }

    /// An operation on a session of this link.
    pub fn pipeline<'a>(&'a self, session: &'a Session, deadline: Instant) -> RequestPipeline<'a> {
        let mut pipeline = RequestPipeline::new(session, &self.target, deadline);
        pipeline.watched = self.watcher.get().is_some();
        pipeline
    }

    /// Whether there is a connection.
    pub fn state(&self) -> State {
        let now = locked(&self.shared.now);
        match &now.session {
            Some(session) if !session.ended() && !now.closing => State::Up,
            _ => State::Down {
                since: now.since,
                tries: now.tries,
                why: now.why.clone(),
            },
        }
    }

    /// What the server said that it can do, on the last connection.
    pub fn extensions(&self) -> Extensions {
        locked(&self.shared.now).extensions
    }

    /// The round trip of the connection that there is, once something was asked for.
    pub fn round_trip(&self) -> Option<Duration> {
        locked(&self.shared.now).session.as_ref()?.round_trip()
    }

    /// Send what was put off, if there is a connection.
    pub fn send_put_off(&self) {
        let session = locked(&self.shared.now).session.clone();
        session.iter().for_each(|session| session.send_put_off());
    }

    /// Where temporaries are written down, from now on; a second one is not taken.
    pub fn journal(&self, journal: Arc<dyn Journal>) {
        let _ = self.shared.leftovers.journal.set(journal);
    }

    /// A temporary is about to be made.
    pub fn begins(&self, temporary: &Path) {
        self.shared.leftovers.begins(temporary);
    }

    /// A temporary is not on the server, and will not be.
    pub fn gone(&self, temporary: &Path) {
        self.shared.leftovers.gone(temporary);
    }

    /// A temporary that may have been left on the server: removed as soon as can be.
    pub fn leave(&self, path: PathBuf) {
        self.shared.leftovers.add(path);
        // Between the thread's look and its wait the lock is held: it cannot miss this.
        drop(locked(&self.shared.now));
        self.shared.changed.notify_all();
    }

    /// End all.
    pub fn close(&self) {
        let (session, coming) = {
            let mut now = locked(&self.shared.now);
            if !now.closing {
                now.closing = true;
                now.since = Instant::now();
                now.why = "ended here".to_owned();
            }
            (now.session.clone(), now.coming.clone())
        };
        for session in [session, coming].into_iter().flatten() {
            session.end("ended here");
        }
        self.shared.changed.notify_all();
        if let Some(thread) = locked(&self.thread).take() {
            // A panic of the thread has been printed; there is nothing left to end.
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread that keeps the connection.
struct ConnectionThread {
    shared: Arc<LinkState>,
    target: Arc<Target>,
    limits: Limits,
}

impl ConnectionThread {
    fn run(self, mut first: Option<SyncSender<Result<(), Failure>>>) {
        let mut pause = FIRST;
        let (mut lost, mut noted) = (false, None);
        let longest = (self.limits.operation / ATTEMPTS).clamp(FIRST, LAST);
        loop {
            let made = self.make();
            let failed = made.as_ref().err().cloned();
            if made.is_ok() && first.is_none() && lost {
                log::note(&format!("connected to {} again", self.target.host));
            }
            if let Some(first) = first.take() {
                // Whoever waits for it does not go away.
                let _ = first.send(made.as_ref().map(|_| ()).map_err(Clone::clone));
                if failed.is_some() {
                    return;
                }
            }
            match made {
                Ok(session) => {
                    pause = FIRST;
                    self.watch(&session);
                    let why = self.down(&session.reap());
                    let seldom = noted.is_none_or(|at: Instant| at.elapsed() >= NOTED);
                    lost = why.is_some() && seldom;
                    if let Some(why) = why.filter(|_| seldom) {
                        log::note(&format!("the connection is lost: {why}"));
                        noted = Some(Instant::now());
                    }
                }
                Err(failure) => self.failed(&failure),
            }
            if self.pause(pause) {
                return;
            }
            if failed.is_some() {
                pause = (pause * 2).min(longest);
            }
        }
    }

    /// Make a session, ready for use.
    fn make(&self) -> Result<Arc<Session>, Failure> {
        let shared = Arc::downgrade(&self.shared);
        let on_close = Arc::new(move || {
            if let Some(shared) = shared.upgrade() {
                drop(locked(&shared.now));
                shared.changed.notify_all();
            }
        });
        let session = Session::start(&self.target, on_close)
            .map_err(|why| not_started(&self.target, &why))?;
        let closing = {
            let mut now = locked(&self.shared.now);
            now.coming = Some(Arc::clone(&session));
            now.closing
        };
        if closing {
            session.end("ended here");
        }
        let greeted = greet(&session, &self.target, self.limits.connect);
        if greeted.is_ok() {
            self.shared
                .leftovers
                .sweep(&session, &self.target, self.limits.operation);
        }
        let mut now = locked(&self.shared.now);
        now.coming = None;
        greeted?;
        now.extensions = session.extensions.get().copied().unwrap_or_default();
        now.session = Some(Arc::clone(&session));
        drop(now);
        self.shared.changed.notify_all();
        Ok(session)
    }

    /// Wait until the session ends; meanwhile remove what was left.
    fn watch(&self, session: &Session) {
        loop {
            let mut now = locked(&self.shared.now);
            while !session.ended() && !now.closing {
                let wait = self.shared.leftovers.due().unwrap_or(IDLE);
                if wait.is_zero() {
                    break;
                }
                let waited = self.shared.changed.wait_timeout(now, wait);
                now = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if session.ended() || now.closing {
                return;
            }
            drop(now);
            self.shared
                .leftovers
                .sweep(session, &self.target, self.limits.operation);
        }
    }

    /// There is no connection any more: why, unless that was wanted.
    fn down(&self, why: &str) -> Option<String> {
        let mut now = locked(&self.shared.now);
        now.session = None;
        now.since = Instant::now();
        now.tries = 0;
        if now.closing {
            return None;
        }
        now.why = explain(&self.target, why).to_string();
        Some(now.why.clone())
    }

    fn failed(&self, failure: &Failure) {
        let mut now = locked(&self.shared.now);
        now.tries = now.tries.saturating_add(1);
        if !now.closing {
            now.why = failure.explained();
        }
    }

    /// Wait: whether all is to end.
    fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut now = locked(&self.shared.now);
        while !now.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(now, left);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        now.closing
    }
}
