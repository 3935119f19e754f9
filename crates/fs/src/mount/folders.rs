//! Open folders: the listing is taken when reading begins at its start, and stays the same until it begins there again.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};

use fuser::{FileAttr, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use nix::errno::Errno;

use crate::remote::Attributes;

use super::attributes::file_type;
use super::{Shared, locked};

/// What one open description of a folder has listed.
#[derive(Default)]
pub struct Folder {
    names: Mutex<Arc<Vec<(OsString, Attributes)>>>,
}

impl Shared {
    /// Opens a folder; it is listed when it is read.
    pub(super) fn open_folder(&self) -> u64 {
        let number = self.number();
        locked(&self.folders).insert(number, Arc::default());
        number
    }

    /// Closes it. Nodes that were made to number its entries go, unless somebody uses them.
    pub(super) fn release_folder(&self, ino: u64, number: u64) {
        locked(&self.folders).remove(&number);
        self.tree().sweep(ino);
    }

    fn entries(
        &self,
        ino: u64,
        number: u64,
        offset: u64,
    ) -> Result<Arc<Vec<(OsString, Attributes)>>, Errno> {
        let folder = locked(&self.folders)
            .get(&number)
            .cloned()
            .ok_or(Errno::EBADF)?;
        if offset == 0 {
            let names = Arc::new(self.list(ino)?);
            *locked(&folder.names) = names;
        }
        Ok(Arc::clone(&locked(&folder.names)))
    }

    /// Names with number and kind.
    pub(super) fn read_folder(
        &self,
        ino: u64,
        number: u64,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<(), Errno> {
        let names = self.entries(ino, number, offset)?;
        let full = self.dots(ino, offset, |ino, at, name| {
            reply.add(INodeNo(ino), at, FileType::Directory, name)
        });
        if full {
            return Ok(());
        }
        for (at, (name, of)) in rest(&names, offset) {
            let Some(ino) = self.tree().number(ino, name, *of) else {
                continue;
            };
            if reply.add(INodeNo(ino), at, file_type(of.kind), name) {
                break;
            }
        }
        Ok(())
    }

    /// Names with all attributes; each entry that fits counts as looked up.
    pub(super) fn read_folder_plus(
        &self,
        ino: u64,
        number: u64,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Errno> {
        let names = self.entries(ino, number, offset)?;
        let (own, keep) = self.shown(ino)?;
        let full = self.dots(ino, offset, |ino, at, name| {
            let attr = FileAttr {
                ino: INodeNo(ino),
                ..own
            };
            reply.add(attr.ino, at, name, &keep, &attr, Generation(0))
        });
        if full {
            return Ok(());
        }
        for (at, (name, of)) in rest(&names, offset) {
            // Counted before it is shown: what the kernel forgets in between would be missing in the listing.
            let Some(child) = self.tree().number_looked_up(ino, name, *of) else {
                continue;
            };
            let shown = self.shown(child);
            let added = shown.map(|(attr, keep)| {
                let full = reply.add(attr.ino, at, name, &keep, &attr, Generation(0));
                if !full {
                    self.shown_by_name(child, &attr);
                }
                !full
            });
            if added != Ok(true) {
                self.tree().forget(child, 1);
            }
            if added == Ok(false) {
                break;
            }
        }
        Ok(())
    }

    /// `.` and `..`; whether the reply is full.
    fn dots(&self, ino: u64, offset: u64, mut add: impl FnMut(u64, u64, &OsStr) -> bool) -> bool {
        let parent = self.tree().parent(ino);
        let dots = [(ino, "."), (parent, "..")];
        let left = dots
            .iter()
            .zip(1..)
            .skip(usize::try_from(offset).unwrap_or(usize::MAX));
        left.into_iter()
            .any(|((ino, name), at)| add(*ino, at, OsStr::new(name)))
    }
}

/// The entries after `offset`, with the offset that leads behind each; 1 and 2 are those of `.` and `..`.
fn rest(
    names: &[(OsString, Attributes)],
    offset: u64,
) -> impl Iterator<Item = (u64, &(OsString, Attributes))> {
    let skip = usize::try_from(offset.saturating_sub(2)).unwrap_or(usize::MAX);
    names
        .iter()
        .zip(3..)
        .skip(skip)
        .map(|(entry, at)| (at, entry))
}
