//! What a kill or a reboot left: recovered, or taken up by the next mount.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};

use super::rig::{IMPATIENT, Rig, number, options, until};
use crate::mount::file::set_times;
use crate::mount::tree::ROOT;
use crate::mount::{Recovered, recover};
use crate::remote::{Remote, Time, Version};
use crate::store::{Copy, Kept, Store};
use crate::testing::{LIMITS, unprivileged};

const KEPT: Kept = Kept {
    mode: 0o644,
    uid: 0,
    gid: 0,
};

fn store(rig: &Rig) -> Store {
    let key = rig.server.target(&rig.there).key();
    Store::open(&rig.cache, &key, 1 << 30).unwrap()
}

fn version(rig: &Rig, name: &str) -> Version {
    let found = fs::metadata(rig.on(name)).unwrap();
    Version {
        size: found.size(),
        mtime: Time::whole(found.mtime()),
    }
}

/// A copy as if fetched.
fn fetched(rig: &Rig, store: &Store, name: &str) -> (Copy, Version) {
    let version = version(rig, name);
    let copy = store.make(0).unwrap();
    let content = fs::read(rig.on(name)).unwrap();
    copy.file().write_all_at(&content, 0).unwrap();
    set_times(copy.file(), (version.mtime, version.mtime)).unwrap();
    store
        .keep(&copy, name.as_ref(), version, true, KEPT)
        .unwrap();
    (copy, version)
}

fn recovered(rig: &Rig, store: &Store) -> Recovered {
    let remote = Remote::connect(rig.server.target(&rig.there), LIMITS).unwrap();
    recover(&remote, store, &mut |_| ()).unwrap()
}

/// Changes a file while the server is away, and unmounts.
fn leave_dirty(rig: &mut Rig, name: &str, content: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(rig.at(name)).unwrap();
    rig.server.stop();
    file.write_all(content).unwrap();
    let closed = nix::unistd::close(file).map_err(Into::into);
    assert_eq!(number(closed), libc::EIO);
    rig.unmount();
    rig.server.start();
}

fn only_copy(rig: &Rig) -> File {
    let mut copies = fs::read_dir(rig.cache.join("copies")).unwrap();
    let path = copies.next().unwrap().unwrap().path();
    assert!(copies.next().is_none());
    OpenOptions::new().write(true).open(path).unwrap()
}

#[test]
fn a_copy_that_a_reboot_may_have_torn_is_never_put_over_the_original() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"old content");
    leave_dirty(&mut rig, "f", b"new");
    only_copy(&rig).write_all_at(b"\0\0", 1).unwrap();
    let key = rig.server.target(&rig.there).key();
    let store = Store::open_in_boot(&rig.cache, &key, 1 << 30, "another boot".into()).unwrap();
    rig.mount_over(store);
    let mut file = OpenOptions::new().append(true).open(rig.at("f")).unwrap();
    file.write_all(b" more").unwrap();
    drop(file);
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"old content");
    let kept = rig.conflicts();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), b"n\0\0 content more");
    until("the server's version is what is read", || {
        fs::read(rig.at("f")).unwrap() == b"old content"
    });
}

#[test]
fn a_copy_that_was_forced_to_disk_before_a_reboot_goes_back_to_its_name() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"old");
    leave_dirty(&mut rig, "f", b"new");
    let key = rig.server.target(&rig.there).key();
    let store = Store::open_in_boot(&rig.cache, &key, 1 << 30, "another boot".into()).unwrap();
    rig.mount_over(store);
    rig.shared().copy_back_idle(true);
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"new");
    assert!(rig.conflicts().is_empty());
}

#[test]
fn what_nobody_looks_up_is_tried_again() {
    for removed in [false, true] {
        let mut rig = Rig::impatient(options());
        fs::create_dir(rig.on("d")).unwrap();
        rig.serve("d/f", b"old");
        leave_dirty(&mut rig, "d/f", b"new");
        if removed {
            fs::remove_file(rig.on("d/f")).unwrap();
        }
        rig.mount();
        rig.shared().copy_back_idle(true);
        assert_eq!(fs::read(rig.on("d/f")).unwrap(), b"new");
        assert!(rig.shared().report().dirty.is_empty());
        let folder = || rig.shared().tree().child(ROOT, "d".as_ref());
        until("the nodes that were made for it go", || folder().is_none());
        assert_eq!(fs::read(rig.at("d/f")).unwrap(), b"new");
        rig.unmount();
    }
}

