//! What goes beside a name goes there once, though the answer is lost or the mount ends before it is written down.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::rig::{Rig, number, options, until};
use crate::mount::{Recovered, recover};
use crate::remote::{Remote, Time, Version};
use crate::store::{Dirty, Kept, Store};
use crate::testing::LIMITS;

/// Bytes that are on their way for longer than the test takes to look.
const LARGE: u64 = 48 << 20;

/// What is written down of the one dirty file.
fn dirty(rig: &Rig) -> Option<(PathBuf, Dirty)> {
    let store = &rig.shared().store;
    let entry = store.entry_of(*store.dirty().first()?).unwrap()?;
    Some((entry.path().to_owned(), entry.dirty.clone()?))
}

/// Makes on the server what a putting would have made of which the answer is lost.
fn done_there(at: &Path, content: &[u8], size: u64, version: Version) {
    let mut file = File::create(at).unwrap();
    file.write_all(content).unwrap();
    file.set_len(size).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(version.mtime.seconds as u64);
    file.set_modified(time).unwrap();
}

#[test]
fn a_conflict_copy_of_which_no_answer_came_is_put_once() {
    for more in [false, true] {
        let mut rig = Rig::impatient(options());
        rig.serve("f", b"base");
        let mut how = OpenOptions::new();
        let mut file = how.write(true).open(rig.at("f")).unwrap();
        file.write_all(b"ours").unwrap();
        file.set_len(LARGE).unwrap();
        rig.serve("f", b"theirs");
        let same = file.try_clone().unwrap();
        let syncing = thread::spawn(move || number(same.sync_all()));
        let sending = || {
            let (_, dirty) = dirty(&rig)?;
            Some((dirty.beside()?, dirty.sending?))
        };
        until("it is being put beside", || sending().is_some());
        rig.server.freeze();
        let (name, version) = sending().expect("it was put before the server was held up");
        done_there(&rig.on(&name), b"ours", LARGE, version);
        rig.server.stop();
        assert_eq!(syncing.join().unwrap(), libc::EIO);
        if more {
            file.set_len(4).unwrap();
            file.write_all(b" and more").unwrap();
        }
        rig.server.start();
        drop(file);
        until("it went back", || rig.shared().report().dirty.is_empty());
        assert_eq!(rig.conflicts(), [rig.on(&name)]);
        let size = if more { 13 } else { LARGE };
        assert_eq!(fs::metadata(rig.on(&name)).unwrap().len(), size);
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"theirs");
        let report = rig.shared().report();
        assert_eq!(report.conflicts.len(), 1);
        assert_eq!(report.conflicts[0].path, "f");
        assert!(report.failures.is_empty());
    }
}

/// A file whose conflict copy's putting broke off, still open to be written to; the server is there again.
fn broken_off(rig: &mut Rig) -> (File, PathBuf) {
    rig.serve("f", b"base");
    let mut file = OpenOptions::new().write(true).open(rig.at("f")).unwrap();
    file.write_all(b"ours").unwrap();
    file.set_len(LARGE).unwrap();
    rig.serve("f", b"theirs");
    let same = file.try_clone().unwrap();
    let syncing = thread::spawn(move || number(same.sync_all()));
    let sending = || {
        let (_, dirty) = dirty(rig)?;
        dirty.beside().filter(|_| dirty.sending.is_some())
    };
    until("it is being put beside", || sending().is_some());
    rig.server.freeze();
    let name = sending().unwrap();
    rig.server.stop();
    assert_eq!(syncing.join().unwrap(), libc::EIO);
    rig.server.start();
    (file, name)
}

#[test]
fn an_unlinked_file_that_did_not_get_beside_is_given_up_when_it_is_closed() {
    let mut rig = Rig::impatient(options());
    let (file, _) = broken_off(&mut rig);
    until("it is unlinked", || fs::remove_file(rig.at("f")).is_ok());
    drop(file);
    until("it is given up", || {
        let files = rig.shared().tree().files();
        files.iter().all(|(_, file)| !file.state().journalled)
    });
}

#[test]
fn a_mode_that_is_set_before_the_conflict_copy_is_there_is_the_copys() {
    let mut rig = Rig::impatient(options());
    let (file, name) = broken_off(&mut rig);
    let theirs = fs::metadata(rig.on("f")).unwrap().permissions();
    let wanted = Permissions::from_mode(0o600);
    until("the mode is set", || {
        file.set_permissions(wanted.clone()).is_ok()
    });
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(rig.on(&name)), 0o600);
    assert_eq!(mode(rig.on("f")), theirs.mode() & 0o777);
}

