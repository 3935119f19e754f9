//! A ring that is interrupted while it waits.

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
use oscope_sys::testing::pipe;

/// Set in the process that is interrupted.
const ALONE: &str = "OSCOPE_TEST_INTERRUPTED_RING";

/// How often it is, so that it is while the ring waits.
const SIGNALS: usize = 200;

extern "C" fn note(_signal: libc::c_int) {
    cancel::request();
}

#[test]
fn what_is_sent_when_a_signal_comes_is_counted() {
    if std::env::var_os(ALONE).is_some() {
        return interrupted();
    }
    // Nothing else of this process is to stop.
    let program = std::env::current_exe().expect("this program");
    let name = "ring::tests::what_is_sent_when_a_signal_comes_is_counted";
    let status = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .status();
    assert!(status.expect("it runs").success());
}

/// The second half of a file comes only after the signals.
fn interrupted() {
    cancel::handle(Signal::SIGUSR1, SigHandler::Handler(note)).expect("a handler");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let stream = TcpStream::connect(address).expect("a receiver");
    let (mut peer, _) = listener.accept().expect("a sender");
    let (file, mut into) = pipe();
    let sender = thread::spawn(move || {
        let mut link = Link::new(stream, Duration::from_secs(300), LEAST_PACE).expect("a link");
        let piece = Piece {
            file: &file,
            name: b"file",
            at: 0,
            length: 8,
        };
        let mut ring = RingSender::new(4).expect("io_uring is allowed");
        ring.step(&mut link, piece).map_err(|stop| stop.error)
    });
    into.write_all(b"half").expect("written");
    let mut got = [0; 8];
    peer.read_exact(&mut got[..4]).expect("sent");
    for _ in 0..SIGNALS {
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(sender.as_pthread_t(), libc::SIGUSR1) };
        thread::sleep(Duration::from_millis(1));
    }
    into.write_all(b"rest").expect("written");
    assert_eq!(sender.join().expect("no panic"), Ok(8));
    peer.read_exact(&mut got[4..]).expect("sent");
    assert_eq!(&got, b"halfrest");
}
