//! What an end in the middle leaves on the server: temporaries, and renames of which no answer came.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;

use super::rig::{IMPATIENT, Rig, number, options, through_daemon, until};
use crate::mount::{Options, Recovered, locked, recover};
use crate::remote::{Put, PutError, Remote};
use crate::store::{Store, Temporaries};
use crate::testing::{LIMITS, Server};

const CHANGED: &[u8] = b"content and more";
const FOREIGN: &str = ".oscope-fs-0123456789abcdef";

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = all
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Ends a mount's life while it copies back a file: its temporary stays in `folder`.
fn end_while_putting(server: &mut Server, folder: &Path, store: Store) {
    let remote = Remote::connect(server.target(folder), IMPATIENT).unwrap();
    remote.journal(Arc::<Temporaries>::clone(store.temporaries()));
    let content = tempfile::tempfile().unwrap();
    content.set_len(256 << 20).unwrap();
    let order = Put {
        path: Path::new("d/x"),
        like: Path::new("d/x"),
        expected: None,
        unsettled: None,
        expect_nothing: true,
        mode: 0o644,
        owner: None,
        times: None,
        durable: false,
        changed: None,
    };
    let put = thread::scope(|scope| {
        let put = scope.spawn(|| remote.put(&content, &order));
        until("a temporary is there", || {
            names(&folder.join("d")) != [FOREIGN]
        });
        server.stop();
        put.join().unwrap()
    });
    assert_eq!(put, Err(PutError::Errno(Errno::EIO)));
    remote.close();
    assert_eq!(names(&folder.join("d")).len(), 2);
}

#[test]
fn a_temporary_that_an_earlier_life_left_is_removed_and_no_other() {
    let scratch = tempfile::tempdir().unwrap();
    let cache = scratch.path().join("cache");
    let mut server = Server::new();
    let folder = server.folder("served");
    fs::create_dir(folder.join("d")).unwrap();
    fs::write(folder.join("d").join(FOREIGN), "of another mount").unwrap();
    let target = server.target(&folder);
    let open = || Store::open(&cache, &target.key(), 1 << 30).unwrap();
    end_while_putting(&mut server, &folder, open());
    server.start();
    let store = open();
    assert_eq!(store.temporaries().earlier().len(), 1);
    let remote = Remote::connect(target.clone(), LIMITS).unwrap();
    let done = recover(&remote, &store, &mut |_| ()).unwrap();
    assert_eq!(done, Recovered::default());
    assert_eq!(names(&folder.join("d")), [FOREIGN]);
    drop((store, remote));
    assert_eq!(open().temporaries().earlier(), []);
}

#[test]
fn only_temporaries_are_removed_and_young_ones_looked_for_again() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::new();
    let folder = server.folder("served");
    fs::write(folder.join("f"), "a file").unwrap();
    let target = server.target(&folder);
    let cache = scratch.path().join("cache");
    let open = || Store::open(&cache, &target.key(), 1 << 30).unwrap();
    drop(open());
    let hex = |name: &str| -> String {
        let bytes = Path::new(name).as_os_str().as_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let (old, young) = (".oscope-fs-0000000000000001", FOREIGN);
    let lines = format!("+1 {}\n+1 {}\n+{now} {}\n", hex("f"), hex(old), hex(young));
    fs::write(cache.join("temporaries"), lines).unwrap();
    let store = open();
    let remote = Remote::connect(target.clone(), LIMITS).unwrap();
    recover(&remote, &store, &mut |_| ()).unwrap();
    assert_eq!(names(&folder), ["f"]);
    let left: Vec<_> = store.temporaries().earlier();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].path, Path::new(young));
    // A server that was held up makes it now.
    fs::write(folder.join(young), "late").unwrap();
    until("it is removed", || names(&folder) == ["f"]);
    until("that is written down", || {
        store.temporaries().earlier().is_empty()
    });
}

/// `d/f`, changed and open; the names are known to the mount for as long as a test lasts.
fn with_a_changed_file(mut options: Options) -> (Rig, File) {
    options.attribute_time = Duration::from_secs(600);
    let rig = Rig::impatient(options);
    fs::create_dir(rig.on("d")).unwrap();
    rig.serve("d/f", b"content");
    let mut file = OpenOptions::new().append(true).open(rig.at("d/f")).unwrap();
    file.write_all(b" and more").unwrap();
    assert_eq!(names(&rig.at("")), ["d"]);
    assert_eq!(names(&rig.at("d")), ["f"]);
    (rig, file)
}

