//! The server on its own: packets in, packets out.

use std::fs::{self, FileTimes};
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::mount::{MntFlags, umount2};

use super::*;
use crate::remote::wire::{Answer, Status, flag};
use crate::remote::{Attributes, Change, Kind, Time};
use crate::testing::{Server, unprivileged};

mod small;

/// The answers to these requests, on one connection.
fn answers(requests: &[Vec<u8>]) -> Vec<Answer> {
    let mut output = Vec::new();
    serve(&mut Cursor::new(requests.concat()), &mut output).unwrap();
    let mut output = Cursor::new(output);
    let mut found = Vec::new();
    while let Some(packet) = receive(&mut output).unwrap() {
        found.push(Answer::new(packet).unwrap().1);
    }
    found
}

fn answer_to(request: Packet) -> Answer {
    answers(&[request.finish()]).remove(0)
}

fn status_of(request: Packet) -> Status {
    answer_to(request).status().unwrap()
}

fn about(kind: u8, path: &Path) -> Packet {
    Packet::request(kind, 7).text(path.as_os_str().as_bytes())
}

fn extension(name: &str, paths: &[&Path]) -> Packet {
    paths
        .iter()
        .fold(Packet::extended(7, name), |packet, path| {
            packet.text(path.as_os_str().as_bytes())
        })
}

fn look(path: &Path) -> Attributes {
    answer_to(about(kind::LSTAT, path))
        .get(kind::ATTRS, |body| body.attributes())
        .unwrap()
        .unwrap()
}

/// Ask that `from` replaces `to`, if that has this size and time.
fn replace(from: &Path, to: &Path, expected: Option<(u64, Time)>) -> Status {
    let (size, time) = expected.unwrap_or_default();
    status_of(
        extension("replace@oscope", &[from, to])
            .number(u32::from(expected.is_some()))
            .long(size)
            .time(time),
    )
}

fn version(path: &Path) -> (u64, Time) {
    let found = path.metadata().unwrap();
    (found.size(), Time::new(found.mtime(), found.mtime_nsec()))
}

#[test]
fn it_says_first_what_it_can() {
    let hello = answers(&[Packet::init().finish()]).remove(0);
    assert_eq!(hello.kind(), kind::VERSION);
    let mut body = hello.body();
    let mut names = Vec::new();
    while !body.is_empty() {
        names.push((body.text().unwrap().to_vec(), body.text().unwrap().to_vec()));
    }
    assert!(names.contains(&(b"serve@oscope".to_vec(), b"1".to_vec())));
    assert!(names.contains(&(b"posix-rename@openssh.com".to_vec(), b"1".to_vec())));
}

#[test]
fn attributes_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("file"), folder.path().join("other"));
    fs::write(&file, "text").unwrap();
    fs::hard_link(&file, &other).unwrap();
    let time = Time::new(-5, 123_456_789);
    let change = Change {
        times: Some((Time::new(1 << 33, 7), time)),
        ..Change::default()
    };
    let set = about(kind::SETSTAT, &file).change(&change);
    assert_eq!(status_of(set), Status::Ok);
    let found = file.metadata().unwrap();
    assert_eq!((found.mtime(), found.mtime_nsec()), (-5, 123_456_789));
    assert_eq!((found.atime(), found.atime_nsec()), (1 << 33, 7));
    let now = look(&other);
    assert_eq!((now.mtime, now.size, now.kind), (time, 4, Kind::File));
    let more = now.more.unwrap();
    assert_eq!(more.links, 2);
    assert_eq!(more.ctime, Time::new(found.ctime(), found.ctime_nsec()));
}

