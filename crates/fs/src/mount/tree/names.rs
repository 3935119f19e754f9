//! Names that come and go: what this mount made, removed, renamed or linked, and what the server says is gone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::remote::{Attributes, Kind};

use super::{Mark, Node, ROOT, Tree};

impl Tree {
    /// This mount made the name (or knows for sure what it is).
    pub fn made(&mut self, parent: u64, name: &OsStr, attributes: Attributes) -> u64 {
        let ino = self.insert(parent, name, attributes);
        self.changed(parent);
        self.changed(ino);
        ino
    }

    /// This mount made a file at `path`, in the folder of the first place of `ino`.
    pub fn made_beside(&mut self, ino: u64, path: &Path, attributes: Attributes) {
        if let Some(name) = path.file_name() {
            self.made(self.parent(ino), name, attributes);
        }
    }

    /// The server has no such name (any more).
    pub fn gone(&mut self, parent: u64, name: &OsStr, mark: Mark) {
        if self.mark(parent, name) == mark {
            self.lose(parent, name);
        }
    }

    /// Takes a name from a node, unless a file is in use there: what was removed elsewhere is copied back under its
    /// name.
    pub(super) fn lose(&mut self, parent: u64, name: &OsStr) {
        if self.child(parent, name).is_some_and(|ino| self.used(ino)) {
            if let Some(listing) = self
                .nodes
                .get_mut(&parent)
                .and_then(|node| node.listing.as_mut())
            {
                listing.names.remove(name);
            }
        } else if let Some(ino) = self.detach(parent, name) {
            self.drop_unused(ino);
        }
    }

    /// This mount removed the name. The node, if one was known; it has lost the place.
    pub fn removed(&mut self, parent: u64, name: &OsStr) -> Option<u64> {
        self.changed(parent);
        let ino = self.detach(parent, name);
        if let Some(ino) = ino {
            self.changed(ino);
            self.names_changed(ino);
            self.drop_unused(ino);
        }
        ino
    }

    /// This mount renamed; what was at the new name has lost it. The numbers of the moved and of the replaced node.
    pub fn moved(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> (Option<u64>, Option<u64>) {
        let listed = self
            .nodes
            .get(&from.0)
            .and_then(|node| node.listing.as_ref());
        let attributes = listed.and_then(|listing| listing.names.get(from.1).copied());
        let ino = self.child(from.0, from.1);
        let replaced = self.removed(to.0, to.1);
        self.detach(from.0, from.1);
        self.changed(from.0);
        if let Some(ino) = ino {
            self.place(ino, to.0, to.1);
            self.changed(ino);
            self.names_changed(ino);
        } else if let Some(attributes) = attributes {
            self.list_one(to.0, to.1, attributes);
        } else if let Some(node) = self.nodes.get_mut(&to.0) {
            // What moved is not known: the listing would lack a name.
            node.listing = None;
        }
        (ino, replaced)
    }

    /// This mount linked the node to one more name.
    pub fn linked(&mut self, ino: u64, parent: u64, name: &OsStr) {
        self.taken(parent, name);
        self.place(ino, parent, name);
        self.changed(ino);
    }

    /// A change of names has changed more of the node than the server said: its time of change and, of several names,
    /// their number.
    pub(super) fn names_changed(&mut self, ino: u64) {
        let known = |node: &Node| node.attributes.more.is_some();
        if self.nodes.get(&ino).is_some_and(known) {
            self.expire(ino);
        }
    }

    /// The node of a name, found or made. What is of another kind than before is another node.
    pub(super) fn insert(&mut self, parent: u64, name: &OsStr, attributes: Attributes) -> u64 {
        if let Some(ino) = self.child(parent, name) {
            if self.nodes[&ino].attributes.kind == attributes.kind {
                self.set(ino, attributes);
                return ino;
            }
            self.displace(parent, name);
        }
        let path = self.path_of(parent, name).unwrap_or_default();
        let ino = self.free_number(&path);
        let file = (attributes.kind == Kind::File).then(Arc::default);
        self.nodes.insert(ino, Node::new(attributes, file));
        self.place(ino, parent, name);
        ino
    }

    pub(super) fn place(&mut self, ino: u64, parent: u64, name: &OsStr) {
        let Some(node) = self.nodes.get_mut(&ino) else {
            return;
        };
        node.places.push((parent, name.to_owned()));
        let attributes = node.attributes;
        self.node(parent, |folder| {
            folder.children.insert(name.to_owned(), ino);
        });
        self.list_one(parent, name, attributes);
    }

    pub(super) fn detach(&mut self, parent: u64, name: &OsStr) -> Option<u64> {
        let folder = self.nodes.get_mut(&parent)?;
        if let Some(listing) = &mut folder.listing {
            listing.names.remove(name);
        }
        let ino = folder.children.remove(name)?;
        self.node(ino, |node| {
            node.places
                .retain(|(of, called)| *of != parent || called != name);
        });
        Some(ino)
    }

    /// A number that depends on the path alone where that one is free: a file keeps it when the kernel has forgotten
    /// the node in between, and programs that compare numbers (git's index) see no change.
    fn free_number(&self, path: &Path) -> u64 {
        let hash = blake3::hash(path.as_os_str().as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        let mut ino = u64::from_le_bytes(bytes) >> 1;
        while ino <= ROOT || self.nodes.contains_key(&ino) {
            ino += 1;
        }
        ino
    }
}
