//! What cannot be read is named and left out, and everything else arrives.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::device::files;
use super::super::place;
use super::super::wire::{self, Entry, Frame, HARD, PREAMBLE};
use super::edges::{answered_in, unprivileged};
use super::*;

/// Files of root that nobody else may read, among others: small, empty, large, and one with another name.
fn make(place: &Place) -> Vec<(String, Vec<u8>)> {
    let all = Permissions::from_mode(0o777);
    fs::set_permissions(place.root.join("into"), all).expect("our own");
    fs::create_dir(place.here("nb")).expect("a folder");
    for (name, size) in [("nb/empty", 0), ("nb/large", 3 << 20), ("nb/no", 6)] {
        place.make(name, size);
        let own = Permissions::from_mode(0o600);
        fs::set_permissions(place.here(name), own).expect("our own");
    }
    fs::hard_link(place.here("nb/no"), place.here("nb/other")).expect("linked");
    ["nb/aa", "nb/middle", "nb/zz"]
        .into_iter()
        .zip([10, 2 << 20, 10])
        .map(|(name, size)| (name.to_owned(), place.make(name, size)))
        .collect()
}

#[test]
fn what_may_not_be_read_is_left_out_and_all_else_arrives() {
    for (sending_by, receiving_by) in [
        (SendMethod::Auto, ReceiveMethod::Auto),
        (SendMethod::ReadWrite, ReceiveMethod::Mmap),
        (SendMethod::Splice, ReceiveMethod::Uring),
    ] {
        let place = Place::new();
        let contents = make(&place);
        let mut found = Source::gather(&[place.here("nb")], Links::Keep, &[]).expect("found");
        found.join_names();
        for again in [false, true] {
            let both = (sending(sending_by), receiving(receiving_by));
            let (sent, received) =
                unprivileged(|| transfer(&place, &found.files, &both.0, &both.1));
            let (sent, received) = (sent.expect("sent"), received.expect("received"));
            assert_eq!(sent.there, received.here);
            assert_eq!((sent.here.files, sent.here.folders), (3, 1));
            assert_eq!(sent.here.skipped, if again { 3 } else { 0 });
            assert_eq!(sent.files, received.files);
            let total: usize = contents.iter().map(|(_, bytes)| bytes.len()).sum();
            assert_eq!(sent.here.total_bytes, total as u64);
            let left: Vec<_> = sent.left_out.iter().map(|left| &left.name[..]).collect();
            assert_eq!(left, ["nb/empty", "nb/large", "nb/no", "nb/other"]);
            let reason = &sent.left_out[0].reason;
            assert!(reason.contains("opening: Permission denied"), "{reason}");
            assert!(reason.contains("--skip"), "{reason}");
            assert!(sent.left_out[3].reason.contains("another name of nb/no"));
            for (name, bytes) in &contents {
                assert!(fs::read(place.there(name)).expect("there") == *bytes);
            }
            assert_eq!(listed(&place.there("nb")).len(), 3);
            assert!(place.partials().is_empty());
        }
    }
}

#[test]
fn a_device_is_given_files_that_can_be_opened_alone() {
    let place = Place::new();
    let contents = make(&place);
    fs::create_dir_all(place.here("nb/only/links")).expect("a folder");
    symlink("aa", place.here("nb/only/links/link")).expect("linked");
    let mut found = Source::gather(&[place.here("nb")], Links::Keep, &[]).expect("found");
    unprivileged(|| files::keep(&mut found)).expect("some are left");
    let names = found.files.iter().map(|file| &file.name[..]);
    assert!(names.eq(contents.iter().map(|(name, _)| name.as_bytes())));
    let mut left: Vec<_> = found.left_out.iter().map(|left| &left.name[..]).collect();
    left.sort_unstable();
    let unreadable = ["nb/empty", "nb/large", "nb/no"];
    let others = ["nb/only", "nb/only/links", "nb/only/links/link", "nb/other"];
    assert_eq!(left, [&unreadable[..], &others[..]].concat());
}

