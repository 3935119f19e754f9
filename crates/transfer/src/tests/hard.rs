//! Files of several names: they arrive as one, and nothing else is ever given a name.

use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, symlink};

use super::super::linked;
use super::super::stop::Stop;
use super::super::wire::{self, Entry, Frame, HARD, PREAMBLE};
use super::*;

fn gathered(place: &Place, names: &[&str]) -> Vec<Source> {
    let paths: Vec<_> = names.iter().map(|name| place.here(name)).collect();
    let mut found = Source::gather(&paths, Links::Keep, &[]).expect("the files are there");
    found.join_names();
    found.files
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("the file exists").ino()
}

#[test]
fn names_of_one_file_arrive_as_names_of_one_file() {
    for size in [0, 10, 1_000_000] {
        let place = Place::new();
        fs::create_dir_all(place.here("a/below")).expect("a folder");
        let bytes = place.make("a/one", size);
        fs::hard_link(place.here("a/one"), place.here("a/below/two")).expect("linked");
        fs::hard_link(place.here("a/one"), place.here("three")).expect("linked");
        // One that has another name elsewhere alone.
        place.make("a/four", 10);
        fs::hard_link(place.here("a/four"), place.here("elsewhere")).expect("linked");
        let names = ["a/one", "a/below/two", "three"];
        let files = gathered(&place, &["a", "three"]);
        let how = (SendOptions::default(), ReceiveOptions::default());
        // What is in their places is replaced, and the names that it has elsewhere keep it.
        fs::create_dir_all(place.there("a/below")).expect("a folder");
        fs::write(place.there("a/below/two"), "before").expect("a file");
        fs::hard_link(place.there("a/below/two"), place.there("kept")).expect("linked");
        symlink("kept", place.there("three")).expect("linked");
        for again in [false, true] {
            let (sent, received) = transfer(&place, &files, &how.0, &how.1);
            let sent = sent.expect("sent").here;
            received.expect("received");
            assert_eq!(sent.skipped, if again { 2 } else { 0 });
            assert!(sent.bytes < size as u64 + 100);
            for name in names {
                assert_eq!(inode(&place.there(name)), inode(&place.there("a/one")));
                assert_eq!(fs::read(place.there(name)).expect("there"), bytes);
            }
            let links = |name| fs::metadata(place.there(name)).expect("there").nlink();
            assert_eq!((links("a/one"), links("a/four"), links("kept")), (3, 1, 1));
            assert_eq!(fs::read(place.there("kept")).expect("there"), b"before");
            assert_eq!(place.partials(), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn nothing_but_a_file_of_the_transfer_is_given_another_name() {
    for target in [
        "../outside",
        "/etc/passwd",
        "there",
        "folder",
        "folder/absent",
        "link",
        "name",
        "",
    ] {
        let place = Place::new();
        let into = Folder::open(&place.root.join("into")).expect("a folder");
        fs::write(place.root.join("outside"), "secret").expect("a file");
        fs::write(place.there("there"), "was there").expect("a file");
        fs::create_dir(place.there("folder")).expect("a folder");
        symlink("../outside", place.there("link")).expect("a link");
        let entry = Entry {
            name: b"name",
            size: target.len() as u64,
            mode: HARD | 0o644,
            mtime_ns: 0,
        };
        let digest = blake3::hash(target.as_bytes());
        let mut said = PREAMBLE.to_vec();
        wire::encode(&Frame::Hello(DigestKind::Blake3), &mut said);
        wire::encode(&Frame::Entries(vec![entry]), &mut said);
        wire::encode(&Frame::EntriesEnd(1), &mut said);
        wire::encode(&Frame::Data(target.len() as u32), &mut said);
        said.extend_from_slice(target.as_bytes());
        wire::encode(&Frame::End(digest.as_bytes()), &mut said);
        let (listener, address) = bound();
        let error = thread::scope(|scope| {
            let received = scope.spawn(|| {
                let (stream, _) = listener.accept().expect("a peer");
                let how = receiving(ReceiveMethod::Auto);
                receive(stream, &into, &how, &mut |_| {})
            });
            let mut peer = TcpStream::connect(address).expect("a receiver");
            peer.write_all(&said).expect("said");
            peer.shutdown(Shutdown::Write).expect("said");
            peer.read_to_end(&mut Vec::new()).expect("answered");
            received.join().expect("no panic").expect_err("refused")
        });
        let expected = match target {
            "" => "an impossible kind of file",
            _ => "it links to no file of this transfer",
        };
        assert!(error.to_string().contains(expected), "{target}: {error}");
        assert!(!place.there("name").exists());
        assert_eq!(listed(&place.root.join("into")).len(), 3);
    }
}

#[test]
fn where_there_are_no_such_links_it_is_a_copy() {
    let place = Place::new();
    let parent = fs::File::open(place.root.join("into")).expect("a folder");
    // It is on another file system: no link can be made of it.
    let other = Path::new("/proc/version");
    let entry = Entry {
        name: b"name",
        size: 1,
        mode: 0o640,
        mtime_ns: 5_000_000_000,
    };
    let file = fs::File::open(other).expect("a file");
    let mut parts = 0;
    let mut put = |most| {
        let alive = || match parts < most {
            true => {
                parts += 1;
                Ok(())
            }
            false => Err(Stop::here("interrupted")),
        };
        linked::put_hard(parent.as_fd(), &entry, &file, false, alive)
    };
    for most in [0, 1] {
        let stop = put(most).expect_err("interrupted");
        assert_eq!(stop.error.to_string(), "interrupted");
        assert_eq!(listed(&place.root.join("into")), Vec::<PathBuf>::new());
    }
    assert!(!put(usize::MAX).expect("copied"));
    let there = fs::metadata(place.there("name")).expect("there");
    assert_eq!((there.mode() & 0o7777, there.mtime()), (0o640, 5));
    assert_eq!(
        fs::read(place.there("name")).expect("there"),
        fs::read(other).expect("there")
    );
    assert_eq!(place.partials(), Vec::<PathBuf>::new());
}
