//! Names, folders, links, attributes, and the errors that they give.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::remote::{Change, Kind, Remote, Time};
use crate::testing::{LIMITS, Server};

/// A server with an empty folder, a connection to it, and the folder.
pub fn connected() -> (Server, Remote, PathBuf) {
    let server = Server::new();
    let folder = server.folder("f");
    let remote = Remote::connect(server.target(&folder), LIMITS).unwrap();
    (server, remote, folder)
}

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn names_of_any_bytes_are_kept() {
    let (_server, remote, folder) = connected();
    let all: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let names: Vec<OsString> = all
        .chunks(100)
        .map(|bytes| OsString::from_vec(bytes.to_vec()))
        .chain([
            OsString::from("-rf"),
            OsString::from(" "),
            OsString::from("*"),
            OsString::from("..."),
        ])
        .collect();
    for name in &names {
        remote.create(Path::new(name), 0o644).unwrap();
        assert!(folder.join(name).is_file());
    }
    let mut listed: Vec<OsString> = remote
        .list(path(""))
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    listed.sort();
    let mut names = names;
    names.sort();
    assert_eq!(listed, names);
    let link = Path::new(OsStr::from_bytes(b"l\xfe"));
    let text = Path::new(OsStr::from_bytes(b"../\xff \n"));
    remote.make_link(text, link).unwrap();
    assert_eq!(remote.read_link(link).unwrap(), text);
    assert_eq!(fs::read_link(folder.join(link)).unwrap(), text);
}

#[test]
fn a_large_folder_is_listed_whole() {
    let (_server, remote, folder) = connected();
    for number in 0..2500 {
        fs::write(
            folder.join(format!("file-{number}")),
            vec![b'x'; number % 7],
        )
        .unwrap();
    }
    let mut listed = remote.list(path("")).unwrap();
    assert_eq!(listed.len(), 2500);
    listed.sort_by(|one, other| one.0.cmp(&other.0));
    listed.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(listed.len(), 2500);
    for (name, attributes) in listed {
        assert_eq!(
            attributes.size,
            fs::metadata(folder.join(name)).unwrap().len()
        );
    }
    assert_eq!(remote.list(path("file-1")), Err(Errno::ENOTDIR));
    assert_eq!(remote.list(path("none")), Err(Errno::ENOENT));
}

#[test]
fn what_is_made_has_the_mode_asked_for() {
    let (_server, remote, folder) = connected();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().mode() & 0o7777;
    for wanted in [0o777, 0o666, 0o600, 0o1777] {
        let name = format!("folder-{wanted:o}");
        assert_eq!(
            remote.make_folder(path(&name), wanted).unwrap().mode,
            wanted
        );
        assert_eq!(mode(&name), wanted);
    }
    for wanted in [0o777, 0o666, 0o400] {
        let name = format!("file-{wanted:o}");
        let made = remote.create(path(&name), wanted).unwrap();
        assert_eq!((made.mode, made.size, made.kind), (wanted, 0, Kind::File));
        assert_eq!(mode(&name), wanted);
    }
    fs::create_dir(folder.join("group")).unwrap();
    fs::set_permissions(folder.join("group"), fs::Permissions::from_mode(0o2775)).unwrap();
    remote.make_folder(path("group/inner"), 0o777).unwrap();
    assert_eq!(mode("group/inner"), 0o2777);
}

