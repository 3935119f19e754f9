//! The names under which files are put: written down while they may be on the server.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::super::Store;
use super::{next_life, open};
use crate::remote::Journal;

fn name(number: usize) -> PathBuf {
    Path::new("a folder").join(format!(".oscope-fs-{number:016x}"))
}

fn earlier(store: &Store) -> Vec<PathBuf> {
    let all = store.temporaries().earlier();
    all.into_iter().map(|left| left.path).collect()
}

#[test]
fn what_began_and_is_not_gone_is_told_to_the_next_life() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..3 {
        store.temporaries().begins(&name(number));
    }
    store.temporaries().gone(&name(1));
    assert!(earlier(&store).is_empty(), "they are of this life");
    let store = next_life(store, folder.path());
    assert_eq!(earlier(&store), [name(0), name(2)]);
    store.temporaries().gone(&name(0));
    store.temporaries().begins(&name(3));
    assert_eq!(earlier(&store), [name(2)]);
    let store = next_life(store, folder.path());
    assert_eq!(earlier(&store), [name(2), name(3)]);
}

#[test]
fn half_a_line_is_none_and_does_not_spoil_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.temporaries().begins(&name(0));
    drop(store);
    let at = folder.path().join("cache/temporaries");
    let mut file = OpenOptions::new().append(true).open(&at).unwrap();
    file.write_all(b"+17 2e6f").unwrap();
    let store = open(folder.path());
    assert_eq!(earlier(&store), [name(0)]);
    store.temporaries().begins(&name(1));
    let store = next_life(store, folder.path());
    assert_eq!(earlier(&store), [name(0), name(1)]);
}

#[test]
fn the_file_does_not_grow_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.temporaries().begins(&name(0));
    for number in 1..3000 {
        store.temporaries().begins(&name(number));
        store.temporaries().gone(&name(number));
    }
    store.temporaries().begins(&name(3000));
    let bytes = fs::metadata(folder.path().join("cache/temporaries"))
        .unwrap()
        .len();
    assert!(bytes < 100_000, "{bytes} bytes");
    let store = next_life(store, folder.path());
    assert_eq!(earlier(&store), [name(0), name(3000)]);
}
