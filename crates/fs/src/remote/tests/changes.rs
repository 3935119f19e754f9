//! A put of which only what changed is sent.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use nix::errno::Errno;

use super::hostile::Hostile;
use super::transfer::{names, order};
use crate::blocks::Blocks;
use crate::remote::{Attributes, Changed, Put, PutError, Remote, Stored, Version};
use crate::store;
use crate::testing::{LIMITS, Server, contents, file_of};

const PATH: &str = "x";

fn blocks(file: &File) -> Blocks {
    Blocks::of(file).unwrap().unwrap()
}

/// Put `new` where the server should have `old`, and send no more than differs.
fn put(remote: &Remote, expected: Version, old: &File, new: &File) -> Result<Stored, PutError> {
    let (old, new_blocks) = (blocks(old), blocks(new));
    let ranges = new_blocks.changed_since(&old);
    let order = Put {
        expected: Some(expected),
        durable: true,
        changed: Some(Changed {
            ranges: &ranges,
            kept: old.size().min(new_blocks.size()),
            blocks: &new_blocks,
        }),
        ..order(Path::new(PATH))
    };
    remote.put(new, &order)
}

/// The attributes of a file of the server that was written long ago.
fn served(remote: &Remote, folder: &Path, bytes: &[u8]) -> Attributes {
    let path = folder.join(PATH);
    fs::write(&path, bytes).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(long_ago).unwrap();
    remote.lstat(Path::new(PATH)).unwrap()
}

#[test]
fn a_changed_file_is_put_whole_by_servers_that_can_copy_and_by_others() {
    for lines in ["", "Subsystem sftp internal-sftp -P copy-data"] {
        let server = Server::with(lines);
        let folder = server.folder("f");
        let remote = Remote::connect(server.target(&folder), LIMITS).unwrap();
        let can = remote.extensions().copy_data;
        assert_eq!(can, lines.is_empty());
        let old = contents(3_000_000);
        let mut middle = old.clone();
        middle[1_500_000] ^= 1;
        let cut = old[..1_000_001].to_vec();
        let longer = [&old[..], &contents(700_000)].concat();
        for new in [&old, &middle, &cut, &longer] {
            let expected = served(&remote, &folder, &old).version();
            let file = file_of(new);
            let stored = put(&remote, expected, &file_of(&old), &file).unwrap();
            assert!(
                fs::read(folder.join(PATH)).unwrap() == *new,
                "{}",
                new.len()
            );
            assert_eq!(stored.digest, store::digest(&file).unwrap());
            assert_eq!(stored.attributes.size, new.len() as u64);
            assert_eq!(names(&folder), [PATH]);
        }
        // What is the same is not sent: the server has it, or has it no more.
        let expected = served(&remote, &folder, &vec![0; old.len()]).version();
        put(&remote, expected, &file_of(&old), &file_of(&middle)).unwrap();
        let found = fs::read(folder.join(PATH)).unwrap();
        assert_eq!(found[..100] == [0; 100], can);
        assert!(found[1_500_000] == middle[1_500_000]);
    }
}

#[test]
fn a_changed_file_is_not_put_over_another_version() {
    let server = Server::new();
    let folder = server.folder("f");
    let remote = Remote::connect(server.target(&folder), LIMITS).unwrap();
    let old = contents(300_000);
    let new = file_of(&old);
    new.write_all_at(b"x", 5).unwrap();
    let there = served(&remote, &folder, &old[1..]);
    let expected = Version {
        size: old.len() as u64,
        ..there.version()
    };
    let put = put(&remote, expected, &file_of(&old), &new);
    assert_eq!(put, Err(PutError::Conflict(Some(there))));
    assert!(fs::read(folder.join(PATH)).unwrap() == old[1..]);
    assert_eq!(names(&folder), [PATH]);
}

#[test]
fn what_was_opened_is_closed_however_a_copying_fails() {
    let old = file_of(&contents(300_000));
    for fault in [
        "FSTAT=fail",
        "FSTAT=wrong",
        "COPY=fail",
        "COPY=wrong",
        "WRITE=fail",
        "COPY=never",
    ] {
        let hostile = Hostile::new(fault);
        let expected = hostile.remote.lstat(Path::new(PATH)).unwrap().version();
        let new = file_of(&contents(300_000));
        new.write_all_at(b"x", 5).unwrap();
        let failed = put(&hostile.remote, expected, &old, &new).unwrap_err();
        assert!(
            matches!(failed, PutError::Errno(Errno::EIO)),
            "{fault}: {failed:?}"
        );
        if fault != "COPY=never" {
            // That connection is given up, and its handles with it.
            hostile.has_nothing_open();
        }
    }
}
