//! A large file of which little changes: what is the same the server copies itself, and nobody can tell.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::rig::{Rig, options, through_daemon};

const SIZE: usize = 600 << 10;

/// Numbers without a pattern, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

fn open(rig: &Rig) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).open(rig.at("f")).unwrap()
}

/// Ours is the one conflict copy.
fn is_beside(rig: &Rig, ours: &[u8]) {
    let beside = rig.conflicts();
    assert_eq!(beside.len(), 1);
    assert!(fs::read(&beside[0]).unwrap() == ours);
}

/// Change file and model alike, once.
fn change(numbers: &mut Numbers, file: &File, model: &mut Vec<u8>) {
    match numbers.below(8) {
        0 => {
            let size = numbers.below(SIZE + (SIZE >> 1));
            file.set_len(size as u64).unwrap();
            model.resize(size, 0);
        }
        1 => file.sync_all().unwrap(),
        _ => {
            let bytes = {
                let length = 1 + numbers.below(50_000);
                numbers.bytes(length)
            };
            let at = numbers.below(model.len() + 20_000);
            file.write_all_at(&bytes, at as u64).unwrap();
            model.resize(model.len().max(at + bytes.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

#[test]
fn after_any_changes_the_server_has_the_whole_content() {
    for options in [options(), through_daemon()] {
        let rig = Rig::new(options);
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut model = numbers.bytes(SIZE);
        rig.serve("f", &model);
        for round in 0..60 {
            let file = open(&rig);
            for _ in 0..=numbers.below(4) {
                change(&mut numbers, &file, &mut model);
            }
            drop(file);
            assert!(fs::read(rig.on("f")).unwrap() == model, "round {round}");
            if round % 20 == 19 {
                // What another wrote meanwhile is what the next changes are of.
                numbers.bytes(SIZE).clone_into(&mut model);
                rig.serve("f", &model);
            }
        }
        assert!(fs::read(rig.at("f")).unwrap() == model);
        assert!(rig.conflicts().is_empty());
        let left: Vec<_> = fs::read_dir(&rig.there).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// Sizes and times are the same before and after: the contents alone show that another was there.
#[test]
fn another_change_of_the_same_second_and_size_keeps_ours_beside_it() {
    for in_place in [false, true] {
        let rig = Rig::new(options());
        let mut ours = Numbers(1).bytes(SIZE);
        fs::write(rig.on("f"), &ours).unwrap();
        let time = rig.on("f").metadata().unwrap().modified().unwrap();
        let file = open(&rig);
        file.write_all_at(b"ours", 7).unwrap();
        ours[7..11].copy_from_slice(b"ours");
        let theirs = Numbers(2).bytes(SIZE);
        if !in_place {
            fs::remove_file(rig.on("f")).unwrap();
        }
        fs::write(rig.on("f"), &theirs).unwrap();
        let written = File::options().write(true).open(rig.on("f")).unwrap();
        written.set_modified(time).unwrap();
        drop(file);
        assert!(fs::read(rig.on("f")).unwrap() == theirs);
        is_beside(&rig, &ours);
    }
}

#[test]
fn a_later_change_of_another_keeps_ours_beside_it() {
    let rig = Rig::new(options());
    let mut ours = Numbers(1).bytes(SIZE);
    rig.serve("f", &ours);
    let file = open(&rig);
    file.write_all_at(b"ours", 7).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"more", 77_777).unwrap();
    ours[7..11].copy_from_slice(b"ours");
    ours[77_777..77_781].copy_from_slice(b"more");
    let theirs = File::options().write(true).open(rig.on("f")).unwrap();
    theirs.write_all_at(b"theirs", 400_000).unwrap();
    theirs
        .set_modified(SystemTime::now() - Duration::from_secs(500))
        .unwrap();
    let theirs = fs::read(rig.on("f")).unwrap();
    drop(file);
    assert!(fs::read(rig.on("f")).unwrap() == theirs);
    is_beside(&rig, &ours);
}

/// Size and time do not show what another wrote: what is written anew here must not be mixed with it.
#[test]
fn what_is_written_anew_is_sent_whole() {
    for reads_between in [false, true] {
        let rig = Rig::new(options());
        let first = Numbers(1).bytes(SIZE);
        fs::write(rig.at("f"), &first).unwrap();
        let theirs = File::options().write(true).open(rig.on("f")).unwrap();
        let time = theirs.metadata().unwrap().modified().unwrap();
        theirs.write_all_at(&[7; 100], 200_000).unwrap();
        theirs.set_modified(time).unwrap();
        if reads_between {
            rig.shared().refresh_below(Path::new("f")).unwrap();
            assert!(fs::read(rig.at("f")).unwrap() == fs::read(rig.on("f")).unwrap());
        }
        let mut ours = first.clone();
        ours[..10].fill(9);
        fs::write(rig.at("f"), &ours).unwrap();
        assert!(
            fs::read(rig.on("f")).unwrap() == ours,
            "reads between: {reads_between}"
        );
        assert!(fs::read(rig.at("f")).unwrap() == ours);
    }
}

#[test]
fn a_fifo_in_place_of_the_file_keeps_ours_beside_it() {
    let rig = Rig::new(options());
    let mut ours = Numbers(1).bytes(SIZE);
    rig.serve("f", &ours);
    let file = open(&rig);
    file.write_all_at(b"ours", 7).unwrap();
    ours[7..11].copy_from_slice(b"ours");
    fs::remove_file(rig.on("f")).unwrap();
    mkfifo(&rig.on("f"), Mode::S_IRWXU).unwrap();
    file.sync_all().unwrap();
    drop(file);
    is_beside(&rig, &ours);
    let left = fs::read_dir(&rig.there).unwrap().count();
    assert_eq!(left, 2, "a temporary file is left");
}
