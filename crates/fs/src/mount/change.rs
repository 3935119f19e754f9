//! setattr: size, mode, owner and times.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{INodeNo, TimeOrNow};
use nix::errno::Errno;

use crate::errno::errno;
use crate::log;
use crate::remote::{Attributes, Change, Time, Version};
use crate::store::{self, Entry};

use super::file::{FileNode, set_times, times};
use super::opening::{Use, kept};
use super::{Handle, Shared};

/// What of a node the kernel wants changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttributes {
    /// Bytes.
    pub size: Option<u64>,
    /// Permissions.
    pub mode: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Time of access.
    pub atime: Option<TimeOrNow>,
    /// Time of modification.
    pub mtime: Option<TimeOrNow>,
}

/// A time was set on the server.
struct Timed {
    /// The version that it had just before, if it has said so.
    before: Option<Version>,
    /// When that was, by [`crate::remote::Clock::now`], or a little earlier.
    asked: i64,
}

impl Shared {
    /// Changes a node; all that is asked for, or what comes before the first that fails.
    pub(super) fn change(
        &self,
        ino: u64,
        handle: Option<u64>,
        request: &SetAttributes,
    ) -> Result<(), Errno> {
        let file = self.tree().file(ino);
        let Some(file) = file else {
            let now = self.tree().attributes(ino).ok_or(Errno::ESTALE)?.0;
            let exact = self.remote.is_exact();
            let change = order(request, &now, (now.atime, now.mtime), exact);
            return self.change_on_server(ino, &change).map(drop);
        };
        if request.size.is_some() && handle.is_none() {
            self.look_up_anew(ino, &file, true)?;
            // One that was closed is no writer that would see to it.
            self.wait_for_release(ino, &file);
        }
        if request.size.is_none() && (request.atime.is_some() || request.mtime.is_some()) {
            self.mapped_pages_out(ino, &file);
        }
        let _gate = file.gate();
        if let Some(size) = request.size {
            let by = handle.and_then(|number| self.handle(number));
            self.resize(ino, &file, size, by.as_ref())?;
        }
        let now = self.tree().attributes(ino).ok_or(Errno::ESTALE)?.0;
        let current = match file.copy() {
            Some(copy) => times(&self.remote, copy.file()).map_err(errno)?,
            None => (now.atime, now.mtime),
        };
        let mut change = order(request, &now, current, self.remote.is_exact());
        if let Some(times) = change.times {
            if self.differs(ino, &file)? {
                // They go along when the content is copied back.
                if let Some(copy) = file.copy() {
                    set_times(copy.file(), times)?;
                }
                change.times = None;
            }
        }
        if file.state().diverted.is_some() {
            return self.change_beside(ino, &file, &change);
        }
        let alone = match change.times {
            Some(times) => self.before_timing(ino, &file, times.1),
            None => true,
        };
        let asked = self.remote.clock().now();
        let before = self.change_on_server(ino, &change)?;
        if let (Some(times), Some(copy), true) =
            (change.times, file.copy(), file.state().journalled)
        {
            set_times(copy.file(), times)?;
        }
        let timed = (change.times.is_some() && alone).then_some(Timed { before, asked });
        self.keep_attributes(ino, &file, timed)
    }

    /// With the gate held: what is written here goes to another name, and so do its attributes; the file of its own
    /// name is another's.
    fn change_beside(&self, ino: u64, file: &FileNode, change: &Change) -> Result<(), Errno> {
        if *change == Change::default() {
            return Ok(());
        }
        let name = self.tree().path(ino).ok_or(Errno::ESTALE)?;
        if self.follow_move(ino, file, &name) || file.state().base.is_none() {
            // It is not there yet.
            self.copy_back(ino, file, false)?;
        }
        let name = self.target(ino, file).ok_or(Errno::ESTALE)?;
        let asked = self.remote.clock().now();
        let (_, now) = self.remote.set(&name, change)?;
        let Some(copy) = file.copy() else {
            return Ok(());
        };
        if let Some(times) = change.times {
            set_times(copy.file(), times)?;
        }
        let acknowledged = {
            let mut state = file.state();
            let before = state.base;
            state.dated(before, now.version());
            state.rebase(Some(now.version()), Some(asked));
            state.acknowledged
        };
        acknowledged.map_or(Ok(()), |digest| {
            self.store.mark_acknowledged(&copy, now.version(), digest)
        })
    }