/// Renames `from` to `to` in the mount; the server goes before it answers, and `done` is what it did.
fn rename_without_an_answer(rig: &mut Rig, (from, to): (&str, &str), done: bool) {
    rig.server.freeze();
    let (old, new) = (rig.at(from), rig.at(to));
    let rename = thread::spawn(move || number(fs::rename(old, new)));
    until("it is written down", || {
        !rig.shared().store.unresolved_renames().is_empty()
    });
    if done {
        fs::rename(rig.on(from), rig.on(to)).unwrap();
    }
    rig.server.stop();
    assert_eq!(rename.join().unwrap(), libc::EIO);
}

#[test]
fn a_rename_of_a_folder_without_an_answer_is_found_out_when_the_server_is_there_again() {
    for done in [true, false] {
        let (mut rig, file) = with_a_changed_file(options());
        rename_without_an_answer(&mut rig, ("d", "e"), done);
        rig.server.start();
        until("it is found out", || {
            rig.shared().store.unresolved_renames().is_empty()
        });
        drop(file);
        let (there, gone) = if done { ("e", "d") } else { ("d", "e") };
        assert!(!rig.on(gone).exists());
        assert_eq!(names(&rig.on(there)), ["f"]);
        assert_eq!(fs::read(rig.on(there).join("f")).unwrap(), CHANGED);
        assert_eq!(fs::read(rig.at(there).join("f")).unwrap(), CHANGED);
        assert!(!rig.at(gone).exists());
    }
}

#[test]
fn what_goes_back_before_a_rename_is_found_out_goes_to_the_new_name() {
    for options in [options(), through_daemon()] {
        let (mut rig, file) = with_a_changed_file(options);
        rename_without_an_answer(&mut rig, ("d/f", "d/g"), true);
        let descriptor = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let opened = fs::read_link(&descriptor).unwrap();
        let closing = thread::spawn(move || drop(file));
        // Else the server's process might have a copy of the file, whose closing waits for the server.
        until("it is being closed", || {
            fs::read_link(&descriptor).ok().as_ref() != Some(&opened)
        });
        rig.server.start();
        closing.join().unwrap();
        until("it went back", || {
            fs::read(rig.on("d/g")).unwrap() == CHANGED
        });
        until("no rename is unresolved", || {
            locked(&rig.shared().unresolved_renames).is_empty()
        });
        assert!(rig.shared().store.unresolved_renames().is_empty());
        assert_eq!(names(&rig.on("d")), ["g"]);
        assert_eq!(names(&rig.at("d")), ["g"]);
        assert_eq!(fs::read(rig.at("d/g")).unwrap(), CHANGED);
    }
}

#[test]
fn what_is_written_under_the_old_name_of_a_rename_without_an_answer_is_a_new_file() {
    for (options, waits) in [(options(), false), (through_daemon(), true)] {
        let (mut rig, file) = with_a_changed_file(options);
        file.sync_all().unwrap();
        rename_without_an_answer(&mut rig, ("d/f", "d/g"), true);
        assert_eq!(number(fs::write(rig.at("d/f"), "new")), libc::EIO);
        rig.server.start();
        if waits {
            until("it is found out", || {
                rig.shared().store.unresolved_renames().is_empty()
            });
        }
        // The kernel has looked the old name up, and believes it for ten minutes.
        until("it is written", || fs::write(rig.at("d/f"), "new").is_ok());
        drop(file);
        assert_eq!(fs::read(rig.on("d/f")).unwrap(), b"new");
        assert_eq!(fs::read(rig.on("d/g")).unwrap(), CHANGED);
        assert_eq!(fs::read(rig.at("d/g")).unwrap(), CHANGED);
        assert_eq!(fs::read(rig.at("d/f")).unwrap(), b"new");
    }
}

#[test]
fn the_old_name_of_a_rename_without_an_answer_goes_though_the_new_one_is_opened_first() {
    let (mut rig, file) = with_a_changed_file(through_daemon());
    file.sync_all().unwrap();
    rename_without_an_answer(&mut rig, ("d/f", "d/g"), true);
    rig.server.start();
    until("it is found out", || {
        rig.shared().store.unresolved_renames().is_empty()
    });
    until("the new name is there", || {
        fs::read(rig.at("d/g")).is_ok_and(|read| read == CHANGED)
    });
    until("the old name is gone", || !rig.at("d/f").exists());
    assert_eq!(fs::read(rig.at("d/g")).unwrap(), CHANGED);
}
