//! A program that goes from folder to folder and reads the files of each, as `git status`, `grep -r` and `tar` do.
//!
//! In the next folder it is not waited for what showed in the last: the folder is listed for the first name that is
//! asked for, and its small files are fetched at once.

use std::ffi::{OsStr, OsString};
use std::time::Instant;

use super::{TOGETHER, Tree};

/// The last folder whose small files were read in sequence.
pub(super) struct Walk {
    folder: u64,
    at: Instant,
}

impl Tree {
    /// Small files of a folder are being read in sequence.
    pub(super) fn walks_in(&mut self, folder: u64) {
        let at = Instant::now();
        self.walk = Some(Walk { folder, at });
    }

    /// Whether small files of another folder were read in sequence just now.
    pub(super) fn walks_to(&self, folder: u64) -> bool {
        self.walk
            .as_ref()
            .is_some_and(|walk| walk.folder != folder && walk.at.elapsed() <= TOGETHER)
    }

    /// A name was looked up: if the folder was listed for it, as the next one of those that are read, what had better
    /// be fetched behind it.
    pub fn first_to_fetch(&mut self, folder: u64, name: &OsStr) -> Vec<OsString> {
        let first = match self.nodes.get_mut(&folder) {
            Some(node) => std::mem::take(&mut node.ahead.begins),
            None => false,
        };
        if !first {
            return Vec::new();
        }
        // One guess: until files of this folder are read, those of no other are fetched so.
        self.walk = None;
        self.fetch_after(folder, name, super::ahead::MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DAY, name, of};
    use super::super::{ROOT, Tree};
    use super::*;
    use crate::remote::{Attributes, Kind};

    /// Two folders of 20 small files, of which only the first is listed.
    fn folders() -> (Tree, [u64; 2], Vec<(OsString, Attributes)>) {
        let mut tree = Tree::new(of(Kind::Folder, 4096), DAY);
        let folder = of(Kind::Folder, 4096);
        let both = ["a", "b"].map(|each| (OsString::from(each), folder));
        assert!(tree.listed(ROOT, &both, 0));
        let made = ["a", "b"].map(|each| tree.number(ROOT, name(each), folder).unwrap());
        let files: Vec<(OsString, Attributes)> = (0..20)
            .map(|number| (format!("{number:02}").into(), of(Kind::File, 100)))
            .collect();
        assert!(tree.listed(made[0], &files, 0));
        (tree, made, files)
    }

    fn read(tree: &mut Tree, folder: u64, file: &str) {
        let ino = tree
            .number(folder, name(file), of(Kind::File, 100))
            .unwrap();
        tree.fetched(ino);
        tree.next_to_fetch(ino);
    }

    #[test]
    fn the_next_folder_is_listed_at_its_first_name_and_its_files_are_fetched_at_once() {
        let (mut tree, [a, b], files) = folders();
        read(&mut tree, a, "00");
        assert!(!tree.list_ahead(b, name("00")), "one file is no sequence");
        read(&mut tree, a, "01");
        assert!(tree.list_ahead(b, name("00")));
        assert!(tree.listed(b, &files, 0));
        tree.listed_ahead(b, None);
        let first = tree.first_to_fetch(b, name("00"));
        assert_eq!(first.len(), super::super::ahead::MOST);
        assert_eq!(first[0], "01");
        assert!(tree.first_to_fetch(b, name("00")).is_empty(), "once");
        assert!(!tree.walks_to(ROOT), "b was not read yet");
        // The folder that is read is none that comes next.
        read(&mut tree, b, "00");
        read(&mut tree, b, "01");
        assert!(!tree.list_ahead(b, name("x")));
    }

    #[test]
    fn a_folder_that_was_not_listed_for_it_has_nothing_fetched() {
        let (mut tree, [a, b], _) = folders();
        read(&mut tree, a, "00");
        read(&mut tree, a, "01");
        assert!(tree.first_to_fetch(a, name("02")).is_empty());
        assert!(tree.list_ahead(b, name("00")));
        tree.listed_ahead(b, Some(nix::errno::Errno::EIO));
        assert!(tree.first_to_fetch(b, name("00")).is_empty());
    }
}
