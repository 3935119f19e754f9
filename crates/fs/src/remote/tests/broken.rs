//! Connections that break, servers that stop answering.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;

use super::names::connected;
use super::transfer::{names, order, read_all};
use crate::remote::{Limits, PutError, Remote, State};
use crate::testing::{LIMITS, Server, contents, file_of};

/// Wait until something is so, at most a minute.
pub fn within_patience(so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < until, "it does not come about");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_cut_connection_is_made_anew() {
    let (server, remote, folder) = connected();
    fs::write(folder.join("x"), "12").unwrap();
    for _ in 0..3 {
        server.cut();
        assert_eq!(remote.lstat(Path::new("x")).unwrap().size, 2);
        assert_eq!(remote.list(Path::new("")).unwrap().len(), 1);
        assert_eq!(remote.state(), State::Up);
    }
}

#[test]
fn a_fetch_outlives_a_cut_and_goes_on_where_it_was() {
    let (server, remote, folder) = connected();
    let bytes = contents(24_000_000);
    let file = folder.join("x");
    fs::write(&file, &bytes).unwrap();
    let into = tempfile::tempfile().unwrap();
    for old in [true, false] {
        // A file that was changed just now might change again without its version showing it: it is begun anew.
        let age = Duration::from_secs(if old { 1000 } else { 0 });
        let changed = SystemTime::now() - age;
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(changed)
            .unwrap();
        let (cuts, least) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let cut = |count| {
            match cuts.load(Ordering::Relaxed) {
                0 if count > 4_000_000 => {
                    cuts.store(1, Ordering::Relaxed);
                    server.cut();
                }
                0 => {}
                _ => {
                    least.fetch_min(count, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let attributes = remote.fetch(Path::new("x"), &into, 0, &cut).unwrap();
        assert_eq!(attributes.size, 24_000_000);
        assert!(read_all(&into) == bytes, "bytes differ");
        assert_eq!(cuts.load(Ordering::Relaxed), 1);
        if old {
            assert!(least.load(Ordering::Relaxed) > 4_000_000, "it began anew");
        }
    }
}

#[test]
fn a_file_replaced_during_a_cut_is_fetched_whole() {
    let (server, remote, folder) = connected();
    let file = folder.join("x");
    fs::write(&file, contents(24_000_000)).unwrap();
    let old = SystemTime::now() - Duration::from_secs(1000);
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(old)
        .unwrap();
    let new = vec![b'n'; 20_000_000];
    let cuts = AtomicU64::new(0);
    let cut = |count| {
        if count > 4_000_000 && cuts.fetch_add(1, Ordering::Relaxed) == 0 {
            fs::write(&file, &new).unwrap();
            server.cut();
        }
        Ok(())
    };
    let into = tempfile::tempfile().unwrap();
    remote.fetch(Path::new("x"), &into, 0, &cut).unwrap();
    assert!(read_all(&into) == new);
}

/// Cut again and again while files are put: each is there whole, and nothing else.
#[test]
fn a_put_outlives_cuts_and_leaves_no_temporary() {
    let (server, remote, folder) = connected();
    let bytes = contents(6_000_000);
    let file = file_of(&bytes);
    let mut interrupted = 0;
    for round in 0..12_u64 {
        let name = format!("x{}", round % 2);
        let (done, rest) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let put = scope.spawn(|| {
                let put = remote.put(&file, &order(Path::new(&name)));
                drop(done);
                put
            });
            thread::sleep(Duration::from_millis(7 * round));
            interrupted += u64::from(rest.try_recv() == Err(mpsc::TryRecvError::Empty));
            server.cut();
            assert_eq!(put.join().unwrap().unwrap().attributes.size, 6_000_000);
        });
        assert!(
            fs::read(folder.join(&name)).unwrap() == bytes,
            "bytes differ"
        );
    }
    assert!(interrupted > 0, "no cut came while a file was put");
    within_patience(|| names(&folder) == ["x0", "x1"]);
}

#[test]
fn a_small_put_outlives_a_cut_at_any_step() {
    let (server, remote, folder) = connected();
    for round in 0..40_u32 {
        let bytes = round.to_le_bytes();
        let put = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_micros(u64::from(round) * 70));
                server.cut();
            });
            remote.put(&file_of(&bytes), &order(Path::new("x")))
        });
        assert_eq!(put.unwrap().attributes.size, 4, "round {round}");
        assert_eq!(fs::read(folder.join("x")).unwrap(), bytes);
        within_patience(|| remote.lstat(Path::new("x")).is_ok());
    }
    within_patience(|| names(&folder) == ["x"]);
}

