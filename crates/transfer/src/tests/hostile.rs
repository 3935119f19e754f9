//! Peers that speak something else, or lie.

use proptest::prelude::*;

use super::super::outcome::Tally;
use super::super::wire::{self, Entry, Frame, PREAMBLE};
use super::*;

/// What a receiver says to a peer that sends these bytes and then only listens; and what lies in its folder.
fn refused(bytes: &[u8]) -> (Failure, usize) {
    let place = Place::new();
    let folder = Folder::open(&place.root.join("into")).expect("a folder");
    let (listener, address) = bound();
    let error = thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (stream, _) = listener.accept().expect("a peer");
            receive(
                stream,
                &folder,
                &receiving(ReceiveMethod::Auto),
                &mut |_| {},
            )
        });
        let mut peer = TcpStream::connect(address).expect("a receiver");
        let _ = peer.write_all(bytes);
        let _ = peer.shutdown(Shutdown::Write);
        let _ = peer.read_to_end(&mut Vec::new());
        received.join().expect("no panic").expect_err("no transfer")
    });
    (error, listed(&place.root.join("into")).len())
}

fn spoken(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = PREAMBLE.to_vec();
    for frame in frames {
        wire::encode(frame, &mut bytes);
    }
    bytes
}

fn entry(name: &str, size: u64) -> Entry<'_> {
    Entry {
        name: name.as_bytes(),
        size,
        mode: 0o644,
        mtime_ns: 0,
    }
}

#[test]
fn names_that_lead_outside_are_refused_before_anything_is_made() {
    for name in [
        "../x",
        "/x",
        "a/../../x",
        "a//b",
        "",
        "./x",
        "a/",
        "a\0b",
        ".oscope-partial-0",
    ] {
        let frames = [
            Frame::Hello(DigestKind::Blake3),
            Frame::Entries(vec![entry("good/file", 3), entry(name, 3)]),
            Frame::EntriesEnd(2),
        ];
        let (error, count) = refused(&spoken(&frames));
        assert!(error.to_string().contains("name"), "{}", error.to_string());
        assert!(!error.to_string().contains(char::is_control));
        assert_eq!(count, 0, "{name:?}");
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_is_refused_before_anything_is_made() {
    for names in [["a", "a/b"], ["a/b/c/d", "a/b"]] {
        let frames = [
            Frame::Hello(DigestKind::Blake3),
            Frame::Entries(names.map(|name| entry(name, 3)).to_vec()),
            Frame::EntriesEnd(2),
        ];
        let (error, count) = refused(&spoken(&frames));
        assert!(error.to_string().contains("another's folder"), "{error}");
        assert_eq!(count, 0, "{names:?}");
    }
}

#[test]
fn lies_about_sizes_and_counts_are_refused() {
    let hello = || Frame::Hello(DigestKind::Blake3);
    let cases = [
        vec![
            hello(),
            Frame::Entries(vec![entry("a", u64::MAX)]),
            Frame::EntriesEnd(1),
        ],
        vec![
            hello(),
            Frame::Entries(vec![entry("a", 1)]),
            Frame::EntriesEnd(2),
        ],
        vec![
            hello(),
            Frame::Entries(vec![entry("a", 1), entry("a", 1)]),
            Frame::EntriesEnd(2),
        ],
        vec![
            hello(),
            Frame::Entries(vec![entry("a", 1)]),
            Frame::EntriesEnd(1),
            Frame::Data(2),
        ],
        vec![
            hello(),
            Frame::Entries(vec![entry("a", 1 << 40)]),
            Frame::EntriesEnd(1),
            Frame::Data(u32::MAX),
        ],
        vec![
            hello(),
            Frame::Entries(vec![entry("a", 1)]),
            Frame::EntriesEnd(1),
            Frame::End(b""),
        ],
        vec![
            hello(),
            Frame::Entries(vec![entry("a", 0)]),
            Frame::EntriesEnd(1),
            Frame::End(b"wrong"),
        ],
        vec![Frame::EntriesEnd(0)],
    ];
    for frames in cases {
        let (_, count) = refused(&spoken(&frames));
        // At most a partial was begun.
        assert!(count <= 1, "{frames:?}");
    }
}

#[test]
fn another_protocol_is_distinguished_from_another_version_and_from_silence() {
    let place = Place::new();
    place.make("file", 10);
    let files = place.sources(&["file"]);
    for (words, expected) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "no Oscope transfer speaks",
        ),
        (b"oscope.transfer/7\n", "another version"),
        (b"SSH-", "no Oscope transfer speaks"),
        (b"", "said nothing within 0.3 s"),
    ] {
        let (listener, address) = bound();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a sender");
            stream.write_all(words).expect("said");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let how = SendOptions {
            connect_limit: match words {
                b"" => Duration::from_millis(300),
                _ => LONG,
            },
            ..sending(SendMethod::Auto)
        };
        let stream = connect(address, how.connect_limit).expect("a peer");
        let error = send(stream, &files, &how, &mut |_| {}).expect_err("no transfer");
        assert!(
            error.to_string().contains(expected),
            "{}",
            error.to_string()
        );
        peer.join().expect("no panic");
    }
    let (error, _) = refused(b"GET / HTTP/1.1\r\n\r\n");
    assert!(error.to_string().contains("no Oscope transfer speaks"));
    let (error, _) = refused(b"oscope.transfer/9\n");
    assert!(error.to_string().contains("another version"));
}

