//! Folders of each system that this machine can have: what goes through them, what is forgotten, and that nothing is
//! left.

use std::env;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use super::*;
use crate::disk::content;
use oscope_sys::testing::{Folder, restored};

const SYSTEMS: [System; 4] = [System::Local, System::Oscope, System::Sshfs, System::Nfs];
const SIZE: usize = 4 << 20;
/// Has the test binary, started anew, hold a folder of this system until it is killed.
const HOLD: &str = "OSCOPE_TEST_HOLD";

/// What this machine lacks is reported and does not fail.
fn make(system: System, place: &Folder) -> Option<SharedFolder> {
    match SharedFolder::make(system, &place.0, &Shape::default()) {
        Err(Failure::Unavailable {
            message, remedy, ..
        }) => {
            eprintln!("skipped: {system:?}: {message} ({remedy:?})");
            None
        }
        made => Some(made.unwrap_or_else(|failure| panic!("{system:?}: {failure}"))),
    }
}

fn with_each(act: impl Fn(System, &mut SharedFolder)) {
    for system in SYSTEMS {
        let place = Folder::new();
        if let Some(mut shared) = make(system, &place) {
            act(system, &mut shared);
        }
    }
}

/// Bytes of this series that pass for random.
fn bytes(series: u64) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    content::fill(series << 40, &mut bytes);
    bytes
}

/// As a server has files: changed some time ago.
fn serve(shared: &SharedFolder, name: &str, content: &[u8]) {
    let path = shared.served().join(name);
    fs::write(&path, content).expect("it can be written");
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("the file can be opened");
    let earlier = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(earlier).expect("it is ours");
}

fn mounts() -> String {
    fs::read_to_string("/proc/thread-self/mountinfo").expect("the kernel reports it")
}

/// Processes of which an argument names this path.
fn users(path: &Path) -> Vec<String> {
    let path = path.to_str().expect("it is a text");
    let lines = fs::read_dir("/proc")
        .expect("the folder can be listed")
        .flatten();
    lines
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(path))
        .collect()
}

#[test]
fn content_goes_through_in_both_directions() {
    with_each(|system, shared| {
        let (there, here) = (bytes(1), bytes(2));
        serve(shared, "there", &there);
        let read = fs::read(shared.mounted().join("there")).expect("it is served");
        assert!(read == there, "{system:?}");
        fs::write(shared.mounted().join("here"), &here).expect("it can be written");
        shared.settle().expect("it goes to the server");
        let arrived = fs::read(shared.served().join("here")).expect("it is with the server");
        assert!(arrived == here, "{system:?}");
        let mut file = OpenOptions::new()
            .append(true)
            .open(shared.mounted().join("here"))
            .expect("the file can be opened");
        file.write_all(b"more").expect("it can be written");
        drop(file);
        shared.settle().expect("it goes to the server");
        let path = shared.served().join("here");
        let mut end = [0; 4];
        let file = fs::File::open(path).expect("the file can be opened");
        file.read_exact_at(&mut end, SIZE as u64)
            .expect("it is longer");
        assert_eq!(&end, b"more", "{system:?}");
    });
}

#[test]
fn what_was_read_crosses_the_network_again_after_a_renewal_and_only_then() {
    with_each(|system, shared| {
        let content = bytes(3);
        serve(shared, "file", &content);
        let read = |shared: &SharedFolder| {
            let before = shared.traffic().expect("the kernel reports it");
            let read = fs::read(shared.mounted().join("file")).expect("it is served");
            assert!(read == content, "{system:?}");
            let after = shared.traffic().expect("the kernel reports it");
            after.zip(before).map(|(after, before)| after.since(before))
        };
        let device = |shared: &SharedFolder| {
            let folder = fs::metadata(shared.mounted());
            folder.expect("the mount is reachable").dev()
        };
        let mounted = device(shared);
        shared.renew_unless_new().expect("nothing is open");
        assert_eq!(device(shared), mounted, "{system:?}");
        let Some(first) = read(shared) else {
            assert_eq!(system, System::Local);
            return;
        };
        assert!(first.received_bytes >= SIZE as u64, "{system:?}: {first:?}");
        assert!(first.sent_bytes < SIZE as u64 / 4, "{system:?}: {first:?}");
        let again = read(shared).expect("there is a device");
        if system == System::Oscope {
            // A question for the version, and its answer.
            assert!(again.received_bytes < 4096, "{again:?}");
        }
        shared.renew().expect("nothing is open");
        let renewed = read(shared).expect("there is a device");
        assert!(
            renewed.received_bytes >= SIZE as u64,
            "{system:?}: {renewed:?}"
        );
        assert!(renewed.received_packets > 0 && renewed.sent_packets > 0);
        shared.renew_unless_new().expect("nothing is open");
        let renewed = read(shared).expect("there is a device");
        assert!(
            renewed.received_bytes >= SIZE as u64,
            "{system:?}: {renewed:?}"
        );
    });
}