#[test]
fn a_change_of_equal_size_and_time_is_recovered() {
    let mut rig = Rig::new(options());
    rig.unmount();
    for name in ["changed", "opened", "emptied"] {
        rig.serve(name, b"old");
    }
    let store = store(&rig);
    let (changed, base) = fetched(&rig, &store, "changed");
    store.mark_dirty(&changed, Some(base), None).unwrap();
    changed.file().write_all_at(b"new", 0).unwrap();
    set_times(changed.file(), (base.mtime, base.mtime)).unwrap();
    let (opened, base) = fetched(&rig, &store, "opened");
    store.mark_dirty(&opened, Some(base), None).unwrap();
    let emptied = store.make(0).unwrap();
    set_times(emptied.file(), (base.mtime, base.mtime)).unwrap();
    store
        .keep_dirty(&emptied, "emptied".as_ref(), (Some(base), None), KEPT)
        .unwrap();
    drop((changed, opened, emptied));
    let done = recovered(&rig, &store);
    assert_eq!(
        (done.copied_back, done.conflicts, done.left),
        (2, 0, 0),
        "{done:?}"
    );
    assert_eq!(fs::read(rig.on("changed")).unwrap(), b"new");
    assert_eq!(fs::read(rig.on("opened")).unwrap(), b"old");
    assert_eq!(fs::read(rig.on("emptied")).unwrap(), b"");
}

#[test]
fn a_linked_file_whose_writing_was_cut_off_is_made_whole() {
    // A beginning of ours is no loss; whatever else is there may be.
    for (there, is_kept) in [(b"new", false), (b"mew", true)] {
        made_whole(there, is_kept);
    }
}

fn made_whole(there: &[u8], is_kept: bool) {
    let mut rig = Rig::new(options());
    rig.unmount();
    rig.serve("f", b"old content");
    fs::hard_link(rig.on("f"), rig.on("g")).unwrap();
    let store = store(&rig);
    let (copy, base) = fetched(&rig, &store, "f");
    store.linked(&copy, "g".as_ref()).unwrap();
    store.mark_dirty(&copy, Some(base), None).unwrap();
    copy.file().write_all_at(b"new", 0).unwrap();
    let sending = Version {
        mtime: Time::whole(base.mtime.seconds + 10),
        ..base
    };
    store.mark_sending(&copy, sending, None, None).unwrap();
    drop(copy);
    fs::write(rig.on("f"), there).unwrap();
    let done = recovered(&rig, &store);
    assert_eq!((done.copied_back, done.conflicts, done.left), (1, 0, 0));
    assert_eq!(fs::read(rig.on("g")).unwrap(), b"new content");
    let inode = |name| fs::metadata(rig.on(name)).unwrap().ino();
    assert_eq!(inode("f"), inode("g"));
    let kept: Vec<_> = rig
        .conflicts()
        .iter()
        .map(|at| fs::read(at).unwrap())
        .collect();
    assert_eq!(kept, vec![there; usize::from(is_kept)], "what was there");
}

/// What became of the content that was written to a copy, where its blocks did not reach the disk before power was
/// lost.
const DAMAGES: [&[u8]; 5] = [
    b"",
    b"new",
    b"\0\0\0\0\0\0\0\0\0\0\0",
    b"new \0\0\0\0\0\0\0",
    b"old content",
];

/// `f`, changed here from `old content` to `new content`; then power is lost. `settled`: that it was on the disk had
/// been made sure of, and the disk lost it all the same.
fn after_power_was_lost(damage: &[u8], settled: bool) -> (Rig, Store) {
    let mut rig = Rig::new(options());
    rig.unmount();
    rig.serve("f", b"old content");
    let before = store(&rig);
    let (copy, base) = fetched(&rig, &before, "f");
    before.mark_dirty(&copy, Some(base), None).unwrap();
    copy.file().write_all_at(b"new", 0).unwrap();
    if settled {
        before.settle(&copy).unwrap();
    }
    drop((copy, before));
    let copy = only_copy(&rig);
    copy.set_len(0).unwrap();
    copy.write_all_at(damage, 0).unwrap();
    let key = rig.server.target(&rig.there).key();
    let after = Store::open_in_boot(&rig.cache, &key, 1 << 30, "another boot".into()).unwrap();
    (rig, after)
}

