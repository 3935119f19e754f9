//! Transfers at the limits of a frame, of time, and of what another transfer leaves.

use std::fs::Permissions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Mutex;

use super::super::addresses::connect_to_any;
use super::super::names::Origin;
use super::super::partial::Partial;
use super::super::wire::{self, Entry, Frame, PREAMBLE};
use super::*;
use crate::Progress;

#[test]
fn as_many_files_as_fill_a_frame_of_the_plan_arrive_and_so_do_none() {
    for count in [0, 1, 681, 682, 683, 1365] {
        let place = Place::new();
        fs::create_dir(place.here("many")).expect("a folder");
        for index in 0..count {
            fs::write(place.here(&format!("many/{index}")), "x").expect("a file");
        }
        let files = place.sources(&["many"]);
        for skipped in [0, count] {
            let (sent, received) = transfer(
                &place,
                &files,
                &sending(SendMethod::Auto),
                &receiving(ReceiveMethod::Auto),
            );
            let here = sent.expect("sent").here;
            assert_eq!((here.files, here.skipped), (count, skipped), "{count}");
            let there = received.expect("received").here;
            assert_eq!((there.files, there.folders), (count, 1));
        }
    }
}

/// What a receiver answers to a peer that sends these bytes.
pub(super) fn answered(bytes: &[u8]) -> (Failure, Vec<u8>) {
    answered_in(&Place::new(), bytes)
}

/// The same, of one that receives there.
pub(super) fn answered_in(place: &Place, bytes: &[u8]) -> (Failure, Vec<u8>) {
    let folder = Folder::open(&place.root.join("into")).expect("a folder");
    let (listener, address) = bound();
    let mut heard = Vec::new();
    let error = thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (stream, _) = listener.accept().expect("a peer");
            let how = receiving(ReceiveMethod::Auto);
            receive(stream, &folder, &how, &mut |_| {})
        });
        let mut peer = TcpStream::connect(address).expect("a receiver");
        peer.write_all(bytes).expect("said");
        peer.shutdown(Shutdown::Write).expect("said");
        peer.read_to_end(&mut heard).expect("answered");
        received.join().expect("no panic").expect_err("no transfer")
    });
    (error, heard)
}

#[test]
fn a_name_as_long_as_a_frame_is_refused_and_the_refusal_fits_one() {
    for length in [4096, 65_000, 65_502, 65_515, 65_520] {
        let name = vec![b'a'; length];
        let entry = Entry {
            name: &name,
            size: 3,
            mode: 0o644,
            mtime_ns: 0,
        };
        let mut said = PREAMBLE.to_vec();
        wire::encode(&Frame::Hello(DigestKind::Blake3), &mut said);
        wire::encode(&Frame::Entries(vec![entry]), &mut said);
        wire::encode(&Frame::EntriesEnd(1), &mut said);
        let (error, heard) = answered(&said);
        assert!(
            error.to_string().contains("longer than 4095 bytes"),
            "{length}: {}",
            error
        );
        assert!(error.to_string().len() < 4200, "{length}");
        match wire::decode(&heard[PREAMBLE.len()..]) {
            Ok(Frame::Refusal { file, reason, .. }) => {
                assert_eq!(file.len(), 4095);
                assert!(reason.contains("longer than 4095 bytes"));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Pass on what the sender sends, a little at a time.
fn trickle(_: u64, bytes: &mut [u8]) -> bool {
    thread::sleep(Duration::from_millis(300) * (bytes.len() as u32 / (32 << 10)));
    true
}

#[test]
fn a_slow_segment_is_no_stall_of_the_receiver() {
    let place = Place::new();
    place.make("file", 600_000);
    let files = place.sources(&["file"]);
    for method in [
        ReceiveMethod::ReadWrite,
        ReceiveMethod::Mmap,
        ReceiveMethod::Splice,
        ReceiveMethod::Uring,
    ] {
        let how = SendOptions {
            stall: Duration::from_secs(60),
            ..sending(SendMethod::SendFile)
        };
        let receive_how = ReceiveOptions {
            stall: Duration::from_millis(1500),
            ..receiving(method)
        };
        let _ = fs::remove_file(place.there("file"));
        let mut slow = trickle;
        let (sent, received) =
            transfer_through(&place, &files, &how, &receive_how, Some(&mut slow));
        received.unwrap_or_else(|error| panic!("{method:?}: {error}"));
        sent.unwrap_or_else(|error| panic!("{method:?}: {error}"));
    }
}

#[test]
fn a_sender_that_has_sent_all_waits_while_it_is_on_its_way() {
    let place = Place::new();
    place.make("file", 600_000);
    let files = place.sources(&["file"]);
    let how = SendOptions {
        stall: Duration::from_millis(2500),
        ..sending(SendMethod::SendFile)
    };
    let receive_how = ReceiveOptions {
        stall: Duration::from_secs(60),
        ..receiving(ReceiveMethod::ReadWrite)
    };
    let mut slow = trickle;
    let (sent, received) = transfer_through(&place, &files, &how, &receive_how, Some(&mut slow));
    sent.expect("sent");
    received.expect("received");
}

const ENTRY: Entry = Entry {
    name: b"file",
    size: 3,
    mode: 0o444,
    mtime_ns: 0,
};

#[test]
fn a_file_that_another_transfer_has_named_meanwhile_is_not_written_to() {
    let place = Place::new();
    let parent = fs::File::open(place.root.join("into")).expect("a folder");
    let slow = Partial::find(parent.as_fd(), &ENTRY, Origin::Plain).expect("made");
    assert!(slow.is_new);
    let mut fast = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain).expect("found");
    assert!(!fast.is_new);
    fast.finish(parent.as_fd(), &ENTRY, true).expect("named");
    drop(fast);
    let refused = slow.own(parent.as_fd()).expect_err("it is no partial");
    assert!(refused.to_string().contains("has just ended"), "{refused}");
}

/// What a user without privileges does, in a thread of its own.
pub(super) fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: no pointers are passed; the raw call concerns this thread alone, which ends with the work.
            unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
            work()
        });
        thread.join().expect("no panic")
    })
}

