//! What an open sees: another's change a moment ago, beside a close on its way, and after the server was away.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use super::rig::{Rig, options, through_daemon, until};
use crate::mount::Options;
use crate::mount::opening::Opened;
use crate::mount::tree::ROOT;

/// Changes the content on the server, not the size nor the time.
fn change_unseen(rig: &Rig, name: &str, content: &[u8]) {
    let path = rig.on(name);
    let before = fs::metadata(&path).unwrap();
    fs::write(&path, content).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(file.metadata().unwrap().len(), before.len());
}

#[test]
fn anothers_change_within_the_second_of_ours_is_read() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        for content in [vec![b'1'; 6], vec![b'1'; 600_000]] {
            let mut theirs = content.clone();
            *theirs.last_mut().unwrap() = b'2';
            fs::write(rig.at("f"), &content).unwrap();
            assert_eq!(fs::read(rig.at("f")).unwrap(), content);
            change_unseen(&rig, "f", &theirs);
            assert_eq!(fs::read(rig.at("f")).unwrap(), theirs);
            fs::write(rig.on("f"), b"longer or shorter").unwrap();
            assert_eq!(fs::read(rig.at("f")).unwrap(), b"longer or shorter");
        }
    }
}

#[test]
fn a_small_new_file_is_filled_in_place_and_replaced_from_then_on() {
    let rig = Rig::new(options());
    let mut file = File::create(rig.at("f")).unwrap();
    let made = fs::metadata(rig.on("f")).unwrap().ino();
    file.write_all(b"first").unwrap();
    file.sync_all().unwrap();
    let filled = fs::metadata(rig.on("f")).unwrap();
    assert_eq!((filled.ino(), filled.len()), (made, 5));
    file.write_all(b" second").unwrap();
    drop(file);
    assert_ne!(fs::metadata(rig.on("f")).unwrap().ino(), made);
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"first second");
    let mut file = File::create(rig.at("g")).unwrap();
    let made = fs::metadata(rig.on("g")).unwrap().ino();
    file.write_all(&[b'x'; (32 << 10) + 1]).unwrap();
    drop(file);
    assert_ne!(
        fs::metadata(rig.on("g")).unwrap().ino(),
        made,
        "others could see half of it"
    );
    let mut file = File::create(rig.at("h")).unwrap();
    fs::write(rig.on("h"), b"theirs").unwrap();
    file.write_all(b"ours").unwrap();
    drop(file);
    assert_eq!(fs::read(rig.on("h")).unwrap(), b"theirs");
    let kept = rig.conflicts();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), b"ours");
}

#[test]
fn an_open_after_a_close_asks_the_server_though_the_release_is_still_on_its_way() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        let opened_and_closed = |name: &str, write: bool| {
            rig.serve(name, b"old");
            let mut how = OpenOptions::new();
            let mut file = how.read(true).write(write).open(rig.at(name)).unwrap();
            if write {
                file.write_all(b"our").unwrap();
            }
            // A close: flushed. The release comes with that of the other descriptor.
            drop(file.try_clone().unwrap());
            rig.serve(name, b"new, longer");
            file
        };
        for (name, write) in [("read", false), ("written", true)] {
            let file = opened_and_closed(name, write);
            let closing = thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                drop(file);
            });
            let read = fs::read(rig.at(name)).unwrap();
            closing.join().unwrap();
            assert_eq!(read, b"new, longer", "what was closed is taken for open");
        }
        let open = opened_and_closed("open", false);
        assert_eq!(fs::read(rig.at("open")).unwrap(), b"old");
        drop(open);
        assert!(rig.conflicts().is_empty());
    }
}

/// What an open by a thread shows of a file whose look-up by thread 7 asked the server, which was changed since.
fn read_after_look_up(rig: &Rig, name: &str, thread: u32, after: Duration) -> Vec<u8> {
    rig.serve(name, b"old");
    assert_eq!(fs::read(rig.at(name)).unwrap(), b"old");
    let shared = rig.shared();
    let (ino, seen) = shared.look_up(ROOT, OsStr::new(name)).unwrap();
    let file = shared.tree().file(ino).unwrap();
    until("nobody has the copy", || !file.in_use());
    rig.serve(name, b"new, longer");
    file.looked_up.given(seen.map(|seen| (7, seen)));
    thread::sleep(after);
    let refused = |_: &File| Err(io::Error::from_raw_os_error(libc::EPERM));
    // What the kernel was shown may differ from what is opened: then the open is to be repeated.
    let opened = (0..2).find_map(|_| {
        let opened = shared.open(ino, libc::O_RDONLY, Some(thread), refused);
        opened.ok()
    });
    let (Some(Opened::Daemon(number, _)), Some(copy)) = (opened, file.copy()) else {
        panic!("it is not open");
    };
    let mut content = Vec::new();
    copy.file().try_clone().unwrap().rewind().unwrap();
    copy.file().read_to_end(&mut content).unwrap();
    shared.release(number);
    content
}

#[test]
fn the_look_up_within_an_open_asks_for_it_and_no_other_does() {
    let rig = Rig::new(through_daemon());
    // A machine that is held up may let the time of one call pass: once, not each time.
    let asked_once = (0..5).any(|count| {
        read_after_look_up(&rig, &format!("same {count}"), 7, Duration::ZERO) == b"old"
    });
    assert!(asked_once, "the server was asked twice for one open");
    for (thread, after) in [(8, 0), (0, 0), (7, 20)] {
        let (name, after) = (
            format!("other {thread} {after}"),
            Duration::from_millis(after),
        );
        assert_eq!(
            read_after_look_up(&rig, &name, thread, after),
            b"new, longer"
        );
    }
}

