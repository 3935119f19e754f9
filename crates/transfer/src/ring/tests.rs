//! A ring that is interrupted while it waits.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::thread::JoinHandleExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal};

use super::*;
use crate::options::LEAST_PACE;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::testing::pipe;

/// Set in the process that is interrupted.
const ALONE: &str = "OSCOPE_TEST_INTERRUPTED_RING";

/// How often it is, so that it is while the ring waits.
const SIGNALS: usize = 200;

extern "C" fn note(_signal: libc::c_int) {
    cancel::request();
}

/// Run a test's work in a process of its own: nothing else of this one is to stop.
fn alone(test: &str, work: fn()) {
    if std::env::var_os(ALONE).is_some() {
        cancel::handle(Signal::SIGUSR1, SigHandler::Handler(note)).expect("a handler");
        return work();
    }
    let program = std::env::current_exe().expect("this program");
    let status = Command::new(program)
        .args(["--exact", &format!("ring::tests::{test}"), "--nocapture"])
        .env(ALONE, "1")
        .status();
    assert!(status.expect("it runs").success());
}

/// A link, and the connection that its peer has.
fn connected() -> (Link, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let stream = TcpStream::connect(address).expect("a peer");
    let (peer, _) = listener.accept().expect("a link");
    let link = Link::new(stream, Duration::from_secs(300), LEAST_PACE).expect("a link");
    (link, peer)
}

/// The beginning of a file.
fn piece(file: &File, length: usize) -> Piece<'_> {
    Piece {
        file,
        name: b"file",
        at: 0,
        length,
    }
}

#[test]
fn what_is_sent_when_a_signal_comes_is_counted() {
    alone("what_is_sent_when_a_signal_comes_is_counted", interrupted);
}

/// The second half of a file comes only after the signals: it is not sent any more.
fn interrupted() {
    let (mut link, mut peer) = connected();
    let (file, mut into) = pipe();
    let sender = thread::spawn(move || {
        let mut ring = RingSender::new(4).expect("io_uring is allowed");
        let first = ring
            .step(&mut link, piece(&file, 8))
            .map_err(|stop| stop.error);
        // It is not the end of the file that ends it.
        let second = ring
            .step(&mut link, piece(&file, 4))
            .map_err(|stop| stop.error);
        (first, second)
    });
    into.write_all(b"half").expect("written");
    let mut got = [0; 4];
    peer.read_exact(&mut got).expect("sent");
    for _ in 0..SIGNALS {
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(sender.as_pthread_t(), libc::SIGUSR1) };
        thread::sleep(Duration::from_millis(1));
    }
    into.write_all(b"restmore").expect("written");
    let (first, second) = sender.join().expect("no panic");
    assert_eq!(first, Ok(4));
    assert_eq!(second, Err(Failure::failed("file: interrupted")));
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).expect("it is closed");
    assert_eq!((&got, &rest[..]), (b"half", &b""[..]));
}

#[test]
fn a_receiver_stops_also_while_bytes_come() {
    alone("a_receiver_stops_also_while_bytes_come", stopped);
}

/// All is here when the signal comes; it has one buffer of it written.
fn stopped() {
    let (mut link, mut peer) = connected();
    peer.write_all(b"halfrest").expect("sent");
    let (mut out, into) = pipe();
    cancel::request();
    let mut ring = RingReceiver::new(4).expect("io_uring is allowed");
    let stopped = ring
        .step(&mut link, piece(&into, 8))
        .map_err(|stop| stop.error);
    assert_eq!(stopped, Err(Failure::failed("file: interrupted")));
    drop(into);
    let mut written = Vec::new();
    out.read_to_end(&mut written).expect("a pipe");
    assert_eq!(written, b"half");
}

#[test]
fn a_sender_stops_also_while_a_slow_peer_takes_bytes() {
    alone("a_sender_stops_also_while_a_slow_peer_takes_bytes", slow);
}

/// What would take the peer longer than a sender that is interrupted has.
fn slow() {
    let (mut link, mut peer) = connected();
    let taker = thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while peer.read(&mut buffer).is_ok_and(|got| got > 0) {
            thread::sleep(Duration::from_millis(20));
        }
    });
    cancel::request();
    let sent = link.send(&vec![0; 64 << 20], 0).map_err(|stop| stop.error);
    assert_eq!(sent, Err(Failure::failed("interrupted")));
    drop(link);
    taker.join().expect("no panic");
}
