//! Small files that are fetched before they are opened: never seen otherwise than those that are not.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::rig::{Rig, options, through_daemon, until};
use crate::mount::Options;
use crate::mount::tree::ROOT;

const FILES: usize = 60;
/// Of a folder whose listing takes many replies.
const LARGE: usize = 3000;

fn name(number: usize) -> String {
    format!("d/{number:02}")
}

fn content(number: usize) -> Vec<u8> {
    format!("content of {number}")
        .repeat(100 + number)
        .into_bytes()
}

/// A mount of a folder with small files, whose server counts as far away.
fn rig(options: Options) -> Rig {
    let rig = Rig::new(Options {
        attribute_time: Duration::from_secs(60),
        fetch_ahead_from: Duration::ZERO,
        ..options
    });
    fs::create_dir(rig.on("d")).unwrap();
    (0..FILES).for_each(|number| rig.serve(name(number), &content(number)));
    rig
}

fn is_cached(rig: &Rig, number: usize) -> bool {
    let entry = rig.shared().store.entry(Path::new(&name(number)));
    entry.unwrap().is_some()
}

fn read(rig: &Rig, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        assert!(
            fs::read(rig.at(name(number))).unwrap() == content(number),
            "{number}"
        );
    }
}

#[test]
fn files_that_are_read_one_after_the_other_are_there_before_they_are_opened() {
    for options in [options(), through_daemon()] {
        let mut rig = rig(options);
        read(&rig, 0..8);
        until("the next one is fetched", || is_cached(&rig, 8));
        assert!(!is_cached(&rig, FILES - 1));
        read(&rig, 8..FILES);
        // Another sequence than that of their names, and what is there already.
        read(&rig, (0..FILES).rev());
        rig.unmount();
        rig.mount();
        read(&rig, 0..FILES);
    }
}

#[test]
fn the_next_folder_has_its_files_fetched_at_its_first_name() {
    const NEXT: usize = 20;
    let rig = rig(options());
    let next = |number: usize| format!("e/{number:02}");
    fs::create_dir(rig.on("e")).unwrap();
    (0..NEXT).for_each(|number| rig.serve(next(number), b"next"));
    let cached = || -> Vec<usize> {
        let store = &rig.shared().store;
        let has = |number: &usize| store.entry(Path::new(&next(*number))).unwrap().is_some();
        (0..NEXT).filter(has).collect()
    };
    fs::metadata(rig.at(next(0))).unwrap();
    read(&rig, 0..8);
    assert!(cached().is_empty(), "nobody went there");
    fs::metadata(rig.at(next(1))).unwrap();
    until("the next ones are fetched", || cached().len() == 16);
    assert_eq!(cached(), (2..18).collect::<Vec<_>>());
    for number in 0..NEXT {
        assert_eq!(fs::read(rig.at(next(number))).unwrap(), b"next");
    }
    assert!(rig.conflicts().is_empty());
}

#[test]
fn the_folder_behind_is_listed_and_its_first_files_fetched_before_anybody_comes() {
    let rig = rig(options());
    let next = |number: usize| format!("e/{number:02}");
    fs::create_dir(rig.on("e")).unwrap();
    (0..FILES).for_each(|number| rig.serve(next(number), b"next"));
    let is_cached = |number: usize| {
        let entry = rig.shared().store.entry(Path::new(&next(number)));
        entry.unwrap().is_some()
    };
    // Known by name, as to who reads all that is in a folder.
    assert_eq!(fs::read_dir(rig.at("")).unwrap().count(), 2);
    read(&rig, 0..FILES / 2 - 2);
    assert!(!is_cached(0), "there is much to be read before it");
    read(&rig, FILES / 2 - 2..FILES);
    until("the first ones are fetched", || is_cached(15));
    assert!(!is_cached(16));
    // What has changed since is seen, and what is gone.
    rig.serve(next(3), b"other");
    fs::remove_file(rig.on(next(4))).unwrap();
    for number in 0..FILES {
        let content = fs::read(rig.at(next(number)));
        match number {
            3 => assert_eq!(content.unwrap(), b"other"),
            4 => assert_eq!(content.unwrap_err().kind(), io::ErrorKind::NotFound),
            _ => assert_eq!(content.unwrap(), b"next"),
        }
    }
    assert!(rig.shared().report().failures.is_empty());
}

