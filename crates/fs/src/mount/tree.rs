//! The nodes that the kernel knows, their names, and what is cached of their attributes and listings.
//!
//! Pure memory: nothing in here asks the server or the disk. One lock (`Core::tree`) covers it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::remote::{Attributes, Kind};

use super::file::FileNode;

mod ahead;
mod asked;
mod displaced;
mod lifetime;
mod listing;
mod names;
mod walk;

use ahead::Ahead;
pub use ahead::is_small;
use asked::Asked;
pub use displaced::Displaced;
use listing::Listing;
use walk::Walk;

/// What was asked for or read longer ago belongs to other work.
const TOGETHER: Duration = Duration::from_secs(5);

/// Bytes of a name that every common file system takes (NAME_MAX, linux/limits.h).
const ORDINARY_NAME: usize = 255;

/// The number of the mount's own folder.
pub const ROOT: u64 = 1;

/// All nodes. A file or folder is found by its parent and name; a file that was linked here has several places.
pub struct Tree {
    nodes: HashMap<u64, Node>,
    keep: Duration,
    displaced: Vec<Displaced>,
    /// The last folder whose small files were read in sequence.
    walk: Option<Walk>,
    /// The folder that comes next by name, while the last files before it are read.
    next: Option<Walk>,
    /// Nodes that may be dropped now: files that were in use when they were to be, and folders that lost a child so.
    droppable: HashSet<u64>,
}

struct Node {
    places: Vec<(u64, OsString)>,
    children: HashMap<OsString, u64>,
    lookups: u64,
    attributes: Attributes,
    known: Instant,
    /// When the server said anything of it, or this mount changed it: a listing that was asked for before is older.
    touched: Instant,
    /// Counts this mount's own changes, so that an answer that was asked before one of them is not believed after it.
    changes: u64,
    listing: Option<Listing>,
    asked: Asked,
    ahead: Ahead,
    file: Option<Arc<FileNode>>,
    /// The name that was taken from it, until its content is beside that.
    displaced_from: Option<PathBuf>,
}

/// Where the counts of own changes stood when the server was asked; see [`Tree::enter`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64, u64);

/// What the tree can say of a name without the server.
pub enum Cached {
    /// A node with attributes that may still be shown.
    Node(u64),
    /// The folder's listing is fresh and has no such name.
    Nothing,
    /// The server has to be asked.
    Unknown,
}

impl Tree {
    /// A tree of one folder with these attributes, that trusts the server's answers for the time `keep`.
    pub fn new(root: Attributes, keep: Duration) -> Self {
        let mut node = Node::new(root, None);
        node.lookups = 1;
        Self {
            nodes: HashMap::from([(ROOT, node)]),
            keep,
            displaced: Vec::new(),
            walk: None,
            next: None,
            droppable: HashSet::new(),
        }
    }

    /// The first path of a node, relative to the target's folder; `None` once it has no name left.
    pub fn path(&self, ino: u64) -> Option<PathBuf> {
        self.paths(ino).into_iter().next()
    }

    /// All paths of a node; none once it has no name left.
    pub fn paths(&self, ino: u64) -> Vec<PathBuf> {
        if ino == ROOT {
            return vec![PathBuf::new()];
        }
        let Some(node) = self.nodes.get(&ino) else {
            return Vec::new();
        };
        let whole = |place: &(u64, OsString)| self.path(place.0).map(|path| path.join(&place.1));
        node.places.iter().filter_map(whole).collect()
    }

    /// The path of a name in a folder.
    pub fn path_of(&self, parent: u64, name: &OsStr) -> Option<PathBuf> {
        self.path(parent).map(|path| path.join(name))
    }

    /// The parent's number of the first place (the root is its own parent).
    pub fn parent(&self, ino: u64) -> u64 {
        self.nodes
            .get(&ino)
            .and_then(|node| node.places.first())
            .map_or(ROOT, |place| place.0)
    }

    /// The node of a name, if one is known.
    pub fn child(&self, parent: u64, name: &OsStr) -> Option<u64> {
        self.nodes.get(&parent)?.children.get(name).copied()
    }

    /// What can be said of a name without asking; makes the node if only the listing has it.
    pub fn cached(&mut self, parent: u64, name: &OsStr) -> Cached {
        if let Some(ino) = self.child(parent, name) {
            let node = &self.nodes[&ino];
            let fresh = node.known.elapsed() < self.keep;
            return if fresh {
                Cached::Node(ino)
            } else {
                Cached::Unknown
            };
        }
        let Some(listing) = self.fresh_listing(parent) else {
            return Cached::Unknown;
        };
        let known = listing.known;
        match listing.names.get(name).copied() {
            // Such a name may be too long, which only the server can say: in a listing it looks like one that is not
            // there.
            None if name.len() > ORDINARY_NAME => Cached::Unknown,
            None => Cached::Nothing,
            Some(attributes) => {
                let ino = self.insert(parent, name, attributes);
                self.node(ino, |node| (node.known, node.touched) = (known, known));
                Cached::Node(ino)
            }
        }
    }

    /// Taken before the server is asked about a name; given back to [`Tree::enter`] with its answer.
    pub fn mark(&self, parent: u64, name: &OsStr) -> Mark {
        let changes = |ino: u64| self.nodes.get(&ino).map_or(0, |node| node.changes);
        Mark(changes(parent), self.child(parent, name).map_or(0, changes))
    }

    /// The server said this of a name. `None` if this mount changed the folder or the node since `mark`: ask again.
    pub fn enter(
        &mut self,
        parent: u64,
        name: &OsStr,
        attributes: Attributes,
        mark: Mark,
    ) -> Option<u64> {
        (self.mark(parent, name) == mark).then(|| self.insert(parent, name, attributes))
    }

