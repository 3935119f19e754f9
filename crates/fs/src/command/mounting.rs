//! `oscope-fs mount`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::arguments::Mount;
use super::daemon::{self, ProgressReporter, Side};
use super::life::Life;
use super::process::Process;
use super::record::Record;
use super::socket::Answers;
use super::{Ending, failed, held, mountpoint, place, refreshing, socket, ssh, status};
use crate::log;
use crate::log::note;
use crate::mount::{Mounted, Options, Recovered, Shared, locked, recover};
use crate::remote::{Remote, Target};
use crate::store::Store;
use oscope_sys::error::Failure;
use serde_json::Value;

/// A shorter round trip costs less than to have several threads fetch (a server on this machine answers in 0.1 ms).
const FETCH_AHEAD_FROM: Duration = Duration::from_millis(1);

/// A request, looked at as far as that takes no server.
struct MountRequest {
    target: Target,
    place: PathBuf,
    cache: PathBuf,
    arguments: Mount,
}

/// Mount; the caller's process ends when the mount answers, or in the foreground when it is unmounted.
pub fn run(arguments: Mount) -> Result<ExitCode, Ending> {
    let target = ssh::target(&arguments.target, &arguments.ssh).map_err(Ending::Wrong)?;
    let place = place::absolute(&arguments.mountpoint)?;
    mountpoint::prepare(&place)?;
    let cache = match &arguments.cache {
        Some(cache) => place::absolute(cache)?,
        None => place::cache_of(&target.key())?,
    };
    if cache.starts_with(&place) || place.starts_with(&cache) {
        return Err(Ending::Wrong(failed(
            format!(
                "the cache {} and the mount point {} lie in one another",
                cache.display(),
                place.display()
            ),
            "name another folder with --cache",
        )));
    }
    let request = MountRequest {
        target,
        place,
        cache,
        arguments,
    };
    if request.arguments.foreground {
        return Ok(live(&request, &ProgressReporter::foreground())?);
    }
    match daemon::part()? {
        Side::Parent(child) => Ok(seen(&request.place, child)?),
        Side::Child(reporter) => {
            // The caller's process reports what fails now; later failures go to the log.
            Ok(live(&request, &reporter).unwrap_or_else(|failure| {
                note(&failure.explained());
                reporter.failed(&failure);
                ExitCode::FAILURE
            }))
        }
    }
}

/// See that the mount answers this process as well; otherwise end it.
fn seen(place: &Path, child: nix::unistd::Pid) -> Result<ExitCode, Failure> {
    let Err(error) = place.metadata() else {
        return Ok(ExitCode::SUCCESS);
    };
    let _ = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGTERM);
    Err(failed(
        format!(
            "{} was mounted but does not answer ({error}), and is unmounted again",
            place.display()
        ),
        "try again with -f to see what it says",
    ))
}

/// Be the mount's process, to its end.
fn live(request: &MountRequest, reporter: &ProgressReporter) -> Result<ExitCode, Failure> {
    let life = Life::begin(&request.place, reporter.watched())?;
    let limits = ssh::limits(request.arguments.ssh.timeout);
    // Before the cache folder is made: a host name with a slip leaves nothing behind.
    let remote = Remote::connect(request.target.clone(), limits)?;
    place::make_private(&request.cache)?;
    let store = open_store(request)?;
    log::open(&request.cache, request.arguments.foreground).map_err(|error| {
        failed(
            format!(
                "the log in {} cannot be written ({error})",
                request.cache.display()
            ),
            "name another folder with --cache",
        )
    })?;
    finish_earlier(&remote, &store, reporter)?;
    let record = Record {
        target: request.target.clone(),
        timeout: request.arguments.ssh.timeout,
        mountpoint: request.place.clone(),
        pid: std::process::id(),
        started: log::now(),
    };
    record.write(&request.cache)?;
    let ended = serve(request, reporter, &life, (remote, store), &record);
    record.unlist(&request.cache);
    ended
}

/// The cache; where umount(8) has taken away the mount that uses it, when that has ended.
fn open_store(request: &MountRequest) -> Result<Store, Failure> {
    let open = || {
        Store::open(
            &request.cache,
            &request.target.key(),
            request.arguments.cache_size,
        )
    };
    open()
        .or_else(|failure| {
            await_earlier(&request.cache, request.arguments.ssh.timeout)
                .map_or(Err(failure), |()| open())
        })
        .map_err(|failure| held::in_use(&request.cache).unwrap_or(failure))
}

/// Waits for the end of the process of an earlier mount: umount(8), unlike `oscope-fs umount`, returns while that is
/// still copying back. None where there is none, or it is still mounted.
fn await_earlier(cache: &Path, limit: Duration) -> Option<()> {
    let earlier = Record::read(cache)?;
    // Held before the look at its mount: its number cannot become another's in between.
    let process = Process::open(earlier.pid)?;
    let mounted = mountpoint::look(&earlier.mountpoint).ok()?;
    if mounted.is_some_and(|mount| mount.is_ours()) {
        return None;
    }
    process.ended_within(limit);
    Some(())
}