#[test]
fn an_open_after_a_look_up_of_another_call_asks_the_server() {
    for options in [options(), through_daemon()] {
        let attribute_time = Duration::from_millis(50);
        let rig = Rig::new(Options {
            attribute_time,
            ..options
        });
        for _ in 0..20 {
            rig.serve("f", b"old");
            assert_eq!(fs::read(rig.at("f")).unwrap(), b"old");
            thread::sleep(attribute_time);
            assert_eq!(fs::metadata(rig.at("f")).unwrap().len(), 3);
            rig.serve("f", b"new, longer");
            assert_eq!(fs::read(rig.at("f")).unwrap(), b"new, longer");
        }
    }
}

#[test]
fn a_look_up_of_one_name_says_nothing_for_an_open_by_another() {
    let attribute_time = Duration::from_millis(20);
    let rig = Rig::new(Options {
        attribute_time,
        ..options()
    });
    rig.serve("f", b"old");
    fs::hard_link(rig.at("f"), rig.at("g")).unwrap();
    let length = |name: &str| fs::metadata(rig.at(name)).unwrap().len();
    for round in 0..60 {
        rig.serve("f", b"old");
        thread::sleep(attribute_time * 2);
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"old");
        thread::sleep(attribute_time * 2);
        // The kernel remembers the second name for a little longer than the attributes are known.
        assert_eq!((length("f"), length("g")), (3, 3));
        thread::sleep(attribute_time + Duration::from_micros(500) * (round % 6));
        assert_eq!(length("f"), 3);
        rig.serve("f", b"new, longer");
        assert_eq!(fs::read(rig.at("g")).unwrap(), b"new, longer");
    }
}

#[test]
fn a_file_stays_shared_though_one_of_its_descriptors_was_closed() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"old");
        let file = File::open(rig.at("f")).unwrap();
        drop(file.try_clone().unwrap());
        rig.serve("f", b"new, longer");
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"old");
        drop(file);
    }
}

#[test]
fn what_was_read_unasked_without_the_server_is_not_built_upon() {
    let mut rig = Rig::impatient(options());
    fs::write(rig.at("f"), b"ours 1").unwrap();
    let (_, f) = rig.shared().child_file(ROOT, OsStr::new("f")).unwrap();
    // The kernel, or another test's program that is just being started, may have the copy a moment longer.
    until("nobody has the copy", || !f.in_use());
    rig.server.stop();
    until("the mount knows it", || rig.shared().is_down());
    let reading = File::open(rig.at("f")).unwrap();
    change_unseen(&rig, "f", b"theirs");
    rig.server.start();
    until("the mount knows it", || !rig.shared().is_down());
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" and 2").unwrap();
    drop((file, reading));
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"theirs");
    let kept = rig.conflicts();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), b"ours 1 and 2");
}

#[test]
fn a_name_whose_file_was_removed_while_it_waited_to_go_back_can_be_made_anew() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"base");
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" and more").unwrap();
    rig.server.stop();
    drop(file);
    rig.unmount();
    rig.server.start();
    fs::remove_file(rig.on("f")).unwrap();
    rig.mount();
    fs::write(rig.at("f"), b"new").unwrap();
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"new");
    let kept = rig.conflicts();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), b"base and more");
}

/// Sets a file's times by its name, as touch(1) does: nobody opens it for that.
fn set_time_by_name(path: &Path, seconds: i64) {
    let time = TimeSpec::new(seconds, 0);
    let follow = UtimensatFlags::FollowSymlink;
    utimensat(AT_FDCWD, path, &time, &time, follow).unwrap();
}

#[test]
fn a_time_that_is_set_leaves_the_copy_of_a_file_that_nobody_writes_to() {
    for is_open in [false, true] {
        let rig = Rig::new(options());
        rig.serve("f", b"text");
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"text");
        let reader = is_open.then(|| File::open(rig.at("f")).unwrap());
        set_time_by_name(&rig.at("f"), 1_000_000_000);
        assert_eq!(fs::metadata(rig.on("f")).unwrap().mtime(), 1_000_000_000);
        drop(reader);
        // Another content of the same size and time: who reads the cache cannot know.
        change_unseen(&rig, "f", b"TEXT");
        let text = fs::read(rig.at("f")).unwrap();
        assert_eq!(text, b"text", "it was fetched again");
    }
}

#[test]
fn a_time_that_is_set_hides_no_change_of_another() {
    for is_open in [false, true] {
        let rig = Rig::new(options());
        rig.serve("f", b"text");
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"text");
        let reader = is_open.then(|| File::open(rig.at("f")).unwrap());
        fs::write(rig.on("f"), b"TEXT").unwrap();
        set_time_by_name(&rig.at("f"), 1_000_000_000);
        drop(reader);
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"TEXT");
        // Nor one that comes in the very second that is set.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        set_time_by_name(&rig.at("f"), i64::try_from(now.as_secs()).unwrap());
        change_unseen(&rig, "f", b"next");
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"next");
    }
}

#[test]
fn a_node_that_is_in_use_when_the_kernel_forgets_it_goes_later() {
    let rig = Rig::new(options());
    rig.serve("f", b"text");
    let shared = rig.shared();
    let ino = shared.lookup(ROOT, OsStr::new("f")).unwrap();
    let child = || shared.tree().child(ROOT, OsStr::new("f"));
    shared.tree().looked_up(ino);
    let held = shared.tree().file(ino);
    shared.tree().forget(ino, 1);
    assert_eq!(child(), Some(ino));
    drop(held);
    until("it goes", || child().is_none());
}