    /// Without the gate: has the kernel write what was stored through shared mappings of a file that is about to be
    /// given a time. It comes as writes, each of which dates the file, and would come after the new time else
    /// (fuse_do_setattr, fs/fuse/dir.c, does so for a writeback cache alone; that the pages go too is all that the
    /// protocol offers: fuse_reverse_inval_inode, fs/fuse/inode.c). The writes need neither the gate nor this thread.
    fn mapped_pages_out(&self, ino: u64, file: &FileNode) {
        let may_be_mapped = {
            let state = file.state();
            state.writers > 0 && state.backing.is_none()
        };
        if may_be_mapped {
            self.invalidate(
                ino,
                0,
                "what is mapped may be dated later than a program has set",
            );
        }
    }

    /// Has the kernel forget a node's attributes, and its pages from `offset` on; a negative one leaves the pages.
    /// Where it refuses, a note says what follows.
    pub(super) fn invalidate(&self, ino: u64, offset: i64, consequence: &str) {
        let kernel = self.kernel.get();
        if let Some(Err(why)) = kernel.map(|kernel| kernel.inval_inode(INodeNo(ino), offset, 0)) {
            log::note(&format!("{consequence}: {why}"));
        }
    }

    /// With the gate held: the server is about to be given a new time for a file whose content it has. Whether nobody
    /// else changed it, which that time must not hide.
    fn before_timing(&self, ino: u64, file: &FileNode, modification: Time) -> bool {
        let (base, copy) = {
            let state = file.state();
            (state.base, state.copy.clone())
        };
        let (Some(base), Some(copy)) = (base, copy) else {
            return true;
        };
        if self.lstat(ino).map(|now| now.version()) != Ok(base) {
            return false;
        }
        let version = Version {
            mtime: modification,
            ..base
        };
        if let Err(why) = self.store.mark_sending(&copy, version, None, None) {
            log::note(&format!(
                "cannot write down a new time of {}: {}",
                copy.path().display(),
                why.desc()
            ));
        }
        true
    }

    /// With the gate held: the content is cut or grows. By a descriptor that writes it goes back when that is closed;
    /// by name (truncate(2)) at once, as if it was opened and closed for it: who else has it open for writing may be a
    /// mapping, of which no close comes.
    fn resize(
        &self,
        ino: u64,
        file: &FileNode,
        size: u64,
        by: Option<&Handle>,
    ) -> Result<(), Errno> {
        let request = if size == 0 { Use::Empty } else { Use::Write };
        self.bind(ino, file, (request, None))?;
        let copy = file.copy().ok_or(Errno::EIO)?;
        if copy.file().metadata().map_err(errno)?.len() != size {
            copy.file().set_len(size).map_err(errno)?;
            file.wrote();
        }
        if by.is_some_and(|handle| handle.writable) {
            return Ok(());
        }
        let sent = self.copy_back(ino, file, false);
        self.finish(ino, file);
        sent
    }

    /// With the gate held: whether the copy has content that has to be copied back yet, or none that ever will be.
    ///
    /// If not, times may be set. That removes the sign of a write: from then on only the digest of what the server has
    /// shows it.
    fn differs(&self, ino: u64, file: &FileNode) -> Result<bool, Errno> {
        let (copy, journalled, before, acknowledged) = {
            let state = file.state();
            let copy = state.copy.clone();
            (copy, state.journalled, state.noted, state.acknowledged)
        };
        let Some(copy) = copy else {
            return Ok(false);
        };
        if self.tree().path(ino).is_none() {
            return Ok(true);
        }
        let looks = || file.look(&copy).map_err(errno);
        if !journalled {
            return Ok(false);
        }
        let digest = match (before, acknowledged) {
            // A time was set before: the copy's size and times no longer show a change.
            (None, Some(digest)) => {
                if store::digest(copy.file()).map_err(errno)? != digest {
                    return Ok(true);
                }
                digest
            }
            _ if before != Some(looks()?) => return Ok(true),
            (_, Some(digest)) => digest,
            (_, None) => {
                let digest = store::digest(copy.file()).map_err(errno)?;
                if before != Some(looks()?) {
                    return Ok(true);
                }
                digest
            }
        };
        let mut state = file.state();
        (state.noted, state.acknowledged) = (None, Some(digest));
        Ok(false)
    }

    /// The version that the server had just before, if it was asked and has said so.
    fn change_on_server(&self, ino: u64, change: &Change) -> Result<Option<Version>, Errno> {
        if *change == Change::default() {
            return Ok(None);
        }
        loop {
            let Some(path) = self.tree().path(ino) else {
                return self.change_unlinked(ino, change).map(|()| None);
            };
            let answer = self.remote.set(&path, change);
            let mut tree = self.tree();
            if answer == Err(Errno::ENOENT) && tree.path(ino).is_some_and(|now| now != path) {
                continue;
            }
            let (before, now) = answer?;
            tree.became(ino, now);
            return Ok(before.map(|before| before.version()));
        }
    }

