//! Names of a folder that the server is asked for one by one, and when it had better be asked for all of them.
//!
//! A program that looks at every file of a folder without listing it, as `git status` does, would wait for an answer
//! for each. A listing brings all attributes in three round trips and one more for every hundred names or so.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::time::Instant;

use nix::errno::Errno;

use crate::remote::Attributes;

use super::{TOGETHER, Tree};

/// So many names are asked for before the folder is listed: for fewer, a listing takes longer.
const FEWEST: u64 = 3;
/// About as many names are in a reply to a listing (OpenSSH: sftp-server.c, process_readdir).
pub(super) const REPLY: u64 = 100;
/// Bytes that a name adds to the size of a folder, at least, on ext4, btrfs and tmpfs. Few are taken: more names are
/// expected then, and the folder is listed later.
const NAME_BYTES: u64 = 24;

/// What the server was asked for in a folder since its last listing.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) names: HashSet<OsString>,
    last: Option<Instant>,
    /// It is being listed for the names that were asked for.
    under_way: bool,
    /// The server does not list it.
    pub(super) refused: bool,
}

/// How many names a folder of these attributes may have.
pub(super) fn names_expected(folder: &Attributes) -> u64 {
    folder.size / NAME_BYTES
}

impl Tree {
    /// The server has to be asked for a name: whether it had better list the folder, which is then
    /// [`listed_ahead`](Self::listed_ahead).
    ///
    /// So for a name after some others, as soon as there are as many of them as the listing will have replies: at most
    /// twice as much is waited for as by asking for each. One listing is under way at a time. In the next folder of a
    /// walk the first name counts for [`FEWEST`].
    pub fn list_ahead(&mut self, parent: u64, name: &OsStr) -> bool {
        if self.keep.is_zero() {
            return false;
        }
        // As if the others had been asked for.
        let before = match self.walks_to(parent) {
            true => FEWEST - 1,
            false => 0,
        };
        let Some(node) = self.nodes.get_mut(&parent) else {
            return false;
        };
        let expected = names_expected(&node.attributes);
        let asked = &mut node.asked;
        if asked.refused || asked.under_way {
            return false;
        }
        if asked.last.is_some_and(|last| last.elapsed() > TOGETHER) {
            asked.names.clear();
        }
        asked.last = Some(Instant::now());
        asked.names.insert(name.to_owned());
        let count = asked.names.len() as u64 + before;
        asked.under_way = count >= FEWEST && count * REPLY >= expected;
        asked.under_way
    }

    /// The listing that was called for has come, or failed: the server refuses it, or is away.
    pub fn listed_ahead(&mut self, parent: u64, failure: Option<Errno>) {
        let refused = failure.is_some_and(|why| why != Errno::EIO);
        let begins = failure.is_none() && self.walks_to(parent);
        self.node(parent, |node| {
            node.ahead.begins = begins;
            node.asked.under_way = false;
            node.asked.refused |= refused;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{DAY, name, of};
    use super::super::{ROOT, Tree};
    use super::*;
    use crate::remote::Kind;

    fn folder(size: u64, keep: Duration) -> Tree {
        Tree::new(of(Kind::Folder, size), keep)
    }

    #[test]
    fn a_folder_is_listed_after_some_names_of_it() {
        let mut tree = folder(4096, DAY);
        let asked = |tree: &mut Tree, text: &str| tree.list_ahead(ROOT, name(text));
        // The same one again and again says nothing of the others.
        assert!((0..10).all(|_| !asked(&mut tree, "a")));
        assert!(!asked(&mut tree, "b"));
        assert!(asked(&mut tree, "c"));
        // While it is listed others ask for themselves.
        assert!(!asked(&mut tree, "d"));
        assert!(tree.listed(ROOT, &[], (0, Instant::now())));
        tree.listed_ahead(ROOT, None);
        assert!(["d", "e"].iter().all(|each| !asked(&mut tree, each)));
        assert!(asked(&mut tree, "f"));
        // A server that is away may list it later.
        tree.listed_ahead(ROOT, Some(Errno::EIO));
        assert!(asked(&mut tree, "f"));
        tree.listed_ahead(ROOT, Some(Errno::EACCES));
        assert!((0..10).all(|number| !asked(&mut tree, &format!("g{number}"))));
    }

    #[test]
    fn a_large_folder_is_listed_once_about_as_many_were_asked_for_as_it_has_replies() {
        let names = 100_000;
        let mut tree = folder(names * 48, DAY);
        let before = (0..names).find(|number| tree.list_ahead(ROOT, name(&number.to_string())));
        assert_eq!(before, Some(2 * names / REPLY - 1));
    }

    #[test]
    fn nothing_is_listed_ahead_that_would_not_be_believed() {
        let mut tree = folder(4096, Duration::ZERO);
        assert!((0..10).all(|number| !tree.list_ahead(ROOT, name(&number.to_string()))));
    }
}
