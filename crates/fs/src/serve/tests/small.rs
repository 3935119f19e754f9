//! Small files in one request.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{answer_to, extension, look, version};
use crate::remote::wire::{Status, kind};
use crate::remote::{Attributes, Change, SMALL, Time};
use crate::testing::{contents, unprivileged};

/// What `digest@oscope` says of a path: the size and the digest.
fn digest_of(path: &Path) -> Result<(u64, Vec<u8>), Status> {
    let answer = answer_to(extension("digest@oscope", &[path]));
    let said = answer.get(kind::EXTENDED_REPLY, |body| {
        Ok((body.long()?, body.text()?.to_vec()))
    });
    said.unwrap()
}

#[test]
fn the_digest_of_a_small_file_is_that_of_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (file, large) = (folder.path().join("file"), folder.path().join("large"));
    for length in [0, 1, 300_000] {
        fs::write(&file, vec![b'x'; length]).unwrap();
        let copy = fs::File::open(&file).unwrap();
        let wanted = crate::store::digest(&copy).unwrap().to_vec();
        assert_eq!(digest_of(&file), Ok((length as u64, wanted)));
    }
    let sparse = fs::File::create(&large).unwrap();
    sparse.set_len(SMALL + 1).unwrap();
    assert_eq!(digest_of(&large), Err(Status::Exact(Errno::EFBIG)));
    let einval = Err(Status::Exact(Errno::EINVAL));
    assert_eq!(digest_of(folder.path()), einval);
    assert_eq!(
        digest_of(&folder.path().join("none")),
        Err(Status::NoSuchFile)
    );
}

fn whole(path: &Path, most: u32) -> Result<(Attributes, Vec<u8>), Status> {
    let answer = answer_to(extension("whole@oscope", &[path]).number(most));
    let said = answer.get(kind::EXTENDED_REPLY, |body| {
        Ok((body.attributes()?, body.text()?.to_vec()))
    });
    said.unwrap()
}

#[test]
fn a_small_file_comes_with_its_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let (file, fifo) = (folder.path().join("file"), folder.path().join("fifo"));
    for length in [0, 1, 65536] {
        let bytes = contents(length);
        fs::write(&file, &bytes).unwrap();
        let (attributes, content) = whole(&file, 65536).unwrap();
        assert!(content == bytes);
        assert_eq!((attributes.size, attributes.mtime), version(&file));
        assert_eq!(attributes.more, look(&file).more);
    }
    assert_eq!(whole(&file, 65535), Err(Status::Exact(Errno::EFBIG)));
    // An open of it would wait for another who writes.
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for path in [&fifo, folder.path()] {
        assert_eq!(whole(path, 65536), Err(Status::Exact(Errno::EINVAL)));
    }
    let none = folder.path().join("none");
    assert_eq!(whole(&none, 65536), Err(Status::NoSuchFile));
}

const OLD: Time = Time::whole(1_111_111_111);
const TIMES: (Time, Time) = (Time::whole(1_222_222_222), Time::whole(1_333_333_333));

fn fill(path: &Path, expected: Time, content: &[u8]) -> Result<Attributes, Status> {
    let change = Change {
        times: Some(TIMES),
        ..Change::default()
    };
    let request = extension("fill@oscope", &[path])
        .time(expected)
        .text(content)
        .change(&change);
    let said = answer_to(request).get(kind::ATTRS, |body| body.attributes());
    said.unwrap()
}

/// A file with that content, last changed at that time.
fn make(path: &Path, content: &[u8], modification: Time) {
    fs::write(path, content).unwrap();
    let (seconds, nanoseconds) = (modification.seconds as u64, modification.nanoseconds);
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(seconds, nanoseconds);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[test]
fn an_empty_file_gets_a_content_if_it_is_the_one_expected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for length in [0, 1, 32768] {
        let bytes = contents(length);
        make(&file, b"", OLD);
        let inode = file.metadata().unwrap().ino();
        let attributes = fill(&file, OLD, &bytes).unwrap();
        assert_eq!((attributes.size, attributes.mtime), version(&file));
        assert_eq!((attributes.atime, attributes.mtime), TIMES);
        assert_eq!(file.metadata().unwrap().ino(), inode);
        assert!(fs::read(&file).unwrap() == bytes);
    }
    let canceled = Err(Status::Exact(Errno::ECANCELED));
    make(&file, b"", Time::new(OLD.seconds, 1));
    let before = version(&file);
    assert_eq!(fill(&file, OLD, b"ours"), canceled, "another time");
    assert_eq!(version(&file), before);
    make(&file, b"theirs", OLD);
    assert_eq!(fill(&file, OLD, b"ours"), canceled, "another content");
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
}

#[test]
fn what_another_has_open_is_not_filled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    make(&file, b"", OLD);
    for write in [false, true] {
        let open = File::options().read(true).write(write).open(&file).unwrap();
        assert_eq!(fill(&file, OLD, b"ours"), Err(Status::Exact(Errno::EBUSY)));
        assert_eq!(version(&file), (0, OLD));
        drop(open);
    }
    assert_eq!(fill(&file, OLD, b"ours").unwrap().size, 4);
}

#[test]
fn nothing_but_a_file_of_that_name_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make(&at("file"), b"", OLD);
    symlink(at("file"), at("link")).unwrap();
    mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
    for name in ["link", "fifo", "none"] {
        assert!(fill(&at(name), OLD, b"ours").is_err(), "{name}");
    }
    assert_eq!(
        fill(folder.path(), OLD, b"ours"),
        Err(Status::Exact(Errno::EISDIR))
    );
    assert_eq!(version(&at("file")), (0, OLD));
    assert!(!at("none").exists());
}

#[test]
fn a_content_that_has_no_room_leaves_the_file_as_it_was() {
    if unprivileged().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = Some("size=16k");
    mount(
        Some("tmpfs"),
        folder.path(),
        Some("tmpfs"),
        MsFlags::empty(),
        disk,
    )
    .unwrap();
    let file = folder.path().join("file");
    make(&file, b"", OLD);
    let said = fill(&file, OLD, &contents(32768));
    let found = (version(&file), fs::read(&file).unwrap());
    let again = fill(&file, OLD, b"less");
    umount2(folder.path(), MntFlags::MNT_DETACH).unwrap();
    assert_eq!(said, Err(Status::Exact(Errno::ENOSPC)));
    assert_eq!(found, ((0, OLD), Vec::new()));
    assert_eq!(again.unwrap().size, 4);
}
