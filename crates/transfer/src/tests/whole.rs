//! Transfers that succeed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

const SENDERS: [SendMethod; 7] = [
    SendMethod::Auto,
    SendMethod::ReadWrite,
    SendMethod::Mmap,
    SendMethod::SendFile,
    SendMethod::Splice,
    SendMethod::ZeroCopy,
    SendMethod::Uring,
];

const RECEIVERS: [ReceiveMethod; 5] = [
    ReceiveMethod::Auto,
    ReceiveMethod::ReadWrite,
    ReceiveMethod::Mmap,
    ReceiveMethod::Splice,
    ReceiveMethod::Uring,
];

#[test]
fn every_pair_of_methods_moves_every_size() {
    let sizes = [
        0, 1, 577, 4096, 262_144, 262_145, 1_048_575, 1_048_577, 5_000_001,
    ];
    for sender in SENDERS {
        for receiver in RECEIVERS {
            let place = Place::new();
            let names: Vec<_> = sizes.iter().map(|size| format!("file {size}")).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let contents: Vec<_> = names
                .iter()
                .zip(sizes)
                .map(|(name, size)| place.make(name, size))
                .collect();
            let files = place.sources(&names);
            let (sent, received) = transfer(&place, &files, &sending(sender), &receiving(receiver));
            let sent = sent.expect("sent");
            let received = received.expect("received");
            assert_eq!(sent.files, received.files);
            assert_eq!(sent.there, received.here);
            for (name, bytes) in names.iter().zip(&contents) {
                assert!(
                    fs::read(place.there(name)).expect("there") == *bytes,
                    "{name} {sender:?} {receiver:?}"
                );
            }
            for (done, bytes) in sent.files.iter().zip(&contents) {
                let digest = blake3::hash(bytes).to_hex().to_string();
                assert_eq!(
                    done.digest.as_ref(),
                    Some(&digest),
                    "{} {sender:?} {receiver:?}",
                    done.name
                );
            }
            let moved: usize = sizes.iter().sum();
            assert_eq!(received.here.bytes, moved as u64);
            assert!(received.here.calls > 0 && sent.here.calls > 0);
            assert_eq!(place.partials(), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn ten_thousand_files_arrive_and_a_second_time_none_is_moved() {
    let place = Place::new();
    fs::create_dir(place.here("many")).expect("a folder");
    for index in 0..10_000 {
        fs::write(
            place.here(&format!("many/{index}")),
            format!("file {index}"),
        )
        .expect("a file");
    }
    let files = place.sources(&["many"]);
    let (sent, received) = transfer(
        &place,
        &files,
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    assert_eq!(sent.expect("sent").here.files, 10_000);
    assert_eq!(received.expect("received").here.skipped, 0);
    for index in 0..10_000 {
        let text = fs::read_to_string(place.there(&format!("many/{index}"))).expect("there");
        assert_eq!(text, format!("file {index}"));
    }
    let (sent, received) = transfer(
        &place,
        &files,
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    let here = sent.expect("sent").here;
    assert_eq!((here.files, here.skipped, here.bytes), (10_000, 10_000, 0));
    assert_eq!(received.expect("received").here.skipped, 10_000);
}

#[test]
fn modes_and_times_are_kept_but_not_setuid() {
    let place = Place::new();
    place.make("plain", 10);
    place.make("big", 2 << 20);
    fs::set_permissions(place.here("plain"), Permissions::from_mode(0o4755)).expect("a mode");
    fs::set_permissions(place.here("big"), Permissions::from_mode(0o400)).expect("a mode");
    let files = place.sources(&["plain", "big"]);
    let (sent, received) = transfer(
        &place,
        &files,
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    sent.expect("sent");
    received.expect("received");
    for (name, mode) in [("plain", 0o755), ("big", 0o400)] {
        let there = fs::metadata(place.there(name)).expect("there");
        let here = fs::metadata(place.here(name)).expect("here");
        assert_eq!(there.mode() & 0o7777, mode);
        assert_eq!(
            (there.mtime(), there.mtime_nsec()),
            (here.mtime(), here.mtime_nsec())
        );
    }
}

#[test]
fn sha512_is_that_of_the_whole_file() {
    use sha2::{Digest, Sha512};
    let place = Place::new();
    let bytes = place.make("file", 3 << 20);
    let how = SendOptions {
        digest: DigestKind::Sha512,
        ..SendOptions::default()
    };
    let (sent, received) = transfer(
        &place,
        &place.sources(&["file"]),
        &how,
        &ReceiveOptions::default(),
    );
    let digest = format!("{:x}", Sha512::digest(&bytes));
    assert_eq!(sent.expect("sent").files[0].digest, Some(digest.clone()));
    assert_eq!(received.expect("received").files[0].digest, Some(digest));
}

#[test]
fn a_sender_without_digests_is_refused_unless_the_receiver_asks_for_none() {
    let place = Place::new();
    let bytes = place.make("file", 300_000);
    let files = place.sources(&["file"]);
    let how = SendOptions {
        digest: DigestKind::None,
        ..SendOptions::default()
    };
    let (sent, received) = transfer(&place, &files, &how, &ReceiveOptions::default());
    assert!(sent.expect_err("refused").to_string().contains("verifies"));
    assert!(
        received
            .expect_err("refused")
            .to_string()
            .contains("no digests")
    );
    assert!(listed(&place.root.join("into")).is_empty());
    let unverified = ReceiveOptions {
        verify: false,
        ..ReceiveOptions::default()
    };
    for how in [how, SendOptions::default()] {
        let (sent, received) = transfer(&place, &files, &how, &unverified);
        assert_eq!(sent.expect("sent").files[0].digest, None);
        assert_eq!(received.expect("received").files[0].digest, None);
        assert!(fs::read(place.there("file")).expect("there") == bytes);
    }
}

#[test]
fn folders_below_folders_are_made() {
    let place = Place::new();
    fs::create_dir_all(place.here("a/b/c")).expect("folders");
    place.make("a/one", 5);
    place.make("a/b/c/two", 600_000);
    let (sent, received) = transfer(
        &place,
        &place.sources(&["a"]),
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    sent.expect("sent");
    received.expect("received");
    for name in ["a/one", "a/b/c/two"] {
        assert!(
            fs::read(place.there(name)).expect("there")
                == fs::read(place.here(name)).expect("here")
        );
    }
}

#[test]
fn links_are_left_out_with_a_note_where_that_was_asked_for() {
    let place = Place::new();
    fs::create_dir(place.here("a")).expect("a folder");
    place.make("a/one", 5);
    std::os::unix::fs::symlink("one", place.here("a/link")).expect("a link");
    let found = Source::gather(&[place.here("a")], Links::Skip, &[]).expect("gathered");
    // The folder, and the file in it.
    assert_eq!(found.files.len(), 2);
    assert!(found.notes.len() == 1 && found.notes[0].contains("a/link"));
    assert!(found.left_out.is_empty());
    assert!(Source::gather(&[place.here("absent")], Links::Skip, &[]).is_err());
    std::os::unix::fs::symlink("nowhere", place.here("dangling")).expect("linked");
    let refused = Source::gather(&[place.here("dangling")], Links::Keep, &[]).unwrap_err();
    assert!(
        refused.to_string().contains("dangling: a link to nowhere"),
        "{refused}"
    );
}

#[test]
fn empty_folders_links_and_odd_names_arrive() {
    let place = Place::new();
    fs::create_dir_all(place.here("a/empty/er")).expect("a folder");
    place.make("a/new\nline\u{1b}[2J", 5);
    for (name, target) in [
        ("a/out", "../../up"),
        ("a/link", "one"),
        ("a/broken", "\u{1b}"),
    ] {
        std::os::unix::fs::symlink(target, place.here(name)).expect("a link");
    }
    // What has the name of a link is replaced by it, and not followed.
    fs::create_dir(place.there("a")).expect("a folder");
    fs::write(place.there("a/one"), b"one").expect("a file");
    std::os::unix::fs::symlink("one", place.there("a/out")).expect("a link");
    let files = place.sources(&["a"]);
    let (sent, received) = transfer(
        &place,
        &files,
        &sending(SendMethod::Auto),
        &receiving(ReceiveMethod::Auto),
    );
    let there = sent.expect("sent").there;
    assert_eq!((there.files, there.links, there.folders), (1, 3, 3));
    received.expect("received");
    assert!(place.there("a/empty/er").is_dir());
    assert_eq!(fs::read(place.there("a/one")).expect("there"), b"one");
    assert!(place.there("a/new\nline\u{1b}[2J").is_file());
    for (name, target) in [
        ("a/out", "../../up"),
        ("a/link", "one"),
        ("a/broken", "\u{1b}"),
    ] {
        assert_eq!(
            fs::read_link(place.there(name)).expect("a link"),
            Path::new(target)
        );
    }
    assert!(place.partials().is_empty());
}

#[test]
fn what_no_receiver_takes_is_left_out_and_named_and_a_circle_of_links_ends() {
    let place = Place::new();
    fs::create_dir(place.here("a")).expect("a folder");
    for name in ["a/one", "a/two", "a/.oscope-partial-1"] {
        place.make(name, 5);
    }
    std::os::unix::fs::symlink(".", place.here("a/circle")).expect("a link");
    std::os::unix::fs::symlink("two", place.here("a/three")).expect("a link");
    let found =
        Source::gather(&[place.here("a")], Links::Follow, &["two".into()]).expect("gathered");
    let names: Vec<_> = found.files.iter().map(|file| &file.name[..]).collect();
    assert_eq!(names, [&b"a"[..], b"a/one", b"a/three"]);
    let mut left: Vec<_> = found.left_out.iter().map(|left| &left.name[..]).collect();
    left.sort_unstable();
    assert_eq!(left, ["a/.oscope-partial-1", "a/circle"]);
    let skip = ["a/circle".into(), ".oscope-partial-1".into()];
    let found = Source::gather(&[place.here("a")], Links::Follow, &skip).expect("gathered");
    assert!(found.left_out.is_empty() && found.files.len() == 4);
}

#[test]
fn xxh3_is_that_of_the_whole_file_whether_small_or_large() {
    use twox_hash::XxHash3_128;
    // As `xxhsum -H2` prints it of no bytes (XXH3 with seed 0, in its canonical order).
    assert_eq!(
        super::super::digest::hex(&super::super::digest::of(DigestKind::Xxh3, b"")),
        Some("99aa06d3014798d86001c324468d497f".into())
    );
    let place = Place::new();
    let contents = [place.make("small", 1000), place.make("large", 3 << 20)];
    let how = SendOptions {
        digest: DigestKind::Xxh3,
        ..SendOptions::default()
    };
    let (sent, received) = transfer(
        &place,
        &place.sources(&["small", "large"]),
        &how,
        &ReceiveOptions::default(),
    );
    let (sent, received) = (sent.expect("sent"), received.expect("received"));
    for (index, bytes) in contents.iter().enumerate() {
        let digest = Some(format!("{:032x}", XxHash3_128::oneshot(bytes)));
        assert_eq!(sent.files[index].digest, digest);
        assert_eq!(received.files[index].digest, digest);
    }
}

#[test]
fn many_small_files_replace_others_and_have_their_modes() {
    let place = Place::new();
    fs::create_dir(place.here("many")).expect("a folder");
    for index in 0..500 {
        let path = place.here(&format!("many/{index}"));
        fs::write(&path, noise(index * 40, index as u64)).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o400 + index as u32 % 64))
            .expect("a mode");
    }
    fs::create_dir(place.there("many")).expect("a folder");
    for index in (0..500).step_by(3) {
        fs::write(place.there(&format!("many/{index}")), "old").expect("a file");
    }
    let files = place.sources(&["many"]);
    let (sent, received) = transfer(
        &place,
        &files,
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    assert_eq!(sent.expect("sent").there.files, 500);
    received.expect("received");
    for index in 0..500 {
        let there = place.there(&format!("many/{index}"));
        assert_eq!(
            fs::read(&there).expect("there"),
            noise(index * 40, index as u64)
        );
        let mode = fs::metadata(&there).expect("there").mode() & 0o7777;
        assert_eq!(mode, 0o400 + index as u32 % 64);
    }
    assert_eq!(listed(&place.there("many")).len(), 500);
}
