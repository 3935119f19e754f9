//! What each method promises.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::super::{Kept, Store, digest};
use super::{
    KEPT, LIMIT, changed, fetched, fill, find, next_life, open, open_in_boot, read, version,
};

#[test]
fn a_kept_copy_is_found_in_the_next_life_with_all_that_was_said_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let name = Path::new(std::ffi::OsStr::from_bytes(b"caf\xe9 \n\"\xff/x"));
    let store = open(folder.path());
    let copy = store.make(5).unwrap();
    fill(&copy, "hello");
    store.keep(&copy, name, version(7), false, KEPT).unwrap();
    drop((copy, store));
    let store = open(folder.path());
    let entry = store.entry(name).unwrap().unwrap();
    assert_eq!(
        (entry.path(), entry.version, entry.trusted),
        (name, Some(version(7)), false)
    );
    assert_eq!((entry.kept, entry.dirty.clone()), (KEPT, None));
    assert_eq!(read(&entry), "hello");
    let other = Kept {
        mode: 0o4755,
        ..KEPT
    };
    store.set_kept(&entry.copy, other).unwrap();
    drop((entry, store));
    assert_eq!(
        open(folder.path()).entry(name).unwrap().unwrap().kept,
        other
    );
}

#[test]
fn a_dirty_copy_is_not_fetched_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    changed(&store, "a", "local");
    let copy = store.make(1).unwrap();
    assert_eq!(
        store.keep(&copy, Path::new("a"), version(2), true, KEPT),
        Err(Errno::EBUSY)
    );
    assert_eq!(
        store.keep_dirty(&copy, Path::new("a"), (None, None), KEPT),
        Err(Errno::EBUSY)
    );
    assert_eq!(read(&find(&store, "a").unwrap()), "local");
    store
        .keep(&copy, Path::new("b"), version(2), true, KEPT)
        .unwrap();
    assert_eq!(
        store.keep(&copy, Path::new("c"), version(2), true, KEPT),
        Err(Errno::EINVAL),
        "it has a name"
    );
    let never_kept = store.make(1).unwrap();
    assert_eq!(
        store.mark_dirty(&never_kept, None, None),
        Err(Errno::EINVAL)
    );
}

#[test]
fn a_clean_copy_that_was_written_to_behind_our_back_is_dirty() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let copy = fetched(&store, "a", "as fetched");
    let mut stray = copy.open(OFlag::O_WRONLY | OFlag::O_APPEND).unwrap();
    drop((copy, store));
    let store = open(folder.path());
    assert!(find(&store, "a").unwrap().dirty.is_none());
    stray.write_all(b" and changed").unwrap();
    let copy = store.make(1).unwrap();
    assert_eq!(
        store.keep(&copy, Path::new("a"), version(2), true, KEPT),
        Err(Errno::EBUSY)
    );
    while store.lock().evict_one(None) {}
    let dirty = find(&store, "a").unwrap().dirty.unwrap();
    assert_eq!(dirty.base, Some(version(1)));
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.dirty_paths(), [Path::new("a")]);
    assert_eq!(read(&find(&store, "a").unwrap()), "as fetched and changed");
}

#[test]
fn copying_back_is_written_down_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    changed(&store, "a", "changed");
    store = next_life(store, folder.path());
    let entry = find(&store, "a").unwrap();
    assert_eq!(
        entry
            .dirty
            .as_ref()
            .map(|dirty| (dirty.base, dirty.sending)),
        Some((Some(version(1)), None))
    );
    store
        .mark_sending(&entry.copy, version(5), None, None)
        .unwrap();
    drop(entry);
    store = next_life(store, folder.path());
    let entry = find(&store, "a").unwrap();
    assert_eq!(
        entry.dirty.as_ref().map(|d| (d.base, d.sending)),
        Some((Some(version(1)), Some(version(5))))
    );
    let sent = digest(entry.copy.file()).unwrap();
    store
        .mark_acknowledged(&entry.copy, version(5), sent)
        .unwrap();
    drop(entry);
    store = next_life(store, folder.path());
    let entry = find(&store, "a").unwrap();
    let dirty = entry.dirty.clone().unwrap();
    assert_eq!(
        (dirty.base, dirty.sending, dirty.digest),
        (Some(version(5)), None, Some(sent))
    );
    store
        .mark_dirty(&entry.copy, Some(version(9)), None)
        .unwrap();
    assert_eq!(
        find(&store, "a").unwrap().dirty,
        Some(dirty),
        "dirty already: nothing changes"
    );
    store.mark_clean(&entry.copy, version(5), true).unwrap();
    drop(entry);
    store = next_life(store, folder.path());
    let entry = find(&store, "a").unwrap();
    assert_eq!(
        (entry.dirty.clone(), entry.version, entry.trusted),
        (None, Some(version(5)), true)
    );
    assert!(store.dirty().is_empty());
}

