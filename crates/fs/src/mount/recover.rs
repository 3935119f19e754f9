//! Finishing the copying back that a kill, a lost connection or a reboot left undone.

mod messages;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;

use crate::errno::errno;
use crate::lease::alone_soon;
use crate::log;
use crate::remote::{Attributes, Kind, Put, PutError, Remote, Stored, Unsettled, Version};
use crate::store::{self, CopyId, Digest, Dirty, Entry, Rename, Store, Temporaries};
use oscope_sys::error::Failure;

use super::beside::{self as aside, beside};
use super::file::{set_times, times};
use super::filling::left_by_filling;
use super::report::shown;
use super::unresolved_rename::was_renamed;
use messages::{explained, line};
pub(super) use messages::{missing_folder, without_folder};

/// How often a file is begun anew: where the connection breaks, or others change what is there meanwhile.
const TRIES: usize = 8;

/// What a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that went back under their names.
    pub copied_back: usize,
    /// Files that went beside theirs, for both sides had changed, or a reboot may have torn them.
    pub conflicts: usize,
    /// Files that are still dirty in the cache: see the message about each.
    pub left: usize,
}

enum Outcome {
    CopiedBack,
    /// The server had it already, or nothing had changed.
    Nothing,
    Conflict(PathBuf),
    /// It went back in place, where an earlier writing in place was cut off; what was there is beside it.
    Repaired(PathBuf),
    /// A program of the dead mount may still write to it.
    Held,
    /// Whether it was renamed is not known: under the wrong one of its names it would be there twice.
    Unresolved,
}

/// Copies back what earlier lives of this cache left dirty. `tell` gets a line for each file for which there is
/// something to say.
///
/// # Errors
/// None so far that would stop it as a whole: what fails for one file is reported and counted in `left`.
pub fn recover(
    remote: &Remote,
    store: &Store,
    tell: &mut dyn FnMut(String),
) -> Result<Recovered, Failure> {
    let mut done = Recovered::default();
    let temporaries = store.temporaries();
    remote.journal(Arc::<Temporaries>::clone(temporaries));
    // First: what of them is not named by now must not be named later, over what is copied back here.
    remote.sweep(&temporaries.earlier());
    for line in store.damaged() {
        tell(line.clone());
    }
    for rename in store.unresolved_renames() {
        if let Err(why) = resolve(remote, store, &rename) {
            done.left += 1;
            let (from, to) = (shown(&rename.from), shown(&rename.to));
            tell(format!(
                "whether {from} was renamed to {to} is not known: {}",
                why.desc()
            ));
        }
    }
    for id in store.dirty() {
        let (path, outcome) = one(remote, store, id);
        match &outcome {
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::CopiedBack | Outcome::Repaired(_)) => done.copied_back += 1,
            Ok(Outcome::Conflict(_)) => done.conflicts += 1,
            Ok(Outcome::Held | Outcome::Unresolved) | Err(_) => done.left += 1,
        }
        if let Some(line) = line(&path, &outcome) {
            match outcome {
                Err(why) => tell(explained(remote, store, id, (&path, why), line)),
                Ok(_) => tell(line),
            }
        }
    }
    // What the server had received before the kill is done by now.
    remote.sweep(&temporaries.earlier());
    Ok(done)
}

/// Tries one of them again while a mount runs; nothing may have it open by the mount meanwhile. What there is to tell.
pub(super) fn again(
    remote: &Remote,
    store: &Store,
    id: CopyId,
) -> (PathBuf, Result<Option<String>, Errno>) {
    let (path, outcome) = one(remote, store, id);
    let answer = match outcome {
        // It would be reported each time.
        Ok(Outcome::Held | Outcome::Unresolved) => Ok(None),
        Err(why) => Err(why),
        done => Ok(line(&path, &done)),
    };
    (path, answer)
}

/// Asks the server whether a rename was done of which no answer came.
fn resolve(remote: &Remote, store: &Store, rename: &Rename) -> Result<(), Errno> {
    if was_renamed(remote, &rename.from, &rename.to)? {
        return store.finish_rename(rename);
    }
    store.cancel_rename(rename);
    Ok(())
}

fn one(remote: &Remote, store: &Store, id: CopyId) -> (PathBuf, Result<Outcome, Errno>) {
    match store.entry_of(id) {
        Err(why) => (PathBuf::new(), Err(why)),
        Ok(None) => (PathBuf::new(), Ok(Outcome::Nothing)),
        Ok(Some(entry)) => {
            let path = entry.path().to_owned();
            let outcome = match entry.dirty.clone() {
                Some(_) if store.is_unresolved(&path) => Ok(Outcome::Unresolved),
                Some(dirty) => finish(remote, store, &entry, dirty),
                None => Ok(Outcome::Nothing),
            };
            (path, outcome)
        }
    }
}