/// Copy back what an earlier mount of this cache could not.
fn finish_earlier(
    remote: &Remote,
    store: &Store,
    reporter: &ProgressReporter,
) -> Result<(), Failure> {
    let done = recover(remote, store, &mut |text| reporter.note(&text))?;
    if done == Recovered::default() {
        return Ok(());
    }
    reporter.note(&format!(
        "of an earlier mount: {} copied back, {} kept beside the server's version, {} left",
        done.copied_back, done.conflicts, done.left
    ));
    Ok(())
}

fn serve(
    request: &MountRequest,
    reporter: &ProgressReporter,
    life: &Life,
    (remote, store): (Remote, Store),
    record: &Record,
) -> Result<ExitCode, Failure> {
    let options = Options {
        attribute_time: request.arguments.attribute_time,
        fetch_ahead_from: FETCH_AHEAD_FROM,
        passthrough: !request.arguments.no_passthrough,
        allow_other: request.arguments.allow_other,
        read_only: request.arguments.read_only,
    };
    let remote = Arc::new(remote);
    let mounted = Mounted::new(Arc::clone(&remote), Arc::new(store), options);
    let shared = mounted.shared();
    let process = Serving {
        shared: Arc::downgrade(&shared),
        remote: Arc::downgrade(&remote),
        about: status::about(record, &request.cache),
        place: request.place.clone(),
        cache: request.cache.clone(),
        running: Arc::default(),
    };
    let running = Arc::clone(&process.running);
    let server = socket::serve(&request.cache, process).map_err(|error| {
        failed(
            format!(
                "no socket can be made in {} ({error})",
                request.cache.display()
            ),
            "name another folder with --cache",
        )
    })?;
    let ended = mounted.run(&request.place, || {
        life.mounted();
        let mount = mountpoint::look(&request.place).ok().flatten();
        *locked(&running) = mount.map(|mount| mount.device);
        note(&format!(
            "{} is mounted at {}",
            request.target.shown(),
            request.place.display()
        ));
        reporter.ready();
    });
    life.unmounted();
    *locked(&running) = None;
    let last = shared.report();
    drop(shared);
    remote.close();
    let words = status::answer(&status::about(record, &request.cache), &last);
    let all_is_back = note_end(&request.place, &status::left(&words));
    server.finish(&words);
    ended.map(|()| match all_is_back {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Log the end of a mount, and return whether all is copied back.
fn note_end(place: &Path, left: &[String]) -> bool {
    let place = place.display();
    note(&match left.is_empty() {
        true => format!("{place}: ended, all is copied back"),
        false => format!(
            "{place}: ended, {} not copied back: {}",
            left.len(),
            left.join(", ")
        ),
    });
    left.is_empty()
}

/// What the socket's thread knows of the mount.
struct Serving {
    /// Weak: the cache folder must be free again when `umount` learns that the mount has ended.
    shared: Weak<Shared>,
    remote: Weak<Remote>,
    about: Value,
    place: PathBuf,
    cache: PathBuf,
    /// The device of the mount, from when it is mounted until the kernel has ended it.
    running: Arc<Mutex<Option<String>>>,
}

impl Answers for Serving {
    fn status(&self) -> Value {
        let mut answer = match self.shared.upgrade() {
            Some(shared) => status::answer(&self.about, &shared.present_report()),
            None => self.about.clone(),
        };
        answer["device"] = locked(&self.running).clone().into();
        answer
    }

    fn refresh(&self, path: &Path) -> Value {
        match self.shared.upgrade() {
            Some(shared) => refreshing::answer(shared.refresh_below(path)),
            None => self.about.clone(),
        }
    }

    fn may_end(&self) -> bool {
        let here = mountpoint::look(&self.place).is_ok_and(|mount| mount.is_none());
        let unused = self
            .shared
            .upgrade()
            .is_some_and(|shared| shared.is_unused());
        here && unused && locked(&self.running).is_some()
    }

    fn end(&self, server: socket::Server) {
        let (Some(shared), Some(remote)) = (self.shared.upgrade(), self.remote.upgrade()) else {
            return;
        };
        // Who opened something there in this moment is treated as by a kill, and loses no more: what it has closed is
        // copied back, what it has open for writing is written down as dirty.
        shared.end();
        let last = status::answer(&self.about, &shared.report());
        remote.close();
        if let Some(record) = Record::read(&self.cache) {
            record.unlist(&self.cache);
        }
        note(&format!(
            "{}: ended while another mount namespace had it, and did not use it",
            self.place.display()
        ));
        server.finish(&last);
        std::process::exit(i32::from(!status::left(&last).is_empty()));
    }
}