#[test]
fn a_copy_of_an_earlier_boot_is_known_and_what_was_settled_can_be_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_in_boot(folder.path(), "first");
    let (settled, not) = (
        changed(&store, "settled", "whole"),
        changed(&store, "not", "whole?"),
    );
    store.settle(&settled).unwrap();
    store
        .mark_sending(&settled, version(3), None, None)
        .unwrap();
    drop((settled, not, store));
    let store = open_in_boot(folder.path(), "second");
    let of = |name| find(&store, name).unwrap().dirty.unwrap();
    assert!(of("settled").other_boot && of("not").other_boot);
    let content = digest(find(&store, "settled").unwrap().copy.file()).unwrap();
    assert_eq!(
        (of("settled").settled, of("not").settled),
        (Some(content), None)
    );
    store
        .mark_dirty(&find(&store, "not").unwrap().copy, None, None)
        .unwrap();
    assert!(
        of("not").other_boot,
        "to open it again does not make it whole"
    );
}

#[test]
fn a_forgotten_copy_goes_on_working_for_those_who_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let copy = changed(&store, "a", "unlinked");
    store.forget(Path::new("a"));
    assert!(find(&store, "a").is_none() && store.dirty().is_empty() && !copy.path().exists());
    let mut text = String::new();
    copy.open(OFlag::O_RDONLY)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "unlinked");
    store.mark_dirty(&copy, None, None).unwrap();
    store.mark_clean(&copy, version(1), true).unwrap();
    store.linked(&copy, Path::new("b")).unwrap();
    assert!(find(&store, "b").is_none());
    assert!(store.used_bytes() > 0, "its space is still taken");
    drop(copy);
    assert_eq!(store.used_bytes(), 0);
}

#[test]
fn a_linked_copy_lives_until_its_last_name_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let copy = changed(&store, "a", "one file");
    store.linked(&copy, Path::new("b")).unwrap();
    drop((copy, store));
    let store = open(folder.path());
    assert_eq!(
        find(&store, "a").unwrap().copy.id(),
        find(&store, "b").unwrap().copy.id()
    );
    assert_eq!(
        find(&store, "a").unwrap().paths,
        [Path::new("a"), Path::new("b")]
    );
    store.forget(Path::new("a"));
    drop(store);
    let store = open(folder.path());
    assert!(find(&store, "a").is_none());
    assert_eq!(read(&find(&store, "b").unwrap()), "one file");
    assert_eq!(store.dirty().len(), 1);
}

#[test]
fn the_longest_unused_clean_copies_give_way_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let page = "x".repeat(4096);
    let store = Store::open(&folder.path().join("cache"), "k", 6 * 4096).unwrap();
    let held = fetched(&store, "held", &page);
    changed(&store, "dirty", &page);
    for name in ["first", "second", "third"] {
        fetched(&store, name, &page);
    }
    find(&store, "first").unwrap();
    drop(store.make(2 * 4096).unwrap());
    assert!(find(&store, "second").is_none(), "the longest unused went");
    let there =
        |store: &Store| ["held", "dirty", "first", "third"].map(|name| find(store, name).is_some());
    assert_eq!(there(&store), [true; 4]);
    assert_eq!(
        store.make(5 * 4096).err(),
        Some(Errno::ENOSPC),
        "two of six cannot go"
    );
    assert_eq!(there(&store), [true; 4], "what cannot be had costs nothing");
    let big = store.make(4 * 4096).unwrap();
    assert_eq!(there(&store), [true, true, false, false]);
    assert_eq!(
        store.make(1).err(),
        Some(Errno::ENOSPC),
        "what is set aside counts"
    );
    drop(big);
    store.make(1).unwrap();
    drop(held);
}

#[test]
fn the_order_of_use_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for name in ["first", "second", "third"] {
        fetched(&store, name, "x");
        // The file system's clock has ticks of some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    find(&store, "first").unwrap();
    drop(store);
    let store = open(folder.path());
    let mut gone = Vec::new();
    while store.lock().evict_one(None) {
        let left =
            |name: &&str| !store.lock().names.contains_key(Path::new(name)) && !gone.contains(name);
        let next = ["first", "second", "third"]
            .iter()
            .copied()
            .find(|name| left(name))
            .unwrap();
        gone.push(next);
    }
    assert_eq!(gone, ["second", "third", "first"]);
}

#[test]
fn many_threads_use_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..40 {
                    let name = format!("{thread}/{number}");
                    let copy = changed(store, &name, &name);
                    if number % 2 == 0 {
                        store.mark_clean(&copy, version(2), true).unwrap();
                    }
                    drop(store.make(LIMIT / 2 / 8).unwrap());
                }
            });
        }
    });
    assert_eq!(store.dirty().len(), 8 * 20);
    for path in store.dirty_paths() {
        assert_eq!(
            read(&store.entry(&path).unwrap().unwrap()),
            path.to_str().unwrap()
        );
    }
}

#[test]
fn a_copy_that_was_made_ready_is_used_as_any_and_gone_if_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let used = store.make_ready().unwrap();
    fill(&used, "hello");
    store
        .keep_dirty(&used, Path::new("a"), (Some(version(7)), None), KEPT)
        .unwrap();
    let unused = store.make_ready().unwrap();
    std::mem::forget(unused);
    let torn = store.make_ready().unwrap();
    fill(&torn, "without a record");
    let store = next_life(store, folder.path());
    assert_eq!(store.damaged().len(), 1, "{:?}", store.damaged());
    assert_eq!(read(&find(&store, "a").unwrap()), "hello");
    assert!(find(&store, "a").unwrap().dirty.is_some());
    for place in ["copies", "entries", "torn"] {
        let left = std::fs::read_dir(folder.path().join("cache").join(place)).unwrap();
        assert_eq!(left.count(), 1, "{place}");
    }
}