/// A file that was moved to another folder after it had gone beside, still open, and its conflict copy.
fn moved_since(rig: &Rig) -> (File, PathBuf) {
    fs::create_dir(rig.on("d")).unwrap();
    rig.serve("f", b"base");
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" and ours").unwrap();
    rig.serve("f", b"theirs");
    file.sync_all().unwrap();
    let [copy] = &rig.conflicts()[..] else {
        panic!("there is one conflict copy")
    };
    fs::rename(rig.at("f"), rig.at("d/f")).unwrap();
    (file, copy.clone())
}

#[test]
fn a_file_that_is_moved_after_it_went_beside_goes_beside_where_it_is() {
    let rig = Rig::new(options());
    let (mut file, first) = moved_since(&rig);
    file.write_all(b", moved").unwrap();
    drop(file);
    until("it went back", || rig.shared().report().dirty.is_empty());
    let second = rig.on("d").join(first.file_name().unwrap());
    assert_eq!(fs::read(second).unwrap(), b"base and ours, moved");
    assert_eq!(fs::read(first).unwrap(), b"base and ours");
    let reported = rig.shared().report().conflicts;
    let paths: Vec<_> = reported.iter().map(|one| &one.path[..]).collect();
    assert_eq!(paths, ["f", "d/f"]);
}

#[test]
fn a_file_that_is_moved_after_it_went_beside_has_a_mode_where_it_is() {
    let rig = Rig::new(options());
    let (file, first) = moved_since(&rig);
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    drop(file);
    until("it went back", || rig.shared().report().dirty.is_empty());
    let second = rig.on("d").join(first.file_name().unwrap());
    let mode = fs::metadata(&second).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read(second).unwrap(), b"base and ours");
}

#[test]
fn a_displaced_file_of_which_no_answer_came_is_put_once() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"base");
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" and ours").unwrap();
    fs::remove_file(rig.on("f")).unwrap();
    fs::create_dir(rig.on("f")).unwrap();
    assert!(fs::metadata(rig.at("f")).unwrap().is_dir());
    rig.server.freeze();
    let same = file.try_clone().unwrap();
    let syncing = thread::spawn(move || number(same.sync_all()));
    let sending = || {
        let (path, dirty) = dirty(&rig)?;
        Some((path, dirty.sending?))
    };
    until("it is being put beside", || sending().is_some());
    let (path, version) = sending().unwrap();
    done_there(&rig.on(&path), b"base and ours", 13, version);
    rig.server.stop();
    assert_eq!(syncing.join().unwrap(), libc::EIO);
    file.write_all(b", and more").unwrap();
    rig.server.start();
    drop(file);
    until("it went back", || rig.shared().report().dirty.is_empty());
    assert_eq!(rig.conflicts(), [rig.on(&path)]);
    let there = fs::read(rig.on(&path)).unwrap();
    assert_eq!(there, b"base and ours, and more");
}

#[test]
fn a_conflict_copy_that_was_put_before_a_kill_is_recovered_as_that() {
    for put in [false, true] {
        let mut rig = Rig::new(options());
        rig.unmount();
        rig.serve("f", b"theirs");
        let target = rig.server.target(&rig.there);
        let store = Store::open(&rig.cache, &target.key(), 1 << 30).unwrap();
        let copy = store.make(0).unwrap();
        copy.file().write_all(b"ours").unwrap();
        let kept = Kept {
            mode: 0o644,
            uid: 0,
            gid: 0,
        };
        store
            .keep_dirty(&copy, Path::new("f"), (None, None), kept)
            .unwrap();
        let name = Path::new("f.conflict-here-20260101T000000");
        let sending = Version {
            size: 4,
            mtime: Time::whole(1_700_000_000),
        };
        store.mark_beside(&copy, name).unwrap();
        let sent = crate::store::digest(copy.file()).unwrap();
        store
            .mark_sending(&copy, sending, Some(sent), None)
            .unwrap();
        drop(copy);
        if put {
            done_there(&rig.on(name), b"ours", 4, sending);
        }
        let remote = Remote::connect(target, LIMITS).unwrap();
        let done = recover(&remote, &store, &mut |_| ()).unwrap();
        let expected = Recovered {
            conflicts: 1,
            ..Recovered::default()
        };
        assert_eq!(done, expected);
        assert_eq!(rig.conflicts(), [rig.on(name)]);
        assert_eq!(fs::read(rig.on(name)).unwrap(), b"ours");
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"theirs");
        assert!(store.dirty().is_empty());
    }
}
