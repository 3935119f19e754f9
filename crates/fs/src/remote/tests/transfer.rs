//! Whole files there and back.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::names::connected;
use crate::remote::{Attributes, Put, PutError, Remote, Time, Unsettled, Version};
use crate::store;
use crate::testing::{LIMITS, Server, contents, file_of};

pub fn read_all(mut file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

pub fn order(path: &Path) -> Put<'_> {
    Put {
        path,
        like: path,
        expected: None,
        unsettled: None,
        expect_nothing: false,
        mode: 0o640,
        owner: None,
        times: Some((Time::whole(1_111_111_111), Time::whole(1_222_222_222))),
        durable: false,
        changed: None,
    }
}

/// Put by either way, over a connection that lasts.
fn put(
    remote: &Remote,
    from: &File,
    order: &Put<'_>,
    in_place: bool,
) -> Result<Attributes, PutError> {
    let put = match in_place {
        true => remote
            .put_in_place(from, order)
            .map(|put| put.expect("the connection broke")),
        false => remote.put(from, order),
    };
    let stored = put?;
    assert_eq!(stored.digest, store::digest(from).unwrap());
    Ok(stored.attributes)
}

/// Names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const SIZES: [usize; 8] = [0, 1, 4096, 261_119, 261_120, 261_121, 522_240, 9_000_001];

#[test]
fn files_of_all_sizes_are_fetched_whole() {
    let (_server, remote, folder) = connected();
    let into = tempfile::tempfile().unwrap();
    for size in SIZES.into_iter().rev() {
        let bytes = contents(size);
        fs::write(folder.join("x"), &bytes).unwrap();
        let seen = AtomicU64::new(0);
        let watch = |count| {
            seen.store(count, Ordering::Relaxed);
            Ok(())
        };
        let attributes = remote.fetch(Path::new("x"), &into, 0, &watch).unwrap();
        assert_eq!(attributes.size, size as u64);
        assert!(read_all(&into) == bytes, "{size} bytes differ");
        assert_eq!(seen.load(Ordering::Relaxed), size as u64);
        assert_eq!(attributes, remote.lstat(Path::new("x")).unwrap());
    }
}

#[test]
fn files_of_all_sizes_are_put_whole() {
    let (_server, remote, folder) = connected();
    let path = Path::new("x");
    for (durable, in_place) in [(false, false), (true, false), (false, true), (true, true)] {
        for size in SIZES.into_iter().rev() {
            let bytes = contents(size);
            let order = Put {
                durable,
                ..order(path)
            };
            let put = put(&remote, &file_of(&bytes), &order, in_place).unwrap();
            // Before it is read here, which changes its time of access.
            assert_eq!(put, remote.lstat(path).unwrap());
            assert!(
                fs::read(folder.join("x")).unwrap() == bytes,
                "{size} bytes differ"
            );
            let there = fs::metadata(folder.join("x")).unwrap();
            assert_eq!(
                (there.mode() & 0o7777, there.mtime()),
                (0o640, 1_222_222_222)
            );
            assert_eq!(
                put.version(),
                Version {
                    size: size as u64,
                    mtime: Time::whole(1_222_222_222)
                }
            );
            assert_eq!(names(&folder), ["x"]);
        }
    }
}

#[test]
fn a_fetch_ends_when_its_watcher_says_so() {
    let (_server, remote, folder) = connected();
    fs::write(folder.join("x"), contents(9_000_000)).unwrap();
    let into = tempfile::tempfile().unwrap();
    let stop = |count| {
        if count > 1_000_000 {
            Err(Errno::EINTR)
        } else {
            Ok(())
        }
    };
    assert_eq!(
        remote.fetch(Path::new("x"), &into, 0, &stop),
        Err(Errno::EINTR)
    );
    assert_eq!(remote.lstat(Path::new("x")).unwrap().size, 9_000_000);
}

