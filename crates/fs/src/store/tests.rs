//! Tests of the store on real folders: what it promises, sequences against a model, kills, a full disk.

mod folders;
mod full_disk;
mod kills;
mod model;
mod promises;
mod renames;
mod sequences;
mod size;
mod temporaries;

use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Copy, Entry, Kept, Store};
use crate::remote::{Time, Version};

const LIMIT: u64 = 64 << 20;
const KEPT: Kept = Kept {
    mode: 0o640,
    uid: 1,
    gid: 2,
};

fn open(folder: &Path) -> Store {
    Store::open(&folder.join("cache"), "host:/folder", LIMIT).unwrap()
}

/// Ends this life without a word, as a kill does, and begins the next.
fn next_life(store: Store, folder: &Path) -> Store {
    drop(store);
    open(folder)
}

fn open_in_boot(folder: &Path, boot: &str) -> Store {
    Store::open_in_boot(&folder.join("cache"), "host:/folder", LIMIT, boot.into()).unwrap()
}

fn version(mtime: u32) -> Version {
    Version {
        size: 16,
        mtime: Time::whole(mtime.into()),
    }
}

fn fill(copy: &Copy, content: &str) {
    copy.file().set_len(0).unwrap();
    copy.file().write_all_at(content.as_bytes(), 0).unwrap();
}

fn read(entry: &Entry) -> String {
    let mut bytes = vec![0; entry.copy.file().metadata().unwrap().len() as usize];
    entry.copy.file().read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Caches `name` clean, as a fetch does; the copy is held only if the caller does so.
fn fetched(store: &Store, name: &str, content: &str) -> Copy {
    let copy = store.make(content.len() as u64).unwrap();
    fill(&copy, content);
    store
        .keep(&copy, Path::new(name), version(1), true, KEPT)
        .unwrap();
    copy
}

/// Caches `name` and changes it, as a program that writes does.
fn changed(store: &Store, name: &str, content: &str) -> Copy {
    let copy = fetched(store, name, "as fetched");
    store.mark_dirty(&copy, Some(version(1)), None).unwrap();
    fill(&copy, content);
    copy
}

fn find(store: &Store, name: &str) -> Option<Entry> {
    store.entry(Path::new(name)).unwrap()
}