    /// The attributes, with the time for which the kernel may believe them; `None` for an unknown node.
    pub fn attributes(&self, ino: u64) -> Option<(Attributes, Duration)> {
        let node = self.nodes.get(&ino)?;
        Some((
            node.attributes,
            self.keep.saturating_sub(node.known.elapsed()),
        ))
    }

    /// How often this mount changed the node.
    pub fn changes(&self, ino: u64) -> u64 {
        self.nodes.get(&ino).map_or(0, |node| node.changes)
    }

    /// The server said this of a node, asked when its changes stood at `changes`; false if it changed since.
    pub fn note(&mut self, ino: u64, attributes: Attributes, changes: u64) -> bool {
        let same = self.changes(ino) == changes;
        if same {
            self.set(ino, attributes);
        }
        same
    }

    /// This mount made it so.
    pub fn became(&mut self, ino: u64, attributes: Attributes) {
        self.set(ino, attributes);
        self.changed(ino);
    }

    /// A change of this mount's own has made the folder at `path` so. An answer that is older than what is known says
    /// that it was changed since: then the server is asked when it is looked at.
    pub fn folder_became(&mut self, path: &Path, attributes: Attributes) {
        let Some(ino) = self.at(path) else { return };
        let Some(node) = self.nodes.get(&ino) else {
            return;
        };
        let changed = |of: &Attributes| of.more.map_or(of.mtime, |more| more.ctime);
        let newer = changed(&attributes) >= changed(&node.attributes);
        if attributes.kind == Kind::Folder && newer {
            self.set(ino, attributes);
        } else {
            self.expire(ino);
        }
        self.changed(ino);
    }

    /// The node of a path, if it is known.
    fn at(&self, path: &Path) -> Option<u64> {
        path.iter()
            .try_fold(ROOT, |parent, name| self.child(parent, name))
    }

    /// What is known of the node is no longer so: the server is asked when it is looked at.
    fn expire(&mut self, ino: u64) {
        let past = Instant::now().checked_sub(self.keep);
        self.node(ino, |node| node.known = past.unwrap_or(node.known));
    }

    /// Nothing is known any more of the node at `path` and of all below it: their numbers, and which of them are files
    /// in use.
    pub fn expire_below(&mut self, path: &Path) -> Vec<(u64, bool)> {
        let below = self.at(path).map_or_else(Vec::new, |ino| self.below(ino));
        for ino in &below {
            self.node(*ino, |node| node.listing = None);
            self.expire(*ino);
            // An answer that is on its way says what was before.
            self.changed(*ino);
        }
        let in_use = |ino: u64| self.file(ino).is_some_and(|file| file.in_use());
        below.into_iter().map(|ino| (ino, in_use(ino))).collect()
    }

    /// A node and all that is known below it.
    fn below(&self, ino: u64) -> Vec<u64> {
        let (mut left, mut found) = (vec![ino], Vec::new());
        while let Some(ino) = left.pop() {
            if let Some(node) = self.nodes.get(&ino) {
                left.extend(node.children.values());
                found.push(ino);
            }
        }
        found
    }

    /// What the node has as a file; `None` for what is no file.
    pub fn file(&self, ino: u64) -> Option<Arc<FileNode>> {
        self.nodes.get(&ino)?.file.clone()
    }

    /// Number of names by which this mount knows the node.
    pub fn names(&self, ino: u64) -> usize {
        self.nodes.get(&ino).map_or(0, |node| node.places.len())
    }

    /// Files in and below a node, in order of number (the order in which their gates may be taken).
    pub fn files_below(&self, ino: u64) -> Vec<(u64, Arc<FileNode>)> {
        // A folder has one place, but a file several.
        let numbers = BTreeSet::from_iter(self.below(ino));
        let file = |ino| Some((ino, self.file(ino)?));
        numbers.into_iter().filter_map(file).collect()
    }

    /// Every file node, for what has to look at all of them.
    pub fn files(&self) -> Vec<(u64, Arc<FileNode>)> {
        let file = |(ino, node): (&u64, &Node)| Some((*ino, node.file.clone()?));
        self.nodes.iter().filter_map(file).collect()
    }

    fn node(&mut self, ino: u64, act: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            act(node);
        }
    }

    fn changed(&mut self, ino: u64) {
        self.node(ino, |node| {
            node.changes += 1;
            node.touched = Instant::now();
        });
    }

    /// Whether a node is of this kind: it never becomes another.
    pub fn is_of_kind(&self, ino: u64, kind: Kind) -> bool {
        self.nodes
            .get(&ino)
            .is_some_and(|node| node.attributes.kind == kind)
    }

    /// The attributes of what is of another kind are another node's: the server is asked when the name is looked up.
    fn set(&mut self, ino: u64, attributes: Attributes) {
        if !self.is_of_kind(ino, attributes.kind) {
            return self.expire(ino);
        }
        let Some(node) = self.nodes.get_mut(&ino) else {
            return;
        };
        let now = Instant::now();
        (node.attributes, node.known, node.touched) = (attributes, now, now);
        for (parent, name) in node.places.clone() {
            self.list_one(parent, &name, attributes);
        }
    }
}

impl Node {
    fn new(attributes: Attributes, file: Option<Arc<FileNode>>) -> Self {
        Self {
            places: Vec::new(),
            children: HashMap::new(),
            lookups: 0,
            attributes,
            known: Instant::now(),
            touched: Instant::now(),
            changes: 0,
            listing: None,
            asked: Asked::default(),
            ahead: Ahead::default(),
            file,
            displaced_from: None,
        }
    }
}

#[cfg(test)]
mod tests;