#[test]
fn a_file_that_changes_while_it_is_fetched_is_fetched_anew() {
    let (_server, remote, folder) = connected();
    let file = folder.join("x");
    fs::write(&file, contents(9_000_000)).unwrap();
    let into = tempfile::tempfile().unwrap();
    let changes = AtomicU64::new(0);
    let once = |count| {
        if count > 1_000_000 && changes.fetch_add(1, Ordering::Relaxed) == 0 {
            let new = File::options().append(true).open(&file).unwrap();
            new.write_all_at(b"more", 9_000_000).unwrap();
        }
        Ok(())
    };
    assert_eq!(
        remote.fetch(Path::new("x"), &into, 0, &once).unwrap().size,
        9_000_004
    );
    assert!(read_all(&into) == fs::read(&file).unwrap());
    let always = |_| {
        let new = File::options().append(true).open(&file).unwrap();
        (&new).write_all(b"!").unwrap();
        Ok(())
    };
    assert_eq!(
        remote.fetch(Path::new("x"), &into, 0, &always),
        Err(Errno::EIO)
    );
    let shrink = |_| {
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(3)
            .unwrap();
        Ok(())
    };
    assert_eq!(
        remote
            .fetch(Path::new("x"), &into, 0, &shrink)
            .unwrap()
            .size,
        3
    );
    assert!(read_all(&into) == fs::read(&file).unwrap());
}

#[test]
fn a_put_keeps_another_version() {
    let (_server, remote, folder) = connected();
    let path = Path::new("x");
    let file = file_of(b"ours");
    for in_place in [false, true] {
        let put = |order: &Put<'_>| put(&remote, &file, order, in_place);
        fs::write(folder.join("x"), "theirs").unwrap();
        let there = remote.lstat(path).unwrap();
        let order = order(path);
        let nothing = Put {
            expect_nothing: true,
            ..order
        };
        assert_eq!(put(&nothing), Err(PutError::Conflict(Some(there))));
        for other in [
            Version {
                size: 5,
                ..there.version()
            },
            Version {
                mtime: Time::whole(there.mtime.seconds - 1),
                ..there.version()
            },
        ] {
            let expected = Some(other);
            assert_eq!(
                put(&Put { expected, ..order }),
                Err(PutError::Conflict(Some(there)))
            );
        }
        assert_eq!(fs::read(folder.join("x")).unwrap(), b"theirs");
        assert_eq!(names(&folder), ["x"]);
        let expected = Some(there.version());
        put(&Put { expected, ..order }).unwrap();
        assert_eq!(fs::read(folder.join("x")).unwrap(), b"ours");
        fs::remove_file(folder.join("x")).unwrap();
        put(&Put { expected, ..order }).unwrap();
        fs::remove_file(folder.join("x")).unwrap();
        put(&nothing).unwrap();
        fs::remove_file(folder.join("x")).unwrap();
    }
    symlink("elsewhere", folder.join("x")).unwrap();
    let expected = Some(Version {
        size: 9,
        mtime: Time::whole(0),
    });
    let order = Put {
        expected,
        ..order(path)
    };
    for in_place in [false, true] {
        let put = put(&remote, &file, &order, in_place);
        assert!(matches!(put, Err(PutError::Conflict(Some(_)))));
    }
}

#[test]
fn a_put_keeps_another_content_of_the_same_version() {
    let (_server, remote, folder) = connected();
    let path = Path::new("x");
    let file = file_of(b"ours");
    // One request, and more than the first window of requests.
    for length in [6, 3_000_000] {
        let theirs = contents(length);
        for in_place in [false, true] {
            fs::write(folder.join("x"), &theirs).unwrap();
            let order = |content| Put {
                expected: Some(remote.lstat(path).unwrap().version()),
                unsettled: Some(Unsettled {
                    // It was read in the second in which it was written.
                    read: Some(remote.clock().now()),
                    content,
                }),
                ..order(path)
            };
            let digest = |bytes: &[u8]| store::digest(&file_of(bytes)).unwrap();
            let mut changed = theirs.clone();
            changed[length - 1] ^= 1;
            for unknown in [None, Some(digest(&changed)), Some(digest(b"ours"))] {
                let put = put(&remote, &file, &order(unknown), in_place);
                assert!(matches!(put, Err(PutError::Conflict(Some(_)))), "{put:?}");
                assert!(fs::read(folder.join("x")).unwrap() == theirs);
                assert_eq!(names(&folder), ["x"]);
            }
            put(&remote, &file, &order(Some(digest(&theirs))), in_place).unwrap();
            assert_eq!(fs::read(folder.join("x")).unwrap(), b"ours");
        }
    }
}

