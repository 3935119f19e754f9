//! Signs of life, which may come at any time: also between contents and the frame behind them.

use super::super::digest;
use super::super::entrance::Entrance;
use super::super::handshake;
use super::super::key::Key;
use super::super::link::Link;
use super::super::options::LEAST_PACE;
use super::super::wire::{Entry, Frame};
use super::super::{listen, receive_sealed};
use super::*;

const LIMIT: Duration = Duration::from_secs(30);

/// Send a file with signs of life wherever frames may be, each after the frames before it have surely been read.
fn send_hesitantly(link: &mut Link, bytes: &[u8], kind: DigestKind) {
    let digest = digest::of(kind, bytes);
    let entry = Entry {
        name: b"file",
        size: bytes.len() as u64,
        mode: 0o644,
        mtime_ns: 0,
    };
    link.greet();
    link.flush().expect("somebody listens");
    link.greeted(LIMIT, ("", "")).expect("a receiver");
    let frames = [
        Frame::Hello(kind),
        Frame::Entries(vec![entry]),
        Frame::EntriesEnd(1),
        Frame::Data(bytes.len() as u32),
        Frame::End(&digest),
    ];
    for frame in frames {
        // More of them than the receiver has room for, too.
        let signs = if matches!(frame, Frame::End(_)) {
            60_000
        } else {
            2
        };
        for _ in 0..signs {
            link.put(&Frame::Working).expect("taken");
        }
        link.flush().expect("taken");
        thread::sleep(Duration::from_millis(100));
        link.put(&frame).expect("taken");
        if matches!(frame, Frame::Data(_)) {
            link.waiting().extend_from_slice(bytes);
        }
        link.flush().expect("taken");
    }
    let hello = link.next().expect("an answer");
    assert!(matches!(hello, Frame::Hello(_)), "{hello:?}");
    let plan = link.next().expect("an answer");
    assert!(matches!(plan, Frame::Plan(_)), "{plan:?}");
    let receipt = link.next().expect("an answer");
    assert!(matches!(receipt, Frame::Receipt(_)), "{receipt:?}");
}

#[test]
fn signs_of_life_between_contents_and_their_end_change_nothing() {
    for kind in [DigestKind::Blake3, DigestKind::None] {
        for sealed in [false, true] {
            let place = Place::new();
            let bytes = noise(100_000, 1);
            let folder = Folder::open(&place.root.join("into")).expect("a folder");
            let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
            let address = listener.local_addr().expect("its address");
            let key = Key::new().expect("random numbers");
            let how = ReceiveOptions {
                verify: kind != DigestKind::None,
                ..receiving(ReceiveMethod::Auto)
            };
            let received = thread::scope(|scope| {
                scope.spawn(|| {
                    let stream = TcpStream::connect(address).expect("a receiver");
                    let keys = sealed
                        .then(|| handshake::open(&stream, &key, LIMIT).expect("the same key"));
                    let mut link = Link::new(stream, LIMIT, LEAST_PACE).expect("a link");
                    keys.into_iter().for_each(|keys| link.seal(keys));
                    send_hesitantly(&mut link, &bytes, kind);
                });
                if sealed {
                    let arrival = Entrance::new(&listener, &key).next(&|_| {});
                    let arrival = arrival.expect("not interrupted").expect("a sender");
                    return receive_sealed(arrival, &folder, &how, &mut |_| {});
                }
                listener.set_nonblocking(false).expect("set");
                let (stream, _) = listener.accept().expect("a sender");
                receive(stream, &folder, &how, &mut |_| {})
            });
            received.unwrap_or_else(|error| panic!("{kind:?} {sealed}: {error}"));
            let there = fs::read(place.there("file")).expect("it arrived");
            assert!(there == bytes, "{kind:?} {sealed}");
        }
    }
}
