//! Who comes in while others keep the places.

use std::net::Ipv4Addr;
use std::thread;

use super::*;
use crate::link::Link;
use crate::listen;
use crate::options::LEAST_PACE;

/// A sender whose opening was answered, and who has not confirmed yet.
struct Opened {
    link: Link,
    own: SocketAddr,
}

impl Opened {
    fn at(address: SocketAddr, key: &Key) -> Self {
        let stream = TcpStream::connect(address).expect("a receiver");
        let keys = handshake::open(&stream, key, LIMIT).expect("the same key");
        Self::by(stream, keys)
    }

    fn by(stream: TcpStream, keys: StatelessTransportState) -> Self {
        let own = stream.local_addr().expect("its address");
        let mut link = Link::new(stream, LIMIT, LEAST_PACE).expect("a link");
        link.seal(keys);
        Self { link, own }
    }

    fn confirm(&mut self) {
        self.link.greet();
        self.link.flush().expect("somebody listens");
    }
}

/// What a sender says first, as who records its connection has it.
fn recorded(key: &Key) -> [u8; OPENING] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let mut said = [0; OPENING];
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let stream = TcpStream::connect(address).expect("who records");
            handshake::open(&stream, key, LIMIT).is_err()
        });
        let (mut stream, _) = listener.accept().expect("a sender");
        stream.read_exact(&mut said).expect("its opening");
        drop(stream);
        assert!(sender.join().expect("no panic"), "nobody answers");
    });
    said
}

#[test]
fn who_repeats_one_opening_does_not_keep_a_sender_out() {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.local_addr().expect("its address");
    let key = Key::new().expect("random numbers");
    let opening = recorded(&key);
    let mut entrance = Entrance::new(&listener, &key);
    let connected = || TcpStream::connect(address).expect("a receiver");
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            // All places but one are theirs.
            let repeating: Vec<_> = (1..MOST)
                .map(|_| {
                    let mut stream = connected();
                    stream.write_all(&opening).expect("said");
                    stream.read_exact(&mut [0; OPENING]).expect("an answer");
                    stream
                })
                .collect();
            // The sender has connected, and others after it, before it says anything.
            let stream = connected();
            let own = stream.local_addr().expect("its address");
            let later: Vec<_> = (0..3).map(|_| connected()).collect();
            let last = Opened::at(address, &key);
            // Where it was closed, the last one is served.
            let keys = handshake::open(&stream, &key, LIMIT);
            let mut served = match keys {
                Ok(keys) => Opened::by(stream, keys),
                Err(_) => last,
            };
            served.confirm();
            (own, served, repeating, later)
        });
        let arrival = entrance.next(&|_| {}).expect("not interrupted");
        let served = arrival.expect("a sender").peer;
        assert_eq!(served, sender.join().expect("no panic").0);
    });
}

#[test]
fn who_has_proved_the_key_keeps_its_place_in_a_flood() {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.local_addr().expect("its address");
    let key = Key::new().expect("random numbers");
    let mut entrance = Entrance::new(&listener, &key);
    let mut next = || {
        let arrival = entrance.next(&|_| {}).expect("not interrupted");
        arrival.expect("a sender").peer
    };
    let (first, mut second) = thread::scope(|scope| {
        let both = scope.spawn(|| {
            let second = Opened::at(address, &key);
            let mut first = Opened::at(address, &key);
            first.confirm();
            (first, second)
        });
        let served = next();
        let (first, second) = both.join().expect("no panic");
        assert_eq!(served, first.own);
        (first, second)
    });
    // While the first one is served, the second confirms, and others connect, so many that all places are needed.
    second.confirm();
    let _flood: Vec<_> = (0..MOST)
        .map(|_| TcpStream::connect(address).expect("a receiver"))
        .collect();
    thread::scope(|scope| {
        let third = scope.spawn(|| {
            let mut third = Opened::at(address, &key);
            third.confirm();
            third
        });
        assert_eq!(next(), second.own);
        assert_eq!(next(), third.join().expect("no panic").own);
    });
    drop(first);
}