/// The original is as it was; what is left of ours is beside it.
fn is_beside(rig: &Rig, damage: &[u8]) {
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"old content");
    let kept: Vec<_> = rig
        .conflicts()
        .iter()
        .map(|at| fs::read(at).unwrap())
        .collect();
    assert_eq!(kept, [damage]);
}

#[test]
fn what_power_loss_left_of_a_copy_is_recovered_beside_the_original_and_told() {
    for damage in DAMAGES {
        for settled in [false, true] {
            let (rig, store) = after_power_was_lost(damage, settled);
            let remote = Remote::connect(rig.server.target(&rig.there), LIMITS).unwrap();
            let mut lines = Vec::new();
            let done = recover(&remote, &store, &mut |line| lines.push(line)).unwrap();
            assert_eq!((done.copied_back, done.conflicts, done.left), (0, 1, 0));
            is_beside(&rig, damage);
            let kept = rig.conflicts()[0].file_name().unwrap().to_owned();
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(
                lines[0].contains("torn") && lines[0].contains(kept.to_str().unwrap()),
                "{lines:?}"
            );
            assert!(store.dirty().is_empty());
        }
    }
}

#[test]
fn what_power_loss_left_of_a_copy_goes_beside_the_original_by_the_next_mount_and_is_told() {
    for damage in DAMAGES {
        let (mut rig, store) = after_power_was_lost(damage, false);
        rig.mount_over(store);
        rig.shared().copy_back_idle(true);
        is_beside(&rig, damage);
        let report = rig.shared().report();
        assert_eq!(report.conflicts.len(), 1);
        assert_eq!(report.conflicts[0].path, "f");
        assert!(report.dirty.is_empty(), "{:?}", report.dirty);
        assert_eq!(fs::read(rig.at("f")).unwrap(), b"old content");
    }
}

#[test]
fn a_folder_that_the_server_lost_is_named_and_so_is_the_copy() {
    let mut rig = Rig::new(options());
    fs::create_dir(rig.on("dd")).unwrap();
    rig.serve("dd/f", b"old");
    let mut file = OpenOptions::new().write(true).open(rig.at("dd/f")).unwrap();
    file.write_all(b"new").unwrap();
    fs::remove_dir_all(rig.on("dd")).unwrap();
    let closed = nix::unistd::close(file).map_err(Into::into);
    assert_eq!(number(closed), libc::ENOENT);
    let missing = "the folder dd is missing on the server; make it there";
    let why = rig.shared().report().failures[0].why.clone();
    assert!(why.contains(missing), "{why}");
    rig.unmount();
    let store = store(&rig);
    let remote = Remote::connect(rig.server.target(&rig.there), LIMITS).unwrap();
    let mut lines = Vec::new();
    let done = recover(&remote, &store, &mut |line| lines.push(line)).unwrap();
    assert_eq!(done.left, 1, "{lines:?}");
    let copy = store.entry("dd/f".as_ref()).unwrap().unwrap().copy;
    assert!(lines[0].contains(missing), "{lines:?}");
    assert!(
        lines[0].ends_with(&format!("its content is {}", copy.path().display())),
        "{lines:?}"
    );
    assert_eq!(fs::read(copy.path()).unwrap(), b"new");
    drop(copy);
    fs::create_dir(rig.on("dd")).unwrap();
    assert_eq!(recovered(&rig, &store).copied_back, 1);
    assert_eq!(fs::read(rig.on("dd/f")).unwrap(), b"new");
}