#[test]
fn a_partial_that_has_its_files_own_mode_already_is_gone_on_with() {
    let place = Place::new();
    let into = place.root.join("into");
    fs::set_permissions(&into, Permissions::from_mode(0o777)).expect("a mode");
    unprivileged(|| {
        let parent = fs::File::open(&into).expect("a folder");
        let begun = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain).expect("made");
        for mode in [0o444, 0] {
            let mode = Permissions::from_mode(mode);
            begun.file.set_permissions(mode).expect("a mode");
            let busy = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain)
                .err()
                .expect("locked");
            assert!(
                busy.to_string().contains("another transfer of it"),
                "{busy:?}"
            );
        }
        drop(begun);
        let begun = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain);
        assert!(!begun.expect("found").is_new);
    });
}

#[test]
fn a_folder_that_is_a_fifo_is_refused_at_once() {
    let place = Place::new();
    let path = place.root.join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for path in [path, place.root.join("absent")] {
        let error = Folder::open(&path).expect_err("no folder");
        assert!(error.is_request());
    }
}

#[test]
fn no_name_is_sent_to_an_unknown_receiver() {
    let place = Place::new();
    place.make("secret", 10);
    let files = place.sources(&["secret"]);
    let (listener, address) = bound();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a sender");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("heard");
        heard
    });
    let how = SendOptions {
        connect_limit: Duration::from_millis(300),
        ..sending(SendMethod::Auto)
    };
    let stream = connect(address, how.connect_limit).expect("a peer");
    let error = send(stream, &files, &how, &mut |_| {}).expect_err("no transfer");
    assert!(
        error.to_string().contains("said nothing"),
        "{}",
        error.to_string()
    );
    assert!(
        error.remedy().is_some_and(|text| text.contains("busy")),
        "a receiver serves one at a time"
    );
    assert_eq!(peer.join().expect("no panic"), PREAMBLE);
}

#[test]
fn a_sender_learns_that_the_receiver_does_not_verify() {
    let place = Place::new();
    place.make("file", 10);
    let files = place.sources(&["file"]);
    for (verify, digest, expected) in [
        (true, DigestKind::Blake3, false),
        (false, DigestKind::Blake3, true),
        (false, DigestKind::None, false),
    ] {
        let how = SendOptions {
            digest,
            ..sending(SendMethod::Auto)
        };
        let receive_how = ReceiveOptions {
            verify,
            ..receiving(ReceiveMethod::Auto)
        };
        let folder = Folder::open(&place.root.join("into")).expect("a folder");
        let (listener, address) = bound();
        let notes = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let received = scope.spawn(|| {
                let (stream, _) = listener.accept().expect("a sender");
                receive(stream, &folder, &receive_how, &mut |_| {})
            });
            let stream = connect(address, Duration::from_secs(3)).expect("a receiver");
            let mut watch = |progress: Progress| {
                if let Progress::Note(text) = progress {
                    notes.lock().expect("no panic").push(text.to_owned());
                }
            };
            send(stream, &files, &how, &mut watch).expect("sent");
            received.join().expect("no panic").expect("received");
        });
        let notes = notes.into_inner().expect("no panic");
        assert_eq!(
            notes.iter().any(|text| text.contains("does not verify")),
            expected,
            "{notes:?}"
        );
    }
}