fn finish(
    remote: &Remote,
    store: &Store,
    entry: &Entry,
    mut dirty: Dirty,
) -> Result<Outcome, Errno> {
    // Before the content is looked at: who can write to it then can after.
    let alone = alone_soon(entry.copy.file());
    let digest = store::digest(entry.copy.file()).map_err(errno)?;
    if dirty.digest == Some(digest) || untouched(entry, &dirty) {
        return rest(store, entry, &dirty, digest, alone, Outcome::Nothing);
    }
    let mut torn = dirty.other_boot && dirty.settled != Some(digest);
    let mut outcome = Outcome::CopiedBack;
    for _ in 0..TRIES {
        let path = beside(entry.path(), dirty.beside());
        let answer = match torn {
            // It goes beside whatever is there.
            true => Err(PutError::Conflict(None)),
            false => put(remote, store, entry, (&path, &dirty), digest),
        };
        match answer {
            Ok(Some(stored)) => {
                dirty.base = Some(stored.attributes.version());
                if dirty.beside().is_some() {
                    outcome = Outcome::Conflict(path);
                }
                return rest(store, entry, &dirty, stored.digest, alone, outcome);
            }
            // Cut off: the next try finds what is there.
            Ok(None) => {
                (dirty.sending, dirty.filling) = (Some(sent(remote, entry)?), Some(digest));
                dirty.sent = Some(digest);
            }
            Err(PutError::Errno(why)) => return Err(why),
            Err(PutError::Conflict(Some(there)))
                if ours(remote, entry, (&path, &dirty), &there, digest)? =>
            {
                let known = (dirty.base, dirty.content);
                (dirty.base, dirty.content) = (Some(there.version()), None);
                if known == (dirty.base, dirty.content) {
                    return Err(Errno::EBUSY);
                }
            }
            Err(PutError::Conflict(Some(there)))
                if cut_off(entry, &dirty, &there) && matches!(outcome, Outcome::CopiedBack) =>
            {
                let kept = save_theirs(remote, store, entry, &mut dirty, &there)?;
                outcome = kept.map_or(outcome, Outcome::Repaired);
            }
            // It would be torn off from a program that goes on writing: there would be one more of it each time.
            Err(PutError::Conflict(_)) if !alone => return Ok(Outcome::Held),
            Err(PutError::Conflict(_)) => {
                (dirty, torn) = (aside::divert(remote, store, entry, &dirty)?, false)
            }
        }
    }
    Err(Errno::EIO)
}

/// Puts what is there, after a writing in place that was cut off, beside its name: that name, if it was another's. Then
/// it is what is to be replaced.
fn save_theirs(
    remote: &Remote,
    store: &Store,
    entry: &Entry,
    dirty: &mut Dirty,
    there: &Attributes,
) -> Result<Option<PathBuf>, Errno> {
    let ours = aside::Ours {
        copy: entry.copy.file(),
        sent: dirty.filling,
    };
    let (theirs, kept) = aside::save_theirs(remote, store, entry.path(), there, &ours)?;
    (dirty.base, dirty.content) = (Some(theirs.0), Some(theirs.1));
    Ok(kept)
}

/// Puts a copy that nobody can write to beside its name, whatever the server has there.
pub(super) fn put_beside(remote: &Remote, store: &Store, entry: &Entry) -> Result<PathBuf, Errno> {
    let mut dirty = entry.dirty.clone().ok_or(Errno::ESTALE)?;
    if dirty.beside().is_none() {
        dirty = aside::divert(remote, store, entry, &dirty)?;
    }
    let path = beside(entry.path(), dirty.beside());
    match finish(remote, store, entry, dirty)? {
        Outcome::Conflict(path) => Ok(path),
        Outcome::Held => Err(Errno::EBUSY),
        _ => Ok(path),
    }
}

