//! `oscope-fs umount`: unmount, and wait until the mount's process has copied everything back and ended.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::arguments::Umount;
use super::mountinfo::{self, Mount};
use super::mountpoint::{Outcome, Way, look, take_away};
use super::process::Process;
use super::record::{self, Record};
use super::{Ending, failed, held, place, socket, status};
use crate::log::note;
use crate::mount::shown;
use crate::store::{Store, digest};
use oscope_sys::error::Failure;

/// How long a process may take to end after it was unmounted, before it is asked what keeps it.
const LOOK: Duration = Duration::from_millis(500);

/// How long a process that was killed may take to be gone.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// Unmount.
pub fn run(arguments: &Umount) -> Result<ExitCode, Ending> {
    let at = place::absolute(&arguments.mountpoint)?;
    let cache = record::cache_of(&at)?;
    match look(&at)? {
        Some(mount) if mount.is_dead() => clear(&at, cache.as_deref())?,
        Some(mount) => unmount(&mount, cache.as_deref(), arguments.timeout)?,
        None => return Err(not_mounted(&at, cache.as_deref()).into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The mount of a process that was killed: it is taken away, and what its process had not copied back is named, since
/// nothing does that by itself.
fn clear(at: &Path, cache: Option<&Path>) -> Result<(), Failure> {
    take_away(at, Way::Lazily)?;
    let cleared = format!(
        "{}: the mount of a process that was killed is cleared",
        at.display()
    );
    let known = cache.and_then(|cache| Some((cache, Record::read(cache)?)));
    let Some((cache, record)) = known else {
        return Err(failed(
            format!(
                "{cleared}; whether it had copied back all is not known, since no cache folder of this user says so"
            ),
            "oscope-fs recover; XDG_CACHE_HOME must be as it was for mount",
        ));
    };
    let recover = format!("oscope-fs recover --cache {}", cache.display());
    // It counts as dead a moment before the cache is free.
    if let Some(process) = Process::open(record.pid) {
        process.ended_within(LAST_MOMENT);
    }
    let store = Store::open(cache, &record.target.key(), u64::MAX).map_err(|failure| {
        failed(
            format!("{cleared}; whether it had copied back all cannot be seen ({failure})"),
            recover.as_str(),
        )
    })?;
    let left = not_on_server(&store);
    if left.is_empty() && store.damaged().is_empty() {
        record.unlist(cache);
        note(&cleared);
        return Ok(());
    }
    let what = match left.is_empty() {
        true => store.damaged().join(", "),
        false => status::some_of(&left),
    };
    Err(failed(
        format!(
            "{cleared}; not copied back: {what}; kept in {}",
            cache.display()
        ),
        recover,
    ))
}

/// The names of what may not be on the server. What equals what went back is there, though somebody could yet have
/// written to it.
fn not_on_server(store: &Store) -> Vec<String> {
    let mut left = Vec::new();
    for id in store.dirty() {
        match store.entry_of(id) {
            Ok(Some(entry)) => {
                let sent = entry.dirty.as_ref().and_then(|dirty| dirty.digest);
                if sent.is_none() || digest(entry.copy.file()).ok() != sent {
                    left.push(shown(entry.path()));
                }
            }
            Ok(None) => {}
            Err(why) => left.push(format!("{} ({})", id.name(), why.desc())),
        }
    }
    left
}

/// See that the mount is one of this program and of this user.
fn check_own(mount: &Mount) -> Result<(), Failure> {
    let at = mount.place.as_path();
    if !mount.is_ours() {
        return Err(failed(
            format!(
                "{} is a mount of {} ({}), not of oscope-fs",
                at.display(),
                mount.source,
                mount.kind
            ),
            format!("umount {}", at.display()),
        ));
    }
    let me = nix::unistd::geteuid().as_raw();
    if let Some(user) = mount.user.filter(|user| *user != me) {
        return Err(failed(
            format!(
                "{} is a mount of user {user}, not of user {me}",
                at.display()
            ),
            format!(
                "run it as that user: sudo -u '#{user}' oscope-fs umount {}",
                at.display()
            ),
        ));
    }
    Ok(())
}

fn unmount(mount: &Mount, cache: Option<&Path>, limit: Duration) -> Result<(), Failure> {
    let at = mount.place.as_path();
    check_own(mount)?;
    let until = Instant::now() + limit;
    // Before it is unmounted: its process may end at once then.
    let waiting = cache.and_then(|cache| {
        Some((
            cache,
            socket::await_end(cache).ok()?,
            Process::open(Record::read(cache)?.pid)?,
        ))
    });
    if let Outcome::Busy(words) = take_away(at, Way::Unused)? {
        return Err(busy(at, words.as_deref()));
    }
    let Some((cache, mut end, process)) = waiting else {
        return Err(failed(
            format!(
                "{} is unmounted, but its process does not answer here: whether all is copied back is not known",
                at.display()
            ),
            "oscope-fs status; XDG_CACHE_HOME must be as it was for mount",
        ));
    };
    match last_words(&mut end, mount, cache, until) {
        Ok(Some(words)) => {
            process.ended_within(until.saturating_duration_since(Instant::now()));
            judge(&words, at, cache)
        }
        Ok(None) => Err(under_way(at, cache, limit)),
        Err(error) => Err(failed(
            format!(
                "{} is unmounted, but its process ended without its last words ({error})",
                at.display()
            ),
            format!("oscope-fs recover --cache {}", cache.display()),
        )),
    }
}

/// Waits for the end. A copy of the mount in another mount namespace, which nobody uses, keeps the kernel from ending
/// it: then the process is asked to.
fn last_words(
    end: &mut socket::End,
    mount: &Mount,
    cache: &Path,
    until: Instant,
) -> io::Result<Option<Value>> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let words = end.within(left.min(LOOK).max(Duration::from_millis(1)))?;
        if words.is_some() || Instant::now() >= until {
            return Ok(words);
        }
        let others = mountinfo::elsewhere(&mount.device);
        if socket::end(cache).unwrap_or(false) {
            let whose = match others.is_empty() {
                true => String::new(),
                false => format!(", that of process {},", others.join(", ")),
            };
            note(&format!(
                "{}: another mount namespace{whose} has it too but does not use it; it is ended, and answers ENOTCONN \
                 there",
                mount.place.display()
            ));
        }
    }
}

fn judge(words: &Value, at: &Path, cache: &Path) -> Result<(), Failure> {
    for conflict in status::conflicts(words) {
        note(&conflict);
    }
    let left = status::left(words);
    if left.is_empty() {
        return Ok(());
    }
    let why = status::reason(words)
        .map(|why| format!(" ({why})"))
        .unwrap_or_default();
    Err(failed(
        format!(
            "{} is unmounted; not copied back{why}: {}; kept in {}, from where the next mount copies it back",
            at.display(),
            status::some_of(&left),
            cache.display()
        ),
        format!("oscope-fs recover --cache {}", cache.display()),
    ))
}

fn under_way(at: &Path, cache: &Path, limit: Duration) -> Failure {
    let (why, remedy) = socket::status(cache).map_or_else(
        |error| {
            (
                format!("its process does not answer ({error})"),
                format!("see how far it is: oscope-fs status {}", at.display()),
            )
        },
        |answer| held::reason(&answer, at),
    );
    failed(
        format!(
            "{} is unmounted; after {} s its process still runs, with the cache {}: {why}",
            at.display(),
            limit.as_secs_f64(),
            cache.display()
        ),
        remedy,
    )
}

/// The error of a mount that is used; `words` are those of fusermount3, where it was asked.
fn busy(at: &Path, words: Option<&str>) -> Failure {
    let (users, all) = mountinfo::users_of(at);
    let (who, remedy) = if users.is_empty() {
        let why = match all {
            true => "that this user may not look at",
            false => "that were not found in time",
        };
        (format!("processes {why}"), "close what uses it".to_owned())
    } else {
        (
            users.join(", "),
            "close what they have open there, and leave the folder".to_owned(),
        )
    };
    failed(
        format!(
            "{} is busy and stays mounted: it is used by {who}{}",
            at.display(),
            words.map(|words| format!("; {words}")).unwrap_or_default()
        ),
        remedy,
    )
}

fn not_mounted(at: &Path, cache: Option<&Path>) -> Failure {
    let Some(cache) = cache else {
        return failed(
            format!("{} is not mounted", at.display()),
            "see what is: oscope-fs status",
        );
    };
    if let Ok(answer) = socket::status(cache) {
        let (why, remedy) = held::reason(&answer, at);
        return failed(
            format!(
                "{} is unmounted already; its process goes on: {why}",
                at.display()
            ),
            remedy,
        );
    }
    failed(
        format!("{} is not mounted: its process was killed", at.display()),
        format!("oscope-fs recover --cache {}", cache.display()),
    )
}
