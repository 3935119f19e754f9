//! Nodes whose name something else took while they were in use here: they go on under a name beside it, as conflict
//! copies.
//!
//! On the server the name stands for a folder, a link or a file that was made meanwhile. What is open here has lost
//! nothing by that: its content goes back to the name that it is given here.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::remote::Kind;

use super::super::conflict;
use super::Tree;

/// A name that a node in use has lost, for the store to follow.
pub struct Displaced {
    /// The name.
    pub old: PathBuf,
    /// The one that it has instead; `None`: it has others.
    pub new: Option<PathBuf>,
}

impl Tree {
    /// This mount made something at the name, where the server had nothing (any more).
    pub fn taken(&mut self, parent: u64, name: &OsStr) {
        self.changed(parent);
        if let Some(ino) = self.child(parent, name) {
            self.changed(ino);
            if self.nodes[&ino].attributes.kind == Kind::Folder && self.used(ino) {
                // Made anew, it is the folder that what is open below it goes back to; anything else displaces it.
                return;
            }
            self.displace(parent, name);
            self.drop_unused(ino);
        }
    }

    /// What was displaced since this was last asked.
    pub fn take_displaced(&mut self) -> Vec<Displaced> {
        std::mem::take(&mut self.displaced)
    }

    /// The store could not follow yet.
    pub fn displaced_still(&mut self, one: Displaced) {
        self.displaced.push(one);
    }

    /// The name that a node has lost, if it has. Returned once.
    pub fn displaced_from(&mut self, ino: u64) -> Option<PathBuf> {
        self.nodes.get_mut(&ino)?.displaced_from.take()
    }

    /// Whether the node, or anything below it, is a file in use.
    pub(super) fn used(&self, ino: u64) -> bool {
        let files = self.files_below(ino);
        files.iter().any(|(_, file)| file.in_use())
    }

    /// The name is another's now: takes it from its node, and gives that a name beside it if it is in use and has no
    /// other.
    pub(super) fn displace(&mut self, parent: u64, name: &OsStr) {
        let used = self.child(parent, name).is_some_and(|ino| self.used(ino));
        let old = self.path_of(parent, name);
        let (Some(ino), Some(old), true) = (self.detach(parent, name), old, used) else {
            return;
        };
        self.changed(ino);
        let free = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| self.child(parent, name).is_none())
        };
        let new = match self.paths(ino).is_empty() {
            true => conflict::names(&old).find(free),
            false => None,
        };
        if let Some(name) = new.as_ref().and_then(|path| path.file_name()) {
            self.place(ino, parent, name);
            self.unlist(parent, name);
            let from = old.clone();
            self.node(ino, |node| node.displaced_from = Some(from));
        }
        self.displaced.push(Displaced { old, new });
    }

    /// It is not on the server: a listing shows it when it has been copied back.
    fn unlist(&mut self, parent: u64, name: &OsStr) {
        self.node(parent, |folder| {
            if let Some(listing) = &mut folder.listing {
                listing.names.remove(name);
            }
        });
    }
}
