//! Contents: read, write, append, truncate, map, link, unlink while open.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::rig::{Rig, number, options, through_daemon, until};
use crate::mount::Options;

#[test]
fn what_is_written_through_one_descriptor_is_read_through_another() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", &[b'.'; 1000]);
        let mut one = OpenOptions::new()
            .read(true)
            .write(true)
            .open(rig.at("f"))
            .unwrap();
        let mut other = File::open(rig.at("f")).unwrap();
        one.write_all(&[b'x'; 100]).unwrap();
        let mut read = [0; 100];
        other.read_exact(&mut read).unwrap();
        assert_eq!(read, [b'x'; 100]);
        drop(one);
        let want = [[b'x'; 100].as_slice(), &[b'.'; 900]].concat();
        assert_eq!(fs::read(rig.on("f")).unwrap(), want);
    }
}

#[test]
fn a_file_is_on_the_server_when_close_returns() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        fs::write(rig.at("new"), b"first").unwrap();
        assert_eq!(fs::read(rig.on("new")).unwrap(), b"first");
        OpenOptions::new()
            .append(true)
            .open(rig.at("new"))
            .unwrap()
            .write_all(b" second")
            .unwrap();
        assert_eq!(fs::read(rig.on("new")).unwrap(), b"first second");
        fs::write(rig.at("new"), b"third").unwrap();
        assert_eq!(fs::read(rig.on("new")).unwrap(), b"third");
        assert_eq!(fs::read(rig.at("new")).unwrap(), b"third");
        assert_eq!(
            fs::read_dir(rig.on("")).unwrap().count(),
            1,
            "a temporary file is left"
        );
    }
}

/// What reads a changed copy in order to copy it back is this program, not a user of the file.
#[test]
fn copying_back_is_no_access() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"one");
        let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
        // That the server read it to have it fetched counts as one.
        let opened = SystemTime::now();
        // The server has whole seconds.
        sleep(Duration::from_millis(1100));
        file.write_all(b" two").unwrap();
        drop(file);
        let accessed = rig.on("f").metadata().unwrap().accessed().unwrap();
        assert!(accessed <= opened, "{accessed:?} is after {opened:?}");
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"one two");
    }
}

/// What was sent is neither what the copy held before nor what it holds afterwards: that is no change of another's.
#[test]
fn a_file_that_is_written_to_while_it_is_copied_back_has_no_conflict() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        fs::write(rig.at("f"), vec![0; 640 << 10]).unwrap();
        let open = || {
            let mut how = OpenOptions::new();
            how.read(true).write(true).open(rig.at("f")).unwrap()
        };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        drop(open());
                    }
                });
            }
            for round in 0..100_u8 {
                open().write_all_at(&vec![round; 640 << 10], 0).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(rig.conflicts(), Vec::<PathBuf>::new());
        assert_eq!(fs::read(rig.on("f")).unwrap(), vec![99; 640 << 10]);
    }
}

#[test]
fn fsync_copies_back_before_close() {
    let rig = Rig::new(options());
    let mut file = File::create(rig.at("f")).unwrap();
    file.write_all(b"one").unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"one");
    // Of the same size, within one tick of the clock.
    file.write_all_at(b"two", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"two");
}

#[test]
fn truncation_by_name_by_handle_and_at_open() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"0123456789");
        let file = OpenOptions::new().write(true).open(rig.at("f")).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        drop(file);
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"0123");
        nix::unistd::truncate(&rig.at("f"), 6).unwrap();
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"0123\0\0");
        nix::unistd::truncate(&rig.at("f"), 0).unwrap();
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"");
        rig.serve("f", b"0123456789");
        drop(
            OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(rig.at("f"))
                .unwrap(),
        );
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"");
    }
}

#[test]
fn an_exclusive_create_fails_where_there_is_a_file() {
    let rig = Rig::new(options());
    let exclusive = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(rig.at("f"))
    };
    drop(exclusive().unwrap());
    assert_eq!(number(exclusive()), libc::EEXIST);
    rig.serve("g", b"made elsewhere");
    assert_eq!(number(File::create_new(rig.at("g"))), libc::EEXIST);
}

#[test]
fn a_file_that_is_unlinked_while_open_works_on_and_does_not_come_back() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"old");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(rig.at("f"))
            .unwrap();
        fs::remove_file(rig.at("f")).unwrap();
        assert!(!rig.on("f").exists());
        file.write_all(b"new content").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(
            (read.as_str(), file.metadata().unwrap().nlink()),
            ("new content", 0)
        );
        file.sync_all().unwrap();
        drop(file);
        assert_eq!(fs::read_dir(rig.on("")).unwrap().count(), 0);
        fs::write(rig.at("f"), b"another").unwrap();
        assert_eq!(fs::read(rig.on("f")).unwrap(), b"another");
    }
}

