//! Transfers over a keyed connection, by XXH3: what is moved, and what of an earlier transfer counts.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::super::digest::StreamingDigest;
use super::super::key::Key;
use super::super::names::Origin;
use super::super::partial::Partial;
use super::super::wire::Entry;
use super::super::{Entrance, digest, listen, receive_sealed, send_sealed};
use super::*;

/// One keyed transfer that succeeds, both sides in this process.
fn transfer_keyed(place: &Place, files: &[Source]) -> (Sent, Received) {
    let (sent, received) = try_keyed(place, files);
    (sent.expect("a transfer"), received.expect("a transfer"))
}

/// One keyed transfer, with a key of its own.
fn try_keyed(place: &Place, files: &[Source]) -> Both {
    let folder = Folder::open(&place.root.join("into")).expect("the folder is there");
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.local_addr().expect("its address");
    let key = Key::new().expect("random numbers");
    let how = SendOptions {
        digest: DigestKind::Xxh3,
        ..sending(SendMethod::Auto)
    };
    thread::scope(|scope| {
        let received = scope.spawn(|| {
            let arrival = Entrance::new(&listener, &key).next(&|_| {});
            let arrival = arrival.expect("not interrupted").expect("a sender");
            let how = receiving(ReceiveMethod::Auto);
            receive_sealed(arrival, &folder, &how, &mut |_| {})
        });
        let stream = connect(address, Duration::from_secs(3)).expect("a receiver");
        let sent = send_sealed(stream, &key, files, &how, &mut |_| {});
        (sent, received.join().expect("no panic"))
    })
}

/// Leave the beginning of a file, as an interrupted transfer does.
fn begin(place: &Place, file: &Source, bytes: &[u8], origin: Origin) {
    let parent = fs::File::open(place.root.join("into")).expect("the folder");
    let entry = Entry {
        name: &file.name,
        size: file.size,
        mode: file.mode,
        mtime_ns: file.mtime_ns,
    };
    let mut begun = Partial::open(parent.as_fd(), &entry, origin).expect("made");
    begun.file.write_all(bytes).expect("written");
}

#[test]
fn files_of_all_sizes_arrive_with_the_digest_of_what_was_sent() {
    for size in [0, 1, 300_000, (1 << 20) + 1, (9 << 20) + 12_345] {
        let place = Place::new();
        let bytes = place.make("file", size);
        let (sent, received) = transfer_keyed(&place, &place.sources(&["file"]));
        let wanted = digest::hex(&digest::of(DigestKind::Xxh3, &bytes));
        assert_eq!(sent.files[0].digest, wanted, "{size}");
        assert_eq!(received.files[0].digest, wanted, "{size}");
        assert!(
            fs::read(place.there("file")).expect("it arrived") == bytes,
            "{size}"
        );
    }
}

#[test]
fn a_file_that_was_there_is_compared_by_blake3() {
    let place = Place::new();
    let bytes = place.make("file", 2 << 20);
    let files = place.sources(&["file"]);
    transfer_keyed(&place, &files);
    let (sent, received) = transfer_keyed(&place, &files);
    assert_eq!((sent.here.skipped, sent.here.bytes), (1, 0));
    let wanted = Some(blake3::hash(&bytes).to_hex().to_string());
    assert_eq!(sent.files[0].digest, wanted);
    assert_eq!(received.files[0].digest, wanted);
}

#[test]
fn what_came_over_a_keyed_connection_is_resumed_and_what_came_over_a_plain_one_is_not() {
    const BEGUN: usize = 3 << 20;
    for (origin, moved, kind) in [
        (Origin::Keyed, (8 << 20) - BEGUN as u64, DigestKind::Blake3),
        (Origin::Plain, 8 << 20, DigestKind::Xxh3),
    ] {
        let place = Place::new();
        let bytes = place.make("file", 8 << 20);
        let files = place.sources(&["file"]);
        begin(&place, &files[0], &bytes[..BEGUN], origin);
        let (sent, received) = transfer_keyed(&place, &files);
        assert_eq!(sent.here.bytes, moved, "{origin:?}");
        let wanted = digest::hex(&digest::of(kind, &bytes));
        assert_eq!(sent.files[0].digest, wanted, "{origin:?}");
        assert_eq!(received.files[0].digest, wanted, "{origin:?}");
        assert!(fs::read(place.there("file")).expect("it arrived") == bytes);
    }
}

/// Other bytes of the same XXH3. Who knows its constants, which are public, finds them: a word whose lower half is that
/// of the constant it meets adds itself alone, so that what one such word gains another may lose.
fn collide(bytes: &mut [u8]) -> Vec<u8> {
    const STRIPE: usize = 64;
    for (at, constant) in [(0, 0x396c_feb8_u32), (STRIPE, 0x2c81_017c)] {
        bytes[at..at + 4].copy_from_slice(&constant.to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&1000_u32.to_le_bytes());
    }
    let mut other = bytes.to_vec();
    other[4..8].copy_from_slice(&1777_u32.to_le_bytes());
    other[STRIPE + 4..STRIPE + 8].copy_from_slice(&223_u32.to_le_bytes());
    other
}

#[test]
fn a_beginning_that_another_sender_forged_is_not_taken_for_the_files() {
    let place = Place::new();
    let mut bytes = place.make("file", 8 << 20);
    let other = collide(&mut bytes);
    let alike = [&bytes, &other].map(|bytes| digest::of(DigestKind::Xxh3, bytes));
    assert!(bytes != other && alike[0] == alike[1], "{alike:?}");
    fs::write(place.here("file"), &bytes).expect("a file");
    let files = place.sources(&["file"]);
    begin(&place, &files[0], &other[..3 << 20], Origin::Keyed);
    let (sent, received) = try_keyed(&place, &files);
    for error in [sent.expect_err("forged"), received.expect_err("forged")] {
        let text = error.to_string();
        assert!(text.contains("its digest is not the sender's"), "{text}");
    }
    assert!(listed(&place.root.join("into")).is_empty());
    transfer_keyed(&place, &files);
    assert!(fs::read(place.there("file")).expect("it arrived") == bytes);
}

#[test]
fn the_beginning_of_a_large_file_is_not_read_while_the_peer_waits() {
    let place = Place::new();
    let bytes = place.make("file", 3 << 20);
    let file = Arc::new(fs::File::open(place.here("file")).expect("there"));
    for (in_memory, here) in [
        (None, false),
        (Some(0), true),
        (Some(1), false),
        (Some(2 << 20), false),
    ] {
        let size = bytes.len() as u64;
        let mut follower =
            StreamingDigest::start(DigestKind::Xxh3, &file, size, false, in_memory).expect("read");
        let is_here = matches!(follower, StreamingDigest::Here(_));
        assert_eq!(is_here, here, "{in_memory:?}");
        follower.reach(in_memory.unwrap_or(0)).expect("read");
        follower.reach(size).expect("read");
        let found = follower.finish(|| Ok::<(), ()>(())).expect("not given up");
        let wanted = digest::of(DigestKind::Xxh3, &bytes);
        assert_eq!(found.expect("read"), wanted, "{in_memory:?}");
    }
}
