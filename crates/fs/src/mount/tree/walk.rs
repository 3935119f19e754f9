//! A program that goes from folder to folder and reads the files of each, as `git status`, `grep -r` and `tar` do.
//!
//! In the next folder it is not waited for what showed in the last: the folder is listed for the first name that is
//! asked for, and its small files are fetched at once. The folder that comes next by name is listed, and its first
//! files are fetched, while the last files of the one before it are read.

use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::time::Instant;

use crate::remote::{Attributes, Kind};

use super::ahead::{FEWEST, MOST};
use super::asked::{REPLY, names_expected};
use super::{TOGETHER, Tree};

/// So many names behind that of a folder are looked at for another one.
const FARTHEST: usize = 1000;

/// A folder of a walk, and when it was reached.
pub(super) struct Walk {
    folder: u64,
    at: Instant,
}

impl Walk {
    fn to(folder: u64) -> Self {
        let at = Instant::now();
        Self { folder, at }
    }
}

impl Tree {
    /// Small files of a folder are being read in sequence.
    pub(super) fn walks_in(&mut self, folder: u64) {
        self.walk = Some(Walk::to(folder));
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
            Some(node) => {
                let listing = node.listing.as_ref();
                let now = listing.is_some_and(|listing| listing.known.elapsed() <= TOGETHER);
                std::mem::take(&mut node.ahead.begins) && now
            }
            None => false,
        };
        if !first {
            return Vec::new();
        }
        // One guess: until files of this folder are read, those of no other are fetched so.
        self.walk = None;
        self.fetch_after(folder, name, MOST)
    }

    /// A file was opened to be read. If no more small files come behind it than were read in sequence: the folder that
    /// comes then, of which the caller lists the names and fetches [`first_of_next`](Self::first_of_next). Once.
    pub fn next_folder(&mut self, ino: u64) -> Option<u64> {
        let (folder, name) = self.first_place(ino)?;
        let run = self.nodes.get(&folder)?.ahead.run;
        if run <= FEWEST || self.keep.is_zero() || !self.is_near_folder(folder, &name, run) {
            return None;
        }
        let (parent, name, attributes) = self.folder_behind(folder, name)?;
        if names_expected(&attributes) > run as u64 * REPLY {
            return None;
        }
        let next = self.number(parent, &name, attributes)?;
        // It may be that nobody comes.
        self.droppable.insert(next);
        if self.comes_next(next) || self.nodes.get(&next)?.asked.refused {
            return None;
        }
        self.next = Some(Walk::to(next));
        Some(next)
    }

    /// The next folder of a walk was listed: its first small files, of which no more are fetched than were read in the
    /// folder before it.
    pub fn first_of_next(&mut self, next: u64) -> Vec<OsString> {
        let read = self
            .walk
            .as_ref()
            .and_then(|walk| Some(self.nodes.get(&walk.folder)?.ahead.run));
        let names = self.fetch_after(next, OsStr::new(""), read.unwrap_or(0).min(MOST));
        self.node(next, |node| node.ahead.begins = true);
        names
    }

    /// Whether a folder was found to come next just now: it is kept until somebody comes, or nobody has.
    pub(super) fn comes_next(&self, ino: u64) -> bool {
        self.next
            .as_ref()
            .is_some_and(|next| next.folder == ino && next.at.elapsed() <= TOGETHER)
    }

    /// Whether a folder or the end comes behind a name after no more files than were read in sequence, nor than are
    /// fetched ahead.
    fn is_near_folder(&self, folder: u64, name: &OsStr, run: usize) -> bool {
        let near = run.min(MOST);
        self.behind(folder, name).is_some_and(|behind| {
            let files = behind.take_while(|(_, of)| of.kind != Kind::Folder);
            files.take(near + 1).count() <= near
        })
    }

    /// The first folder behind a name: in its own folder or, if that has none, behind that, and so on. Not behind many
    /// files.
    fn folder_behind(
        &self,
        mut folder: u64,
        mut name: OsString,
    ) -> Option<(u64, OsString, Attributes)> {
        loop {
            let mut folders = self
                .behind(folder, &name)?
                .take(FARTHEST)
                .filter(|(_, of)| of.kind == Kind::Folder);
            if let Some((name, of)) = folders.next() {
                return Some((folder, name.clone(), *of));
            }
            (folder, name) = self.first_place(folder)?;
        }
    }

    /// What comes behind a name in a listing of any age, by name.
    pub(super) fn behind(
        &self,
        folder: u64,
        name: &OsStr,
    ) -> Option<impl Iterator<Item = (&OsString, &Attributes)> + use<'_>> {
        let listing = self.nodes.get(&folder)?.listing.as_ref()?;
        let after = (Bound::Excluded(name), Bound::Unbounded);
        Some(listing.names.range::<OsStr, _>(after))
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
        assert!(tree.listed(ROOT, &both, (0, Instant::now())));
        let made = ["a", "b"].map(|each| tree.number(ROOT, name(each), folder).unwrap());
        let files: Vec<(OsString, Attributes)> = (0..20)
            .map(|number| (format!("{number:02}").into(), of(Kind::File, 100)))
            .collect();
        assert!(tree.listed(made[0], &files, (0, Instant::now())));
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
        assert!(tree.listed(b, &files, (0, Instant::now())));
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
    fn the_folder_behind_is_told_once_near_the_end_of_the_one_before_it() {
        let (mut tree, [a, b], files) = folders();
        let number = |tree: &mut Tree, at: usize| tree.number(a, &files[at].0, files[at].1);
        for at in 0..19 {
            read(&mut tree, a, &format!("{at:02}"));
            let ino = number(&mut tree, at).unwrap();
            let told = tree.next_folder(ino);
            // Behind the tenth there are as many as were read.
            assert_eq!(told, (at == 9).then_some(b), "{at}");
        }
        assert!(tree.first_of_next(b).is_empty(), "it is not listed yet");
        assert!(tree.listed(b, &files, (0, Instant::now())));
        assert_eq!(tree.first_of_next(b).len(), super::super::ahead::MOST);
        // Who comes there has the rest fetched.
        assert_eq!(tree.first_to_fetch(b, name("00")), ["16"]);
        // Nobody has been given it, and it is kept.
        tree.drop_unused(b);
        assert_eq!(tree.child(ROOT, name("b")), Some(b));
    }

    #[test]
    fn the_folder_behind_is_in_the_same_one_or_in_one_above() {
        let mut tree = Tree::new(of(Kind::Folder, 4096), DAY);
        let folder = of(Kind::Folder, 4096);
        let list = |tree: &mut Tree, at: u64, names: &[(&str, Kind)]| {
            let names: Vec<_> = names
                .iter()
                .map(|(name, kind)| (OsString::from(name), of(*kind, 100)))
                .collect();
            assert!(tree.listed(at, &names, (0, Instant::now())));
        };
        list(&mut tree, ROOT, &[("a", Kind::Folder), ("z", Kind::Folder)]);
        let a = tree.number(ROOT, name("a"), folder).unwrap();
        let names = ["0", "1", "2", "3", "4", "6"].map(|each| (each, Kind::File));
        list(&mut tree, a, &[&names[..], &[("5", Kind::Folder)]].concat());
        for file in ["0", "1", "2"] {
            read(&mut tree, a, file);
        }
        let told = |tree: &mut Tree, file: &str| {
            let ino = tree.number(a, name(file), of(Kind::File, 100)).unwrap();
            let next = tree.next_folder(ino)?;
            Some(tree.path(next).unwrap().into_os_string())
        };
        assert_eq!(told(&mut tree, "2"), Some("a/5".into()));
        assert_eq!(told(&mut tree, "6"), Some("z".into()));
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