/// Puts the copy under its name, which is written down before; in place if it has other names: `None` then if it was
/// cut off.
fn put(
    remote: &Remote,
    store: &Store,
    entry: &Entry,
    (path, dirty): (&Path, &Dirty),
    digest: Digest,
) -> Result<Option<Stored>, PutError> {
    let mut order = order(remote, entry, path, dirty.base)?;
    order.unsettled = dirty.content.map(|content| Unsettled {
        read: None,
        content: Some(content),
    });
    let has_links = |now: Attributes| now.more.is_some_and(|more| more.links > 1);
    let is_linked = || remote.is_exact() && remote.lstat(path).is_ok_and(has_links);
    let replaces = dirty.beside().is_some() || (entry.paths.len() == 1 && !is_linked());
    let filling = (!replaces).then_some(digest);
    let noted = store.mark_sending(&entry.copy, sent(remote, entry)?, Some(digest), filling);
    if !replaces {
        noted?;
        return remote.put_in_place(entry.copy.file(), &order);
    }
    if let Err(why) = noted {
        // A full disk must not keep it here; after a kill there may be a needless conflict copy.
        log::note(&format!("cannot write down what is sent: {}", why.desc()));
    }
    remote.put(entry.copy.file(), &order).map(Some)
}

/// The version that a copying back leaves.
fn sent(remote: &Remote, entry: &Entry) -> Result<Version, Errno> {
    Ok(Version {
        size: entry.copy.file().metadata().map_err(errno)?.len(),
        mtime: times(remote, entry.copy.file()).map_err(errno)?.1,
    })
}

/// Whether what is there is of our own making: what was being sent, the beginning of it, or the very same content.
fn ours(
    remote: &Remote,
    entry: &Entry,
    (path, dirty): (&Path, &Dirty),
    there: &Attributes,
    digest: Digest,
) -> Result<bool, Errno> {
    if dirty.sending == Some(there.version()) {
        let sent = match dirty.sent {
            // Its version may be another's change of the same second.
            Some(sent) => remote.digest(path)?.map(|found| found.1 == sent),
            None => Some(true),
        };
        if sent == Some(true) {
            return Ok(true);
        }
    }
    if let Some(sent) = dirty.filling {
        if left_by_filling(remote, path, there, entry.copy.file(), sent)?.is_some() {
            return Ok(true);
        }
    }
    if there.size != entry.copy.file().metadata().map_err(errno)?.len() {
        return Ok(false);
    }
    let found = remote.digest(path)?;
    Ok(found.is_some_and(|(_, found)| found == digest))
}

/// Whether the copy is as it was fetched or made. Its size and time alone would not tell: a program may set that very
/// time after it has written. After a reboot nothing shows it: content may have reached the disk without its times.
fn untouched(entry: &Entry, dirty: &Dirty) -> bool {
    let sent = dirty.sending.is_some() || dirty.filling.is_some() || dirty.digest.is_some();
    let fresh = !sent && dirty.settled.is_none();
    // An emptied copy was never what the server has.
    let size = entry.copy.file().metadata().map(|found| found.len()).ok();
    let as_the_base = dirty.base.is_some_and(|base| size == Some(base.size));
    entry.untouched && fresh && as_the_base && !dirty.other_boot
}

/// Whether what is there may be half of what was being written in place. It may be another's change as well.
fn cut_off(entry: &Entry, dirty: &Dirty, there: &Attributes) -> bool {
    let linked = entry.paths.len() > 1 && dirty.beside().is_none();
    linked && dirty.sending.is_some() && there.kind == Kind::File
}

/// The server has the content as the base: the copy is clean, unless somebody may yet write to it.
fn rest(
    store: &Store,
    entry: &Entry,
    dirty: &Dirty,
    digest: Digest,
    alone: bool,
    outcome: Outcome,
) -> Result<Outcome, Errno> {
    match dirty.base {
        Some(version) if !alone => {
            store.mark_acknowledged(&entry.copy, version, digest)?;
            return Ok(Outcome::Held);
        }
        Some(version) if dirty.beside().is_none() => {
            set_times(entry.copy.file(), (version.mtime, version.mtime))?;
            store.mark_clean(&entry.copy, version, false)?;
        }
        // The server has none, or its name stands for another's file.
        _ => store.forget_copy(entry.copy.id()),
    }
    Ok(outcome)
}

fn order<'a>(
    remote: &Remote,
    entry: &'a Entry,
    path: &'a std::path::Path,
    base: Option<Version>,
) -> Result<Put<'a>, Errno> {
    Ok(Put {
        path,
        like: entry.path(),
        expected: base,
        unsettled: None,
        expect_nothing: base.is_none(),
        mode: entry.kept.mode,
        owner: Some((entry.kept.uid, entry.kept.gid)),
        times: Some(times(remote, entry.copy.file()).map_err(errno)?),
        durable: true,
        changed: None,
    })
}
