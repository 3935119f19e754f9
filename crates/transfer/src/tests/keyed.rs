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

/// One keyed transfer, both sides in this process.
fn transfer_keyed(place: &Place, files: &[Source]) -> (Sent, Received) {
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
            receive_sealed(arrival, &folder, &how, &mut |_| {}).expect("a transfer")
        });
        let stream = connect(address, Duration::from_secs(3)).expect("a receiver");
        let sent = send_sealed(stream, &key, files, &how, &mut |_| {}).expect("a transfer");
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
    for (origin, moved) in [
        (Origin::Keyed, (8 << 20) - BEGUN as u64),
        (Origin::Plain, 8 << 20),
    ] {
        let place = Place::new();
        let bytes = place.make("file", 8 << 20);
        let files = place.sources(&["file"]);
        begin(&place, &files[0], &bytes[..BEGUN], origin);
        let (sent, received) = transfer_keyed(&place, &files);
        assert_eq!(sent.here.bytes, moved, "{origin:?}");
        let wanted = digest::hex(&digest::of(DigestKind::Xxh3, &bytes));
        assert_eq!(received.files[0].digest, wanted, "{origin:?}");
        assert!(fs::read(place.there("file")).expect("it arrived") == bytes);
    }
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