#[test]
fn the_mode_that_another_has_set_meanwhile_is_kept_by_recovery() {
    let mut rig = Rig::impatient(options());
    rig.serve("f", b"old content");
    let set = |rig: &Rig, mode| {
        fs::set_permissions(rig.on("f"), fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&rig, 0o644);
    leave_dirty(&mut rig, "f", b"new");
    set(&rig, 0o600);
    let store = store(&rig);
    assert_eq!(recovered(&rig, &store).copied_back, 1);
    let there = fs::metadata(rig.on("f")).unwrap();
    assert_eq!(fs::read(rig.on("f")).unwrap(), b"new content");
    assert_eq!(there.mode() & 0o7777, 0o600);
}

#[test]
fn a_file_whose_rename_cannot_be_resolved_waits_until_its_name_is_known() {
    let mut rig = Rig::new(options());
    rig.unmount();
    let mut target = rig.server.target(&rig.there);
    for folder in ["d", "e"] {
        fs::create_dir(rig.on(folder)).unwrap();
    }
    if let Some(user) = unprivileged() {
        target.host = format!("{}@127.0.0.1", user.name);
        for folder in ["", "d", "e"] {
            chown(rig.on(folder), Some(user.uid.as_raw()), None).unwrap();
        }
    }
    let before = store(&rig);
    for name in ["d/f", "other"] {
        rig.serve(name, b"old");
        let (copy, base) = fetched(&rig, &before, name);
        before.mark_dirty(&copy, Some(base), None).unwrap();
        copy.file().write_all_at(b"new", 0).unwrap();
    }
    before.begin_rename("d/f".as_ref(), "e/g".as_ref()).unwrap();
    drop(before);
    fs::rename(rig.on("d/f"), rig.on("e/g")).unwrap();
    // Whether the new name is there the server does not say.
    let set = |mode| fs::set_permissions(rig.on("e"), fs::Permissions::from_mode(mode)).unwrap();
    set(0o000);
    let store = store(&rig);
    let remote = Remote::connect(target, LIMITS).unwrap();
    let mut lines = Vec::new();
    let done = recover(&remote, &store, &mut |line| lines.push(line)).unwrap();
    assert_eq!((done.copied_back, done.conflicts), (1, 0), "{lines:?}");
    assert!(done.left > 0 && store.dirty().len() == 1, "{lines:?}");
    assert_eq!(fs::read(rig.on("other")).unwrap(), b"new");
    assert!(!rig.on("d/f").exists());
    assert!(lines.iter().any(|line| line.starts_with("d/f: not")));

    set(0o755);
    let done = recover(&remote, &store, &mut |_| ()).unwrap();
    assert_eq!((done.copied_back, done.conflicts, done.left), (1, 0, 0));
    assert_eq!(fs::read(rig.on("e/g")).unwrap(), b"new");
    assert!(!rig.on("d/f").exists());
}

/// `d/f`, changed here, and a rename of it to `e/g` of which no answer came; a recovery could not resolve it, for the
/// connection broke.
fn unresolved_by_recovery(done: bool) -> (Rig, Store) {
    let mut rig = Rig::new(options());
    rig.unmount();
    for folder in ["d", "e"] {
        fs::create_dir(rig.on(folder)).unwrap();
    }
    rig.serve("d/f", b"old");
    let store = store(&rig);
    let (copy, base) = fetched(&rig, &store, "d/f");
    store.mark_dirty(&copy, Some(base), None).unwrap();
    copy.file().write_all_at(b"new", 0).unwrap();
    store.begin_rename("d/f".as_ref(), "e/g".as_ref()).unwrap();
    if done {
        fs::rename(rig.on("d/f"), rig.on("e/g")).unwrap();
    }
    let remote = Remote::connect(rig.server.target(&rig.there), IMPATIENT).unwrap();
    rig.server.stop();
    let found = recover(&remote, &store, &mut |_| ()).unwrap();
    assert!(found.left > 0 && store.unresolved_renames().len() == 1);
    rig.server.start();
    (rig, store)
}

#[test]
fn a_rename_that_recovery_could_not_resolve_is_resolved_by_the_mount() {
    for done in [true, false] {
        let (mut rig, store) = unresolved_by_recovery(done);
        rig.mount_over(store);
        rig.shared().copy_back_idle(true);
        let (there, gone) = if done { ("e/g", "d/f") } else { ("d/f", "e/g") };
        assert_eq!(fs::read(rig.on(there)).unwrap(), b"new");
        assert_eq!(fs::read(rig.at(there)).unwrap(), b"new");
        assert!(!rig.on(gone).exists() && !rig.at(gone).exists());
        assert!(rig.shared().report().dirty.is_empty());
        assert!(rig.shared().store.unresolved_renames().is_empty());
        assert!(rig.conflicts().is_empty());
    }
}

#[test]
fn what_is_left_takes_no_name_from_a_file_that_is_in_use() {
    let (mut rig, store) = unresolved_by_recovery(true);
    rig.mount_over(store);
    // The mount may be the first to look.
    let open = File::open(rig.at("e/g")).unwrap();
    rig.shared().copy_back_idle(true);
    drop(open);
    until("it went back", || {
        fs::read(rig.on("e/g")).unwrap() == b"new"
    });
    until("all went back", || rig.shared().report().dirty.is_empty());
    assert!(!rig.on("d/f").exists());
    assert!(rig.conflicts().is_empty());
}
