//! The name of a file in use is taken by something else; journals that cannot be written; what fsync and close owe.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, UNIX_EPOCH};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};

use super::rig::{Rig, options, through_daemon, until};

fn both(rig: &Rig, name: &str) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).open(rig.at(name)).unwrap()
}

#[test]
fn what_is_open_goes_beside_a_folder_that_took_its_name() {
    for options in [options(), through_daemon()] {
        let mut rig = Rig::new(options);
        rig.serve("f", b"base");
        let mut file = both(&rig, "f");
        file.write_all(b"ours").unwrap();
        fs::remove_file(rig.on("f")).unwrap();
        fs::create_dir(rig.on("f")).unwrap();
        assert!(fs::metadata(rig.at("f")).unwrap().is_dir());
        fs::write(rig.at("f/inside"), b"of the folder").unwrap();
        file.write_all(b" and more").unwrap();
        drop(file);
        let kept = rig.conflicts();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(&kept[0]).unwrap(), b"ours and more");
        let beside = rig.at(kept[0].file_name().unwrap());
        assert_eq!(fs::read(beside).unwrap(), b"ours and more");
        assert_eq!(fs::read(rig.at("f/inside")).unwrap(), b"of the folder");
        let report = rig.shared().report();
        assert_eq!(report.conflicts.len(), 1);
        assert_eq!(report.conflicts[0].path, "f");
        until("all is clean", || rig.shared().report().dirty.is_empty());
        rig.unmount();
    }
}

#[test]
fn what_is_open_goes_beside_a_new_file_that_took_its_name() {
    for options in [options(), through_daemon()] {
        let mut rig = Rig::new(options);
        rig.serve("f", b"base");
        let mut file = both(&rig, "f");
        file.write_all(b"ours").unwrap();
        fs::remove_file(rig.on("f")).unwrap();
        let mut new = File::create_new(rig.at("f")).unwrap();
        new.write_all(b"of the new one").unwrap();
        file.write_all(b" and more").unwrap();
        let mut read = String::new();
        File::open(rig.at("f"))
            .unwrap()
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "of the new one");
        drop((new, file));
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"of the new one");
        let kept = rig.conflicts();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(&kept[0]).unwrap(), b"ours and more");
        rig.unmount();
    }
}

#[test]
fn what_is_open_below_a_folder_that_was_removed_goes_back_when_it_is_made_anew() {
    let rig = Rig::new(options());
    fs::create_dir(rig.on("d")).unwrap();
    rig.serve("d/f", b"base");
    let mut file = both(&rig, "d/f");
    fs::remove_dir_all(rig.on("d")).unwrap();
    assert!(!rig.at("d").exists());
    file.write_all(b"ours").unwrap();
    assert!(file.sync_all().is_err(), "there is no folder to put it in");
    fs::create_dir(rig.at("d")).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(rig.on("d/f")).unwrap(), b"ours");
}

#[test]
fn a_later_open_that_shares_a_diverted_copy_is_written_down() {
    for options in [options(), through_daemon()] {
        let mut rig = Rig::new(options);
        rig.serve("f", b"base");
        let mut file = both(&rig, "f");
        let reader = File::open(rig.at("f")).unwrap();
        file.write_all(b"ours").unwrap();
        fs::write(rig.on("f"), b"theirs").unwrap();
        drop(file);
        until("the handle is released", || {
            rig.shared().report().operations.get("release") == Some(&1)
        });
        let file = both(&rig, "f");
        assert_eq!(rig.shared().report().dirty, ["f"]);
        file.write_all_at(b"OURS", 0).unwrap();
        drop((file, reader));
        let kept = rig.conflicts();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(&kept[0]).unwrap(), b"OURS");
        until("the server's version is what is read", || {
            fs::read(rig.at("f")).unwrap() == b"theirs"
        });
        rig.unmount();
    }
}