#[test]
fn errors_are_those_of_a_local_file_system() {
    let (_server, remote, folder) = connected();
    fs::create_dir_all(folder.join("full/inner")).unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    fs::write(folder.join("file"), "x").unwrap();
    symlink("nowhere", folder.join("link")).unwrap();
    let long = "n".repeat(256);
    for there in ["file", "full", "link"] {
        assert_eq!(remote.create(path(there), 0o644), Err(Errno::EEXIST));
        assert_eq!(remote.make_folder(path(there), 0o755), Err(Errno::EEXIST));
        assert_eq!(remote.make_link(path("x"), path(there)), Err(Errno::EEXIST));
        assert_eq!(
            remote.hard_link(path("file"), path(there)),
            Err(Errno::EEXIST)
        );
        assert_eq!(
            remote.rename_new(path("empty"), path(there)),
            Err(Errno::EEXIST)
        );
        assert_eq!(
            remote.rename_new(path("file"), path(there)),
            Err(Errno::EEXIST)
        );
    }
    assert_eq!(remote.create(path("none/x"), 0o644), Err(Errno::ENOENT));
    assert_eq!(remote.create(path("file/x"), 0o644), Err(Errno::ENOTDIR));
    assert_eq!(remote.create(path(&long), 0o644), Err(Errno::ENAMETOOLONG));
    assert_eq!(
        remote.make_folder(path(&long), 0o755),
        Err(Errno::ENAMETOOLONG)
    );
    assert_eq!(remote.lstat(path(&long)), Err(Errno::ENAMETOOLONG));
    assert_eq!(
        remote.lstat(path(&"x/".repeat(40_000))),
        Err(Errno::ENAMETOOLONG)
    );
    assert_eq!(remote.lstat(path("none")), Err(Errno::ENOENT));
    assert_eq!(remote.remove(path("none")), Err(Errno::ENOENT));
    assert_eq!(remote.remove(path("full")), Err(Errno::EISDIR));
    assert_eq!(remote.remove_folder(path("full")), Err(Errno::ENOTEMPTY));
    assert_eq!(remote.remove_folder(path("file")), Err(Errno::ENOTDIR));
    assert_eq!(remote.remove_folder(path("none")), Err(Errno::ENOENT));
    assert_eq!(remote.rename(path("none"), path("x")), Err(Errno::ENOENT));
    assert_eq!(
        remote.rename(path("file"), path("none/x")),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        remote.rename(path("file"), path("empty")),
        Err(Errno::EISDIR)
    );
    assert_eq!(
        remote.rename(path("empty"), path("file")),
        Err(Errno::ENOTDIR)
    );
    assert_eq!(
        remote.rename(path("empty"), path("full")),
        Err(Errno::ENOTEMPTY)
    );
    assert_eq!(
        remote.rename(path("full"), path("full/inner/x")),
        Err(Errno::EINVAL)
    );
    assert_eq!(remote.read_link(path("file")), Err(Errno::EINVAL));
    assert_eq!(remote.read_link(path("none")), Err(Errno::ENOENT));
    assert_eq!(remote.hard_link(path("full"), path("x")), Err(Errno::EPERM));
    assert_eq!(
        remote.hard_link(path("none"), path("x")),
        Err(Errno::ENOENT)
    );
    let cut = Change {
        size: Some(0),
        ..Change::default()
    };
    assert_eq!(remote.set(path("full"), &cut), Err(Errno::EISDIR));
    assert_eq!(remote.set(path("none"), &cut), Err(Errno::ENOENT));
    let into = tempfile::tempfile().unwrap();
    assert_eq!(
        remote.fetch(path("full"), &into, 0, &|_| Ok(())),
        Err(Errno::EISDIR)
    );
    assert_eq!(
        remote.fetch(path("none"), &into, 0, &|_| Ok(())),
        Err(Errno::ENOENT)
    );
}

#[test]
fn names_are_changed_as_asked() {
    let (_server, remote, folder) = connected();
    fs::write(folder.join("a"), "aa").unwrap();
    fs::write(folder.join("b"), "b").unwrap();
    remote.rename(path("a"), path("b")).unwrap();
    assert_eq!(fs::read(folder.join("b")).unwrap(), b"aa");
    remote.rename_new(path("b"), path("c")).unwrap();
    assert_eq!(remote.hard_link(path("c"), path("d")).unwrap().size, 2);
    let number = |name: &str| fs::metadata(folder.join(name)).unwrap().ino();
    assert_eq!(number("c"), number("d"));
    remote.make_folder(path("e"), 0o755).unwrap();
    remote.rename(path("c"), path("e/c")).unwrap();
    remote.rename_new(path("e"), path("g")).unwrap();
    remote.remove(path("g/c")).unwrap();
    remote.remove(path("d")).unwrap();
    remote.remove_folder(path("g")).unwrap();
    assert_eq!(remote.list(path("")).unwrap(), []);
    assert!(remote.room().unwrap().blocks > 0);
}

#[test]
fn attributes_are_changed_and_a_link_is_not_followed() {
    let (_server, remote, folder) = connected();
    fs::write(folder.join("file"), "0123456789").unwrap();
    symlink("file", folder.join("link")).unwrap();
    let first = remote.lstat(path("file")).unwrap();
    let change = Change {
        mode: Some(0o4751),
        times: Some((Time::whole(1_000_000_001), Time::whole(1_000_000_002))),
        size: Some(4),
        owner: None,
    };
    let (before, now) = remote.set(path("file"), &change).unwrap();
    assert_eq!(before, Some(first));
    assert_eq!(
        (now.mode, now.atime, now.mtime, now.size),
        (
            0o4751,
            Time::whole(1_000_000_001),
            Time::whole(1_000_000_002),
            4
        )
    );
    let times = Change {
        times: Some((Time::whole(5), Time::whole(6))),
        ..Change::default()
    };
    let (_, link) = remote.set(path("link"), &times).unwrap();
    assert_eq!((link.kind, link.mtime), (Kind::Link, Time::whole(6)));
    assert_eq!(
        fs::metadata(folder.join("file")).unwrap().mtime(),
        1_000_000_002
    );
    if nix::unistd::Uid::effective().is_root() {
        let owner = Change {
            owner: Some((12, 34)),
            mode: Some(0o4755),
            ..Change::default()
        };
        let (_, now) = remote.set(path("file"), &owner).unwrap();
        assert_eq!((now.uid, now.gid, now.mode), (12, 34, 0o4755));
        let owner = Change {
            owner: Some((56, 78)),
            ..Change::default()
        };
        remote.set(path("link"), &owner).unwrap();
        assert_eq!(fs::metadata(folder.join("file")).unwrap().uid(), 12);
        assert_eq!(fs::symlink_metadata(folder.join("link")).unwrap().uid(), 56);
    }
    let (_, grown) = remote
        .set(
            path("file"),
            &Change {
                size: Some(5 << 30),
                ..Change::default()
            },
        )
        .unwrap();
    assert_eq!(grown.size, 5 << 30);
}
