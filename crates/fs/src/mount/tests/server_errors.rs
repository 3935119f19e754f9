//! Both sides change, the server goes away, the mount ends too soon.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use nix::errno::Errno;

use super::rig::{IMPATIENT, Rig, number, options, through_daemon, until};
use crate::mount::opening::Opened;
use crate::mount::tree::ROOT;
use crate::mount::{Mounted, Recovered, recover};
use crate::remote::{Remote, State, Time};
use crate::store::Store;
use crate::testing::LIMITS;

#[test]
fn if_both_sides_change_neither_is_lost() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"base");
        let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
        file.write_all(b" ours").unwrap();
        fs::write(rig.on("f"), b"theirs").unwrap();
        file.sync_all().unwrap();
        file.write_all(b" and more").unwrap();
        drop(file);
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"theirs");
        let kept = rig.conflicts();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(&kept[0]).unwrap(), b"base ours and more");
        until("the server's version is what is read", || {
            fs::read(rig.at("f")).unwrap() == b"theirs"
        });
        let report = rig.shared().report();
        assert_eq!(report.conflicts.len(), 1);
        assert_eq!(report.conflicts[0].path, "f");
        assert!(kept[0].ends_with(&report.conflicts[0].kept_as));
    }
}

#[test]
fn attributes_of_what_went_beside_are_not_given_to_the_others_file() {
    let rig = Rig::new(options());
    rig.serve("f", b"base");
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" ours").unwrap();
    rig.serve("f", b"theirs");
    file.sync_all().unwrap();
    let theirs = fs::metadata(rig.on("f")).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(time).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o640))
        .unwrap();
    file.write_all(b" and more").unwrap();
    drop(file);
    let now = fs::metadata(rig.on("f")).unwrap();
    assert_eq!(now.modified().unwrap(), theirs.modified().unwrap());
    assert_eq!(now.mode(), theirs.mode());
    let kept = rig.conflicts();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), b"base ours and more");
}

#[test]
fn a_file_that_is_removed_on_the_server_while_open_is_made_anew() {
    let rig = Rig::new(options());
    rig.serve("f", b"base");
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .open(rig.at("f"))
        .unwrap();
    fs::remove_file(rig.on("f")).unwrap();
    assert!(!rig.at("f").exists());
    let mut read = String::new();
    file.read_to_string(&mut read).unwrap();
    assert_eq!(read, "base");
    file.write_all(b" more").unwrap();
    drop(file);
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"base more");
    assert_eq!(fs::read(rig.at("f")).unwrap(), b"base more");
}

#[test]
fn without_the_server_what_is_cached_is_read_and_the_rest_fails_in_time() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"cached");
    assert_eq!(fs::read(rig.at("f")).unwrap(), b"cached");
    let open = File::open(rig.at("f")).unwrap();
    rig.server.stop();
    until("it is known to be down", || rig.shared().is_down());
    let mut read = String::new();
    (&open).read_to_string(&mut read).unwrap();
    assert_eq!(read, "cached");
    assert_eq!(fs::read(rig.at("f")).unwrap(), b"cached");
    assert_eq!(number(File::create(rig.at("new"))), libc::EIO);
    assert_eq!(number(File::open(rig.at("unknown"))), libc::EIO);
    rig.server.start();
    until("it is there again", || File::create(rig.at("new")).is_ok());
    assert!(rig.on("new").exists());
}

#[test]
fn a_close_that_cannot_copy_back_says_so_and_it_goes_back_later() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"old");
    let mut file = OpenOptions::new().write(true).open(rig.at("f")).unwrap();
    rig.server.stop();
    file.write_all(b"new content").unwrap();
    assert_eq!(number(file.sync_all()), libc::EIO);
    assert_eq!(
        number(nix::unistd::close(file).map_err(Into::into)),
        libc::EIO
    );
    assert_eq!(rig.shared().report().failures.len(), 1);
    assert_eq!(
        fs::read(rig.at("f")).unwrap(),
        b"new content",
        "the local copy is what is there"
    );
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"old");
    rig.server.start();
    until("it went back", || {
        fs::read(rig.on("f")).unwrap() == b"new content"
    });
    until("it is reported", || {
        rig.shared().report().failures.is_empty()
    });
}