#[test]
fn a_temporary_of_a_put_that_failed_is_removed_on_the_next_connection() {
    let mut server = Server::new();
    let folder = server.folder("f");
    let limits = Limits {
        operation: Duration::from_secs(2),
        ..LIMITS
    };
    let remote = Remote::connect(server.target(&folder), limits).unwrap();
    let file = file_of(&contents(64 << 20));
    let put = thread::scope(|scope| {
        let put = scope.spawn(|| remote.put(&file, &order(Path::new("x"))));
        within_patience(|| {
            names(&folder)
                .iter()
                .any(|name| name.starts_with(".oscope-fs-"))
        });
        server.stop();
        put.join().unwrap()
    });
    assert_eq!(put, Err(PutError::Errno(Errno::EIO)));
    assert_eq!(names(&folder).len(), 1);
    assert!(matches!(remote.state(), State::Down { .. }));
    server.start();
    within_patience(|| remote.state() == State::Up && names(&folder).is_empty());
}

#[test]
fn a_server_that_stops_answering_gives_an_error_in_time() {
    let server = Server::new();
    let folder = server.folder("f");
    fs::write(folder.join("x"), contents(64 << 20)).unwrap();
    let limits = Limits {
        operation: Duration::from_secs(1),
        ..LIMITS
    };
    let remote = Remote::connect(server.target(&folder), limits).unwrap();
    server.freeze();
    let file = file_of(&contents(64 << 20));
    let into = tempfile::tempfile().unwrap();
    thread::scope(|scope| {
        // All at once: none waits for another's limit.
        let (remote, file, into) = (&remote, &file, &into);
        let put = scope.spawn(move || remote.put(file, &order(Path::new("y"))));
        let fetch = scope.spawn(move || remote.fetch(Path::new("x"), into, 0, &|_| Ok(())));
        let look = scope.spawn(move || remote.lstat(Path::new("x")));
        let make = scope.spawn(move || remote.make_folder(Path::new("z"), 0o755));
        // Those that may be done again may have been done on the next connection already.
        let put = put.join().unwrap().map(|put| put.attributes.size);
        assert!(
            matches!(put, Err(PutError::Errno(Errno::EIO)) | Ok(67_108_864)),
            "{put:?}"
        );
        let fetch = fetch.join().unwrap().map(|fetched| fetched.size);
        assert!(
            matches!(fetch, Err(Errno::EIO) | Ok(67_108_864)),
            "{fetch:?}"
        );
        let look = look.join().unwrap().map(|seen| seen.size);
        assert!(matches!(look, Err(Errno::EIO) | Ok(67_108_864)), "{look:?}");
        assert_eq!(make.join().unwrap(), Err(Errno::EIO));
    });
    within_patience(|| remote.lstat(Path::new("x")).is_ok());
    // The old server process resumes what it had received: what it makes late is removed too.
    server.thaw();
    within_patience(|| {
        !names(&folder)
            .iter()
            .any(|name| name.starts_with(".oscope-fs-"))
    });
}

#[test]
fn without_a_server_an_operation_fails_after_its_limit() {
    let mut server = Server::new();
    let folder = server.folder("f");
    let limits = Limits {
        operation: Duration::from_millis(500),
        ..LIMITS
    };
    let remote = Remote::connect(server.target(&folder), limits).unwrap();
    server.stop();
    let into = tempfile::tempfile().unwrap();
    assert_eq!(remote.lstat(Path::new("x")), Err(Errno::EIO));
    assert_eq!(remote.create(Path::new("x"), 0o644), Err(Errno::EIO));
    assert_eq!(
        remote.fetch(Path::new("x"), &into, 0, &|_| Ok(())),
        Err(Errno::EIO)
    );
    let put = remote.put(&file_of(b"x"), &order(Path::new("x")));
    assert_eq!(put, Err(PutError::Errno(Errno::EIO)));
    within_patience(|| matches!(remote.state(), State::Down { tries, .. } if tries > 1));
    server.start();
    within_patience(|| remote.lstat(Path::new("")).is_ok());
}

#[test]
fn the_end_of_all_wakes_who_waits() {
    let (mut server, remote, _folder) = connected();
    server.stop();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| remote.lstat(Path::new("x")));
        thread::sleep(Duration::from_millis(50));
        remote.close();
        assert_eq!(waiting.join().unwrap(), Err(Errno::EIO));
    });
}

#[test]
fn ssh_ends_with_the_connection() {
    let (server, remote, _folder) = connected();
    // Other tests of this process have connections of their own, with other configurations.
    let config = server.file("ssh_config").display().to_string();
    let running = || {
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        all.filter(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.starts_with(b"ssh\0") && String::from_utf8_lossy(&line).contains(&config)
        })
        .count()
    };
    assert_eq!(running(), 1);
    drop(remote);
    assert_eq!(running(), 0);
}