#[test]
fn a_file_that_has_vanished_is_left_out_and_what_is_there_of_it_stays() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.make(name, 10);
    }
    let files = place.sources(&["a", "b", "c"]);
    let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let (sent, _) = transfer(&place, &files, &both.0, &both.1);
    sent.expect("sent");
    fs::remove_file(place.here("b")).expect("our own");
    let (sent, received) = transfer(&place, &files, &both.0, &both.1);
    let sent = sent.expect("sent");
    received.expect("received");
    assert_eq!((sent.left_out.len(), sent.here.skipped), (1, 2));
    assert!(place.there("b").exists());
}

#[test]
fn what_is_left_out_gets_no_other_name() {
    let place = Place::new();
    fs::write(place.there("old"), "123").expect("a file");
    let entry = |name, size, mode| Entry {
        name,
        size,
        mode,
        mtime_ns: 0,
    };
    let mut said = PREAMBLE.to_vec();
    let digest = blake3::hash(b"old");
    for frame in [
        Frame::Hello(DigestKind::Blake3),
        Frame::Entries(vec![
            entry(b"old", 3, 0o644),
            entry(b"new", 3, HARD | 0o644),
        ]),
        Frame::EntriesEnd(2),
        Frame::Left("a\x1breason"),
        Frame::Data(3),
    ] {
        wire::encode(&frame, &mut said);
    }
    said.extend_from_slice(b"old");
    wire::encode(&Frame::End(digest.as_bytes()), &mut said);
    let (error, _) = answered_in(&place, &said);
    assert!(
        error
            .to_string()
            .contains("links to no file of this transfer"),
        "{error}"
    );
    assert!(!place.there("new").exists());
}

#[test]
fn bytes_of_holes_are_counted_apart_and_not_as_there_before() {
    let place = Place::new();
    let file = fs::File::create(place.here("s")).expect("a file");
    file.set_len(50 << 20).expect("a size");
    drop(file);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(place.here("s"))
        .expect("there");
    file.write_all(b"end").expect("written");
    let files = place.sources(&["s"]);
    let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    let (sent, received) = transfer(&place, &files, &both.0, &both.1);
    for here in [sent.expect("sent").here, received.expect("received").here] {
        assert_eq!(here.total_bytes, (50 << 20) + 3);
        assert_eq!(here.bytes + here.holes, here.total_bytes);
        assert!(here.bytes <= 4096 && here.skipped == 0);
    }
    let (sent, _) = transfer(&place, &files, &both.0, &both.1);
    let here = sent.expect("sent").here;
    assert_eq!((here.bytes, here.holes, here.skipped), (0, 0, 1));
}

#[test]
fn a_path_that_is_not_there_is_left_out_and_the_others_are_sent() {
    let place = Place::new();
    place.make("here", 3);
    let paths = [place.here("gone"), place.here("here")];
    let found = Source::gather(&paths, Links::Keep, &[]).expect("one is there");
    assert_eq!(found.files.len(), 1);
    assert_eq!(found.left_out.len(), 1);
    assert_eq!(found.left_out[0].name, paths[0].display().to_string());
    assert_eq!(found.left_out[0].reason, "No such file or directory");
    let skipped = Source::gather(&paths, Links::Keep, &["gone".into()]).expect("one is there");
    assert!(skipped.left_out.is_empty());
    let none = Source::gather(&paths[..1], Links::Keep, &["gone".into()]);
    assert!(none.is_err());
    let error = Source::gather(&paths[..1], Links::Keep, &[]).expect_err("nothing is there");
    assert!(error.to_string().contains("gone"), "{error}");
}

