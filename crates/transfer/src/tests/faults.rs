//! Transfers that go wrong: reported on both sides, nothing wrong under a final name, and done by the next try.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;

const BIG: usize = 24 << 20;

/// All receiving methods, and sending ones in turn.
pub const PAIRS: [(SendMethod, ReceiveMethod); 6] = [
    (SendMethod::ReadWrite, ReceiveMethod::ReadWrite),
    (SendMethod::Mmap, ReceiveMethod::Mmap),
    (SendMethod::SendFile, ReceiveMethod::Splice),
    (SendMethod::Splice, ReceiveMethod::Uring),
    (SendMethod::ZeroCopy, ReceiveMethod::Mmap),
    (SendMethod::Uring, ReceiveMethod::ReadWrite),
];

#[test]
fn a_transfer_that_was_cut_goes_on_where_it_was() {
    for (sender, receiver) in PAIRS {
        let place = Place::new();
        let bytes = place.make("big", BIG);
        let files = place.sources(&["big"]);
        let mut cut = |at: u64, _: &mut [u8]| at < 10 << 20;
        let (sent, received) = transfer_through(
            &place,
            &files,
            &sending(sender),
            &receiving(receiver),
            Some(&mut cut),
        );
        sent.expect_err("cut");
        received.expect_err("cut");
        assert!(!place.there("big").exists());
        assert_eq!(place.partials().len(), 1, "{receiver:?}");
        let (sent, received) = transfer(&place, &files, &sending(sender), &receiving(receiver));
        let moved = sent.expect("sent").here.bytes;
        assert!(
            moved > 0 && moved < (BIG - (8 << 20)) as u64,
            "{moved} {sender:?} {receiver:?}"
        );
        assert_eq!(received.expect("received").here.bytes, moved);
        assert!(
            fs::read(place.there("big")).expect("there") == bytes,
            "{sender:?} {receiver:?}"
        );
        assert!(place.partials().is_empty());
    }
}

#[test]
fn zeros_behind_what_a_killed_receiver_got_are_not_taken_for_contents() {
    let place = Place::new();
    let bytes = place.make("big", BIG);
    let files = place.sources(&["big"]);
    let mut cut = |at: u64, _: &mut [u8]| at < 10 << 20;
    let how = (
        sending(SendMethod::SendFile),
        receiving(ReceiveMethod::Mmap),
    );
    let (sent, _) = transfer_through(&place, &files, &how.0, &how.1, Some(&mut cut));
    sent.expect_err("cut");
    let partial = OpenOptions::new()
        .write(true)
        .open(&place.partials()[0])
        .expect("a partial");
    let length = partial.metadata().expect("its size").len();
    partial.set_len(length + 500_000).expect("zeros");
    let (sent, received) = transfer(&place, &files, &how.0, &how.1);
    assert_eq!(sent.expect("sent").here.bytes, BIG as u64 - length);
    received.expect("received");
    assert!(fs::read(place.there("big")).expect("there") == bytes);
}

#[test]
fn a_damaged_beginning_is_found_and_the_next_try_begins_anew() {
    let place = Place::new();
    let bytes = place.make("big", BIG);
    let files = place.sources(&["big"]);
    let how = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let mut cut = |at: u64, _: &mut [u8]| at < 10 << 20;
    let (sent, _) = transfer_through(&place, &files, &how.0, &how.1, Some(&mut cut));
    sent.expect_err("cut");
    let partial = place.partials().remove(0);
    let mut prefix = fs::read(&partial).expect("a partial");
    prefix[4711] ^= 1;
    fs::write(&partial, prefix).expect("written");
    let (sent, received) = transfer(&place, &files, &how.0, &how.1);
    assert!(sent.expect_err("damaged").to_string().contains("damaged"));
    assert!(
        received
            .expect_err("damaged")
            .to_string()
            .contains("damaged")
    );
    assert!(!place.there("big").exists() && place.partials().is_empty());
    let (sent, _) = transfer(&place, &files, &how.0, &how.1);
    assert_eq!(sent.expect("sent").here.bytes, BIG as u64);
    assert!(fs::read(place.there("big")).expect("there") == bytes);
}

