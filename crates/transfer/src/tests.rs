//! End to end over real loopback sockets, with a relay between the two sides where something is to go wrong.

mod edges;
mod faults;
mod folders;
mod foreign;
mod hard;
mod hostile;
mod keyed;
mod left;
mod names;
mod pace;
mod sparse;
mod whole;
mod working;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::source::Links;
use super::{
    DigestKind, Folder, ReceiveMethod, ReceiveOptions, Received, SendMethod, SendOptions, Sent,
    Source, connect, receive, send,
};
use oscope_sys::error::Failure;

/// A folder with `from` and `into`, gone at the end.
struct Place {
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!(
            "oscope-transfer-test-{}-{count}",
            std::process::id()
        ));
        fs::create_dir_all(root.join("from")).expect("a folder");
        fs::create_dir_all(root.join("into")).expect("a folder");
        Self { root }
    }

    fn here(&self, name: &str) -> PathBuf {
        self.root.join("from").join(name)
    }

    fn there(&self, name: &str) -> PathBuf {
        self.root.join("into").join(name)
    }

    /// A file to send, of bytes that follow no short pattern.
    fn make(&self, name: &str, size: usize) -> Vec<u8> {
        let bytes = noise(size, name.len() as u64 + size as u64);
        fs::write(self.here(name), &bytes).expect("a file");
        bytes
    }

    fn sources(&self, names: &[&str]) -> Vec<Source> {
        let paths: Vec<_> = names.iter().map(|name| self.here(name)).collect();
        Source::gather(&paths, Links::Keep, &[])
            .expect("the files are there")
            .files
    }

    /// The same, holes included: where they only spare room.
    fn dense_sources(&self, names: &[&str]) -> Vec<Source> {
        let mut files = self.sources(names);
        files.iter_mut().for_each(|file| file.sparse = false);
        files
    }

    fn partials(&self) -> Vec<PathBuf> {
        listed(&self.root.join("into"))
            .into_iter()
            .filter(|path| path.to_string_lossy().contains(".oscope-partial-"))
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Longer than anything here waits for; a test that wants a stall sets its own.
const LONG: Duration = Duration::from_secs(30);

fn sending(method: SendMethod) -> SendOptions {
    SendOptions {
        method,
        stall: LONG,
        connect_limit: LONG,
        ..SendOptions::default()
    }
}

fn receiving(method: ReceiveMethod) -> ReceiveOptions {
    ReceiveOptions {
        method,
        stall: LONG,
        ..ReceiveOptions::default()
    }
}

type Both = (Result<Sent, Failure>, Result<Received, Failure>);

fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// One transfer, both sides in this process.
fn transfer(place: &Place, files: &[Source], send: &SendOptions, receive: &ReceiveOptions) -> Both {
    transfer_through(place, files, send, receive, None)
}

/// What the relay does with the bytes that the sender sends: given their offset in the stream, whether it goes on.
type Meddle<'a> = &'a mut (dyn FnMut(u64, &mut [u8]) -> bool + Send);

fn transfer_through(
    place: &Place,
    files: &[Source],
    how: &SendOptions,
    receive_how: &ReceiveOptions,
    meddle: Option<Meddle>,
) -> Both {
    let folder = Folder::open(&place.root.join("into")).expect("the folder is there");
    let (listener, receiver) = bound();
    let (relay, entrance) = bound();
    let target = if meddle.is_some() { entrance } else { receiver };
    thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (stream, _) = listener.accept().expect("a sender");
            receive(stream, &folder, receive_how, &mut |_| {})
        });
        if let Some(meddle) = meddle {
            scope.spawn(move || relayed(&relay, receiver, meddle));
        }
        let stream = connect(target, LONG).expect("a receiver");
        let sent = send(stream, files, how, &mut |_| {});
        (sent, received.join().expect("no panic"))
    })
}

/// Pass on what the sender sends, and what the receiver answers.
fn relayed(relay: &TcpListener, receiver: SocketAddr, meddle: Meddle) {
    let (mut sender, _) = relay.accept().expect("a sender");
    let mut receiver = TcpStream::connect(receiver).expect("a receiver");
    let mut back = receiver.try_clone().expect("a socket");
    let mut to_sender = sender.try_clone().expect("a socket");
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = std::io::copy(&mut back, &mut to_sender);
            let _ = to_sender.shutdown(Shutdown::Write);
        });
        let mut buffer = vec![0; 64 << 10];
        let mut at = 0;
        loop {
            let got = match sender.read(&mut buffer) {
                Ok(got) if got > 0 => got,
                _ => break,
            };
            if !meddle(at, &mut buffer[..got]) {
                let _ = sender.shutdown(Shutdown::Both);
                let _ = receiver.shutdown(Shutdown::Both);
                return;
            }
            at += got as u64;
            if receiver.write_all(&buffer[..got]).is_err() {
                break;
            }
        }
        let _ = receiver.shutdown(Shutdown::Write);
    });
}