#[test]
fn an_error_is_the_number_that_it_was_here() {
    let folder = tempfile::tempdir().unwrap();
    let (full, file) = (folder.path().join("full"), folder.path().join("file"));
    fs::create_dir_all(full.join("inner")).unwrap();
    fs::write(&file, "").unwrap();
    for (request, wanted) in [
        (about(kind::RMDIR, &full), Status::Exact(Errno::ENOTEMPTY)),
        (about(kind::REMOVE, &full), Status::Exact(Errno::EISDIR)),
        (about(kind::OPENDIR, &file), Status::Exact(Errno::ENOTDIR)),
        (
            about(kind::LSTAT, &file.join("x")),
            Status::Exact(Errno::ENOTDIR),
        ),
        (about(kind::LSTAT, &full.join("x")), Status::NoSuchFile),
        (about(kind::READLINK, &file), Status::Exact(Errno::EINVAL)),
        (
            about(kind::RENAME, &file).text(full.as_os_str().as_bytes()),
            Status::Exact(Errno::EEXIST),
        ),
        (Packet::request(99, 7), Status::Exact(Errno::ENOSYS)),
        (
            Packet::extended(7, "none@nowhere"),
            Status::Exact(Errno::ENOSYS),
        ),
        (
            Packet::request(kind::CLOSE, 7).text(b"none"),
            Status::Exact(Errno::EBADF),
        ),
    ] {
        assert_eq!(status_of(request), wanted);
    }
}

#[test]
fn special_files_are_made_with_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bits) in [("fifo", libc::S_IFIFO), ("socket", libc::S_IFSOCK)] {
        let path = folder.path().join(name);
        let make = extension("mknod@oscope", &[&path])
            .number(bits | 0o640)
            .number(0);
        assert_eq!(status_of(make), Status::Ok);
        let made = path.symlink_metadata().unwrap().file_type();
        assert!(made.is_fifo() && name == "fifo" || made.is_socket() && name == "socket");
        assert_eq!(look(&path).kind, Kind::Other(bits));
    }
}

#[test]
fn a_file_is_replaced_only_if_it_is_the_one_expected() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| fs::read_to_string(at(name)).unwrap();
    let conflict = Status::Exact(Errno::ECANCELED);
    fs::write(at("there"), "base").unwrap();
    let base = version(&at("there"));

    fs::write(at("new"), "ours").unwrap();
    assert_eq!(replace(&at("new"), &at("there"), None), conflict);
    // The same size, a nanosecond later.
    let later = UNIX_EPOCH
        + Duration::from_secs(base.1.seconds.unsigned_abs())
        + Duration::from_nanos(u64::from(base.1.nanoseconds) + 1);
    let file = fs::File::options().write(true).open(at("there")).unwrap();
    file.set_times(FileTimes::new().set_modified(later))
        .unwrap();
    assert_eq!(replace(&at("new"), &at("there"), Some(base)), conflict);
    assert_eq!(
        (text("there").as_str(), text("new").as_str()),
        ("base", "ours")
    );

    let base = version(&at("there"));
    assert_eq!(replace(&at("new"), &at("there"), Some(base)), Status::Ok);
    assert_eq!(
        (text("there").as_str(), at("new").exists()),
        ("ours", false)
    );

    fs::write(at("new"), "next").unwrap();
    fs::remove_file(at("there")).unwrap();
    assert_eq!(replace(&at("new"), &at("there"), Some(base)), Status::Ok);
    assert_eq!(text("there"), "next");

    fs::write(at("new"), "last").unwrap();
    fs::create_dir(at("folder")).unwrap();
    assert_eq!(replace(&at("new"), &at("folder"), Some(base)), conflict);
    assert_eq!(replace(&at("none"), &at("there"), None), conflict);
    let base = version(&at("there"));
    let missing = replace(&at("none"), &at("there"), Some(base));
    assert_eq!(
        (missing, text("there").as_str()),
        (Status::NoSuchFile, "next")
    );
}

/// A folder that is mounted by sshfs: a file system that refuses all flags of a rename, as NFS does. Its server
/// checks permissions.
struct Sshfs {
    here: PathBuf,
    _server: Server,
}

impl Sshfs {
    fn new() -> Self {
        let server = Server::new();
        let (there, here) = (server.folder("served"), server.folder("here"));
        let mut target = server.target(&there);
        if let Some(user) = unprivileged() {
            target.host = format!("{}@{}", user.name, target.host);
            chown(&there, Some(user.uid.as_raw()), None).unwrap();
        }
        let mut command = Command::new("sshfs");
        command
            .arg("-F")
            .arg(target.config.unwrap())
            .arg("-p")
            .arg(target.port.unwrap().to_string())
            .args(["-o", "dir_cache=no,attr_timeout=0,entry_timeout=0"])
            .arg(format!("{}:{}", target.host, there.display()))
            .arg(&here);
        assert!(command.status().unwrap().success());
        Self {
            here,
            _server: server,
        }
    }
}

