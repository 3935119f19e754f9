//! What the folders hold: listings, believed for as long as attributes are.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Instant;

use crate::remote::Attributes;

use super::Tree;

/// What is in a folder, as the server said or as this mount made it.
pub(super) struct Listing {
    pub(super) names: BTreeMap<OsString, Attributes>,
    pub(super) known: Instant,
}

impl Tree {
    /// A listing that may still be shown, as entries of name and attributes.
    pub fn listing(&self, ino: u64) -> Option<Vec<(OsString, Attributes)>> {
        let listing = self.fresh_listing(ino)?;
        Some(
            listing
                .names
                .iter()
                .map(|(name, of)| (name.clone(), *of))
                .collect(),
        )
    }

    /// The server listed the folder, asked at `asked`, when its changes stood at `changes`; false if it changed since.
    /// What was learned of a name since is newer.
    pub fn listed(
        &mut self,
        ino: u64,
        names: &[(OsString, Attributes)],
        (changes, asked): (u64, Instant),
    ) -> bool {
        if self.changes(ino) != changes {
            return false;
        }
        let children: Vec<_> = match self.nodes.get(&ino) {
            Some(node) => node.children.keys().cloned().collect(),
            None => return true,
        };
        let mut names: BTreeMap<_, _> = names.iter().cloned().collect();
        for name in children {
            let child = self.child(ino, &name).and_then(|ino| self.nodes.get(&ino));
            if let Some(newer) = child.filter(|child| child.touched > asked) {
                names.insert(name, newer.attributes);
                continue;
            }
            match names.get(&name) {
                Some(attributes) => {
                    let child = self.insert(ino, &name, *attributes);
                    self.node(child, |node| node.touched = asked);
                }
                None => self.lose(ino, &name),
            }
        }
        self.put_listing(ino, names);
        true
    }

    /// The folder was made by this mount: it is empty.
    pub fn list_nothing(&mut self, ino: u64) {
        self.put_listing(ino, BTreeMap::new());
    }

    /// The number by which a listed name is shown: that of its node, made if there is none, as old as the listing.
    /// `None`: this mount has removed the name since it was listed.
    pub fn number(&mut self, parent: u64, name: &OsStr, attributes: Attributes) -> Option<u64> {
        if let Some(ino) = self.child(parent, name) {
            return Some(ino);
        }
        let known = match &self.nodes.get(&parent)?.listing {
            Some(listing) if listing.names.contains_key(name) => Some(listing.known),
            Some(_) => return None,
            None => Instant::now().checked_sub(self.keep),
        };
        let ino = self.insert(parent, name, attributes);
        self.node(ino, |node| {
            node.known = known.unwrap_or(node.known);
            node.touched = node.known;
        });
        Some(ino)
    }

    /// The same, and the kernel is given the node.
    pub fn number_looked_up(
        &mut self,
        parent: u64,
        name: &OsStr,
        attributes: Attributes,
    ) -> Option<u64> {
        let ino = self.number(parent, name, attributes)?;
        self.looked_up(ino);
        Some(ino)
    }

    fn put_listing(&mut self, ino: u64, names: BTreeMap<OsString, Attributes>) {
        let known = Instant::now();
        self.node(ino, |node| {
            node.listing = Some(Listing { names, known });
            node.asked.names.clear();
        });
    }

    pub(super) fn fresh_listing(&self, ino: u64) -> Option<&Listing> {
        let listing = self.nodes.get(&ino)?.listing.as_ref()?;
        (listing.known.elapsed() < self.keep).then_some(listing)
    }

    pub(super) fn list_one(&mut self, parent: u64, name: &OsStr, attributes: Attributes) {
        if let Some(listing) = self
            .nodes
            .get_mut(&parent)
            .and_then(|node| node.listing.as_mut())
        {
            listing.names.insert(name.to_owned(), attributes);
        }
    }
}
