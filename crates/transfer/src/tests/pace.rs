//! Peers that move a little now and then, for ever: each is given up, by whatever call the other side waits for it.

use std::sync::atomic::AtomicBool;

use super::super::options::DEFAULT_CHUNK;
use super::super::wire::{self, Entry, Frame, PREAMBLE, Step};
use super::*;

/// Ten of them are what a peer may be behind; between two moves of the peers here is far less.
const STALL: Duration = Duration::from_millis(600);

/// Between two moves of a peer.
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes a second that are wanted of a peer that reads: its socket gives back room for many kilobytes at once.
const LEAST: u64 = 32 << 20;

/// A file that goes through memory, and one that a method moves.
const SIZES: [usize; 2] = [200_000, 1 << 20];

fn slow(method: ReceiveMethod) -> ReceiveOptions {
    ReceiveOptions {
        stall: STALL,
        ..receiving(method)
    }
}

/// What a receiver makes of a sender that says the beginning at once, and of the rest a byte after each pause; and what
/// it left in its folder.
fn trickled(
    how: &ReceiveOptions,
    beginning: &[u8],
    rest: &[u8],
) -> (Failure, Vec<(String, Vec<u8>)>) {
    let place = Place::new();
    let folder = Folder::open(&place.root.join("into")).expect("a folder");
    let (listener, address) = bound();
    let error = thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (stream, _) = listener.accept().expect("a peer");
            receive(stream, &folder, how, &mut |_| {})
        });
        let mut peer = TcpStream::connect(address).expect("a receiver");
        peer.write_all(beginning).expect("it is heard");
        for byte in rest {
            if received.is_finished() || peer.write_all(&[*byte]).is_err() {
                break;
            }
            thread::sleep(PAUSE);
        }
        // Closed with answers that it has not read, the connection would be reset: what has come could be lost with it.
        while !received.is_finished() {
            thread::sleep(PAUSE);
        }
        drop(peer);
        received.join().expect("no panic").expect_err("no transfer")
    });
    let left = listed(&place.root.join("into")).into_iter().map(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (
            name.into_owned(),
            fs::read(&path).expect("the file can be read"),
        )
    });
    (error, left.collect())
}

/// What a sender of one file of so many bytes says before it sends them.
fn announced(size: usize) -> Vec<u8> {
    let entry = Entry {
        name: b"file",
        size: size as u64,
        mode: 0o644,
        mtime_ns: 0,
    };
    let frames = [
        Frame::Hello(DigestKind::Blake3),
        Frame::Entries(vec![entry]),
        Frame::EntriesEnd(1),
        Frame::Data(size as u32),
    ];
    let mut bytes = PREAMBLE.to_vec();
    for frame in frames {
        wire::encode(&frame, &mut bytes);
    }
    bytes
}

#[test]
fn contents_that_trickle_are_refused_by_whatever_call_they_are_received() {
    let methods = [
        ReceiveMethod::ReadWrite,
        ReceiveMethod::Mmap,
        ReceiveMethod::Splice,
        ReceiveMethod::Uring,
    ];
    thread::scope(|scope| {
        for (method, size) in methods
            .map(|method| (method, SIZES[1]))
            .into_iter()
            .chain([(ReceiveMethod::Auto, SIZES[0])])
        {
            scope.spawn(move || {
                let rest = noise(10_000, 1);
                let (error, left) = trickled(&slow(method), &announced(size), &rest);
                assert!(
                    error
                        .to_string()
                        .contains("sends too slowly: more than 6 s"),
                    "{method:?}: {error}"
                );
                assert!(error.remedy().expect("a remedy").contains("--stall"));
                for (name, got) in left {
                    assert!(name.starts_with(".oscope-partial-"), "{method:?}: {name}");
                    // No zeros behind what came: a later transfer goes on there.
                    assert!(!got.is_empty() && rest.starts_with(&got), "{method:?}");
                }
            });
        }
    });
}

#[test]
fn a_frame_that_trickles_is_refused() {
    let mut beginning = announced(SIZES[0]);
    // The data frame, whose place this one takes, and a long one in its stead.
    beginning.truncate(announced(SIZES[0]).len() - wire::HEAD - 4 - wire::CHECK);
    let digest = noise(40_000, 2);
    let mut end = Vec::new();
    wire::encode(&Frame::End(&digest), &mut end);
    let (error, _) = trickled(&slow(ReceiveMethod::Auto), &beginning, &end);
    assert!(error.to_string().contains("sends too slowly"), "{error}");
}

#[test]
fn a_segment_of_another_length_than_the_protocols_is_refused() {
    let mut beginning = announced(SIZES[1]);
    beginning.truncate(beginning.len() - wire::HEAD - 4 - wire::CHECK);
    wire::encode(&Frame::Data(1), &mut beginning);
    let (error, _) = trickled(&slow(ReceiveMethod::Auto), &beginning, b"x");
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// What a sender makes of a receiver that wants all, and takes 64 KiB after each pause.
fn sipped(method: SendMethod, files: &[Source]) -> Failure {
    let (listener, address) = bound();
    let how = SendOptions {
        stall: STALL,
        least_pace: LEAST,
        chunk: DEFAULT_CHUNK,
        ..sending(method)
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut peer, _) = listener.accept().expect("a sender");
            let mut answer = PREAMBLE.to_vec();
            wire::encode(&Frame::Hello(DigestKind::Blake3), &mut answer);
            wire::encode(&Frame::Plan(vec![Step::Whole]), &mut answer);
            peer.write_all(&answer).expect("it is heard");
            let mut sip = vec![0; 64 << 10];
            while !done.load(Ordering::Relaxed) && peer.read_exact(&mut sip).is_ok() {
                thread::sleep(PAUSE);
            }
        });
        let stream = connect(address, how.connect_limit).expect("a peer");
        let sent = send(stream, files, &how, &mut |_| {});
        done.store(true, Ordering::Relaxed);
        sent.expect_err("no transfer")
    })
}

#[test]
fn a_receiver_that_sips_is_given_up_by_whatever_call_it_is_sent_to() {
    let methods = [
        SendMethod::ReadWrite,
        SendMethod::Mmap,
        SendMethod::SendFile,
        SendMethod::Splice,
        SendMethod::ZeroCopy,
        SendMethod::Uring,
    ];
    let place = Place::new();
    let file = fs::File::create(place.here("file")).expect("a file");
    // A hole: longer to sip than anybody waits, and of no room.
    file.set_len(1 << 30).expect("it is longer");
    let files = &place.dense_sources(&["file"])[..];
    thread::scope(|scope| {
        for method in methods {
            scope.spawn(move || {
                let error = sipped(method, files);
                assert!(
                    error.to_string().contains("takes what is sent too slowly"),
                    "{method:?}: {error}"
                );
            });
        }
    });
}