/// The first page of a file of that length, mapped to be read and stored to.
fn first_page(file: &fs::File) -> *mut u8 {
    // SAFETY: a new mapping; nothing else is at the address it gets.
    let map = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            access,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(map, libc::MAP_FAILED);
    map.cast()
}

#[test]
fn what_a_mapping_changes_after_close_goes_back_when_it_is_unmapped() {
    for options in [options(), through_daemon()] {
        let mut rig = Rig::new(options);
        rig.serve("f", &[b'.'; 4096]);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(rig.at("f"))
            .unwrap();
        let map = first_page(&file);
        let store = |at: usize, byte: u8| {
            // SAFETY: within the mapping, which lives until it is unmapped below.
            unsafe { map.add(at).write_volatile(byte) }
        };
        store(0, b'a');
        file.sync_all().unwrap();
        assert_eq!(fs::read(rig.on("f")).unwrap()[..2], *b"a.");
        // The page is writable by now: neither the clock nor the kernel reports this one.
        store(1, b'b');
        drop(file);
        assert_eq!(fs::read(rig.on("f")).unwrap()[..3], *b"ab.");
        store(2, b'c');
        // SAFETY: the mapping made above, of the same length; it is not used any more.
        assert_eq!(unsafe { libc::munmap(map.cast(), 4096) }, 0);
        until("the last change is on the server", || {
            fs::read(rig.on("f")).unwrap()[..4] == *b"abc."
        });
        until("it is clean", || rig.shared().report().dirty.is_empty());
        assert_eq!(fs::read(rig.at("f")).unwrap()[..4], *b"abc.");
        rig.unmount();
    }
}

#[test]
fn what_a_mapping_stores_changes_the_time_though_the_attributes_are_believed() {
    for passthrough in [true, false] {
        let options = Options {
            attribute_time: Duration::from_secs(3600),
            passthrough,
            ..options()
        };
        let mut rig = Rig::new(options);
        rig.serve("f", &[b'.'; 4096]);
        let before = rig.at("f").metadata().unwrap().modified().unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(rig.at("f"))
            .unwrap();
        let map = first_page(&file);
        // SAFETY: within the mapping, which lives until it is unmapped below.
        unsafe { map.write_volatile(b'a') };
        if rig.passthrough() {
            assert_ne!(file.metadata().unwrap().modified().unwrap(), before);
        }
        // SAFETY: the mapping made above, of the same length; it is not used any more.
        assert_eq!(unsafe { libc::munmap(map.cast(), 4096) }, 0);
        drop(file);
        assert_eq!(fs::read(rig.on("f")).unwrap()[..2], *b"a.");
        let after = rig.at("f").metadata().unwrap().modified().unwrap();
        assert_ne!(after, before);
        rig.unmount();
    }
}

#[test]
fn a_folder_that_is_open_and_has_lost_its_name_has_no_link() {
    let mut rig = Rig::new(options());
    assert_ne!(rig.here.metadata().unwrap().nlink(), 0);
    let names = ["removed", "replaced", "other"].map(|name| rig.at(name));
    names.iter().for_each(|name| fs::create_dir(name).unwrap());
    let [removed, replaced] = [0, 1].map(|at| fs::File::open(&names[at]).unwrap());
    fs::remove_dir(&names[0]).unwrap();
    fs::rename(&names[2], &names[1]).unwrap();
    for folder in [&removed, &replaced] {
        assert_eq!(folder.metadata().unwrap().nlink(), 0);
    }
    assert_ne!(names[1].metadata().unwrap().nlink(), 0);
    drop((removed, replaced));
    rig.unmount();
}

#[test]
fn a_linked_file_stays_one_file() {
    let rig = Rig::new(options());
    rig.serve("f", b"old");
    fs::hard_link(rig.at("f"), rig.at("g")).unwrap();
    assert_eq!(fs::metadata(rig.at("f")).unwrap().nlink(), 2);
    fs::write(rig.at("g"), b"new content").unwrap();
    assert_eq!(fs::read(rig.at("f")).unwrap(), b"new content");
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"new content");
    let inode = |name| fs::metadata(rig.on(name)).unwrap().ino();
    assert_eq!(inode("f"), inode("g"));
    fs::remove_file(rig.at("f")).unwrap();
    assert_eq!(fs::read(rig.at("g")).unwrap(), b"new content");
}

