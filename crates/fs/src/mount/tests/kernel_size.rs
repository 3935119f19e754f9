//! The size and the kind that the kernel takes a file to have, after another has changed it on the server.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::mount::{MntFlags, umount2};

use super::rig::{Rig, number, options, through_daemon};
use crate::mount::Options;
use crate::testing::{contents, fill_up, small_disk};

/// Mounts whose kernel believes attributes: for the time that is usual, and for longer than the test takes.
fn believing() -> impl Iterator<Item = Options> {
    let times = [1, 600].map(Duration::from_secs);
    times.into_iter().flat_map(|attribute_time| {
        [through_daemon(), options()].map(|options| Options {
            attribute_time,
            ..options
        })
    })
}

fn append(path: impl AsRef<Path>, text: &[u8]) {
    let mut how = OpenOptions::new();
    let mut file = how.append(true).create(true).open(path).unwrap();
    file.write_all(text).unwrap();
}

/// A path by which the kernel opens the file without looking a name up.
fn nameless(name: &Path) -> (File, PathBuf) {
    let mut how = OpenOptions::new();
    let found = how
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(name)
        .unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    (found, path)
}

#[test]
fn an_append_follows_what_another_has_appended() {
    for options in believing() {
        let rig = Rig::new(options);
        append(rig.at("log"), b"a\n");
        append(rig.on("log"), b"b\n");
        append(rig.at("log"), b"c\n");
        assert_eq!(fs::read(rig.on("log")).unwrap(), b"a\nb\nc\n");
        append(rig.on("log"), b"d\n");
        append(rig.at("log"), b"e\n");
        assert_eq!(fs::read(rig.on("log")).unwrap(), b"a\nb\nc\nd\ne\n");
        assert_eq!(fs::read(rig.at("log")).unwrap(), b"a\nb\nc\nd\ne\n");
        assert_eq!(rig.conflicts(), Vec::<PathBuf>::new());
    }
}

#[test]
fn an_append_to_what_another_has_cut_leaves_no_hole() {
    for options in believing() {
        let rig = Rig::new(options);
        rig.serve("log", b"0123456789");
        assert_eq!(rig.at("log").metadata().unwrap().len(), 10);
        rig.serve("log", b"01");
        append(rig.at("log"), b"x");
        assert_eq!(fs::read(rig.on("log")).unwrap(), b"01x");
    }
}

#[test]
fn a_file_that_another_has_made_longer_is_read_to_its_end() {
    for options in believing() {
        let rig = Rig::new(options);
        rig.serve("f", b"short");
        assert_eq!(rig.at("f").metadata().unwrap().len(), 5);
        rig.serve("f", b"longer than it was");
        let mut file = File::open(rig.at("f")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 18);
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"longer than it was");
    }
}