#[test]
fn what_no_later_transfer_goes_on_with_is_not_left() {
    for (changes, digest) in [(true, DigestKind::Blake3), (false, DigestKind::None)] {
        let place = Place::new();
        place.make("big", 12 << 20);
        let files = place.sources(&["big"]);
        let source = fs::OpenOptions::new()
            .append(true)
            .open(place.here("big"))
            .expect("the file");
        let mut changed = false;
        let mut meddle = |at: u64, _: &mut [u8]| {
            if changes && at > 1 << 20 && !changed {
                changed = true;
                (&source).write_all(b"more").expect("written");
            }
            changes || at < 6 << 20
        };
        let how = SendOptions {
            digest,
            ..sending(SendMethod::SendFile)
        };
        let receive_how = ReceiveOptions {
            verify: digest != DigestKind::None,
            ..receiving(ReceiveMethod::Splice)
        };
        let (sent, received) =
            transfer_through(&place, &files, &how, &receive_how, Some(&mut meddle));
        sent.expect_err("changed or cut");
        received.expect_err("changed or cut");
        assert_eq!(
            listed(&place.root.join("into")),
            Vec::<PathBuf>::new(),
            "{digest:?}"
        );
    }
}

/// Whether a default ACL could be set: the owner may do all, the others nothing.
fn forbid_others(folder: &Path) -> io::Result<()> {
    // `struct posix_acl_xattr_header` and its entries (linux/posix_acl_xattr.h): tag, permissions, id.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, allowed) in [(1_u16, 6_u16), (4, 0), (32, 0)] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&allowed.to_le_bytes());
        acl.extend_from_slice(&u32::MAX.to_le_bytes());
    }
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes())?;
    // SAFETY: the strings end with NUL, and the value's length is its own.
    let set = unsafe {
        libc::setxattr(
            path.as_ptr(),
            c"system.posix_acl_default".as_ptr(),
            acl.as_ptr().cast(),
            acl.len(),
            0,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn a_mode_is_kept_where_the_folder_has_a_default_acl() {
    let place = Place::new();
    place.make("small", 10);
    place.make("big", 2 << 20);
    for name in ["small", "big"] {
        fs::set_permissions(place.here(name), Permissions::from_mode(0o664)).expect("a mode");
    }
    if let Err(error) = forbid_others(&place.root.join("into")) {
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
        return;
    }
    let files = place.sources(&["small", "big"]);
    let (sent, received) = transfer(
        &place,
        &files,
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    sent.expect("sent");
    received.expect("received");
    for name in ["small", "big"] {
        let there = fs::metadata(place.there(name)).expect("there");
        assert_eq!(there.mode() & 0o7777, 0o664, "{name}");
    }
}

#[test]
fn every_address_of_a_name_is_tried() {
    let (gone, nobody) = bound();
    drop(gone);
    let (_listener, somebody) = bound();
    let limit = Duration::from_secs(5);
    let (_, met) = connect_to_any(&[nobody, somebody], limit).expect("the second listens");
    assert_eq!(met, somebody);
    let error = connect_to_any(&[nobody, nobody], limit).expect_err("nobody listens");
    assert!(
        error.to_string().contains(&nobody.to_string()),
        "{}",
        error.to_string()
    );
}

#[test]
fn what_auto_chose_is_reported_for_both_sides() {
    let place = Place::new();
    let size = 256 << 20;
    fs::File::create(place.here("big"))
        .and_then(|file| file.set_len(size))
        .expect("a sparse file");
    let files = place.dense_sources(&["big"]);
    let how = SendOptions {
        digest: DigestKind::None,
        ..sending(SendMethod::Auto)
    };
    let receive_how = ReceiveOptions {
        verify: false,
        ..receiving(ReceiveMethod::Auto)
    };
    let (sent, _) = transfer(&place, &files, &how, &receive_how);
    let sent = sent.expect("sent");
    for tally in [sent.here, sent.there] {
        let chosen = tally.chosen.expect("one was chosen");
        assert!(
            tally.method.split('+').any(|one| one == chosen),
            "{chosen} of {}",
            tally.method
        );
    }
}
