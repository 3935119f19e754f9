//! Folders: their modes and times, while a transfer runs and at its end.

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::SystemTime;

use super::edges::unprivileged;
use super::*;
use crate::{Progress, Tally};

const YEAR_2001: Duration = Duration::from_secs(1_000_000_000);

/// A folder of this mode, modified in 2001; what is in it has to be there already.
fn dress(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(0o700)).expect("our own");
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + YEAR_2001);
    File::open(path)
        .and_then(|folder| folder.set_times(times))
        .expect("our own");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own");
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o7777
}

fn is_of_2001(path: &Path) -> bool {
    let meta = fs::symlink_metadata(path).expect("there");
    (meta.mtime(), meta.mtime_nsec()) == (1_000_000_000, 0)
}

/// A place where a user without privileges sends and receives.
fn open_place() -> Place {
    let place = Place::new();
    for folder in ["from", "into"] {
        let all = Permissions::from_mode(0o777);
        fs::set_permissions(place.root.join(folder), all).expect("our own");
    }
    place
}

fn send_all(place: &Place, names: &[&str]) -> (Tally, Tally) {
    let (sent, received) = transfer(
        place,
        &place.sources(names),
        &sending(SendMethod::Auto),
        &receiving(ReceiveMethod::Auto),
    );
    (sent.expect("sent").here, received.expect("received").here)
}

#[test]
fn folders_have_their_modes_and_times_also_one_that_takes_no_files() {
    let place = open_place();
    unprivileged(|| {
        let modes = [
            ("top/shared/empty", 0o755),
            ("top/shared", 0o1775),
            ("top/private/below", 0o700),
            ("top/private", 0o700),
            ("top/fixed/below", 0o555),
            ("top/fixed", 0o500),
            ("top", 0o750),
        ];
        for (name, _) in modes {
            fs::create_dir_all(place.here(name)).expect("a folder");
        }
        for name in ["top/private/s", "top/fixed/s", "top/fixed/below/s"] {
            place.make(name, 10);
        }
        place.make("top/fixed/large", 2 << 20);
        for (name, bits) in modes {
            dress(&place.here(name), bits);
        }
        for _ in 0..2 {
            let (here, there) = send_all(&place, &["top"]);
            assert_eq!((here.files, here.folders, here.links), (4, 7, 0));
            assert_eq!((there.files, there.folders, there.links), (4, 7, 0));
            for (name, bits) in modes {
                assert_eq!(mode(&place.there(name)), bits, "{name}");
                assert!(is_of_2001(&place.there(name)), "{name}");
            }
        }
        let bytes = fs::read(place.there("top/fixed/large")).expect("there");
        assert!(bytes == fs::read(place.here("top/fixed/large")).expect("there"));
        // So that they can be removed.
        for root in [place.root.join("from"), place.root.join("into")] {
            for name in ["top/fixed", "top/fixed/below"] {
                let own = Permissions::from_mode(0o700);
                fs::set_permissions(root.join(name), own).expect("our own");
            }
        }
    });
}

#[test]
fn nobody_else_enters_a_folder_before_it_has_its_mode() {
    for existing in [None, Some(0o777), Some(0o500)] {
        let place = Place::new();
        for name in ["private/below", "open"] {
            fs::create_dir_all(place.here(name)).expect("a folder");
        }
        for name in ["private/large", "private/below/large", "open/large"] {
            place.make(name, 2 << 20);
        }
        dress(&place.here("private/below"), 0o755);
        dress(&place.here("private"), 0o700);
        dress(&place.here("open"), 0o755);
        if let Some(bits) = existing {
            fs::create_dir_all(place.there("private/below")).expect("a folder");
            dress(&place.there("private/below"), bits);
            dress(&place.there("private"), bits);
        }
        let mut seen = 0;
        // Contents come after the plan, with which folders are made.
        let mut look = |at: u64, _: &mut [u8]| {
            let there = place.there("private");
            if at > 1 << 20 {
                seen += 1;
                assert_eq!(mode(&there), 0o700);
                assert_eq!(mode(&there.join("below")) & 0o022, 0);
                assert!(existing.is_some() || mode(&there.join("below")) == 0o700);
            }
            true
        };
        let (sent, received) = transfer_through(
            &place,
            &place.sources(&["private", "open"]),
            &sending(SendMethod::Auto),
            &receiving(ReceiveMethod::Auto),
            Some(&mut look),
        );
        sent.expect("sent");
        received.expect("received");
        assert!(seen > 0);
        for (name, bits) in [
            ("private", 0o700),
            ("private/below", 0o755),
            ("open", 0o755),
        ] {
            assert_eq!(mode(&place.there(name)), bits);
            assert!(is_of_2001(&place.there(name)));
        }
    }
}

#[test]
fn an_interrupted_transfer_leaves_its_folders_private_and_the_next_one_opens_them() {
    let place = Place::new();
    fs::create_dir(place.here("open")).expect("a folder");
    place.make("open/large", 8 << 20);
    dress(&place.here("open"), 0o755);
    let files = place.sources(&["open"]);
    let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let mut cut = |at: u64, _: &mut [u8]| at < 5 << 20;
    let (sent, received) = transfer_through(&place, &files, &both.0, &both.1, Some(&mut cut));
    sent.expect_err("cut");
    received.expect_err("cut");
    assert_eq!(mode(&place.there("open")), 0o700);
    send_all(&place, &["open"]);
    assert_eq!(mode(&place.there("open")), 0o755);
    assert!(is_of_2001(&place.there("open")));
}

#[test]
fn a_folder_of_another_user_keeps_its_mode_and_takes_files_all_the_same() {
    let place = open_place();
    fs::create_dir(place.there("shared")).expect("a folder");
    dress(&place.there("shared"), 0o777);
    unprivileged(|| {
        fs::create_dir(place.here("shared")).expect("a folder");
        place.make("shared/file", 10);
        dress(&place.here("shared"), 0o700);
        let folder = Folder::open(&place.root.join("into")).expect("there");
        let (listener, address) = bound();
        let mut notes = Vec::new();
        thread::scope(|scope| {
            let received = scope.spawn(|| {
                let (stream, _) = listener.accept().expect("a sender");
                let how = receiving(ReceiveMethod::Auto);
                let mut watch = |progress: Progress| {
                    if let Progress::Note(text) = progress {
                        notes.push(text.to_owned());
                    }
                };
                receive(stream, &folder, &how, &mut watch)
            });
            let stream = connect(address, Duration::from_secs(3)).expect("a receiver");
            let files = place.sources(&["shared"]);
            send(stream, &files, &sending(SendMethod::Auto), &mut |_| {}).expect("sent");
            received.join().expect("no panic").expect("received");
        });
        assert!(
            notes.iter().any(|text| text.contains("another user")),
            "{notes:?}"
        );
    });
    assert_eq!(mode(&place.there("shared")), 0o777);
    assert!(place.there("shared/file").exists());
}

#[test]
fn two_folders_of_one_name_become_one_that_is_no_more_open_than_either() {
    let place = Place::new();
    for (name, bits) in [("a/d", 0o750), ("b/d", 0o705)] {
        fs::create_dir_all(place.here(name)).expect("a folder");
        place.make(&format!("{name}/{}", &name[..1]), 10);
        dress(&place.here(name), bits);
    }
    let (here, _) = send_all(&place, &["a/d", "b/d"]);
    assert_eq!((here.files, here.folders), (2, 1));
    assert_eq!(mode(&place.there("d")), 0o700);
}
