//! Renames that end, that do not, and that meet what is dirty.

use std::path::Path;

use nix::errno::Errno;

use super::super::Store;
use super::{changed, fetched, find, next_life, open, read};

fn rename(store: &Store, from: &str, to: &str) {
    let rename = store.begin_rename(Path::new(from), Path::new(to)).unwrap();
    store.finish_rename(&rename).unwrap();
}

fn records(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("cache/renames"))
        .unwrap()
        .count()
}

#[test]
fn a_rename_over_a_dirty_file_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    changed(&store, "b", "replaced");
    changed(&store, "a", "new");
    rename(&store, "a", "b");
    for _ in 0..2 {
        assert!(find(&store, "a").is_none());
        assert_eq!(read(&find(&store, "b").unwrap()), "new");
        assert_eq!(store.dirty().len(), 1);
        store = next_life(store, folder.path());
    }
    assert_eq!(records(folder.path()), 0);
}

#[test]
fn a_rename_to_a_link_of_the_same_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let copy = changed(&store, "a", "one");
    store.linked(&copy, Path::new("b")).unwrap();
    rename(&store, "a", "b");
    rename(&store, "a", "a");
    drop(copy);
    let store = next_life(store, folder.path());
    assert_eq!(
        find(&store, "a").unwrap().paths,
        [Path::new("a"), Path::new("b")]
    );
}

#[test]
fn a_rename_without_an_end_is_in_doubt_until_somebody_knows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    changed(&store, "d/a", "dirty");
    changed(&store, "c", "other");
    store.begin_rename(Path::new("d"), Path::new("e")).unwrap();
    store.begin_rename(Path::new("c"), Path::new("f")).unwrap();
    store
        .begin_rename(Path::new("not cached"), Path::new("nor this"))
        .unwrap();
    let store = next_life(store, folder.path());
    let [folder_rename, file_rename] = &store.unresolved_renames()[..] else {
        panic!("two")
    };
    assert!(find(&store, "d/a").is_some() && find(&store, "c").is_some());
    store.finish_rename(folder_rename).unwrap();
    store.cancel_rename(file_rename);
    assert_eq!(
        store.finish_rename(folder_rename),
        Err(Errno::EINVAL),
        "it is finished once"
    );
    let store = next_life(store, folder.path());
    assert_eq!(read(&find(&store, "e/a").unwrap()), "dirty");
    assert_eq!(read(&find(&store, "c").unwrap()), "other");
    assert!(store.unresolved_renames().is_empty() && find(&store, "d/a").is_none());
    assert_eq!(records(folder.path()), 0);
}

#[test]
fn what_became_dirty_while_a_rename_was_in_doubt_is_not_lost_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    changed(&store, "a", "renamed");
    changed(&store, "b", "there before");
    store.begin_rename(Path::new("a"), Path::new("b")).unwrap();
    store.finish_rename(&store.unresolved_renames()[0]).unwrap();
    let mut store = store;
    for _ in 0..2 {
        assert_eq!(read(&find(&store, "b").unwrap()), "renamed");
        let all: Vec<String> = store
            .dirty()
            .iter()
            .map(|id| read(&store.entry_of(*id).unwrap().unwrap()))
            .collect();
        assert_eq!(all, ["renamed", "there before"]);
        store = next_life(store, folder.path());
    }
}

#[test]
fn what_is_dirty_below_a_folder_that_is_replaced_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    changed(&store, "d/a", "moved");
    changed(&store, "e/a", "not on the server yet");
    changed(&store, "e/b", "nor this");
    fetched(&store, "e/c", "clean");
    rename(&store, "d", "e");
    let mut store = store;
    for _ in 0..2 {
        assert_eq!(read(&find(&store, "e/a").unwrap()), "moved");
        assert_eq!(read(&find(&store, "e/b").unwrap()), "nor this");
        assert!(find(&store, "e/c").is_none());
        assert_eq!(store.dirty().len(), 3);
        store = next_life(store, folder.path());
    }
    let aside = store.dirty()[1];
    let entry = store.entry_of(aside).unwrap().unwrap();
    assert_eq!(read(&entry), "not on the server yet");
    rename(&store, "e", "f");
    assert_eq!(
        store.entry_of(aside).unwrap().unwrap().paths,
        [Path::new("f/a")],
        "it follows its folder"
    );
    store
        .mark_clean(&entry.copy, super::version(2), true)
        .unwrap();
    assert!(
        store.entry_of(aside).unwrap().is_none(),
        "clean it has no claim to the name"
    );
    assert_eq!(read(&find(&store, "f/a").unwrap()), "moved");
}

#[test]
fn a_file_opened_while_its_folder_is_renamed_moves_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let begun = store.begin_rename(Path::new("d"), Path::new("e")).unwrap();
    changed(&store, "d/a", "opened meanwhile");
    store.finish_rename(&begun).unwrap();
    let store = next_life(store, folder.path());
    assert_eq!(read(&find(&store, "e/a").unwrap()), "opened meanwhile");
    assert!(find(&store, "d/a").is_none());
}