impl Drop for Sshfs {
    fn drop(&mut self) {
        let _ = umount2(&self.here, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_name_is_taken_where_nothing_is_by_a_file_system_that_refuses_the_flags_of_a_rename() {
    let mounted = Sshfs::new();
    let at = |name: &str| mounted.here.join(name);
    let text = |name: &str| fs::read_to_string(at(name)).unwrap();
    let [conflict, exists] = [Errno::ECANCELED, Errno::EEXIST].map(Status::Exact);
    fs::write(at("new"), "ours").unwrap();
    let flags = RenameFlags::RENAME_NOREPLACE;
    let refused = renameat2(AT_FDCWD, &at("new"), AT_FDCWD, &at("there"), flags);
    assert_eq!(refused, Err(Errno::EINVAL));

    assert_eq!(replace(&at("new"), &at("there"), None), Status::Ok);
    assert_eq!(
        (text("there").as_str(), at("new").exists()),
        ("ours", false)
    );
    fs::write(at("new"), "next").unwrap();
    assert_eq!(replace(&at("new"), &at("there"), None), conflict);
    let rename = |from: &str, to: &str| {
        status_of(about(kind::RENAME, &at(from)).text(at(to).as_os_str().as_bytes()))
    };
    assert_eq!(rename("new", "there"), exists);
    assert_eq!(
        (text("there").as_str(), text("new").as_str()),
        ("ours", "next")
    );
    let base = version(&at("there"));
    assert_eq!(replace(&at("new"), &at("there"), Some(base)), Status::Ok);
    assert_eq!(text("there"), "next");

    assert_eq!(rename("there", "moved"), Status::Ok);
    assert_eq!(
        (text("moved").as_str(), at("there").exists()),
        ("next", false)
    );
    fs::create_dir(at("folder")).unwrap();
    fs::create_dir(at("other")).unwrap();
    assert_eq!(rename("folder", "other"), exists);
    assert_eq!(rename("folder", "moved"), exists);
    assert_eq!(rename("folder", "away"), Status::Ok);
    assert!(at("away").is_dir() && !at("folder").exists());
    std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
    assert_eq!(rename("away", "link"), exists);
    assert_eq!(rename("link", "moved link"), Status::Ok);
    assert_eq!(
        fs::read_link(at("moved link")).unwrap(),
        Path::new("nowhere")
    );
}

#[test]
fn a_file_that_cannot_lose_its_old_name_does_not_get_the_new_one() {
    let mounted = Sshfs::new();
    let at = |name: &str| mounted.here.join(name);
    fs::create_dir(at("kept")).unwrap();
    fs::write(at("kept/f"), "text").unwrap();
    let set = |mode| fs::set_permissions(at("kept"), fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let rename = about(kind::RENAME, &at("kept/f")).text(at("f").as_os_str().as_bytes());
    assert_eq!(status_of(rename), Status::PermissionDenied);
    assert!(!at("f").exists());
    assert_eq!(fs::read_to_string(at("kept/f")).unwrap(), "text");
    set(0o755);
}

#[test]
fn what_is_written_is_read_back_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let open = Packet::request(kind::OPEN, 1)
        .text(path.as_os_str().as_bytes())
        .number(flag::READ | flag::WRITE | flag::CREATE | flag::EXCLUSIVE)
        .change(&Change {
            mode: Some(0o600),
            ..Change::default()
        });
    // The first handle of a connection.
    let handle = 1_u64.to_be_bytes();
    let data = vec![5; 100_000];
    let read = |offset: u64| {
        Packet::request(kind::READ, 3)
            .text(&handle)
            .long(offset)
            .number(u32::MAX)
            .finish()
    };
    let write = Packet::request(kind::WRITE, 2)
        .text(&handle)
        .long(3)
        .text(&data)
        .finish();
    let close = || Packet::request(kind::CLOSE, 4).text(&handle).finish();
    let found = answers(&[
        open.finish(),
        write,
        read(2),
        read(100_003),
        close(),
        close(),
    ]);
    assert_eq!(found[0].kind(), kind::HANDLE);
    assert_eq!(found[1].status().unwrap(), Status::Ok);
    let got = found[2].get(kind::DATA, |body| body.text().map(<[u8]>::to_vec));
    assert_eq!(got.unwrap().unwrap(), [&[0][..], &data].concat());
    assert_eq!(found[3].status().unwrap(), Status::End);
    assert_eq!(found[4].status().unwrap(), Status::Ok);
    assert_eq!(found[5].status().unwrap(), Status::Exact(Errno::EBADF));
}

#[test]
fn a_part_of_a_file_is_copied_into_another() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, b"0123456789").unwrap();
    fs::write(&to, b"abcdefghij").unwrap();
    let open = |id, path: &Path, flags: u32| {
        let path = path.as_os_str().as_bytes();
        let packet = Packet::request(kind::OPEN, id).text(path).number(flags);
        packet.change(&Change::default()).finish()
    };
    // The handles of a connection are numbered.
    let handle = |number: u64| number.to_be_bytes();
    let copy = |id, from: u64, at, length, to: u64, there| {
        Packet::extended(id, "copy-data")
            .text(&handle(from))
            .long(at)
            .long(length)
            .text(&handle(to))
            .long(there)
            .finish()
    };
    let found = answers(&[
        open(1, &from, flag::READ),
        open(2, &to, flag::WRITE),
        copy(3, 1, 2, 3, 2, 1),
        copy(4, 1, 8, 0, 2, 9),
        copy(5, 1, 0, 1, 1, 5),
        copy(6, 1, 0, 1, 7, 0),
        copy(7, 2, 0, 1, 1, 0),
    ]);
    let said: Vec<_> = found[2..]
        .iter()
        .map(|answer| answer.status().unwrap())
        .collect();
    let refused = |error| Status::Exact(error);
    let (same, none) = (refused(Errno::EINVAL), refused(Errno::EBADF));
    assert_eq!(said, [Status::Ok, Status::Ok, same, none, none]);
    assert_eq!(fs::read(&to).unwrap(), b"a234efghi89");
    assert_eq!(fs::read(&from).unwrap(), b"0123456789");
}

#[test]
fn what_is_no_request_ends_the_connection_and_harms_nothing() {
    let long = u32::MAX.to_be_bytes().to_vec();
    let short = Packet::request(kind::OPEN, 7).finish();
    let cut = Packet::request(kind::LSTAT, 7).text(b"name").finish();
    for bytes in [long, vec![0; 4], short, cut[..cut.len() - 2].to_vec()] {
        let mut output = Vec::new();
        assert!(serve(&mut Cursor::new(bytes), &mut output).is_err());
        assert!(output.is_empty());
    }
}

#[test]
fn a_replacement_has_no_access_control_list_that_the_replaced_file_lacks() {
    const ACCESS: &str = "system.posix_acl_access";
    let folder = tempfile::tempdir().unwrap();
    let (of, to) = (folder.path().join("of"), folder.path().join("to"));
    fs::write(&of, "old").unwrap();
    // The default list of the folder (linux/posix_acl_xattr.h): another user may read and write all that is made there.
    let entries = [
        (1, 6, u32::MAX),
        (2, 6, 65534),
        (4, 4, u32::MAX),
        (16, 6, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, user) in entries {
        list.extend([u16::to_le_bytes(tag), u16::to_le_bytes(may)].concat());
        list.extend(u32::to_le_bytes(user));
    }
    xattr::set(folder.path(), "system.posix_acl_default", &list).unwrap();
    fs::write(&to, "new").unwrap();
    assert!(xattr::get(&to, ACCESS).unwrap().is_some());
    let inherit = || status_of(extension("xattrs@oscope", &[&of, &to]));
    assert_eq!(inherit(), Status::Ok);
    assert_eq!(xattr::get(&to, ACCESS).unwrap(), None);
    assert_eq!(inherit(), Status::Ok);
    // What replaces nothing has what its folder gives.
    fs::remove_file(&of).unwrap();
    fs::remove_file(&to).unwrap();
    fs::write(&to, "new").unwrap();
    assert_eq!(inherit(), Status::Ok);
    assert!(xattr::get(&to, ACCESS).unwrap().is_some());
}
