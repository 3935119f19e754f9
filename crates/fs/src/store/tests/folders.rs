//! The cache folder itself: whose it is, who may use it, what is left in it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::super::Store;
use super::{LIMIT, changed, fetched, find, open, open_in_boot, read};

fn refusal(folder: &Path, key: &str) -> String {
    Store::open(folder, key, LIMIT)
        .expect_err("it is refused")
        .to_string()
}

#[test]
fn a_folder_in_use_is_refused_with_the_process_that_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let text = refusal(&folder.path().join("cache"), "host:/folder");
    assert!(
        text.contains(&format!("in use by process {}", std::process::id())),
        "{text}"
    );
    drop(store);
    open(folder.path());
}

#[test]
fn a_folder_of_another_target_or_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    changed(&open(folder.path()), "a", "changed");
    let text = refusal(&cache, "host:/other");
    assert!(
        text.contains("belongs to another target: host:/folder, not host:/other"),
        "{text}"
    );
    let known = r#"{"format":1,"target":"sftp me@srv port= folder=2f746d70"}"#;
    fs::write(cache.join("target"), known).unwrap();
    let text = refusal(&cache, "sftp ::1 port=22 folder=61");
    assert!(
        text.contains("another target: me@srv:/tmp, not [::1]:a (-p 22)"),
        "{text}"
    );
    fs::write(cache.join("target"), r#"{"format":2,"what":"else"}"#).unwrap();
    let text = refusal(&cache, "host:/folder");
    assert!(
        text.contains("is of format 2, this oscope-fs knows format 1"),
        "{text}"
    );
    fs::write(
        cache.join("target"),
        r#"{"format":1,"target":"host:/folder"}"#,
    )
    .unwrap();
    assert_eq!(read(&find(&open(folder.path()), "a").unwrap()), "changed");
}

#[test]
fn what_is_no_cache_of_ours_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refusal(&cache, "k").contains("is open to others (mode 755)"));
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(cache.join("letter"), "dear").unwrap();
    assert!(refusal(&cache, "k").contains("is no cache of oscope-fs: it holds \"letter\""));
    assert_eq!(
        fs::read_dir(&cache).unwrap().count(),
        1,
        "nothing was made in it"
    );
    symlink(&cache, folder.path().join("link")).unwrap();
    assert!(refusal(&folder.path().join("link"), "k").contains("is a link or no folder"));
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(refusal(&folder.path().join("file"), "k").contains("cannot be made"));
}

#[test]
fn a_start_that_was_killed_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(cache.join("lock"), "").unwrap();
    fs::write(cache.join("target.new"), "{\"form").unwrap();
    fs::write(cache.join("log"), "a line").unwrap();
    open(folder.path());
    assert_eq!(
        fs::metadata(&cache).unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert_eq!(fs::read_to_string(cache.join("log")).unwrap(), "a line");
}

#[test]
fn half_made_copies_go_and_what_others_put_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let store = open(folder.path());
    let half = store.make(100).unwrap();
    let at = half.path().to_path_buf();
    // As a kill leaves it: nothing of it is dropped.
    std::mem::forget(half);
    fs::write(cache.join("copies/mine.txt"), "by a person").unwrap();
    fs::write(cache.join("entries/0000000000000001.json.new"), "{").unwrap();
    drop(store);
    assert!(at.exists());
    let store = open(folder.path());
    assert!(!at.exists());
    assert!(cache.join("copies/mine.txt").exists());
    assert!(!cache.join("entries/0000000000000001.json.new").exists());
    assert!(store.damaged().is_empty());
}

#[test]
fn a_copy_without_a_readable_record_is_put_aside_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let copy = changed(&open(folder.path()), "a", "precious");
    let record = cache
        .join("entries")
        .join(format!("{}.json", copy.id().name()));
    let whole = fs::read(&record).unwrap();
    drop(copy);
    // What a power cut may leave: nothing, a part, two records mixed.
    let mixed: Vec<u8> = String::from_utf8(whole.clone())
        .unwrap()
        .replace("640", "6400")
        .replace("416", "417")
        .into();
    for torn in [Vec::new(), whole[..whole.len() / 2].to_vec(), mixed] {
        assert_ne!(torn, whole);
        fs::write(&record, &torn).unwrap();
        let store = open(folder.path());
        assert!(find(&store, "a").is_none());
        let [line] = store.damaged() else {
            panic!("{:?}", store.damaged())
        };
        let at = line
            .split_whitespace()
            .find(|word| word.contains("/torn/"))
            .unwrap();
        assert_eq!(fs::read_to_string(at).unwrap(), "precious");
        fs::rename(at, cache.join("copies").join(record.file_stem().unwrap())).unwrap();
        fs::write(&record, &whole).unwrap();
    }
    assert_eq!(read(&find(&open(folder.path()), "a").unwrap()), "precious");
}

#[test]
fn a_copy_that_somebody_deleted_is_told_if_it_was_dirty_and_fetched_again_if_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for copy in [changed(&store, "dirty", "x"), fetched(&store, "clean", "y")] {
        fs::remove_file(copy.path()).unwrap();
    }
    assert!(find(&store, "clean").is_none());
    assert_eq!(
        store.entry(Path::new("dirty")).unwrap_err(),
        nix::errno::Errno::EIO
    );
    drop(store);
    let store = open(folder.path());
    assert!(find(&store, "dirty").is_none());
    let [line] = store.damaged() else {
        panic!("{:?}", store.damaged())
    };
    assert!(
        line.contains("the local copy of \"dirty\" had changes and is gone"),
        "{line}"
    );
}

#[test]
fn only_what_a_checkpoint_covers_is_believed_after_a_reboot() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_in_boot(folder.path(), "first");
    fetched(&store, "before", "b");
    store.checkpoint().unwrap();
    fetched(&store, "after", "a");
    drop(store);
    let store = open_in_boot(folder.path(), "first");
    assert!(
        find(&store, "before").is_some() && find(&store, "after").is_some(),
        "a kill takes neither"
    );
    drop(store);
    let store = open_in_boot(folder.path(), "second");
    assert!(find(&store, "before").is_some() && find(&store, "after").is_none());
}