#[test]
fn what_is_named_itself_is_skipped_and_what_is_no_file_is_left_out() {
    let place = Place::new();
    fs::create_dir(place.here("folder")).expect("a folder");
    place.make("id.key", 3);
    place.make("notes", 3);
    let pipe = place.here("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let paths = ["id.key", "notes", "pipe", "folder"].map(|name| place.here(name));
    let skip = ["id.key".into(), "folder".into()];
    let found = Source::gather(&paths, Links::Keep, &skip).expect("one is left");
    assert_eq!(found.files.len(), 1);
    assert_eq!(found.files[0].name, b"notes");
    assert_eq!(found.left_out.len(), 1);
    assert_eq!(found.left_out[0].name, pipe.display().to_string());
    let reason = &found.left_out[0].reason;
    assert!(reason.contains("neither a regular file"), "{reason}");
    let skip_all = paths.clone().map(|path| path.into_os_string());
    let none = Source::gather(&paths, Links::Keep, &skip_all).expect_err("nothing is left");
    assert!(none.is_request(), "{none}");
    // A slash behind a folder makes no other path of it, and nothing is called "".
    let slashed = [place.here("folder/"), place.here("notes")];
    let by_path = [paths[3].clone().into_os_string()];
    let found = Source::gather(&slashed, Links::Keep, &by_path).expect("one is left");
    assert_eq!(found.files.len(), 1);
    let found = Source::gather(&slashed, Links::Keep, &["".into()]).expect("all is left");
    assert_eq!(found.files.len(), 2);
    let alone = Source::gather(&paths[2..3], Links::Keep, &[]).expect_err("no file");
    assert!(
        alone.to_string().contains("neither a regular file"),
        "{alone}"
    );
}

/// Put a link in the place of what was found: it leads to the like of it, outside.
fn swap(place: &Place, name: &str) {
    let outside = place.root.join("outside");
    fs::create_dir_all(&outside).expect("a folder");
    let (path, other) = (place.here(name), outside.join(name.replace('/', " ")));
    fs::rename(&path, &other).expect("our own");
    symlink(&other, &path).expect("linked");
}

#[test]
fn a_link_that_takes_the_place_of_what_was_found_is_not_followed() {
    for links in [Links::Keep, Links::Follow] {
        let place = Place::new();
        fs::create_dir_all(place.here("d/below")).expect("a folder");
        let names = [
            "d/a",
            "d/b",
            "d/large",
            "d/z",
            "d/below/a",
            "d/below/b",
            "named",
        ];
        for name in names {
            place.make(name, if name == "d/large" { 2 << 20 } else { 10 });
        }
        let paths = ["d", "named"].map(|name| place.here(name));
        let files = Source::gather(&paths, links, &[]).expect("found").files;
        for name in ["d/b", "d/large", "d/below", "named"] {
            swap(&place, name);
        }
        let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
        let (sent, received) = transfer(&place, &files, &both.0, &both.1);
        received.expect("received");
        let sent = sent.expect("sent");
        let left: Vec<_> = sent.left_out.iter().map(|left| &left.name[..]).collect();
        let expected: &[_] = match links {
            Links::Follow => &[],
            _ => &["d/b", "d/large", "d/below/a", "d/below/b", "named"],
        };
        assert_eq!(left, expected);
        for left in &sent.left_out {
            assert!(left.reason.contains("symbolic link"), "{}", left.reason);
        }
        for name in names {
            let arrived = place.there(name).exists();
            assert_eq!(arrived, !expected.contains(&name), "{name} {links:?}");
        }
    }
}

#[test]
fn a_link_that_is_named_is_followed_with_and_without_a_slash() {
    let place = Place::new();
    fs::create_dir_all(place.here("real/below")).expect("a folder");
    for name in ["real/a", "real/b", "real/below/c"] {
        place.make(name, 10);
    }
    symlink("real", place.here("folder")).expect("linked");
    symlink("real/a", place.here("file")).expect("linked");
    let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    for folder in ["folder", "folder/", "folder//", "folder/."] {
        let files = place.sources(&[folder, "file"]);
        let (sent, received) = transfer(&place, &files, &both.0, &both.1);
        assert!(sent.expect("sent").left_out.is_empty());
        received.expect("received");
        for name in ["folder/a", "folder/b", "folder/below/c", "file"] {
            let there = place.there(name);
            assert_eq!(fs::read(&there).expect("there").len(), 10, "{folder}");
            fs::remove_file(there).expect("our own");
        }
    }
}

#[test]
fn a_folder_that_a_link_replaces_is_not_read() {
    let place = Place::new();
    fs::create_dir(place.here("d")).expect("a folder");
    place.make("d/a", 10);
    let path = place.here("d");
    let followed = place::followed(&path);
    let flags = nix::fcntl::OFlag::O_RDONLY;
    place::open(&path, followed, flags).expect("it is a folder");
    swap(&place, "d");
    let error = place::open(&path, followed, flags).expect_err("it is a link");
    assert_eq!(error, nix::errno::Errno::ELOOP);
    place::open(&path, place::followed(&path), flags).expect("a link that is named is followed");
}