#[test]
fn mode_and_times_are_set_on_the_server_and_kept_by_copying_back() {
    let rig = Rig::new(options());
    fs::write(rig.at("f"), b"text").unwrap();
    fs::set_permissions(rig.at("f"), fs::Permissions::from_mode(0o4750)).unwrap();
    assert_eq!(fs::metadata(rig.on("f")).unwrap().mode() & 0o7777, 0o4750);
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" more").unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    let there = fs::metadata(rig.on("f")).unwrap();
    assert_eq!(
        (there.mode() & 0o7777, there.mtime()),
        (0o4750, 1_000_000_000)
    );
    assert_eq!(fs::metadata(rig.at("f")).unwrap().mtime(), 1_000_000_000);
    let untouched = fs::metadata(rig.on("f")).unwrap().ino();
    File::open(rig.at("f"))
        .unwrap()
        .set_modified(time + Duration::from_secs(5))
        .unwrap();
    let there = fs::metadata(rig.on("f")).unwrap();
    assert_eq!(
        (there.mtime(), there.ino()),
        (1_000_000_005, untouched),
        "it was copied back for its time alone"
    );
}

#[test]
fn holes_and_allocation_are_those_of_the_copy() {
    let rig = Rig::new(options());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(rig.at("f"))
        .unwrap();
    file.set_len(1 << 20).unwrap();
    file.write_all_at(b"x", 512 << 10).unwrap();
    let data = nix::unistd::lseek(&file, 0, nix::unistd::Whence::SeekData).unwrap();
    assert!(data > 0 && data <= 512 << 10, "{data}");
    let keep = nix::fcntl::FallocateFlags::empty();
    nix::fcntl::fallocate(&file, keep, 0, 2 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    drop(file);
    assert_eq!(fs::metadata(rig.on("f")).unwrap().len(), 2 << 20);
    rig.serve("g", &[b'x'; 4097]);
    assert_eq!(fs::metadata(rig.at("g")).unwrap().blocks() * 512, 8192);
}

#[test]
fn a_version_of_the_server_is_seen_at_the_next_open() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"one");
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"one");
        fs::write(rig.on("f"), b"two").unwrap();
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"two");
        // Same size, same second.
        fs::write(rig.on("f"), b"six").unwrap();
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"six");
        fs::write(rig.at("f"), b"ten").unwrap();
        fs::write(rig.on("f"), b"zig").unwrap();
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"zig");
    }
}

#[test]
fn an_old_version_is_fetched_once() {
    let rig = Rig::new(options());
    rig.serve("f", b"text");
    let text = || fs::read(rig.at("f")).unwrap();
    assert_eq!(text(), b"text");
    // Another content of the same size and time: who reads the cache cannot know.
    let time = fs::metadata(rig.on("f")).unwrap().modified().unwrap();
    fs::write(rig.on("f"), b"TEXT").unwrap();
    File::options()
        .write(true)
        .open(rig.on("f"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    assert_eq!(text(), b"text", "it was fetched again");
}

#[test]
fn passthrough_is_had_as_root_and_its_lack_is_told() {
    let rig = Rig::new(options());
    fs::write(rig.at("f"), b"x").unwrap();
    let report = rig.shared().report();
    let root = nix::unistd::geteuid().is_root();
    assert_eq!(report.passthrough, report.why_not.is_empty());
    assert!(!report.passthrough || root, "only root is let");
    assert_eq!(report.operations.contains_key("write"), !report.passthrough);
    let rig = Rig::new(through_daemon());
    assert!(!rig.passthrough() && !rig.shared().report().why_not.is_empty());
}

/// Each descriptor that is closed copies the file back, while others go on writing: what arrives is no content that the
/// copy ever had, and is ours all the same.
#[test]
fn writers_of_one_mount_do_not_conflict_with_each_other() {
    const WRITERS: usize = 4;
    const LINES: usize = 25;
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        let append = || {
            let mut how = OpenOptions::new();
            how.append(true).create(true).open(rig.at("f")).unwrap()
        };
        // As a shell's children have it: one description, each with a descriptor of its own.
        let shared = append();
        thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    for _ in 0..LINES {
                        append().write_all(b"alone\n").unwrap();
                        shared.try_clone().unwrap().write_all(b"shared\n").unwrap();
                    }
                });
            }
        });
        let written = (WRITERS * LINES * b"alone\nshared\n".len()) as u64;
        assert_eq!(rig.on("f").metadata().unwrap().len(), written);
        drop(shared);
        assert_eq!(rig.conflicts(), Vec::<PathBuf>::new());
        assert_eq!(
            fs::read(rig.on("f")).unwrap(),
            fs::read(rig.at("f")).unwrap()
        );
    }
}
