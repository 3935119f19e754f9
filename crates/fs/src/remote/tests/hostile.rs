//! Servers that lie, stall or never end: each operation ends, with one error, and what was opened there is closed.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use tempfile::TempDir;

use super::broken::within_patience;
use super::transfer::order;
use crate::remote::pipeline::RequestPipeline;
use crate::remote::request_error::RequestError;
use crate::remote::wire::{Packet, kind};
use crate::remote::{BOUNDS, Bounds, Limits, Put, PutError, Remote};
use crate::testing::{LIMITS, Server, file_of};

const PROGRAM: &str = include_str!("hostile_sftp.py");

/// A server that misbehaves, and a connection to it.
pub struct Hostile {
    pub remote: Remote,
    scratch: TempDir,
    server: Server,
}

impl Hostile {
    /// With these faults (`REQUEST=FAULT`, see the program). If one is silence, an operation soon ends.
    pub fn new(faults: &str) -> Self {
        let silent = ["never", "late", "drip"]
            .iter()
            .any(|fault| faults.contains(fault));
        let operation = if silent {
            Duration::from_secs(1)
        } else {
            LIMITS.operation
        };
        Self::with(faults, operation)
    }

    /// The same, with the limit of an operation.
    fn with(faults: &str, operation: Duration) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).display().to_string();
        fs::write(at("program"), PROGRAM).unwrap();
        let subsystem = format!(
            "Subsystem sftp python3 {} {} {faults}",
            at("program"),
            at("journal")
        );
        let server = Server::with(&subsystem);
        let limits = Limits {
            operation,
            ..LIMITS
        };
        let remote = Remote::connect(server.target(Path::new("/folder")), limits).unwrap();
        Self {
            remote,
            scratch,
            server,
        }
    }

    /// Bounds that are soon reached.
    fn bounded(self, bounds: Bounds) -> Self {
        Self {
            remote: self.remote.bounded(bounds),
            ..self
        }
    }

    /// The server has nothing open, on the connection that was made first: none has ended.
    pub fn has_nothing_open(&self) {
        let journal = self.scratch.path().join("journal");
        within_patience(|| {
            self.remote.close_handles();
            fs::read_to_string(&journal).is_ok_and(|open| open == "0")
        });
    }
}

#[test]
fn a_listing_without_end_ends_in_one_error_and_is_closed() {
    let names = Bounds {
        names: 20_000,
        ..BOUNDS
    };
    let bytes = Bounds {
        bytes: 1 << 20,
        ..BOUNDS
    };
    let time = Bounds {
        limits: 1,
        ..BOUNDS
    };
    for (how, bounds, error) in [
        ("endless", names, Errno::EFBIG),
        ("endless", bytes, Errno::EFBIG),
        ("same", names, Errno::EFBIG),
        ("drip", time, Errno::EIO),
        ("dots", BOUNDS, Errno::EIO),
        ("never", BOUNDS, Errno::EIO),
        ("wrong", BOUNDS, Errno::EIO),
        ("short", BOUNDS, Errno::EIO),
        ("fail", BOUNDS, Errno::EIO),
    ] {
        let hostile = Hostile::new(&format!("READDIR={how}")).bounded(bounds);
        let listed = hostile.remote.list(Path::new("")).map(|names| names.len());
        assert_eq!(listed, Err(error), "{how}");
        if how != "never" {
            // That connection is given up, and its handles with it.
            hostile.has_nothing_open();
        }
    }
}

#[test]
fn a_listing_that_ends_without_names_is_empty() {
    let hostile = Hostile::new("READDIR=empty");
    assert_eq!(hostile.remote.list(Path::new("")), Ok(Vec::new()));
    hostile.has_nothing_open();
}

#[test]
fn a_folder_of_a_million_names_is_listed() {
    let hostile = Hostile::new("READDIR=million");
    let listed = hostile.remote.list(Path::new("")).unwrap();
    assert_eq!(listed.len(), 1_000_000);
    hostile.has_nothing_open();
}

