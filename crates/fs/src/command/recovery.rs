//! `oscope-fs recover`: copy back what mounts that were killed, or cut off from their server, could not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::arguments::Recover;
use super::record::{self, Record};
use super::{Ending, failed, held, mountpoint, place, socket, ssh};
use crate::log::{self, note};
use crate::mount::{Recovered, recover};
use crate::remote::{Limits, Remote, Target};
use crate::store::Store;
use oscope_sys::error::Failure;

/// A cache folder and the server that it is of.
struct Job {
    cache: PathBuf,
    target: Target,
    limits: Limits,
}

/// Recover what is named, or all caches of this user.
pub fn run(arguments: &Recover) -> Result<ExitCode, Ending> {
    if let Some(text) = &arguments.target {
        let target = ssh::target(text, &arguments.ssh).map_err(Ending::Wrong)?;
        let cache = match &arguments.cache {
            Some(cache) => place::absolute(cache)?,
            None => place::cache_of(&target.key())?,
        };
        return one(&Job {
            cache,
            target,
            limits: ssh::limits(arguments.ssh.timeout),
        });
    }
    let named = &arguments.ssh;
    if named.port.is_some() || named.config.is_some() || !named.options.is_empty() {
        return Err(Ending::Wrong(failed(
            "-p, -F and -o are options of a target",
            "name the target too: [USER@]HOST:DIR",
        )));
    }
    if let Some(cache) = &arguments.cache {
        let cache = place::absolute(cache)?;
        return one(&recorded(cache)?);
    }
    all()
}

fn one(job: &Job) -> Result<ExitCode, Ending> {
    if !job.cache.is_dir() {
        return Err(failed(
            format!(
                "there is no cache folder {}: nothing was mounted with it",
                job.cache.display()
            ),
            "name the folder with --cache, or the target as it was for mount",
        )
        .into());
    }
    Ok(code(work(job)?.left == 0))
}

/// One that fails does not keep the others from being recovered.
fn all() -> Result<ExitCode, Ending> {
    let caches = record::all_caches()?;
    if caches.is_empty() {
        note(&format!(
            "nothing to recover: there is no cache in {}",
            place::caches()?.display()
        ));
    }
    let mut well = true;
    for cache in caches {
        if let Ok(status) = socket::status(&cache) {
            note(&format!(
                "{}: in use by process {}, which copies back itself",
                cache.display(),
                status["pid"]
            ));
            continue;
        }
        match recorded(cache).and_then(|job| work(&job)) {
            Ok(done) => well &= done.left == 0,
            Err(failure) => {
                note(&failure.explained());
                well = false;
            }
        }
    }
    Ok(code(well))
}

fn recorded(cache: PathBuf) -> Result<Job, Failure> {
    let Some(record) = Record::read(&cache) else {
        return Err(failed(
            format!(
                "{} is no cache folder that says what was mounted",
                cache.display()
            ),
            "name the target as well: oscope-fs recover [USER@]HOST:DIR --cache DIR",
        ));
    };
    Ok(Job {
        cache,
        limits: ssh::limits(record.timeout),
        target: record.target,
    })
}

fn work(job: &Job) -> Result<Recovered, Failure> {
    let store = Store::open(&job.cache, &job.target.key(), u64::MAX)
        .map_err(|failure| held::in_use(&job.cache).unwrap_or(failure))?;
    // Without anything to do, the server need not be there.
    let nothing = store.dirty().is_empty()
        && store.unresolved_renames().is_empty()
        && store.temporaries().earlier().is_empty()
        && store.damaged().is_empty();
    let done = if nothing {
        Recovered::default()
    } else {
        let remote = Remote::connect(job.target.clone(), job.limits)?;
        if let Err(error) = log::open(&job.cache, true) {
            note(&format!(
                "the log in {} cannot be written ({error})",
                job.cache.display()
            ));
        }
        recover(&remote, &store, &mut |text| note(&text))?
    };
    unlist(&job.cache);
    note(&format!(
        "{}: {} copied back, {} kept beside the server's version, {} left",
        job.target.shown(),
        done.copied_back,
        done.conflicts,
        done.left
    ));
    log::close();
    Ok(done)
}

/// The mount that was killed is no longer on the list; where it still stands, dead, it is until `umount` clears it,
/// which needs its cache.
fn unlist(cache: &Path) {
    if let Some(record) = Record::read(cache) {
        let found = mountpoint::look(&record.mountpoint);
        if !found.is_ok_and(|mount| mount.is_some_and(|mount| mount.is_dead())) {
            record.unlist(cache);
        }
    }
}

fn code(well: bool) -> ExitCode {
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