    /// A file without a name has its mode and owner here alone.
    fn change_unlinked(&self, ino: u64, change: &Change) -> Result<(), Errno> {
        let mut tree = self.tree();
        let (mut now, _) = tree.attributes(ino).ok_or(Errno::ESTALE)?;
        now.mode = change.mode.unwrap_or(now.mode);
        (now.uid, now.gid) = change.owner.unwrap_or((now.uid, now.gid));
        tree.became(ino, now);
        Ok(())
    }

    /// With the gate held: what is cached of the file follows what this mount changed on the server.
    fn keep_attributes(
        &self,
        ino: u64,
        file: &FileNode,
        timed: Option<Timed>,
    ) -> Result<(), Errno> {
        let (now, path) = {
            let tree = self.tree();
            (tree.attributes(ino).ok_or(Errno::ESTALE)?.0, tree.path(ino))
        };
        let Some(path) = path else {
            return Ok(());
        };
        if let Some(timed) = &timed {
            file.state().dated(timed.before, now.version());
        }
        let entry = self.store.entry(&path)?;
        let Some(copy) = file.copy() else {
            let Some(entry) = entry.filter(|entry| entry.dirty.is_none()) else {
                return Ok(());
            };
            self.store.set_kept(&entry.copy, kept(&now))?;
            let timed = timed.filter(|_| entry.version.is_some_and(|had| had.size == now.size));
            return timed.map_or(Ok(()), |timed| self.dated(&entry, &now, &timed));
        };
        self.store.set_kept(&copy, kept(&now))?;
        let Some(timed) = timed else {
            return Ok(());
        };
        let (journalled, acknowledged) = {
            let mut state = file.state();
            // A time that was set just now shows no more of others' changes than the version before did.
            let hides = state
                .base
                .is_none_or(|base| self.may_hide(base, state.known));
            state.rebase(Some(now.version()), (!hides).then_some(timed.asked));
            if state.journalled {
                state.content = state.content.or(state.acknowledged);
            }
            (state.journalled, state.acknowledged)
        };
        match (journalled, acknowledged) {
            (false, _) => entry
                .filter(|entry| entry.copy.id() == copy.id())
                .map_or(Ok(()), |entry| self.dated(&entry, &now, &timed)),
            (true, Some(digest)) => self.store.mark_acknowledged(&copy, now.version(), digest),
            // No digest of what the server has is known; the journal records its version.
            (true, None) => Ok(()),
        }
    }
}

impl Shared {
    /// With the gate held: a clean copy gets the time that this mount has just set on the server. It may be believed
    /// later if its version was believed and was what the server had just before: else another's change may hide behind
    /// the time that was set.
    fn dated(&self, entry: &Entry, now: &Attributes, timed: &Timed) -> Result<(), Errno> {
        set_times(entry.copy.file(), (now.atime, now.mtime))?;
        let alone = entry.trusted && timed.before.is_some() && timed.before == entry.version;
        let trusted = alone && self.remote.clock().can_trust(now.mtime, timed.asked);
        self.store.mark_clean(&entry.copy, now.version(), trusted)
    }
}

/// What the server is to be asked, given the attributes and times as they are.
fn order(request: &SetAttributes, now: &Attributes, current: (Time, Time), exact: bool) -> Change {
    let owner = (request.uid.is_some() || request.gid.is_some()).then(|| {
        (
            request.uid.unwrap_or(now.uid),
            request.gid.unwrap_or(now.gid),
        )
    });
    let times = (request.atime.is_some() || request.mtime.is_some()).then(|| {
        let or = |time: Option<TimeOrNow>, now| time.map_or(now, |time| moment(time).kept(exact));
        (or(request.atime, current.0), or(request.mtime, current.1))
    });
    Change {
        mode: request.mode.map(|mode| mode & 0o7777),
        owner,
        times,
        size: None,
    }
}

fn moment(time: TimeOrNow) -> Time {
    match time {
        TimeOrNow::SpecificTime(time) => match time.duration_since(UNIX_EPOCH) {
            Ok(_) => time.into(),
            // fuser 0.18 takes the nanoseconds of a time before 1970 off, where the kernel adds them
            // (system_time_from_time, fuser/src/time.rs).
            Err(before) => Time {
                seconds: i64::try_from(before.duration().as_secs())
                    .map_or(i64::MIN, |whole| -whole),
                nanoseconds: before.duration().subsec_nanos(),
            },
        },
        TimeOrNow::Now => SystemTime::now().into(),
    }
}
