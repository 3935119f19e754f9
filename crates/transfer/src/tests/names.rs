//! Names: whatever is accepted stays in the folder.

use std::os::unix::fs::symlink;
use std::path::Component;

use proptest::prelude::*;

use super::super::names::{Origin, check, partial, shown, split};
use super::super::wire::Entry;
use super::faults::SmallDisk;
use super::*;

#[test]
fn ordinary_names_are_taken() {
    for name in [
        "a",
        "a/b",
        "...",
        "..a",
        "-rf",
        "with space",
        "ümlaut/日本",
        ".hidden",
        "a.oscope-partial-",
    ] {
        assert_eq!(check(name.as_bytes()), Ok(()), "{name}");
    }
    assert_eq!(check(b"\xff\xfe"), Ok(()));
    assert_eq!(check("a\nb\u{1b}[2J\u{85}".as_bytes()), Ok(()));
    assert!(check(b"a\0b").is_err());
    assert!(check(&[b'a'; 256]).is_err());
    assert!(check("a/".repeat(2050).as_bytes()).is_err());
}

#[test]
fn a_partial_is_of_one_name_size_time_and_mode() {
    let entry = Entry {
        name: b"a",
        size: 1,
        mode: 0o644,
        mtime_ns: 5,
    };
    let others = [
        Entry {
            name: b"b",
            ..entry
        },
        Entry { size: 2, ..entry },
        Entry {
            mode: 0o600,
            ..entry
        },
        Entry {
            mtime_ns: 6,
            ..entry
        },
    ];
    let plain = |entry: &Entry| partial(entry, Origin::Plain);
    assert_eq!(plain(&entry), plain(&entry.clone()));
    for other in others {
        assert_ne!(plain(&entry), plain(&other));
    }
    assert_ne!(plain(&entry), partial(&entry, Origin::Keyed));
}

#[test]
fn a_name_is_shown_in_one_line_and_no_two_alike() {
    for (name, text) in [
        (&b"a\nb"[..], "a\\nb"),
        (b"a\\nb", "a\\\\nb"),
        (b"\x1b[2J", "\\u{1b}[2J"),
        (b"\xff", "\\xff"),
        ("ümlaut/日本".as_bytes(), "ümlaut/日本"),
    ] {
        assert_eq!(shown(name), text);
    }
}

#[test]
fn what_takes_a_name_that_was_free_is_not_replaced() {
    // As another file of the transfer does where names that differ in capitals are one name.
    for (name, size, linked, resumed) in [
        ("small", 100_000, false, false),
        ("large", 3 << 20, false, false),
        ("large", 3 << 20, false, true),
        ("folder/small", 100_000, false, false),
        ("folder/large", 3 << 20, true, false),
    ] {
        let place = Place::new();
        fs::create_dir(place.here("folder")).expect("a folder");
        place.make(name, size);
        let taken = match linked {
            true => "folder/link",
            false => name,
        };
        if linked {
            symlink("anywhere", place.here(taken)).expect("linked");
        }
        let sent_name = if name.contains('/') { "folder" } else { name };
        let files = place.sources(&[sent_name]);
        let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
        if resumed {
            let mut cut = |at: u64, _: &mut [u8]| at < 2 << 20;
            let (sent, _) = transfer_through(&place, &files, &both.0, &both.1, Some(&mut cut));
            sent.expect_err("cut");
        }
        let mut planted = false;
        let mut plant = |_: u64, bytes: &mut [u8]| {
            // They are contents: what is there has been looked at.
            if bytes.len() > 4096 && !planted {
                planted = true;
                fs::write(place.there(taken), "another").expect("planted");
            }
            true
        };
        let (sent, received) = transfer_through(&place, &files, &both.0, &both.1, Some(&mut plant));
        for error in [sent.expect_err("refused"), received.expect_err("refused")] {
            let text = error.to_string();
            assert!(text.contains(taken) && text.contains("capitals"), "{text}");
            assert!(error.remedy().is_some_and(|text| text.contains("rename")));
        }
        let there = fs::read(place.there(taken)).expect("planted");
        assert_eq!(there, b"another", "{name} {linked} {resumed}");
        assert!(place.partials().is_empty(), "{name} {linked} {resumed}");
    }
}

#[test]
fn two_names_of_one_place_are_refused_before_anything_is_moved() {
    let place = Place::new();
    for (name, size) in [("README", 20), ("Readme", 30), ("other", 10)] {
        place.make(name, size);
        fs::write(place.there(name), "before").expect("a file");
    }
    let both = (sending(SendMethod::Auto), receiving(ReceiveMethod::Auto));
    // As where both names find one file.
    let Some(_same) = SmallDisk::bind(&place.there("README"), &place.there("Readme")) else {
        assert!(!nix::unistd::geteuid().is_root(), "root may mount a file");
        return;
    };
    let files = place.sources(&["other", "README", "Readme"]);
    let (sent, received) = transfer(&place, &files, &both.0, &both.1);
    for error in [sent.expect_err("refused"), received.expect_err("refused")] {
        let text = error.to_string();
        assert!(
            text.contains("Readme") && text.contains("capitals"),
            "{text}"
        );
    }
    for name in ["README", "other"] {
        assert_eq!(fs::read(place.there(name)).expect("there"), b"before");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_name_that_is_taken_has_only_plain_components(
        name in proptest::collection::vec(prop_oneof![
            Just(b'/'), Just(b'.'), Just(b'a'), Just(b'\n'), any::<u8>()
        ], 0..12)
    ) {
        use std::os::unix::ffi::OsStrExt;
        if check(&name).is_ok() {
            let path = Path::new(std::ffi::OsStr::from_bytes(&name));
            prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            prop_assert!(!name.contains(&0));
            let (folder, base) = split(&name);
            prop_assert!(!base.is_empty() && !base.contains(&b'/'));
            let joined = match folder { b"" => base.to_vec(), _ => [folder, b"/", base].concat() };
            prop_assert_eq!(joined, name);
        }
    }
}