#[test]
fn what_was_sent_without_an_answer_is_no_conflict_when_more_was_written_meanwhile() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"base");
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" and ours").unwrap();
    rig.server.freeze();
    let same = file.try_clone().unwrap();
    let syncing = thread::spawn(move || number(same.sync_all()));
    let sending = || {
        let entry = rig.shared().store.entry("f".as_ref()).unwrap();
        entry.and_then(|entry| entry.dirty?.sending)
    };
    until("it is being sent", || sending().is_some());
    // What the server would have done; its answer never comes.
    fs::write(rig.on("f"), b"base and ours").unwrap();
    let sent = UNIX_EPOCH + Duration::from_secs(sending().unwrap().mtime.seconds as u64);
    let there = OpenOptions::new().write(true).open(rig.on("f")).unwrap();
    there.set_modified(sent).unwrap();
    rig.server.stop();
    assert_eq!(syncing.join().unwrap(), libc::EIO);
    file.write_all(b", and more").unwrap();
    assert_eq!(number(file.sync_all()), libc::EIO);
    rig.server.start();
    drop(file);
    until("it went back", || {
        fs::read(rig.on("f")).unwrap() == b"base and ours, and more"
    });
    assert_eq!(rig.conflicts(), Vec::<PathBuf>::new());
}

#[test]
fn after_a_close_that_failed_it_is_tried_again_by_who_tends_and_not_by_the_release() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"old");
    let target = rig.server.target(&rig.there);
    rig.unmount();
    // Without a kernel and without the thread that tends: each is asked for by itself.
    let store = Store::open(&rig.cache, &target.key(), 1 << 30).unwrap();
    let remote = Remote::connect(target, IMPATIENT).unwrap();
    let mounted = Mounted::new(Arc::new(remote), Arc::new(store), options());
    let shared = mounted.shared();
    let ino = shared.lookup(ROOT, "f".as_ref()).unwrap();
    let none = |_: &File| Err(std::io::ErrorKind::Unsupported.into());
    let Ok(Opened::Daemon(number, _)) = shared.open(ino, libc::O_WRONLY, None, none) else {
        panic!("it cannot be opened");
    };
    shared.write(number, 0, b"new", None).unwrap();
    let held = shared.handle(number).unwrap();
    rig.server.stop();
    until("it is known to be down", || shared.is_down());
    assert_eq!(shared.copy_back_of(&held, false), Err(Errno::EIO));
    rig.server.start();
    until("it is there again", || !shared.is_down());
    shared.release(number);
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"old");
    assert_eq!(shared.report().dirty, ["f"]);
    shared.copy_back_idle(true);
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"new");
    assert!(shared.report().dirty.is_empty());
    assert!(shared.report().failures.is_empty());
}

#[test]
fn at_the_end_a_server_that_is_away_is_waited_for_once_and_the_next_mount_copies_back() {
    let names = ["f", "g", "h"];
    let mut rig = Rig::impatient(options());
    names.iter().for_each(|name| rig.serve(name, b"old"));
    let target = rig.server.target(&rig.there);
    rig.unmount();
    let store = Store::open(&rig.cache, &target.key(), 1 << 30).unwrap();
    let remote = Remote::connect(target, IMPATIENT).unwrap();
    let mounted = Mounted::new(Arc::new(remote), Arc::new(store), options());
    let shared = mounted.shared();
    let none = |_: &File| Err(std::io::ErrorKind::Unsupported.into());
    for name in names {
        let ino = shared.lookup(ROOT, name.as_ref()).unwrap();
        let Ok(Opened::Daemon(number, _)) = shared.open(ino, libc::O_WRONLY, None, none) else {
            panic!("it cannot be opened");
        };
        shared.write(number, 0, b"new", None).unwrap();
    }
    rig.server.stop();
    until("it is known to be down", || shared.is_down());
    shared.end();
    // What ended the wait of the others.
    let State::Down { why, .. } = shared.remote.state() else {
        panic!("there is a server");
    };
    assert_eq!(why, "ended here");
    assert_eq!(shared.report().dirty, names);
    assert_eq!(shared.report().failures.len(), names.len());
    drop((shared, mounted));
    rig.server.start();
    rig.mount();
    rig.shared().copy_back_idle(true);
    let there = |name| fs::read(rig.on(name)).unwrap();
    assert!(names.into_iter().all(|name| there(name) == b"new"));
}

