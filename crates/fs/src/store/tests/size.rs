//! The limit bounds what is written as well as what is fetched.

use std::path::Path;

use super::super::{CopyId, Store};
use super::{changed, fetched, find, version};

const LIMIT: u64 = 1 << 20;
const BIG: usize = 300 << 10;

/// As a program that writes and closes, and the copying back after it.
fn written(store: &Store, name: &str, bytes: usize) -> CopyId {
    let copy = changed(store, name, &"x".repeat(bytes));
    let id = copy.id();
    store.mark_clean(&copy, version(2), true).unwrap();
    drop(copy);
    id
}

#[test]
fn what_was_written_gives_way_when_it_is_clean_and_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("cache"), "k", LIMIT).unwrap();
    let held = fetched(&store, "held", &"h".repeat(BIG));
    drop(changed(&store, "dirty", &"d".repeat(BIG)));
    for number in 0..20 {
        let id = written(&store, &format!("{number}"), BIG);
        store.trim(Some(id));
        assert!(store.used_bytes() <= LIMIT, "{}", store.used_bytes());
    }
    assert!(find(&store, "19").is_some(), "the last used stays");
    assert!(find(&store, "17").is_none());
    assert!(find(&store, "held").is_some() && find(&store, "dirty").is_some());
    drop(held);
}

#[test]
fn a_copy_that_is_over_the_limit_alone_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("cache"), "k", LIMIT).unwrap();
    written(&store, "small", BIG);
    let id = written(&store, "large", 2 << 20);
    store.trim(Some(id));
    assert!(find(&store, "small").is_some());
    assert!(find(&store, "large").is_none());
}

#[test]
fn copies_that_nobody_waits_for_leave_room_to_those_that_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("cache"), "k", LIMIT).unwrap();
    let ahead = store.make_ahead(LIMIT / 4).unwrap();
    store.make_ahead(1).unwrap_err();
    let opened = store.make(LIMIT / 2).unwrap();
    drop((ahead, opened));
    store.make_ahead(LIMIT / 4).unwrap();
}

#[test]
fn the_reason_names_what_has_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("cache"), "k", LIMIT).unwrap();
    let why = store.why_no_room(2 << 20);
    assert!(
        why.contains("2.0 MiB") && why.contains("--cache-size (1.0 MiB)"),
        "{why}"
    );
    let _held = fetched(&store, "held", &"h".repeat(BIG));
    store.make(LIMIT - 1024).unwrap_err();
    let why = store.why_no_room(LIMIT - 1024);
    assert!(why.contains("not copied back"), "{why}");
    let why = store.why_no_room(1024);
    assert!(why.contains("disk"), "{why}");
    assert!(store.entry(Path::new("held")).unwrap().is_some());
}
