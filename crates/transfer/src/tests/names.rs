//! Names: whatever is accepted stays in the folder.

use std::path::Component;

use proptest::prelude::*;

use super::super::names::{Origin, check, partial, shown, split};
use super::super::wire::Entry;
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
