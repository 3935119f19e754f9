//! What is to come, and what of it is there already.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;

use super::item::Room;
use super::{Item, Kind, Receiver};
use crate::digest::StreamingDigest;
use crate::names::{self, Origin};
use crate::naming;
use crate::options::DigestKind;
use crate::partial::{self, There};
use crate::stop::Stop;
use crate::wire::{Entry, FOLDER, FilePlan, Frame, HARD, KIND, LINK, PART, SPARSE};

/// Files of one transfer at most.
const MOST_FILES: usize = 4 << 20;

/// Bytes of all names of one transfer at most, with those that links lead to.
const MOST_NAMES: usize = 512 << 20;

impl Receiver<'_, '_> {
    /// Hear the names of all files, and check them before anything is made.
    pub(super) fn manifest(&mut self) -> Result<Vec<Item>, Stop> {
        let mut items: Vec<Item> = Vec::new();
        let origin = match self.link.is_sealed() {
            true => Origin::Keyed,
            false => Origin::Plain,
        };
        let (mut names_bytes, mut bytes) = (0_usize, 0_u64);
        loop {
            let count = items.len();
            match self.link.next()? {
                Frame::Entries(entries) => {
                    for entry in entries {
                        names::check(entry.name)
                            .map_err(|reason| Stop::file(entry.name, reason))?;
                        bytes = bytes
                            .checked_add(entry.size)
                            .filter(|&sum| i64::try_from(sum).is_ok())
                            .ok_or_else(|| Stop::file(entry.name, "an impossible size"))?;
                        let Some(kind) = kind(&entry) else {
                            return Err(Stop::file(entry.name, "an impossible kind of file"));
                        };
                        names_bytes += entry.name.len();
                        // Where they lead is kept to the end, too.
                        if matches!(kind, Kind::Link | Kind::Hard) {
                            names_bytes += usize::try_from(entry.size).unwrap_or(usize::MAX);
                        }
                        items.push(Item {
                            kind,
                            name: entry.name.to_vec(),
                            size: entry.size,
                            mode: entry.mode & 0o7777,
                            mtime_ns: entry.mtime_ns,
                            sparse: entry.mode & KIND == SPARSE,
                            plan: FilePlan::Whole,
                            origin,
                            room: Room::Taken,
                        });
                    }
                }
                Frame::EntriesEnd(files) if files == count as u64 => break,
                _ => return Err(self.link.damaged()),
            }
            if items.len() > MOST_FILES || names_bytes > MOST_NAMES {
                return Err(Stop::here("more files than one transfer takes")
                    .with_remedy("send them in several"));
            }
        }
        names::check_together(
            items
                .iter()
                .map(|item| (&item.name[..], item.kind == Kind::Folder)),
        )
        .map_err(|clash| {
            let (name, reason) = clash.explained();
            Stop::refused(name, reason)
        })?;
        self.meter.expect(items.len() as u64, bytes);
        Ok(items)
    }

    /// Find what is there already, and request the rest from the sender.
    pub(super) fn plan(&mut self, items: &mut [Item]) -> Result<(), Stop> {
        let folders: HashSet<_> = items
            .iter()
            .filter(|item| item.kind == Kind::Folder)
            .map(|item| item.name.clone())
            .collect();
        self.dirs.make_private(folders);
        let mut seen = Seen::new();
        for item in &mut *items {
            self.link.alive()?;
            (item.plan, item.room) = self.plan_file(item, &mut seen)?;
        }
        let mut part = Vec::new();
        let mut size = 0;
        for item in items.iter() {
            part.push(item.plan.step());
            size += 72;
            if size >= PART {
                self.link.put(&Frame::Plan(std::mem::take(&mut part)))?;
                size = 0;
            }
        }
        // The sender hears no more of the plan than it has files: an empty part would be taken for what comes next.
        if !part.is_empty() {
            self.link.put(&Frame::Plan(part))?;
        }
        self.link.flush()
    }

    /// What is wanted of a file, and what is in its way.
    fn plan_file(&mut self, item: &Item, seen: &mut Seen) -> Result<(FilePlan, Room), Stop> {
        if item.kind == Kind::Folder {
            self.open_folder(item)?;
            return Ok((FilePlan::Whole, Room::Taken));
        }
        let folder = names::split(&item.name).0;
        self.dirs
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        // A folder made just now has nothing in it.
        if self.dirs.is_fresh(folder) {
            return Ok((FilePlan::Whole, Room::Clear));
        }
        let looks_for_partial = item.kind == Kind::File && self.digest != DigestKind::None;
        self.dirs.calls += 1 + u64::from(looks_for_partial);
        let parent = self
            .dirs
            .folder(folder)
            .map_err(|reason| item.refused(reason))?;
        let (there, own) =
            partial::at_place(parent, &item.entry()).map_err(|reason| item.refused(reason))?;
        if let Some(own) = own.filter(|_| item.kind != Kind::Hard) {
            let name = String::from_utf8_lossy(&item.name).to_lowercase();
            if seen.insert(name, own) == Some(own) {
                return Err(item.refused(naming::taken()));
            }
        }
        let is_free = matches!(there, There::Nothing);
        if item.kind != Kind::File || self.digest == DigestKind::None {
            let room = if is_free { Room::Clear } else { Room::Taken };
            return Ok((FilePlan::Whole, room));
        }
        if let There::Alike(file) = there {
            // Opened, looked at and closed, but no partial was looked for.
            self.dirs.calls += 2;
            let digest = self.digest_of(item, &Arc::new(file))?;
            return Ok((FilePlan::Have(digest), Room::Taken));
        }
        let begun = partial::begun(parent, &item.entry(), item.origin)
            .map_err(|reason| item.refused(reason))?;
        let room = match begun {
            _ if !is_free => Room::Taken,
            None => Room::Clear,
            Some(_) => Room::Free,
        };
        Ok(match begun.unwrap_or(0) {
            0 => (FilePlan::Whole, room),
            at => (FilePlan::From(at), room),
        })
    }

    /// The digest of a file that is there.
    fn digest_of(&mut self, item: &Item, file: &Arc<File>) -> Result<Vec<u8>, Stop> {
        let unread =
            |error: std::io::Error| Stop::system(&item.name, "reading what is there", &error);
        let kind = self.digest.of_what_is_there();
        let mut follower =
            StreamingDigest::start(kind, file, item.size, item.sparse, None).map_err(unread)?;
        follower.reach(item.size).map_err(unread)?;
        let link = &mut *self.link;
        follower.finish(|| link.alive())?.map_err(unread)
    }
}

/// What was found at the places of files, by their names without capitals: device and inode.
type Seen = HashMap<String, (u64, u64)>;

/// What an entry is; `None` if nothing that is sent.
fn kind(entry: &Entry) -> Option<Kind> {
    let is_path = (1..=names::LONGEST as u64).contains(&entry.size);
    match entry.mode & KIND {
        0 => Some(Kind::File),
        SPARSE if entry.size > 0 => Some(Kind::File),
        FOLDER if entry.size == 0 => Some(Kind::Folder),
        LINK if is_path => Some(Kind::Link),
        HARD if is_path => Some(Kind::Hard),
        _ => None,
    }
}
