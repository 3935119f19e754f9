//! Partial files of what has changed at the sender since: none stays but what is not this user's alone, or another
//! transfer's.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use super::super::names::partial_prefix;
use super::foreign::{Foreign, foreigners, write};
use super::*;

const BIG: usize = 8 << 20;

/// A name as of another partial file of it.
fn other_partial(name: &str) -> String {
    format!("{}{:032x}", partial_prefix(name.as_bytes()), 7)
}

fn cut(place: &Place) {
    let mut cut = |at: u64, _: &mut [u8]| at < 4 << 20;
    let how = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let files = place.sources(&["folder"]);
    let (sent, _) = transfer_through(place, &files, &how.0, &how.1, Some(&mut cut));
    sent.expect_err("cut");
}

fn transfer_folder(place: &Place) -> Sent {
    let how = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let (sent, _) = transfer(place, &place.sources(&["folder"]), &how.0, &how.1);
    sent.expect("sent")
}

#[test]
fn what_was_begun_of_a_file_that_has_changed_is_removed() {
    let place = Place::new();
    fs::create_dir(place.here("folder")).expect("a folder");
    let left = || -> Vec<_> { listed(&place.there("folder")) };
    for size in [BIG, BIG + 1, BIG + 2] {
        place.make("folder/big", size);
        cut(&place);
        assert_eq!(left().len(), 1, "{size}");
    }
    // What has not changed is resumed.
    assert!(transfer_folder(&place).here.bytes < BIG as u64);
    assert_eq!(left(), [place.there("folder/big")]);
    // So it is where the file becomes small, and of one file alone.
    let other = place.there(&format!("folder/{}", other_partial("folder/big1")));
    write(&other);
    write(&place.there(&format!("folder/{}", other_partial("folder/big"))));
    place.make("folder/big", 3);
    transfer_folder(&place);
    let mut found = left();
    found.sort_unstable();
    assert_eq!(found, [other, place.there("folder/big")]);
}

#[test]
fn what_is_not_this_users_alone_stays() {
    for (what, make) in foreigners() {
        let place = Place::new();
        fs::create_dir(place.here("folder")).expect("a folder");
        fs::create_dir(place.there("folder")).expect("a folder");
        place.make("folder/file", 3);
        let path = place.there(&format!("folder/{}", other_partial("folder/file")));
        let foreign = Foreign::at(path, &make);
        transfer_folder(&place);
        assert!(place.there("folder/file").exists(), "{what}");
        foreign.assert_untouched();
    }
}

#[test]
fn what_another_transfer_has_stays() {
    let place = Place::new();
    fs::create_dir(place.here("folder")).expect("a folder");
    place.make("folder/big", BIG);
    cut(&place);
    let [path] = &listed(&place.there("folder"))[..] else {
        panic!("one file is there");
    };
    let partial = OpenOptions::new().write(true).open(path).expect("there");
    // SAFETY: no pointers are passed, and the file is open.
    let locked = unsafe { libc::flock(partial.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(locked, 0);
    place.make("folder/big", 3);
    transfer_folder(&place);
    assert!(path.exists());
    drop(partial);
    transfer_folder(&place);
    assert!(!path.exists());
}
