//! Small files of a folder that are read in sequence, and those that had better be fetched before they are opened.
//!
//! A program that reads many small files, as `grep -r`, `tar`, `cp -r` and a compiler do, waits two round trips for
//! each: one to open it, one to read it. What was fetched before needs one: its opening asks for the version alone.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::time::Instant;

use crate::remote::{Attributes, Kind};

use super::{TOGETHER, Tree};

/// Bytes of a small file at most: what one read brings.
const SMALL: u64 = 64 << 10;
/// So many files are fetched one by one before others are fetched ahead.
pub(super) const FEWEST: usize = 2;
/// So many are fetched ahead of the last one that was opened at most, and never more than were read before.
pub(super) const MOST: usize = 16;
/// So many names of a folder are remembered at most: then its reading counts as begun anew.
const REMEMBERED: usize = 10_000;

/// Whether it is a file that may be fetched ahead.
pub fn is_small(of: &Attributes) -> bool {
    of.kind == Kind::File && of.size <= SMALL
}

/// What of a folder was fetched since its reading began.
#[derive(Default)]
pub(super) struct Ahead {
    fetched: HashSet<OsString>,
    pub(super) run: usize,
    last: Option<Instant>,
    /// It was listed as the next folder of a walk: its files may be fetched from the first one on.
    pub(super) begins: bool,
}

impl Ahead {
    /// Remember that a name is fetched; false if that is known.
    fn remember(&mut self, name: OsString) -> bool {
        if self.fetched.len() >= REMEMBERED {
            self.fetched.clear();
            self.run = 0;
        }
        self.fetched.insert(name)
    }
}

impl Tree {
    /// A file is fetched.
    pub fn fetched(&mut self, ino: u64) {
        let Some((parent, name)) = self.first_place(ino) else {
            return;
        };
        self.node(parent, |node| {
            node.ahead.remember(name);
        });
    }

    /// A file was opened to be read: the folder and the names in it that had better be fetched now. They are a guess,
    /// for which a listing of any age will do.
    pub fn next_to_fetch(&mut self, ino: u64) -> Option<(u64, Vec<OsString>)> {
        let (parent, name) = self.first_place(ino)?;
        let ahead = &mut self.nodes.get_mut(&parent)?.ahead;
        if ahead.last.is_some_and(|last| last.elapsed() > TOGETHER) {
            ahead.run = 0;
            ahead.fetched.retain(|fetched| *fetched == name);
        }
        if !ahead.fetched.contains(&name) {
            return None;
        }
        (ahead.run, ahead.last) = (ahead.run + 1, Some(Instant::now()));
        let run = ahead.run;
        if run < FEWEST {
            return None;
        }
        self.walks_in(parent);
        Some((parent, self.fetch_after(parent, &name, run.min(MOST))))
    }

    /// Of the names behind this one in a folder that was listed, those of so many small files, without what is fetched
    /// already.
    pub(super) fn fetch_after(&mut self, parent: u64, name: &OsStr, most: usize) -> Vec<OsString> {
        let Some(behind) = self.behind(parent, name) else {
            return Vec::new();
        };
        let small = behind.filter(|(_, of)| is_small(of));
        let mut next: Vec<OsString> = small.take(most).map(|(name, _)| name.clone()).collect();
        self.node(parent, |node| {
            next.retain(|name| node.ahead.remember(name.clone()));
        });
        next
    }

    /// The first folder of a node, and its name there.
    pub fn first_place(&self, ino: u64) -> Option<(u64, OsString)> {
        self.nodes.get(&ino)?.places.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DAY, of};
    use super::super::{ROOT, Tree};
    use super::*;

    /// A folder of 40 files of `size` bytes, and their numbers.
    fn folder(size: u64) -> (Tree, Vec<u64>) {
        let mut tree = Tree::new(of(Kind::Folder, 4096), DAY);
        let names: Vec<(OsString, Attributes)> = (0..40)
            .map(|number| (format!("{number:02}").into(), of(Kind::File, size)))
            .collect();
        assert!(tree.listed(ROOT, &names, (0, Instant::now())));
        let number = |(name, of): &(OsString, Attributes)| tree.number(ROOT, name, *of).unwrap();
        let numbers = names.iter().map(number).collect();
        (tree, numbers)
    }

    /// What is to be fetched once a file was fetched and opened.
    fn read(tree: &mut Tree, ino: u64) -> Vec<String> {
        tree.fetched(ino);
        let names = tree
            .next_to_fetch(ino)
            .map_or(Vec::new(), |(_, names)| names);
        let text = |name: OsString| name.into_string().unwrap();
        names.into_iter().map(text).collect()
    }

    #[test]
    fn the_next_files_are_fetched_ahead_more_and_more_of_them() {
        let (mut tree, files) = folder(100);
        assert!(read(&mut tree, files[0]).is_empty());
        assert_eq!(read(&mut tree, files[1]), ["02", "03"]);
        assert_eq!(read(&mut tree, files[2]), ["04", "05"]);
        let later: Vec<usize> = (3..20).map(|at| read(&mut tree, files[at]).len()).collect();
        assert_eq!(later[..4], [2, 2, 2, 2]);
        assert_eq!(later[14..], [1, 1, 1]);
        assert!(read(&mut tree, files[39]).is_empty());
        // What was cached before says nothing of other files.
        let (mut tree, files) = folder(100);
        read(&mut tree, files[0]);
        assert!(tree.next_to_fetch(files[5]).is_none());
    }

    #[test]
    fn the_names_of_a_large_folder_are_not_remembered_without_end() {
        let mut ahead = Ahead::default();
        let names = (0..3 * REMEMBERED).map(|number| OsString::from(number.to_string()));
        assert!(names.into_iter().all(|name| ahead.remember(name)));
        assert!(ahead.fetched.len() <= REMEMBERED);
    }

    #[test]
    fn large_files_and_those_of_a_folder_that_is_not_listed_are_not_fetched_ahead() {
        let (mut tree, files) = folder(SMALL + 1);
        assert!(files.iter().all(|file| read(&mut tree, *file).is_empty()));
        let mut tree = Tree::new(of(Kind::Folder, 4096), DAY);
        for number in 0..10 {
            let name = OsString::from(number.to_string());
            let file = tree.made(ROOT, &name, of(Kind::File, 100));
            assert!(read(&mut tree, file).is_empty());
        }
    }
}