#[test]
fn a_read_only_open_that_empties_a_file_is_on_the_server_when_close_returns() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        let empty = |name: &str| {
            let mut how = OpenOptions::new();
            drop(
                how.read(true)
                    .custom_flags(libc::O_TRUNC)
                    .open(rig.at(name))
                    .unwrap(),
            );
        };
        for (name, cached) in [("f", false), ("cached", true)] {
            rig.serve(name, b"content");
            if cached {
                assert_eq!(fs::read(rig.at(name)).unwrap(), b"content");
            }
            empty(name);
            assert_eq!(fs::read(rig.on(name)).unwrap(), b"", "{name}");
        }
        rig.serve("linked", b"content");
        fs::hard_link(rig.at("linked"), rig.at("link")).unwrap();
        empty("link");
        assert_eq!(fs::read(rig.on("linked")).unwrap(), b"");
    }
}

#[test]
fn fsync_has_the_server_sync_what_went_back_without() {
    let rig = Rig::new(options());
    let mut file = File::create(rig.at("f")).unwrap();
    file.write_all(b"text").unwrap();
    drop(file.try_clone().unwrap());
    // Each putting makes a new file there.
    let put = || fs::metadata(rig.on("f")).unwrap().ino();
    let first = put();
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"text");
    file.sync_all().unwrap();
    let second = put();
    assert_ne!(first, second, "it was not put again");
    file.sync_all().unwrap();
    assert_eq!(put(), second, "the server had synced it");
    file.write_all(b" more").unwrap();
    drop(file);
    let third = put();
    File::open(rig.at("f")).unwrap().sync_all().unwrap();
    assert_ne!(put(), third, "it was not put again");
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"text more");
    rig.serve("other", b"of others");
    let others = fs::metadata(rig.on("other")).unwrap().ino();
    both(&rig, "other").sync_all().unwrap();
    assert_eq!(fs::metadata(rig.on("other")).unwrap().ino(), others);
}

#[test]
fn a_journal_that_cannot_be_written_does_not_keep_a_file_here() {
    let mut rig = Rig::new(options());
    rig.serve("f", b"old");
    let mut file = both(&rig, "f");
    file.write_all(b"new content").unwrap();
    let (journal, away) = (rig.cache.join("entries"), rig.cache.join("away"));
    fs::rename(&journal, &away).unwrap();
    let closed = nix::unistd::close(file);
    let there = fs::read(rig.on("f")).unwrap();
    fs::rename(&away, &journal).unwrap();
    closed.unwrap();
    assert_eq!(there, b"new content");
    rig.unmount();
}

#[test]
fn a_time_that_is_set_hides_no_write() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"old");
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let there = || fs::metadata(rig.on("f")).unwrap();
        let before = there().ino();
        let file = both(&rig, "f");
        file.set_modified(time).unwrap();
        drop(file);
        assert_eq!(
            (there().mtime(), there().ino()),
            (1_000_000_000, before),
            "it was copied back for its time alone"
        );
        let file = both(&rig, "f");
        file.set_modified(time).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        file.set_modified(time).unwrap();
        drop(file);
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"new");
        assert_eq!(there().mtime(), 1_000_000_000);
    }
}

#[test]
fn fsync_has_the_server_sync_what_was_given_a_time_since() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let put = |name: &str| fs::metadata(rig.on(name)).unwrap().ino();
        for (name, is_open) in [("closed", false), ("open", true)] {
            let mut file = File::create(rig.at(name)).unwrap();
            file.write_all(b"text").unwrap();
            drop(file);
            let reader = is_open.then(|| File::open(rig.at(name)).unwrap());
            // By its name: it is not opened for that.
            let times = [nix::sys::time::TimeSpec::new(1_000_000_000, 0); 2];
            utimensat(
                AT_FDCWD,
                &rig.at(name),
                &times[0],
                &times[1],
                UtimensatFlags::FollowSymlink,
            )
            .unwrap();
            let first = put(name);
            let file = both(&rig, name);
            file.sync_all().unwrap();
            let second = put(name);
            assert_ne!(second, first, "{name}: it was not put again");
            file.sync_all().unwrap();
            assert_eq!(put(name), second, "{name}: the server had synced it");
            drop((file, reader));
            let there = fs::metadata(rig.on(name)).unwrap();
            assert_eq!(there.modified().unwrap(), time, "{name}");
            assert_eq!(fs::read(rig.on(name)).unwrap(), b"text");
        }
    }
}