#[test]
fn what_a_mount_left_is_recovered() {
    let mut rig = Rig::impatient(options());
    for name in ["f", "g", "same"] {
        rig.serve(name, b"old");
    }
    let open = |name| OpenOptions::new().write(true).open(rig.at(name)).unwrap();
    let mut files = [open("f"), open("g"), open("same")];
    rig.server.stop();
    for (file, content) in files.iter_mut().zip(["ours f", "ours g", "the same"]) {
        file.write_all(content.as_bytes()).unwrap();
    }
    for file in files {
        assert_eq!(
            number(nix::unistd::close(file).map_err(Into::into)),
            libc::EIO
        );
    }
    rig.unmount();
    fs::write(rig.on("g"), b"theirs g").unwrap();
    fs::write(rig.on("same"), b"the same").unwrap();
    rig.server.start();
    let target = rig.server.target(&rig.there);
    let store = Store::open(&rig.cache, &target.key(), 1 << 30).unwrap();
    let remote = Remote::connect(target, LIMITS).unwrap();
    let mut lines = Vec::new();
    let done = recover(&remote, &store, &mut |line| lines.push(line)).unwrap();
    assert_eq!((done.conflicts, done.left), (1, 0), "{lines:?}");
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"ours f");
    assert_eq!(fs::read(rig.on("g")).unwrap(), b"theirs g");
    assert_eq!(fs::read(rig.on("same")).unwrap(), b"the same");
    let kept = rig.conflicts();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), b"ours g");
    assert!(store.dirty().is_empty());
    let again = recover(&remote, &store, &mut |_| ()).unwrap();
    assert_eq!(again, Recovered::default());
}

#[test]
fn a_file_of_which_nothing_was_changed_is_not_copied_back() {
    let mut rig = Rig::new(options());
    rig.serve("f", b"old");
    let before = fs::metadata(rig.on("f")).unwrap();
    drop(
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(rig.at("f"))
            .unwrap(),
    );
    rig.unmount();
    let after = fs::metadata(rig.on("f")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!((before.ino(), before.mtime()), (after.ino(), after.mtime()));
    let store = Store::open(&rig.cache, &rig.server.target(&rig.there).key(), 1 << 30).unwrap();
    assert!(store.dirty().is_empty());
}

#[test]
fn a_clock_of_the_server_that_is_set_back_makes_no_change_of_others() {
    for theirs in [None, Some(b"THEM")] {
        let rig = Rig::new(options());
        let clock = rig.shared().remote.clock();
        // It was two hours ahead: what was written just now looked old.
        let ahead = Duration::from_secs(7_200);
        let shown = (UNIX_EPOCH.elapsed().unwrap() + ahead).as_secs();
        clock.observe(Time::whole(shown as i64), clock.now());
        fs::write(rig.on("f"), b"base").unwrap();
        let modified = fs::metadata(rig.on("f")).unwrap().modified().unwrap();
        let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
        file.write_all(b" and ours").unwrap();
        if let Some(theirs) = theirs {
            fs::write(rig.on("f"), theirs).unwrap();
            let there = OpenOptions::new().write(true).open(rig.on("f")).unwrap();
            there.set_modified(modified).unwrap();
        }
        // The first putting shows the clock as it is.
        drop(file);
        let there = fs::read(rig.on("f")).unwrap();
        assert_eq!(there, theirs.map_or(&b"base and ours"[..], |theirs| theirs));
        assert_eq!(rig.conflicts().len(), usize::from(theirs.is_some()));
    }
}