#[test]
fn a_put_in_place_keeps_the_other_names() {
    let (_server, remote, folder) = connected();
    fs::write(folder.join("x"), "a longer text").unwrap();
    fs::hard_link(folder.join("x"), folder.join("y")).unwrap();
    let order = order(Path::new("x"));
    put(&remote, &file_of(b"short"), &order, true).unwrap();
    assert_eq!(fs::read(folder.join("y")).unwrap(), b"short");
    symlink("elsewhere", folder.join("link")).unwrap();
    let path = Path::new("link");
    let put = put(&remote, &file_of(b"x"), &Put { path, ..order }, true);
    assert!(matches!(put, Err(PutError::Conflict(Some(_)))));
    assert_eq!(names(&folder), ["link", "x", "y"]);
}

#[test]
fn a_put_that_fails_leaves_nothing() {
    let (_server, remote, folder) = connected();
    fs::create_dir_all(folder.join("folder/inner")).unwrap();
    fs::write(folder.join("file"), "").unwrap();
    let put = |path: &str| {
        remote
            .put(&file_of(b"x"), &order(Path::new(path)))
            .unwrap_err()
    };
    assert_eq!(put("folder"), PutError::Errno(Errno::EISDIR));
    assert_eq!(put("none/x"), PutError::Errno(Errno::ENOENT));
    assert_eq!(put("file/x"), PutError::Errno(Errno::ENOTDIR));
    assert_eq!(put(&"n".repeat(256)), PutError::Errno(Errno::ENAMETOOLONG));
    assert_eq!(names(&folder), ["file", "folder"]);
}

#[test]
fn an_owner_is_given_where_it_may_be() {
    let (_server, remote, folder) = connected();
    let me = nix::unistd::geteuid().as_raw();
    let order = Put {
        owner: Some((4321, 1234)),
        mode: 0o4755,
        ..order(Path::new("x"))
    };
    let put = remote.put(&file_of(b"x"), &order).unwrap().attributes;
    let there = fs::metadata(folder.join("x")).unwrap();
    assert_eq!(
        (there.uid(), there.gid(), there.mode() & 0o7777),
        (put.uid, put.gid, put.mode)
    );
    let expected = if me == 0 {
        (4321, 1234, 0o4755)
    } else {
        (me, put.gid, 0o755)
    };
    assert_eq!((put.uid, put.gid, put.mode), expected);
}

#[test]
fn a_stranger_puts_without_the_owner_and_without_set_id_bits() {
    let Some(user) = crate::testing::unprivileged() else {
        return an_owner_is_given_where_it_may_be();
    };
    let server = Server::new();
    let folder = server.folder("f");
    std::os::unix::fs::chown(&folder, Some(user.uid.as_raw()), None).unwrap();
    let mut target = server.target(&folder);
    target.host = format!("{}@127.0.0.1", user.name);
    let remote = Remote::connect(target, LIMITS).unwrap();
    let order = Put {
        owner: Some((0, 0)),
        mode: 0o6755,
        ..order(Path::new("x"))
    };
    let put = remote.put(&file_of(b"x"), &order).unwrap().attributes;
    assert_eq!((put.uid, put.mode), (user.uid.as_raw(), 0o755));
    assert_eq!(
        fs::metadata(folder.join("x")).unwrap().mode() & 0o7777,
        0o755
    );
}