#[test]
fn a_flipped_bit_anywhere_gives_no_wrong_file() {
    let sizes = [("a", 700), ("b", 0), ("c", 1_200_000), ("d", 300_000)];
    let whole: u64 = sizes.iter().map(|(_, size)| *size as u64).sum();
    let near = (0..420).step_by(7);
    let far = (1..12).map(|part| part * whole / 12);
    for offset in near.chain(far) {
        let place = Place::new();
        let contents: Vec<_> = sizes
            .iter()
            .map(|(name, size)| place.make(name, *size))
            .collect();
        let files = place.sources(&["a", "b", "c", "d"]);
        let mut flip = |at: u64, bytes: &mut [u8]| {
            let index = offset
                .checked_sub(at)
                .and_then(|index| usize::try_from(index).ok());
            if let Some(byte) = index.and_then(|index| bytes.get_mut(index)) {
                *byte ^= 1 << (offset % 8);
            }
            true
        };
        let how = (
            sending(SendMethod::SendFile),
            receiving(ReceiveMethod::Splice),
        );
        let (sent, received) = transfer_through(&place, &files, &how.0, &how.1, Some(&mut flip));
        assert!(
            sent.is_err() && received.is_err(),
            "a bit of byte {offset} was flipped"
        );
        for path in listed(&place.root.join("into")) {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if let Some(index) = sizes.iter().position(|(known, _)| *known == name) {
                assert!(
                    fs::read(&path).expect("there") == contents[index],
                    "{name} after {offset}"
                );
            } else {
                assert!(
                    name.starts_with(".oscope-partial-"),
                    "{name} after {offset}"
                );
            }
        }
        let (sent, _) = transfer(&place, &files, &how.0, &how.1);
        sent.expect("done by the next try");
    }
}

#[test]
fn a_file_that_changes_is_an_error_on_both_sides() {
    for (name, size) in [("small", 4000), ("big", BIG)] {
        for new_size in [0, size - 1, size + 1] {
            let place = Place::new();
            place.make(name, size);
            let files = place.sources(&[name]);
            let file = OpenOptions::new()
                .write(true)
                .open(place.here(name))
                .expect("the file");
            file.set_len(new_size as u64).expect("a new size");
            let (sent, received) = transfer(
                &place,
                &files,
                &SendOptions::default(),
                &ReceiveOptions::default(),
            );
            assert!(
                sent.expect_err("changed")
                    .to_string()
                    .contains("changed while")
            );
            assert!(
                received
                    .expect_err("changed")
                    .to_string()
                    .contains("changed while")
            );
            assert!(!place.there(name).exists());
        }
    }
}

#[test]
fn a_file_that_changes_in_the_middle_is_an_error_and_no_signal() {
    for (sender, receiver) in PAIRS {
        for new_size in [5 << 20, BIG + 1] {
            let place = Place::new();
            place.make("big", BIG);
            let files = place.sources(&["big"]);
            let source = OpenOptions::new()
                .write(true)
                .open(place.here("big"))
                .expect("the file");
            let mut changed = false;
            let mut change = |at: u64, _: &mut [u8]| {
                if at > 1 << 20 && !changed {
                    changed = true;
                    source.set_len(new_size as u64).expect("a new size");
                }
                true
            };
            let (sent, received) = transfer_through(
                &place,
                &files,
                &sending(sender),
                &receiving(receiver),
                Some(&mut change),
            );
            let message = sent.expect_err("changed").to_string();
            assert!(
                message.contains("changed while"),
                "{message} {sender:?} {new_size}"
            );
            let message = received.expect_err("changed").to_string();
            assert!(
                message.contains("changed while"),
                "{message} {receiver:?} {new_size}"
            );
            assert!(!place.there("big").exists());
        }
    }
}

