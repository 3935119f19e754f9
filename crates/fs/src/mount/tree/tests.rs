//! The tree alone: no server, no kernel.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use super::*;
use crate::remote::Time;

pub const DAY: Duration = Duration::from_secs(86_400);

pub fn of(kind: Kind, size: u64) -> Attributes {
    Attributes {
        kind,
        size,
        mode: 0o644,
        uid: 1,
        gid: 2,
        atime: Time::whole(3),
        mtime: Time::whole(4),
        more: None,
    }
}

pub fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn enter(tree: &mut Tree, parent: u64, text: &str, attributes: Attributes) -> u64 {
    let mark = tree.mark(parent, name(text));
    tree.enter(parent, name(text), attributes, mark).unwrap()
}

fn tree(keep: Duration) -> (Tree, u64, u64) {
    let mut tree = Tree::new(of(Kind::Folder, 0), keep);
    let folder = enter(&mut tree, ROOT, "d", of(Kind::Folder, 0));
    let file = enter(&mut tree, folder, "f", of(Kind::File, 1));
    (tree, folder, file)
}

#[test]
fn paths_follow_renames_of_what_is_above() {
    let (mut tree, folder, file) = tree(DAY);
    assert_eq!(tree.path(file), Some("d/f".into()));
    assert_eq!(
        tree.moved((ROOT, name("d")), (ROOT, name("e"))),
        (Some(folder), None)
    );
    assert_eq!(tree.path(file), Some("e/f".into()));
    assert_eq!(tree.child(ROOT, name("d")), None);
}

#[test]
fn what_is_renamed_over_loses_its_name() {
    let (mut tree, folder, file) = tree(DAY);
    let other = enter(&mut tree, folder, "g", of(Kind::File, 2));
    tree.looked_up(other);
    assert_eq!(
        tree.moved((folder, name("f")), (folder, name("g"))),
        (Some(file), Some(other))
    );
    assert_eq!(
        (tree.path(file), tree.path(other)),
        (Some("d/g".into()), None)
    );
    tree.forget(other, 1);
    assert!(tree.attributes(other).is_none());
}

#[test]
fn a_number_depends_on_the_path_and_is_never_shared() {
    let (mut tree, folder, file) = tree(DAY);
    tree.looked_up(file);
    tree.removed(folder, name("f"));
    let second = enter(&mut tree, folder, "f", of(Kind::File, 1));
    assert_ne!(second, file);
    tree.forget(file, 1);
    tree.looked_up(second);
    tree.forget(second, 1);
    assert_eq!(enter(&mut tree, folder, "f", of(Kind::File, 1)), file);
}

#[test]
fn what_became_another_kind_is_another_node() {
    let (mut tree, folder, file) = tree(DAY);
    let now = enter(&mut tree, folder, "f", of(Kind::Folder, 0));
    assert_ne!(now, file);
    assert!(tree.file(now).is_none() && tree.path(file).is_none());
}

#[test]
fn what_is_removed_with_its_folder_stays_in_the_tree_only_if_it_is_in_use() {
    let (mut tree, _, file) = tree(DAY);
    let mark = tree.mark(ROOT, name("d"));
    tree.gone(ROOT, name("d"), mark);
    assert!(tree.path(file).is_none());
    assert!(tree.take_displaced().is_empty());
    enter(&mut tree, ROOT, "d", of(Kind::Folder, 0));
    // Nobody has it open: what is made in its place needs no care.
    tree.taken(ROOT, name("d"));
    assert!(tree.take_displaced().is_empty() && tree.child(ROOT, name("d")).is_none());
}

#[test]
fn an_answer_that_an_own_change_overtook_is_refused() {
    let (mut tree, folder, file) = tree(DAY);
    let mark = tree.mark(folder, name("f"));
    tree.became(file, of(Kind::File, 9));
    assert_eq!(tree.enter(folder, name("f"), of(Kind::File, 1), mark), None);
    assert_eq!(tree.attributes(file).unwrap().0.size, 9);
    let changes = tree.changes(file);
    assert!(tree.note(file, of(Kind::File, 10), changes));
    let mark = tree.mark(folder, name("new"));
    tree.made(folder, name("new"), of(Kind::File, 5));
    tree.gone(folder, name("new"), mark);
    assert!(tree.child(folder, name("new")).is_some());
}