#[test]
fn what_was_changed_after_it_was_fetched_ahead_is_seen() {
    let rig = rig(options());
    read(&rig, 0..8);
    until("the next one is fetched", || is_cached(&rig, 8));
    fs::write(rig.on(name(8)), b"new").unwrap();
    assert_eq!(fs::read(rig.at(name(8))).unwrap(), b"new");
    // What is written here to such a file goes back.
    until("the next one is fetched", || is_cached(&rig, 9));
    fs::write(rig.at(name(9)), b"ours").unwrap();
    assert_eq!(fs::read(rig.on(name(9))).unwrap(), b"ours");
    assert!(rig.conflicts().is_empty());
}

#[test]
fn what_cannot_be_fetched_ahead_troubles_nobody() {
    let mut rig = rig(options());
    read(&rig, 0..4);
    for number in 10..FILES {
        fs::remove_file(rig.on(name(number))).unwrap();
    }
    read(&rig, 4..10);
    let gone = fs::read(rig.at(name(10))).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(libc::ENOENT));
    assert!(rig.shared().report().failures.is_empty());
    // Nothing that is fetched ahead keeps the mount.
    rig.unmount();
}

/// The server would wait for ever for somebody to open the other end, and answer nobody meanwhile.
#[test]
fn a_name_that_has_become_a_fifo_is_not_fetched_ahead() {
    let rig = rig(options());
    let listed = fs::read_dir(rig.at("d")).unwrap().count();
    assert_eq!(listed, FILES);
    for number in 8..FILES {
        fs::remove_file(rig.on(name(number))).unwrap();
        mkfifo(&rig.on(name(number)), Mode::S_IRWXU).unwrap();
    }
    read(&rig, 0..8);
    // What was to be fetched has been asked for by then, where it is asked for.
    thread::sleep(Duration::from_millis(300));
    fs::write(rig.at("other"), b"x").unwrap();
    let logins = rig.server.log().matches("Accepted publickey").count();
    assert_eq!(logins, 1, "the connection was given up");
}

#[test]
fn pages_of_an_older_copy_are_not_shown_for_what_was_fetched_ahead() {
    let rig = Rig::new(Options {
        attribute_time: Duration::from_secs(60),
        ..through_daemon()
    });
    rig.serve("f", b"old content");
    assert_eq!(fs::read(rig.at("f")).unwrap(), b"old content");
    // The kernel keeps the node, with its pages.
    let _node = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(rig.at("f"))
        .unwrap();
    rig.serve("f", b"new content");
    let file = rig.shared().child_file(ROOT, "f".as_ref()).unwrap().1;
    until("it is closed", || !file.in_use());
    rig.shared().store.forget(Path::new("f"));
    rig.shared().fetch_ahead(ROOT, &"f".into());
    assert!(rig.shared().store.entry(Path::new("f")).unwrap().is_some());
    assert_eq!(fs::read(rig.at("f")).unwrap(), b"new content");
}

/// The names of a large folder are listed again only after many of them were asked for.
#[test]
fn what_comes_next_is_guessed_by_a_listing_that_is_no_longer_believed() {
    let keep = Duration::from_millis(50);
    let rig = Rig::new(Options {
        attribute_time: keep,
        fetch_ahead_from: Duration::ZERO,
        ..options()
    });
    fs::create_dir(rig.on("d")).unwrap();
    let name = |number: usize| format!("d/{number:04}");
    (0..LARGE).for_each(|number| rig.serve(name(number), b"old"));
    assert_eq!(fs::read_dir(rig.at("d")).unwrap().count(), LARGE);
    thread::sleep(keep);
    // Grown since.
    let large = 20;
    rig.serve(name(large), &vec![b'x'; 1 << 20]);
    let is_cached = |number: usize| {
        let entry = rig.shared().store.entry(Path::new(&name(number)));
        entry.unwrap().is_some()
    };
    for number in 0..200 {
        if number >= 2 && number != large {
            until("the next one is fetched", || is_cached(number));
        }
        assert!(number != large || !is_cached(number));
        let length = if number == large { 1 << 20 } else { 3 };
        assert_eq!(fs::read(rig.at(name(number))).unwrap().len(), length);
    }
}