#[test]
fn nothing_is_left_of_a_folder_and_its_mounts_are_seen_by_this_thread_alone() {
    for system in SYSTEMS {
        let place = Folder::new();
        let before = mounts();
        let Some(shared) = make(system, &place) else {
            continue;
        };
        let mounted = shared.mounted().display().to_string();
        assert_eq!(mounts().contains(&mounted), system != System::Local);
        let others = std::thread::spawn(mounts).join().expect("it ends");
        // A thread that is made now has this one's mounts; the process's first one has its own.
        assert_eq!(others.contains(&mounted), system != System::Local);
        let first = fs::read_to_string("/proc/self/mountinfo").expect("the kernel reports it");
        assert!(!first.contains(&mounted));
        assert_eq!(
            users(&place.0).is_empty(),
            [System::Local, System::Nfs].contains(&system)
        );
        drop(shared);
        assert_eq!(mounts(), before);
        assert_eq!(users(&place.0), [""; 0]);
        assert_eq!(
            fs::read_dir(&place.0)
                .expect("the folder can be listed")
                .count(),
            0
        );
    }
}

#[test]
fn a_file_that_is_open_keeps_a_folder_from_being_renewed_and_from_nothing_else() {
    with_each(|system, shared| {
        if system == System::Local {
            return;
        }
        serve(shared, "file", b"content");
        let file = fs::File::open(shared.mounted().join("file")).expect("it is served");
        let refused = shared.renew().expect_err("it is in use").to_string();
        assert!(refused.ends_with("is open still"), "{refused}");
        drop(file);
        shared.renew().expect("nothing is open");
        assert_eq!(
            fs::read(shared.mounted().join("file")).expect("it is served"),
            b"content"
        );
    });
}

#[test]
fn the_notes_name_what_serves_and_what_mounts() {
    with_each(|system, shared| {
        let notes = shared.notes().join("\n");
        let wanted: &[&str] = match system {
            System::Local => &[],
            System::Oscope => &[
                "oscope-fs ",
                "fuse",
                "SSH-2.0-",
                "aes128-gcm",
                "passthrough",
                "link",
            ],
            System::Sshfs => &["SSHFS version ", "fuse.sshfs", "SSH-2.0-", "link"],
            System::Nfs => &["Linux ", "nfs4", "vers=4.2", "nfsd", "link"],
        };
        for word in wanted {
            assert!(notes.contains(word), "{system:?}: {notes}");
        }
    });
}

#[test]
fn what_will_not_do_is_refused_and_nothing_is_made() {
    let place = Folder::new();
    let slow = Shape {
        delay: Duration::from_millis(1),
        ..Shape::default()
    };
    let field = |made: Result<SharedFolder, Failure>| match made {
        Err(Failure::Request { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        field(SharedFolder::make(System::Local, &place.0, &slow)),
        "delay"
    );
    let strange = place.0.join("a b");
    fs::create_dir(&strange).expect("it can be made");
    let none = place.0.join("none");
    for (system, path) in [(System::Sshfs, &strange), (System::Local, &none)] {
        let made = SharedFolder::make(system, path, &Shape::default());
        assert_eq!(field(made), "directory");
    }
    assert!(make(System::Local, &Folder(strange)).is_some());
    assert_eq!(
        fs::read_dir(&place.0)
            .expect("the folder can be listed")
            .count(),
        0
    );
}

/// Not a test of its own: see below.
#[test]
#[ignore = "started by the test of kills"]
fn hold_a_folder() {
    let Ok(wanted) = env::var(HOLD) else {
        return;
    };
    let (system, place) = wanted.split_once(' ').expect("two words");
    let system = serde_json::from_value(system.into()).expect("it is a system");
    let shape = Shape::default();
    let reported = match SharedFolder::make(system, Path::new(place), &shape) {
        Ok(shared) => {
            println!("\nmade {}", shared.mounted().display());
            std::io::stdin()
                .read_to_end(&mut Vec::new())
                .expect("it ends");
            return;
        }
        Err(failure) => failure,
    };
    match reported {
        Failure::Unavailable { message, .. } => println!("\nrefused {message}"),
        other => panic!("{other}"),
    }
}

#[test]
fn a_kill_leaves_neither_a_mount_nor_a_program_and_a_folder_that_is_in_the_journal() {
    for system in ["oscope", "sshfs"] {
        let (place, state) = (Folder::new(), Folder::new());
        let mut holder = Command::new(env::current_exe().expect("the kernel reports it"))
            .args(["--exact", "shared_folder::tests::hold_a_folder"])
            .args(["--ignored", "--nocapture"])
            .env(HOLD, format!("{system} {}", place.0.display()))
            .env("OSCOPE_STATE", &state.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let reported = BufReader::new(holder.stdout.take().expect("it is piped"))
            .lines()
            .map_while(Result::ok)
            .find(|line| line.starts_with("made ") || line.starts_with("refused "))
            .expect("it reports a start");
        if reported.starts_with("refused ") {
            eprintln!("skipped: {system}: {reported}");
            holder.wait().expect("it ends");
            continue;
        }
        // It and both ends of the connection.
        assert!(users(&place.0).len() >= 3, "{:?}", users(&place.0));
        holder.kill().expect("it is ours");
        holder.wait().expect("it ends");
        let latest = Instant::now() + Duration::from_secs(20);
        while !users(&place.0).is_empty() {
            assert!(Instant::now() < latest, "{:?}", users(&place.0));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!mounts().contains(place.0.to_str().expect("it is a text")));
        let (reported, clean) = restored(&state.0.join("made"));
        assert!(clean && reported.len() == 1, "{reported:?}");
        assert_eq!(
            fs::read_dir(&place.0)
                .expect("the folder can be listed")
                .count(),
            0
        );
    }
}