#[test]
fn a_listing_answers_for_what_is_not_there_and_follows_own_changes() {
    let (mut tree, folder, _) = tree(DAY);
    assert!(matches!(tree.cached(folder, name("x")), Cached::Unknown));
    let changes = tree.changes(folder);
    assert!(tree.listed(
        folder,
        &[("a".into(), of(Kind::File, 7))],
        (changes, Instant::now())
    ));
    assert!(
        tree.child(folder, name("f")).is_none(),
        "it is not in the listing"
    );
    assert!(matches!(tree.cached(folder, name("x")), Cached::Nothing));
    assert!(matches!(tree.cached(folder, name("a")), Cached::Node(_)));
    tree.made(folder, name("x"), of(Kind::File, 0));
    tree.removed(folder, name("a"));
    assert!(matches!(tree.cached(folder, name("a")), Cached::Nothing));
    let listing = tree.listing(folder).unwrap();
    assert_eq!(
        listing
            .iter()
            .map(|(name, _)| name.to_str().unwrap())
            .collect::<Vec<_>>(),
        ["x"]
    );
    assert!(
        !tree.listed(folder, &[], (changes, Instant::now())),
        "it is older than the own changes"
    );
}

#[test]
fn a_listing_that_comes_late_undoes_nothing_that_was_learned_of_a_name_since() {
    let (mut tree, folder, file) = tree(DAY);
    let (changes, asked) = (tree.changes(folder), Instant::now());
    tree.became(file, of(Kind::File, 9));
    let mark = tree.mark(folder, name("new"));
    let new = tree.enter(folder, name("new"), of(Kind::Folder, 0), mark);
    assert!(tree.listed(folder, &[("f".into(), of(Kind::File, 1))], (changes, asked)));
    assert_eq!(tree.attributes(file).unwrap().0.size, 9);
    assert_eq!(tree.child(folder, name("new")), new);
    let sizes = tree.listing(folder).unwrap();
    assert_eq!(
        sizes.iter().map(|(_, of)| of.size).collect::<Vec<_>>(),
        [9, 0]
    );
    // One that is asked for now is newer.
    assert!(tree.listed(
        folder,
        &[("f".into(), of(Kind::File, 2))],
        (changes, Instant::now())
    ));
    assert_eq!(tree.attributes(file).unwrap().0.size, 2);
    assert_eq!(tree.child(folder, name("new")), None);
}

#[test]
fn nothing_is_believed_without_attribute_time() {
    let (mut tree, folder, file) = tree(Duration::ZERO);
    assert!(matches!(tree.cached(folder, name("f")), Cached::Unknown));
    assert!(tree.attributes(file).unwrap().1.is_zero());
    tree.list_nothing(folder);
    assert!(tree.listing(folder).is_none());
}

#[test]
fn a_linked_file_has_both_names_until_one_is_removed() {
    let (mut tree, folder, file) = tree(DAY);
    tree.looked_up(file);
    tree.linked(file, ROOT, name("g"));
    assert_eq!(tree.paths(file), [Path::new("d/f"), Path::new("g")]);
    tree.removed(folder, name("f"));
    assert_eq!((tree.paths(file), tree.names(file)), (vec!["g".into()], 1));
}

#[test]
fn numbers_of_a_listing_go_with_it_but_not_those_in_use() {
    let (mut tree, folder, file) = tree(DAY);
    tree.looked_up(file);
    let changes = tree.changes(folder);
    let names = [
        ("f".into(), of(Kind::File, 1)),
        ("g".into(), of(Kind::File, 2)),
    ];
    assert!(tree.listed(folder, &names, (changes, Instant::now())));
    let other = tree.number(folder, name("g"), of(Kind::File, 2)).unwrap();
    assert_eq!(
        tree.number(folder, name("f"), of(Kind::File, 1)),
        Some(file)
    );
    let given = tree.number_looked_up(folder, name("f"), of(Kind::File, 1));
    tree.forget(file, 1);
    assert_eq!(
        (given, tree.child(folder, name("f"))),
        (Some(file), Some(file))
    );
    tree.sweep(folder);
    assert!(tree.attributes(other).is_none() && tree.attributes(file).is_some());
    tree.removed(folder, name("g"));
    assert_eq!(
        tree.number(folder, name("g"), of(Kind::File, 2)),
        None,
        "it was removed since"
    );
}