#[test]
fn a_receiver_that_never_answers_is_given_up() {
    let place = Place::new();
    place.make("big", 64 << 20);
    let files = place.sources(&["big"]);
    let (listener, address) = bound();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a sender");
        let mut answer = PREAMBLE.to_vec();
        wire::encode(&Frame::Hello(DigestKind::Blake3), &mut answer);
        wire::encode(&Frame::Plan(vec![wire::Step::Whole]), &mut answer);
        stream.write_all(&answer).expect("said");
        stream
    });
    let how = SendOptions {
        stall: Duration::from_millis(400),
        ..sending(SendMethod::SendFile)
    };
    let stream = connect(address, how.connect_limit).expect("a peer");
    let error = send(stream, &files, &how, &mut |_| {}).expect_err("no transfer");
    assert!(
        error.to_string().contains("no progress"),
        "{}",
        error.to_string()
    );
    drop(peer.join());
}

#[test]
fn a_receiver_has_nothing_but_files_opened() {
    let place = Place::new();
    place.make("secret", 10);
    fs::create_dir(place.here("d")).expect("a folder");
    std::os::unix::fs::symlink("../secret", place.here("d/link")).expect("linked");
    let files = place.sources(&["d"]);
    let secret = *blake3::hash(&fs::read(place.here("secret")).expect("there")).as_bytes();
    for plan in [
        [wire::Step::Whole, wire::Step::Have(&secret)],
        [wire::Step::Whole, wire::Step::From(1)],
        [wire::Step::Have(&secret), wire::Step::Whole],
    ] {
        let mut answer = PREAMBLE.to_vec();
        wire::encode(&Frame::Hello(DigestKind::Blake3), &mut answer);
        wire::encode(&Frame::Plan(plan.to_vec()), &mut answer);
        let (listener, address) = bound();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a sender");
            stream.write_all(&answer).expect("said");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let stream = connect(address, Duration::from_secs(3)).expect("a peer");
        let how = sending(SendMethod::Auto);
        let error = send(stream, &files, &how, &mut |_| {}).expect_err("no transfer");
        assert!(error.to_string().contains("damaged"), "{plan:?}: {error}");
        peer.join().expect("no panic");
    }
}

#[test]
fn a_receivers_words_are_no_commands_to_the_terminal() {
    let place = Place::new();
    place.make("file", 10);
    let files = place.sources(&["file"]);
    for (said, shown) in [
        ("splice+readwrite", "splice+readwrite"),
        ("\u{1b}]0;owned\u{7}", "\\u{1b}]0;owned\\u{7}"),
        ("a\nb\u{9b}2J", "a\\nb\\u{9b}2J"),
    ] {
        let (listener, address) = bound();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a sender");
            let mut answer = PREAMBLE.to_vec();
            wire::encode(&Frame::Hello(DigestKind::Blake3), &mut answer);
            wire::encode(&Frame::Plan(vec![wire::Step::Whole]), &mut answer);
            let tally = Tally {
                files: 1,
                total_bytes: 10,
                method: said.to_owned(),
                chosen: Some(said.to_owned()),
                ..Tally::default()
            };
            wire::encode(&Frame::Receipt(tally), &mut answer);
            stream.write_all(&answer).expect("said");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let stream = connect(address, LONG).expect("a peer");
        let sent = send(stream, &files, &sending(SendMethod::Auto), &mut |_| {});
        let there = sent.expect("a receipt").there;
        assert_eq!(there.method, shown);
        assert_eq!(there.chosen.as_deref(), Some(shown));
        peer.join().expect("no panic");
    }
}

#[test]
fn what_links_lead_to_counts_as_names_do() {
    for kind in [wire::LINK, wire::HARD] {
        let names: Vec<_> = (0..132_000).map(|index| format!("{index}")).collect();
        let mut frames = vec![Frame::Hello(DigestKind::Blake3)];
        for part in names.chunks(1000) {
            let links = part.iter().map(|name| Entry {
                mode: kind | 0o777,
                ..entry(name, 4095)
            });
            frames.push(Frame::Entries(links.collect()));
        }
        frames.push(Frame::EntriesEnd(names.len() as u64));
        let (error, count) = refused(&spoken(&frames));
        let text = error.to_string();
        assert!(
            text.contains("more files than one transfer takes"),
            "{text}"
        );
        assert_eq!(count, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_behind_the_greeting_gives_an_error_and_no_file(noise in proptest::collection::vec(any::<u8>(), 0..600)) {
        let (_, count) = refused(&[&PREAMBLE[..], &noise].concat());
        prop_assert_eq!(count, 0);
    }

    #[test]
    fn any_bytes_are_a_frame_or_damaged(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = wire::decode(&noise);
        let mut framed = vec![0; wire::HEAD];
        framed.extend_from_slice(&noise);
        framed.extend_from_slice(&blake3::hash(&noise).as_bytes()[..wire::CHECK]);
        // A message of any content, with a right check: no panic, whatever is in it.
        let _ = wire::decode(&framed);
    }

    #[test]
    fn a_frame_is_read_as_it_was_written_and_every_flipped_bit_is_seen(
        name in proptest::collection::vec(any::<u8>(), 0..300), size: u64, mode: u32, mtime_ns: i64, bit: usize,
    ) {
        let frame = Frame::Entries(vec![Entry { name: &name, size, mode, mtime_ns }]);
        let mut bytes = Vec::new();
        wire::encode(&frame, &mut bytes);
        prop_assert_eq!(wire::decode(&bytes), Ok(frame));
        let mut head = [0; wire::HEAD];
        head.copy_from_slice(&bytes[..wire::HEAD]);
        prop_assert_eq!(wire::whole_length(head), Ok(bytes.len()));
        let at = bit % (bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
        head.copy_from_slice(&bytes[..wire::HEAD]);
        prop_assert!(wire::whole_length(head).is_err() || wire::decode(&bytes).is_err());
    }
}
