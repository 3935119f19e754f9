//! Another changes the mode of a file while this mount has it open.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::thread;

use super::rig::{Rig, options, through_daemon, until};

#[test]
fn the_mode_that_another_sets_while_it_is_open_stays() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        rig.serve("f", b"old");
        rig.serve("linked", b"old");
        let set = |path: PathBuf, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let mode = |name: &str| fs::metadata(rig.on(name)).unwrap().mode() & 0o7777;
        fs::hard_link(rig.at("linked"), rig.at("link")).unwrap();
        for name in ["f", "linked"] {
            set(rig.on(name), 0o644).unwrap();
            let mut file = OpenOptions::new().write(true).open(rig.at(name)).unwrap();
            set(rig.on(name), 0o600).unwrap();
            file.write_all(b"new and private").unwrap();
            drop(file);
            assert_eq!(fs::read(rig.on(name)).unwrap(), b"new and private");
            assert_eq!(mode(name), 0o600, "{name}");
            // This mount's own change stays as well.
            let mut file = OpenOptions::new().write(true).open(rig.at(name)).unwrap();
            file.write_all(b"for the group").unwrap();
            set(rig.at(name), 0o640).unwrap();
            drop(file);
            assert_eq!(mode(name), 0o640, "{name}");
        }
    }
}

#[test]
fn the_mode_that_another_sets_while_it_is_sent_stays() {
    let rig = Rig::new(options());
    rig.serve("f", b"old");
    let set = |mode| fs::set_permissions(rig.on("f"), Permissions::from_mode(mode)).unwrap();
    set(0o644);
    let mut file = OpenOptions::new().write(true).open(rig.at("f")).unwrap();
    file.write_all(&vec![7; 128 << 20]).unwrap();
    let closing = thread::spawn(move || drop(file));
    until("a part of it is on the server", || {
        let mut found = fs::read_dir(&rig.there).unwrap();
        found.any(|entry| {
            let entry = entry.unwrap();
            let size = entry.metadata().map_or(0, |now| now.len());
            entry.file_name() != "f" && size > 0
        })
    });
    set(0o600);
    closing.join().unwrap();
    let there = fs::metadata(rig.on("f")).unwrap();
    assert_eq!((there.len(), there.mode() & 0o7777), (128 << 20, 0o600));
}
