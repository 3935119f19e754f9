//! A full disk.

use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;

use super::super::Store;
use super::{LIMIT, changed, fetched, find, next_life, open, read, version};
use crate::testing::{fill_up, small_disk};

fn unmount(store: Store, folder: tempfile::TempDir) {
    drop(store);
    nix::mount::umount2(folder.path(), nix::mount::MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn what_cannot_be_written_down_is_refused_and_nothing_is_lost() {
    let folder = small_disk();
    let store = open(folder.path());
    changed(&store, "dirty", "dirty");
    let held = fetched(&store, "held", "held");
    let mut made = store.make(0).unwrap();
    fill_up(folder.path());
    assert_eq!(store.make(1).err(), Some(Errno::ENOSPC));
    assert_eq!(store.make_room(4096), Err(Errno::ENOSPC));
    // A record of a copy that has one needs no space, a new one does.
    let mut kept = 0;
    let refused = loop {
        match store.keep(
            &made,
            Path::new(&format!("new {kept}")),
            version(1),
            true,
            super::KEPT,
        ) {
            Err(error) => break error,
            Ok(()) => kept += 1,
        }
        match store.make(0) {
            Ok(copy) => made = copy,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk is full");
    };
    assert_eq!(refused, Errno::ENOSPC);
    assert_eq!(
        store
            .begin_rename(Path::new("dirty"), Path::new("new name"))
            .err(),
        Some(Errno::ENOSPC)
    );
    store.mark_dirty(&held, Some(version(1)), None).unwrap();
    drop((held, made));
    let store = next_life(store, folder.path());
    assert_eq!(read(&find(&store, "dirty").unwrap()), "dirty");
    assert_eq!(read(&find(&store, "held").unwrap()), "held");
    assert_eq!(store.dirty_paths(), [Path::new("dirty"), Path::new("held")]);
    assert!(store.damaged().is_empty(), "{:?}", store.damaged());
    unmount(store, folder);
}

#[test]
fn a_full_disk_does_not_keep_what_is_dirty_from_becoming_clean() {
    let folder = small_disk();
    let store = open(folder.path());
    let long = format!("{}/{}", "n".repeat(250), "m".repeat(250));
    changed(&store, "d/a", "first");
    let copy = changed(&store, "d/b", "second");
    let begun = store
        .begin_rename(Path::new("d"), Path::new(&long))
        .unwrap();
    fill_up(folder.path());
    store.finish_rename(&begun).unwrap();
    store.mark_sending(&copy, version(3), None, None).unwrap();
    store.settle(&copy).unwrap();
    store.mark_acknowledged(&copy, version(3), [7; 16]).unwrap();
    store.mark_clean(&copy, version(3), true).unwrap();
    drop(copy);
    let store = next_life(store, folder.path());
    assert_eq!(read(&find(&store, &format!("{long}/a")).unwrap()), "first");
    let clean = find(&store, &format!("{long}/b")).unwrap();
    assert_eq!(
        (read(&clean), clean.dirty, clean.version),
        ("second".into(), None, Some(version(3)))
    );
    assert!(store.damaged().is_empty(), "{:?}", store.damaged());
    unmount(store, folder);
}

#[test]
fn clean_copies_give_way_to_new_ones_when_the_disk_is_full() {
    let folder = small_disk();
    let store = Store::open(&folder.path().join("cache"), "k", LIMIT).unwrap();
    let content = "x".repeat(100 << 10);
    for number in 0..40 {
        fetched(&store, &format!("{number}"), &content);
        if number % 10 == 0 {
            changed(&store, &format!("dirty {number}"), "small");
        }
    }
    assert_eq!(read(&find(&store, "39").unwrap()), content);
    assert!(find(&store, "1").is_none());
    assert_eq!(store.dirty().len(), 4);
    // A write into a copy meets the end of the disk, then has room made for it.
    let copy = changed(&store, "growing", "");
    let mut offset = 0;
    let refused = loop {
        match copy.file().write_all_at(&[2; 4096], offset) {
            Ok(()) => offset += 4096,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.raw_os_error(), Some(Errno::ENOSPC as i32));
    store.make_room(200 << 10).unwrap();
    copy.file().write_all_at(&[2; 200 << 10], offset).unwrap();
    assert_eq!(store.dirty().len(), 5);
    unmount(store, folder);
}