/// A small file system, unmounted when dropped.
struct Small<'a>(&'a Path);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        umount2(self.0, MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_full_server_is_told_from_a_broken_one() {
    let server = Server::new();
    let folder = server.folder("small");
    let options = Some("size=2m,nr_inodes=4");
    let kind = Some("tmpfs");
    match mount(kind, &folder, kind, MsFlags::MS_NOSUID, options) {
        Err(Errno::EPERM) => return println!("not tried: only root may mount a small file system"),
        mounted => mounted.unwrap(),
    }
    let _small = Small(&folder);
    let remote = Remote::connect(server.target(&folder), LIMITS).unwrap();
    let large = file_of(&contents(5 << 20));
    for in_place in [false, true] {
        assert_eq!(
            put(&remote, &large, &order(Path::new("x")), in_place),
            Err(PutError::Errno(Errno::ENOSPC))
        );
    }
    remote.remove(Path::new("x")).unwrap();
    assert_eq!(names(&folder), [""; 0]);
    for name in ["1", "2", "3"] {
        remote.create(Path::new(name), 0o600).unwrap();
    }
    assert_eq!(remote.create(Path::new("4"), 0o600), Err(Errno::ENOSPC));
    assert_eq!(
        remote.make_folder(Path::new("4"), 0o700),
        Err(Errno::ENOSPC)
    );
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(kind, &folder, kind, flags, None::<&str>).unwrap();
    assert_eq!(remote.remove(Path::new("1")), Err(Errno::EROFS));
    assert_eq!(remote.create(Path::new("4"), 0o600), Err(Errno::EROFS));
    let put = remote.put(&file_of(b""), &order(Path::new("1")));
    assert_eq!(put, Err(PutError::Errno(Errno::EROFS)));
}

#[test]
fn a_file_of_which_a_full_server_took_a_part_is_empty_again() {
    let server = Server::new();
    let folder = server.folder("tiny");
    let kind = Some("tmpfs");
    match mount(kind, &folder, kind, MsFlags::MS_NOSUID, Some("size=64k")) {
        Err(Errno::EPERM) => return println!("not tried: only root may mount a small file system"),
        mounted => mounted.unwrap(),
    }
    let _small = Small(&folder);
    fs::write(folder.join("filler"), contents(56 << 10)).unwrap();
    let path = folder.join("x");
    let date = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::create(&path).unwrap().set_modified(date).unwrap();
    let remote = Remote::connect(server.target(&folder), LIMITS).unwrap();
    let order = Put {
        expected: Some(remote.lstat(Path::new("x")).unwrap().version()),
        ..order(Path::new("x"))
    };
    let refused = put(&remote, &file_of(&contents(20 << 10)), &order, true);
    assert_eq!(refused, Err(PutError::Errno(Errno::ENOSPC)));
    let now = fs::metadata(&path).unwrap();
    assert_eq!((now.len(), now.modified().unwrap()), (0, date));
    fs::remove_file(folder.join("filler")).unwrap();
    put(&remote, &file_of(&contents(20 << 10)), &order, true).unwrap();
    assert!(fs::read(&path).unwrap() == contents(20 << 10));
}

#[test]
fn many_threads_share_one_connection() {
    let (_server, remote, folder) = connected();
    let bytes = contents(1_000_003);
    fs::write(folder.join("x"), &bytes).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (remote, bytes, folder) = (&remote, &bytes, &folder);
            scope.spawn(move || {
                let name = format!("own-{number}");
                for _ in 0..5 {
                    let into = tempfile::tempfile().unwrap();
                    remote.fetch(Path::new("x"), &into, 0, &|_| Ok(())).unwrap();
                    assert!(read_all(&into) == *bytes);
                    remote.put(&into, &order(Path::new(&name))).unwrap();
                    assert!(fs::read(folder.join(&name)).unwrap() == *bytes);
                    assert_eq!(remote.lstat(Path::new("none")), Err(Errno::ENOENT));
                }
            });
        }
    });
}
