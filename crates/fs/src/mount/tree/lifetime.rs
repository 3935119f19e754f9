//! How long a node lives: as long as the kernel, an open file, a link or a child needs it.

use std::sync::Arc;

use super::{FileNode, ROOT, Tree};

impl Tree {
    /// The kernel was given the node once more.
    pub fn looked_up(&mut self, ino: u64) {
        self.node(ino, |node| node.lookups += 1);
    }

    /// The kernel forgets `count` of what it was given.
    pub fn forget(&mut self, ino: u64, count: u64) {
        self.node(ino, |node| {
            node.lookups = node.lookups.saturating_sub(count)
        });
        self.drop_unused(ino);
    }

    /// The handle by which a folder was listed is closed: nodes that were made for it alone go.
    pub fn sweep(&mut self, ino: u64) {
        let children: Vec<u64> = match self.nodes.get(&ino) {
            Some(node) => node.children.values().copied().collect(),
            None => return,
        };
        children
            .into_iter()
            .for_each(|child| self.drop_unused(child));
    }

    /// Drops a node that neither the kernel nor an open file, a link or a child needs.
    pub fn drop_unused(&mut self, ino: u64) {
        let Some(node) = self.nodes.get(&ino) else {
            return;
        };
        if ino == ROOT || node.lookups > 0 || node.places.len() > 1 {
            return;
        }
        if self.comes_next(ino) {
            self.droppable.insert(ino);
            return;
        }
        let busy = |file: &Arc<FileNode>| Arc::strong_count(file) > 1 || file.in_use();
        if node.file.as_ref().is_some_and(busy) {
            self.droppable.insert(ino);
            return;
        }
        let children: Vec<u64> = node.children.values().copied().collect();
        children
            .into_iter()
            .for_each(|child| self.drop_unused(child));
        let Some(node) = self.nodes.get(&ino).filter(|node| node.children.is_empty()) else {
            return;
        };
        for (parent, name) in node.places.clone() {
            self.node(parent, |folder| {
                folder.children.remove(&name);
            });
            self.droppable.insert(parent);
        }
        self.nodes.remove(&ino);
    }

    /// Drops what was needed when it was to be dropped, and is no longer. To be called now and then: nobody
    /// reports the end of a use.
    pub fn drop_late(&mut self) {
        let nodes = std::mem::take(&mut self.droppable);
        nodes.into_iter().for_each(|ino| self.drop_unused(ino));
    }
}