#[test]
fn a_file_that_is_opened_without_a_name_is_read_and_appended_to_at_its_end() {
    for options in believing() {
        let rig = Rig::new(options);
        for (old, new) in [("old", "new and longer"), ("old and longer", "new")] {
            rig.serve("f", old.as_bytes());
            assert_eq!(fs::read(rig.at("f")).unwrap(), old.as_bytes());
            let (_found, path) = nameless(&rig.at("f"));
            rig.serve("f", new.as_bytes());
            assert_eq!(fs::read(&path).unwrap(), new.as_bytes());
            rig.serve("f", old.as_bytes());
            let mut how = OpenOptions::new();
            let mut file = how.append(true).open(&path).unwrap();
            file.write_all(b", ours").unwrap();
            file.write_all(b" too").unwrap();
            drop(file);
            let all = format!("{old}, ours too");
            assert_eq!(fs::read_to_string(rig.on("f")).unwrap(), all);
            assert_eq!(fs::read_to_string(rig.at("f")).unwrap(), all);
            assert_eq!(rig.conflicts(), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn appends_at_once_follow_what_another_has_appended() {
    for options in believing() {
        let rig = Rig::new(options);
        append(rig.at("log"), b"first\n");
        append(rig.on("log"), b"theirs\n");
        thread::scope(|scope| {
            for number in 0..8 {
                let path = rig.at("log");
                scope.spawn(move || append(path, format!("ours {number}\n").as_bytes()));
            }
        });
        let all = fs::read_to_string(rig.on("log")).unwrap();
        let mut lines: Vec<_> = all.lines().skip(2).map(str::to_owned).collect();
        assert!(all.starts_with("first\ntheirs\n"), "{all}");
        lines.sort();
        let wanted: Vec<_> = (0..8).map(|number| format!("ours {number}")).collect();
        assert_eq!(lines, wanted);
        assert_eq!(rig.conflicts(), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_another_appends_while_the_file_is_open_keeps_ours_beside_it() {
    for options in believing() {
        let rig = Rig::new(options);
        rig.serve("log", b"a\n");
        let reading = File::open(rig.at("log")).unwrap();
        append(rig.on("log"), b"b\n");
        append(rig.at("log"), b"c\n");
        drop(reading);
        assert_eq!(fs::read(rig.on("log")).unwrap(), b"a\nb\n");
        let beside = rig.conflicts();
        assert_eq!(beside.len(), 1, "{beside:?}");
        assert_eq!(fs::read(&beside[0]).unwrap(), b"a\nc\n");
    }
}

/// Puts a folder or a link in the place of a file on the server.
fn replace(path: &Path, by_link: bool) {
    fs::remove_file(path).unwrap();
    match by_link {
        true => symlink("elsewhere", path).unwrap(),
        false => fs::create_dir(path).unwrap(),
    }
}

#[test]
fn an_open_file_whose_name_became_a_folder_or_a_link_goes_on() {
    for (options, by_link) in [
        (options(), false),
        (options(), true),
        (through_daemon(), false),
        (through_daemon(), true),
    ] {
        let rig = Rig::new(options);
        rig.serve("f", b"base");
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).open(rig.at("f")).unwrap();
        replace(&rig.on("f"), by_link);
        let shown = file.metadata().unwrap();
        assert!(shown.is_file() && shown.len() == 4, "{shown:?}");
        file.write_all_at(b"ours and more", 0).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 13);
        let mut read = [0; 13];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"ours and more");
        let now = rig.at("f").symlink_metadata().unwrap();
        assert_eq!((now.is_symlink(), now.is_dir()), (by_link, !by_link));
        assert!(file.metadata().unwrap().is_file());
        drop(file);
        let beside = rig.conflicts();
        assert_eq!(beside.len(), 1, "{beside:?}");
        assert_eq!(fs::read(&beside[0]).unwrap(), b"ours and more");
    }
}

#[test]
fn a_link_that_became_a_file_is_read_as_one_though_it_is_believed_to_be_a_link() {
    for options in believing() {
        let rig = Rig::new(options);
        symlink("elsewhere", rig.on("f")).unwrap();
        assert!(rig.at("f").symlink_metadata().unwrap().is_symlink());
        fs::remove_file(rig.on("f")).unwrap();
        rig.serve("f", b"a file");
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"a file");
    }
}

#[test]
fn a_file_whose_name_is_something_else_for_a_while_is_itself_again_afterwards() {
    let rig = Rig::new(options());
    rig.serve("f", b"base");
    let (found, _) = nameless(&rig.at("f"));
    assert_eq!(found.metadata().unwrap().len(), 4);
    replace(&rig.on("f"), false);
    assert_eq!(number(found.metadata()), libc::ESTALE);
    fs::remove_dir(rig.on("f")).unwrap();
    rig.serve("f", b"longer");
    assert_eq!(found.metadata().unwrap().len(), 6);
}

#[test]
fn appends_follow_what_another_has_written_while_the_size_is_asked_for() {
    let wanted = "new and longer, ours, too, and more";
    for options in believing() {
        let rig = Rig::new(options);
        for round in 0..25 {
            rig.serve("f", b"old");
            assert_eq!(fs::read(rig.at("f")).unwrap(), b"old");
            let (_found, path) = nameless(&rig.at("f"));
            rig.serve("f", b"new and longer");
            let ended = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..3 {
                    // An answer that comes during a write is not taken by the kernel (`fuse_change_attributes`).
                    scope.spawn(|| {
                        while !ended.load(Ordering::Relaxed) {
                            path.metadata().unwrap();
                        }
                    });
                }
                let mut how = OpenOptions::new();
                let mut file = how.append(true).open(&path).unwrap();
                for text in [", ours", ", too", ", and more"] {
                    file.write_all(text.as_bytes()).unwrap();
                }
                drop(file);
                ended.store(true, Ordering::Relaxed);
            });
            let found = fs::read_to_string(rig.on("f")).unwrap();
            assert_eq!(found, wanted, "round {round}");
        }
    }
}

#[test]
fn a_long_append_past_the_pages_keeps_the_sequence_of_its_parts() {
    let rig = Rig::new(through_daemon());
    rig.serve("f", &[b'a'; 4096]);
    let mut how = OpenOptions::new();
    let how = how.append(true).custom_flags(libc::O_DIRECT);
    let mut file = how.open(rig.at("f")).unwrap();
    // Longer than one request of the kernel: it sends several at once.
    let whole = contents((8 << 20) + 4096);
    let from = whole.as_ptr().align_offset(4096);
    let part = &whole[from..from + (8 << 20)];
    file.write_all(part).unwrap();
    drop(file);
    assert!(fs::read(rig.on("f")).unwrap()[4096..] == *part);
}

#[test]
fn an_append_that_fails_for_want_of_room_leaves_no_part_of_itself() {
    let disk = small_disk();
    let mut rig = Rig::new(through_daemon());
    rig.unmount();
    rig.cache = disk.path().join("cache");
    rig.mount();
    let mut how = OpenOptions::new();
    let mut file = how.append(true).create(true).open(rig.at("log")).unwrap();
    file.write_all(b"first\n").unwrap();
    fill_up(disk.path());
    // Room for some blocks of one request of the kernel.
    let filler = disk.path().join("filler");
    let full = filler.metadata().unwrap().len();
    let filling = OpenOptions::new().write(true).open(&filler).unwrap();
    filling.set_len(full - (16 << 10)).unwrap();
    drop(filling);
    let record = contents(64 << 10);
    let mut rest = &record[..];
    let why = loop {
        match file.write(rest) {
            Ok(count) => rest = &rest[count..],
            error => break number(error),
        }
    };
    assert_eq!(why, libc::ENOSPC);
    fs::remove_file(filler).unwrap();
    file.write_all(rest).unwrap();
    drop(file);
    let wanted = [b"first\n", &record[..]].concat();
    assert!(fs::read(rig.on("log")).unwrap() == wanted);
    assert!(fs::read(rig.at("log")).unwrap() == wanted);
    drop(rig);
    umount2(disk.path(), MntFlags::MNT_DETACH).unwrap();
}