#[test]
fn what_was_opened_is_closed_however_a_transfer_fails() {
    let file = file_of(b"ours");
    let into = tempfile::tempfile().unwrap();
    for fault in [
        "FSTAT=fail",
        "FSTAT=wrong",
        "FSTAT=short",
        "READ=fail",
        "READ=short",
        "WRITE=fail",
        "WRITE=wrong",
        "FSETSTAT=fail",
        "FSETSTAT=short",
        "LSTAT=wrong",
        "LSTAT=short",
        "EXTENDED=wrong",
        "OPEN=late",
        "OPENDIR=late",
    ] {
        let hostile = Hostile::new(fault);
        let remote = &hostile.remote;
        let path = Path::new("x");
        let fails = match fault.split('=').next().unwrap() {
            "READ" | "FSTAT" => remote.fetch(path, &into, 0, &|_| Ok(())).is_err(),
            "OPENDIR" => remote.list(path).is_err(),
            "OPEN" => {
                let put = remote.put(&file, &order(path));
                assert_eq!(put, Err(PutError::Errno(Errno::EIO)));
                remote.put_in_place(&file, &order(path)).is_err()
            }
            _ => remote.put(&file, &order(path)).is_err(),
        };
        assert!(fails, "{fault}");
        if !matches!(
            fault,
            "READ=fail" | "READ=short" | "EXTENDED=wrong" | "OPENDIR=late"
        ) {
            assert!(remote.put_in_place(&file, &order(path)).is_err(), "{fault}");
        }
        hostile.has_nothing_open();
    }
}

#[test]
fn what_no_server_may_say_is_refused() {
    let into = tempfile::tempfile().unwrap();
    let hostile = Hostile::new("OPEN=long");
    let fetched = hostile.remote.fetch(Path::new("x"), &into, 0, &|_| Ok(()));
    assert_eq!(fetched, Err(Errno::EIO), "a handle of 4096 bytes");
    for how in ["zero", "long"] {
        let hostile = Hostile::new(&format!("READLINK={how}"));
        let text = hostile.remote.read_link(Path::new("x"));
        assert_eq!(text, Err(Errno::EIO), "{how}");
    }
    // A size that is a lie is not believed: what is there is less.
    let hostile = Hostile::new("FSTAT=huge READ=short");
    let fetched = hostile.remote.fetch(Path::new("x"), &into, 0, &|_| Ok(()));
    assert_eq!(fetched, Err(Errno::EIO));
    hostile.has_nothing_open();
}

#[test]
fn a_closing_that_was_put_off_is_not_lost_with_a_request_that_comes_too_late() {
    let hostile = Hostile::new("");
    let long = Instant::now() + LIMITS.operation;
    let session = hostile.remote.link.session(long).unwrap();
    let target = &hostile.remote.link.target;
    let mut pipeline = RequestPipeline::new(&session, target, long);
    let id = pipeline.ask_path(kind::OPENDIR, Path::new("x"));
    drop(pipeline.handle(id).unwrap().unwrap());
    // More than all the pipes hold: whoever sends it keeps others waiting.
    let much = Packet::request(kind::WRITE, u32::MAX)
        .text(b"none")
        .long(0)
        .text(&[0; 32 << 10])
        .finish()
        .repeat(1024);
    hostile.server.freeze();
    thread::scope(|scope| {
        let filling = scope.spawn(|| session.send(&much, long));
        let late = || session.send(&[], Instant::now() + Duration::from_millis(20));
        within_patience(|| late() == Err(RequestError::Late));
        session.close_handle(b"another");
        assert_eq!(late(), Err(RequestError::Late));
        hostile.server.thaw();
        assert_eq!(filling.join().unwrap(), Ok(()));
    });
    hostile.has_nothing_open();
    assert!(!session.ended());
}

#[test]
fn a_put_whose_temporary_was_removed_without_an_answer_is_not_done() {
    // The rename is not done, the connection breaks; it breaks again at the removal, which is done.
    let hostile = Hostile::new("EXTENDED=cut REMOVE=once");
    let path = Path::new("f");
    let now = hostile.remote.lstat(path).unwrap();
    let order = Put {
        expected: Some(now.version()),
        expect_nothing: false,
        ..order(path)
    };
    let put = hostile
        .remote
        .put(&file_of(b"longer than what is there"), &order);
    assert_eq!(put, Err(PutError::Errno(Errno::EIO)));
}

#[test]
fn what_was_made_gets_its_mode_though_the_connection_breaks() {
    let path = Path::new("d");
    // Before the attributes of what was made come: the mode is set all the same, which this server refuses.
    let hostile = Hostile::with("MKDIR=then-cut SETSTAT=fail", LIMITS.operation);
    assert_eq!(hostile.remote.make_folder(path, 0o755), Err(Errno::EIO));
    // While the mode is set: that is done again.
    let hostile = Hostile::with("SETSTAT=once", LIMITS.operation);
    assert!(hostile.remote.make_folder(path, 0o755).is_ok());
}