#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let place = Place::new();
    fs::create_dir(place.here("sub")).expect("a folder");
    place.make("sub/file", 100);
    let outside = place.root.join("outside");
    fs::create_dir(&outside).expect("a folder");
    symlink(&outside, place.there("sub")).expect("a link");
    let (sent, received) = transfer(
        &place,
        &place.sources(&["sub"]),
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    assert!(
        sent.expect_err("refused")
            .to_string()
            .contains("symbolic link")
    );
    assert!(
        received
            .expect_err("refused")
            .to_string()
            .contains("symbolic link")
    );
    assert!(listed(&outside).is_empty());

    place.make("file", 100);
    fs::write(outside.join("kept"), "kept").expect("a file");
    symlink(outside.join("kept"), place.there("file")).expect("a link");
    let (sent, _) = transfer(
        &place,
        &place.sources(&["file"]),
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    sent.expect("sent");
    assert_eq!(
        fs::read_to_string(outside.join("kept")).expect("there"),
        "kept"
    );
    assert!(
        !fs::symlink_metadata(place.there("file"))
            .expect("there")
            .is_symlink()
    );
}

#[test]
fn a_folder_in_a_files_place_is_refused() {
    let place = Place::new();
    place.make("file", 100);
    fs::create_dir(place.there("file")).expect("a folder");
    let (sent, received) = transfer(
        &place,
        &place.sources(&["file"]),
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    assert!(
        sent.expect_err("refused")
            .to_string()
            .contains("file: the other side stopped: a folder has its name")
    );
    assert_eq!(
        received.expect_err("refused").to_string(),
        "file: a folder has its name there"
    );
}

#[test]
fn a_folder_in_a_links_place_is_refused_before_any_contents_move() {
    let place = Place::new();
    fs::create_dir(place.here("a")).expect("a folder");
    place.make("a/file", 100);
    symlink("file", place.here("a/link")).expect("a link");
    fs::create_dir_all(place.there("a/link")).expect("a folder");
    let (sent, received) = transfer(
        &place,
        &place.sources(&["a"]),
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    sent.expect_err("refused");
    assert_eq!(
        received.expect_err("refused").to_string(),
        "a/link: a folder has its name there"
    );
    assert!(!place.there("a/file").exists());
}

#[test]
fn a_partial_that_another_transfer_has_is_refused() {
    let place = Place::new();
    place.make("big", BIG);
    let files = place.sources(&["big"]);
    let mut cut = |at: u64, _: &mut [u8]| at < 10 << 20;
    let how = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let (sent, _) = transfer_through(&place, &files, &how.0, &how.1, Some(&mut cut));
    sent.expect_err("cut");
    let partial = fs::File::open(&place.partials()[0]).expect("a partial");
    // SAFETY: no pointers are passed, and the file is open.
    let locked = unsafe { libc::flock(partial.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(locked, 0);
    let (sent, received) = transfer(&place, &files, &how.0, &how.1);
    assert!(
        sent.expect_err("refused")
            .to_string()
            .contains("another transfer")
    );
    assert!(
        received
            .expect_err("refused")
            .to_string()
            .contains("another transfer")
    );
    drop(partial);
    let (sent, _) = transfer(&place, &files, &how.0, &how.1);
    sent.expect("sent");
}

/// A tmpfs of one size, or one file at another's place; gone at the end.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where mounting is not allowed.
    fn mount(at: &Path, options: &str) -> Option<Self> {
        Self::mounted(Path::new("tmpfs"), at, MsFlags::empty(), options)
    }

    /// The same.
    pub(super) fn bind(from: &Path, at: &Path) -> Option<Self> {
        Self::mounted(from, at, MsFlags::MS_BIND, "")
    }

    fn mounted(from: &Path, at: &Path, flags: MsFlags, options: &str) -> Option<Self> {
        let mounted = mount(Some(from), at, Some("tmpfs"), flags, Some(options));
        mounted.is_ok().then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_is_reported_on_both_sides_and_the_transfer_resumes() {
    for (sender, receiver) in PAIRS {
        let place = Place::new();
        let bytes = place.make("big", BIG);
        let files = place.sources(&["big"]);
        let Some(disk) = SmallDisk::mount(&place.root.join("into"), "size=8m") else {
            assert!(!nix::unistd::geteuid().is_root(), "root may mount a tmpfs");
            return;
        };
        let how = (sending(sender), receiving(receiver));
        let (sent, received) = transfer(&place, &files, &how.0, &how.1);
        let message = sent.expect_err("full").to_string();
        assert!(message.contains("No space left"), "{message} {sender:?}");
        let message = received.expect_err("full").to_string();
        assert!(message.contains("No space left"), "{message} {receiver:?}");
        assert!(!place.there("big").exists());
        assert_eq!(place.partials().len(), 1);
        let (tmpfs, grown) = (Some("tmpfs"), Some("size=64m"));
        mount(tmpfs, &disk.0, tmpfs, MsFlags::MS_REMOUNT, grown).expect("root grows a tmpfs");
        let (sent, _) = transfer(&place, &files, &how.0, &how.1);
        assert!(sent.expect("sent").here.bytes < BIG as u64, "{receiver:?}");
        assert!(fs::read(place.there("big")).expect("there") == bytes);
        drop(disk);
    }
}

#[test]
fn a_full_disk_has_a_remedy_that_is_true() {
    const ROOM: &str = "make room at the receiver and send again";
    let kept = &format!("{ROOM}: what arrived is kept");
    for (name, size, options, verify, remedy) in [
        ("big", BIG, "size=8m", true, kept.as_str()),
        ("big", BIG, "size=8m", false, ROOM),
        ("small", 200_000, "size=100k", true, ROOM),
        // The inode that there is is the folder's own.
        ("big", BIG, "nr_inodes=1", true, ROOM),
        ("small", 10, "nr_inodes=1", true, ROOM),
        ("folder/small", 10, "nr_inodes=1", true, ROOM),
    ] {
        let place = Place::new();
        fs::create_dir(place.here("folder")).expect("a folder");
        place.make(name, size);
        let files = place.sources(&[name.split('/').next().expect("a name")]);
        let Some(_disk) = SmallDisk::mount(&place.root.join("into"), options) else {
            assert!(!nix::unistd::geteuid().is_root(), "root may mount a tmpfs");
            return;
        };
        let how = ReceiveOptions {
            verify,
            ..receiving(ReceiveMethod::Auto)
        };
        let (sent, received) = transfer(&place, &files, &sending(SendMethod::Auto), &how);
        for error in [sent.expect_err("full"), received.expect_err("full")] {
            assert!(error.to_string().contains("No space left"), "{error}");
            assert_eq!(error.remedy(), Some(remedy), "{name} {options} {error}");
        }
        assert_eq!(place.partials().is_empty(), remedy == ROOM, "{name}");
    }
}

#[test]
fn what_is_gone_is_resumed_where_files_are_verified() {
    for verify in [true, false] {
        let place = Place::new();
        place.make("big", BIG);
        let files = place.sources(&["big"]);
        let mut cut = |at: u64, _: &mut [u8]| at < 10 << 20;
        let how = ReceiveOptions {
            verify,
            ..receiving(ReceiveMethod::Auto)
        };
        let sender = sending(SendMethod::Auto);
        let (sent, received) = transfer_through(&place, &files, &sender, &how, Some(&mut cut));
        for error in [sent.expect_err("cut"), received.expect_err("cut")] {
            let remedy = error.remedy().unwrap_or_default();
            assert_eq!(remedy.contains("to resume"), verify, "{error}: {remedy}");
        }
        assert_eq!(place.partials().len(), usize::from(verify));
    }
}
