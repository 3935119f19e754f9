//! What has the name of a partial file and is not this user's alone: it stays as it is, and the file arrives all the
//! same.

use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::super::names::{self, Origin};
use super::super::partial::{self, Partial};
use super::super::wire::Entry;
use super::*;

const ENTRY: Entry = Entry {
    name: b"file",
    size: 4,
    mode: 0o644,
    mtime_ns: 0,
};

/// What it is and what is in it: inode, mode, owner, links, time of the last change, contents.
type Seen = (u64, u32, u32, u64, i64, Option<Vec<u8>>);

/// What makes it at a path.
type Make = Box<dyn Fn(&Path)>;

/// Something with the name of a partial file.
struct Foreign {
    path: PathBuf,
    before: Seen,
}

impl Foreign {
    fn at(place: &Place, make: &dyn Fn(&Path)) -> Self {
        let path = place.there(&names::partial(&ENTRY, Origin::Plain));
        make(&path);
        let before = Self::seen(&path);
        Self { path, before }
    }

    fn seen(path: &Path) -> Seen {
        let status = fs::symlink_metadata(path).expect("the file exists");
        let contents = status.is_file().then(|| fs::read(path).expect("readable"));
        (
            status.ino(),
            status.mode(),
            status.uid(),
            status.nlink(),
            status.ctime_nsec(),
            contents,
        )
    }

    fn assert_untouched(&self) {
        assert_eq!(Self::seen(&self.path), self.before);
    }
}

fn write(path: &Path) {
    fs::write(path, "abc").expect("written");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("a mode");
}

/// What may lie there. The first one takes root to make.
fn foreigners() -> Vec<(&'static str, Make)> {
    let mut all: Vec<(&str, Make)> = vec![
        (
            "a hard link to a file elsewhere",
            Box::new(|path| {
                let other = path.with_file_name("elsewhere");
                write(&other);
                fs::hard_link(other, path).expect("linked");
            }),
        ),
        (
            "a file that a group may write",
            Box::new(|path| {
                write(path);
                fs::set_permissions(path, Permissions::from_mode(0o620)).expect("a mode");
            }),
        ),
        (
            "a symbolic link",
            Box::new(|path| {
                let other = path.with_file_name("elsewhere");
                write(&other);
                symlink(other, path).expect("linked");
            }),
        ),
        (
            "a FIFO",
            Box::new(|path| {
                nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("made");
            }),
        ),
        (
            "a folder",
            Box::new(|path| fs::create_dir(path).expect("made")),
        ),
    ];
    if nix::unistd::geteuid().is_root() {
        all.push((
            "another user's file",
            Box::new(|path| {
                write(path);
                chown(path, Some(65_534), Some(65_534)).expect("given away");
            }),
        ));
    }
    all
}

#[test]
fn what_is_not_this_users_alone_is_not_gone_on_with() {
    for (what, make) in foreigners() {
        let place = Place::new();
        let foreign = Foreign::at(&place, &make);
        let parent = fs::File::open(place.root.join("into")).expect("a folder");
        assert_eq!(
            partial::begun(parent.as_fd(), &ENTRY, Origin::Plain),
            Ok(None),
            "{what}"
        );
        let mut begun = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain).expect(what);
        assert!(begun.is_new && begun.is_adoptable(), "{what}");
        begun.file.write_all(b"new!").expect("written");
        drop(begun);
        // What was begun under another name is resumed.
        assert_eq!(
            partial::begun(parent.as_fd(), &ENTRY, Origin::Plain),
            Ok(Some(4)),
            "{what}"
        );
        begun = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain).expect(what);
        assert!(!begun.is_new, "{what}");
        begun.finish(parent.as_fd(), &ENTRY, true).expect(what);
        assert_eq!(fs::read(place.there("file")).expect(what), b"new!");
        let status = fs::metadata(place.there("file")).expect(what);
        assert_eq!(status.uid(), nix::unistd::geteuid().as_raw(), "{what}");
        foreign.assert_untouched();
    }
}

#[test]
fn all_names_taken_is_an_error_and_changes_nothing() {
    let place = Place::new();
    let parent = fs::File::open(place.root.join("into")).expect("a folder");
    for name in names::partials(&ENTRY, Origin::Plain) {
        fs::create_dir(place.there(&name)).expect("made");
    }
    let before = listed(&place.root.join("into")).len();
    let error = Partial::open(parent.as_fd(), &ENTRY, Origin::Plain)
        .err()
        .expect("no name");
    assert!(
        error.to_string().contains("names of its partial file"),
        "{error:?}"
    );
    assert_eq!(listed(&place.root.join("into")).len(), before);
}
