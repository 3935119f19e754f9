//! Names: folders, renames, links, any bytes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::rig::{Rig, number, options};
use crate::mount::Options;
use crate::mount::tree::ROOT;
use crate::mount::unresolved_rename::gates;

fn listed(rig: &Rig, folder: &str) -> BTreeSet<OsString> {
    fs::read_dir(rig.at(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect()
}

#[test]
fn names_may_be_any_bytes() {
    let rig = Rig::new(options());
    for name in [b"\xff\xfe\n".as_slice(), b" -x*?", &[b'n'; 255]] {
        let name = OsStr::from_bytes(name);
        fs::write(rig.at(name), name.as_bytes()).unwrap();
        assert_eq!(fs::read(rig.on(name)).unwrap(), name.as_bytes());
        assert!(listed(&rig, "").contains(name));
    }
    let long = rig.at(OsStr::from_bytes(&[b'n'; 256]));
    assert_eq!(number(File::create(&long)), libc::ENAMETOOLONG);
    // Nor does a listing that lacks it make it one that is only not there.
    listed(&rig, "");
    assert_eq!(number(fs::metadata(&long)), libc::ENAMETOOLONG);
    assert_eq!(
        number(File::options().write(true).open(&long)),
        libc::ENAMETOOLONG
    );
}

#[test]
fn a_listing_has_one_order_whoever_knows_it() {
    let rig = Rig::new(options());
    fs::create_dir(rig.on("d")).unwrap();
    for count in 0..100 {
        fs::write(rig.on(format!("d/{count}")), b"x").unwrap();
    }
    // First as the server answers, then as this mount remembers it.
    for _ in 0..2 {
        let entries = fs::read_dir(rig.at("d")).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.len() == 100 && names.is_sorted(), "{names:?}");
    }
}

#[test]
fn folders_are_made_listed_and_removed() {
    for attribute_time in [Duration::ZERO, Duration::from_secs(60)] {
        let rig = Rig::new(Options {
            attribute_time,
            ..options()
        });
        fs::create_dir(rig.at("d")).unwrap();
        assert!(rig.on("d").is_dir());
        for count in 0..300 {
            fs::write(rig.at(format!("d/{count}")), b"x").unwrap();
        }
        fs::write(rig.on("d/.oscope-fs-0123456789abcdef"), b"left by a kill").unwrap();
        assert_eq!(listed(&rig, "d").len(), 300);
        assert_eq!(number(fs::remove_dir(rig.at("d"))), libc::ENOTEMPTY);
        for count in 0..300 {
            fs::remove_file(rig.at(format!("d/{count}"))).unwrap();
        }
        assert_eq!(listed(&rig, "d").len(), 0);
        fs::remove_dir(rig.at("d")).unwrap();
        assert!(!rig.on("d").exists() && !rig.at("d").exists());
    }
}

#[test]
fn a_rename_replaces_and_a_file_that_is_open_follows() {
    let rig = Rig::new(options());
    rig.serve("a", b"a");
    rig.serve("b", b"b");
    let mut file = OpenOptions::new().append(true).open(rig.at("a")).unwrap();
    let replaced = OpenOptions::new()
        .read(true)
        .write(true)
        .open(rig.at("b"))
        .unwrap();
    fs::rename(rig.at("a"), rig.at("b")).unwrap();
    file.write_all(b" and more").unwrap();
    drop((file, replaced));
    assert_eq!(fs::read(rig.on("b")).unwrap(), b"a and more");
    assert_eq!(listed(&rig, ""), BTreeSet::from(["b".into()]));
    assert!(!rig.on("a").exists());
}

#[test]
fn a_file_below_a_renamed_folder_is_copied_back_to_its_new_place() {
    let rig = Rig::new(options());
    fs::create_dir_all(rig.at("x/y")).unwrap();
    let mut file = File::create(rig.at("x/y/f")).unwrap();
    file.write_all(b"before").unwrap();
    fs::rename(rig.at("x"), rig.at("z")).unwrap();
    file.write_all(b" and after").unwrap();
    drop(file);
    assert_eq!(fs::read(rig.on("z/y/f")).unwrap(), b"before and after");
    assert_eq!(fs::read(rig.at("z/y/f")).unwrap(), b"before and after");
    assert!(!rig.on("x").exists());
}

#[test]
fn a_rename_that_must_not_replace_does_not() {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let rig = Rig::new(options());
    rig.serve("a", b"a");
    rig.serve("b", b"b");
    let rename = |to, flags| renameat2(AT_FDCWD, &rig.at("a"), AT_FDCWD, &rig.at(to), flags);
    assert_eq!(
        rename("b", RenameFlags::RENAME_NOREPLACE),
        Err(nix::Error::EEXIST)
    );
    assert_eq!(
        rename("b", RenameFlags::RENAME_EXCHANGE),
        Err(nix::Error::EINVAL)
    );
    rename("c", RenameFlags::RENAME_NOREPLACE).unwrap();
    assert_eq!(listed(&rig, ""), BTreeSet::from(["b".into(), "c".into()]));
}

#[test]
fn symbolic_links_keep_their_text() {
    let rig = Rig::new(options());
    let text = OsStr::from_bytes(b"../no where/\xff");
    std::os::unix::fs::symlink(text, rig.at("l")).unwrap();
    assert_eq!(fs::read_link(rig.on("l")).unwrap(), text);
    assert_eq!(fs::read_link(rig.at("l")).unwrap(), text);
    fs::remove_file(rig.at("l")).unwrap();
    assert!(fs::symlink_metadata(rig.on("l")).is_err());
}

#[test]
fn own_changes_are_seen_at_once_and_others_when_the_attribute_time_is_over() {
    let rig = Rig::new(Options {
        attribute_time: Duration::from_secs(1),
        ..options()
    });
    assert_eq!(listed(&rig, "").len(), 0);
    fs::write(rig.at("own"), b"x").unwrap();
    assert_eq!(listed(&rig, ""), BTreeSet::from(["own".into()]));
    rig.serve("other", b"y");
    super::rig::until("the other is seen", || rig.at("other").exists());
    super::rig::until("it is listed", || listed(&rig, "").len() == 2);
    fs::remove_file(rig.on("other")).unwrap();
    super::rig::until("it is gone", || !rig.at("other").exists());
}

#[test]
fn whoever_looks_at_every_file_of_a_folder_waits_for_a_listing_and_not_for_each() {
    let rig = Rig::new(Options {
        attribute_time: Duration::from_secs(86_400),
        ..options()
    });
    fs::create_dir(rig.on("d")).unwrap();
    for number in 0..10 {
        rig.serve(format!("d/{number}"), b"text");
    }
    for number in 0..4 {
        assert_eq!(
            fs::metadata(rig.at(format!("d/{number}"))).unwrap().len(),
            4
        );
    }
    // Asked now, the server would say that it has no 9, and a 10.
    fs::remove_file(rig.on("d/9")).unwrap();
    rig.serve("d/10", b"");
    assert!((4..10).all(|number| rig.at(format!("d/{number}")).exists()));
    assert!(!rig.at("d/10").exists());
    // What this mount does itself is seen at once all the same.
    fs::write(rig.at("d/11"), b"own").unwrap();
    fs::remove_file(rig.at("d/8")).unwrap();
    assert!(rig.at("d/11").exists() && !rig.at("d/8").exists());
}

#[test]
fn the_room_is_the_servers() {
    let rig = Rig::new(options());
    let (here, there) = (
        nix::sys::statvfs::statvfs(&rig.here),
        nix::sys::statvfs::statvfs(&rig.there),
    );
    let (here, there) = (here.unwrap(), there.unwrap());
    assert_eq!(
        (here.blocks(), here.fragment_size()),
        (there.blocks(), there.fragment_size())
    );
}

#[test]
fn what_sftp_has_not_is_refused() {
    let rig = Rig::new(options());
    let mode = nix::sys::stat::Mode::S_IRUSR;
    assert_eq!(
        nix::unistd::mkfifo(&rig.at("p"), mode),
        Err(nix::Error::EPERM)
    );
    assert!(!rig.on("p").exists());
}

#[test]
fn what_is_removed_while_its_folder_is_renamed_is_gone_from_the_server() {
    let rig = Rig::new(Options {
        attribute_time: Duration::from_secs(60),
        ..options()
    });
    fs::create_dir(rig.on("d")).unwrap();
    rig.serve("d/f", b"content");
    let _open = OpenOptions::new().write(true).open(rig.at("d/f")).unwrap();
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let (files, replaced) = rig.shared().moving(from, to);
    assert_eq!(files.len(), 1);
    let held = gates(&files);
    let path = rig.at("d/f");
    let removing = thread::spawn(move || fs::remove_file(path));
    // Time to come to the gate, which nothing shows; too little of it can only let a defect pass.
    thread::sleep(Duration::from_millis(300));
    let record = rig
        .shared()
        .store
        .begin_rename(Path::new("d"), Path::new("e"));
    fs::rename(rig.on("d"), rig.on("e")).unwrap();
    let record = record.unwrap();
    rig.shared()
        .rename_done(from, to, &files, replaced, &record)
        .unwrap();
    drop(held);
    removing.join().unwrap().unwrap();
    assert_eq!(fs::read_dir(rig.on("e")).unwrap().count(), 0);
}
