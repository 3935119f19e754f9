//! Which connections are made, and the messages for those that are not.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::remote::{Limits, Remote, State, Target};
use crate::testing::{LIMITS, Server, unprivileged};

/// The line that a refused connection gives.
fn refused(target: Target) -> String {
    match Remote::connect(target, LIMITS) {
        Ok(_) => panic!("it connected"),
        Err(failure) => {
            assert!(failure.remedy().is_some(), "{failure}");
            failure.explained()
        }
    }
}

#[test]
fn targets_are_read_from_text() {
    let parse = |text: &[u8]| Target::parse(OsStr::from_bytes(text));
    let parts = |text: &[u8]| {
        parse(text)
            .map(|t| (t.host, t.folder))
            .map_err(|f| f.explained())
    };
    let is =
        |host: &str, folder: &[u8]| Ok((host.to_owned(), PathBuf::from(OsStr::from_bytes(folder))));
    assert_eq!(parts(b"me@host:/a:b"), is("me@host", b"/a:b"));
    assert_eq!(parts(b"host:"), is("host", b""));
    assert_eq!(parts(b"host:~/x"), is("host", b"x"));
    assert_eq!(parts(b"me@[fe80::1%eth0]:/x"), is("me@fe80::1%eth0", b"/x"));
    assert_eq!(parts(b"[::1]:\xff"), is("::1", b"\xff"));
    for wrong in [
        &b"host"[..],
        b":x",
        b"me@:x",
        b"-oProxyCommand=x:y",
        b"a@-b:c",
        b"host:~you",
        b"[::1]x",
        b"a b:c",
        b"\xff:x",
    ] {
        let failure = parts(wrong).unwrap_err();
        assert!(failure.contains("write [USER@]HOST:DIR"), "{failure}");
    }
}

#[test]
fn settings_that_are_missing_are_not_taken_for_a_missing_helper() {
    let mut target = Target::parse(OsStr::new("host:")).unwrap();
    target.config = Some(PathBuf::from("/no/such/settings"));
    let line = refused(target.clone());
    assert!(
        line.contains("/no/such/settings") && line.contains("by -F"),
        "{line}"
    );
    assert!(!line.contains("--helper"), "{line}");
    target.helper = Some("oscope-fs".to_owned());
    let line = refused(target);
    assert!(!line.contains("--helper"), "{line}");
}

#[test]
fn a_key_is_shown_as_the_target_was_written() {
    for text in ["me@host:/a b", "[::1]:", "me@[fe80::1%eth0]:x"] {
        let mut target = Target::parse(OsStr::new(text)).unwrap();
        assert_eq!(Target::of_key(&target.key()), text);
        target.port = Some(2222);
        assert_eq!(Target::of_key(&target.key()), format!("{text} (-p 2222)"));
    }
    assert_eq!(Target::of_key("sftp x folder=zz"), "sftp x folder=zz");
}

#[test]
fn a_key_tells_targets_apart() {
    let one = Target::parse(OsStr::new("me@host:/a")).unwrap();
    let keys = [
        one.key(),
        Target {
            port: Some(22),
            ..one.clone()
        }
        .key(),
        Target {
            host: "host".into(),
            ..one.clone()
        }
        .key(),
        Target {
            folder: "/b".into(),
            ..one.clone()
        }
        .key(),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{key}");
    }
    assert_eq!(one.key(), one.clone().key());
}

#[test]
fn openssh_has_all_extensions() {
    let server = Server::new();
    let remote = Remote::connect(server.target(&server.folder("f")), LIMITS).unwrap();
    let has = remote.extensions();
    assert!(
        has.posix_rename && has.hardlink && has.fsync && has.statvfs && has.lsetstat && has.limits
    );
    assert!(has.read_length >= 32768 && has.write_length >= 32768);
    assert_eq!(remote.state(), State::Up);
    remote.close();
    assert!(matches!(remote.state(), State::Down { .. }));
    assert_eq!(remote.lstat(Path::new("")), Err(Errno::EIO));
}

#[test]
fn an_unknown_host_key_is_refused_and_not_learned() {
    let server = Server::new();
    fs::write(server.file("known_hosts"), "").unwrap();
    let said = refused(server.target(&server.folder("f")));
    assert!(
        said.contains("key verification failed") && said.contains("known_hosts"),
        "{said}"
    );
    assert_eq!(fs::read(server.file("known_hosts")).unwrap(), b"");
}

#[test]
fn a_changed_host_key_is_refused() {
    let server = Server::new();
    let known = fs::read_to_string(server.file("known_hosts")).unwrap();
    let other = fs::read_to_string(server.file("stranger.pub")).unwrap();
    let place = known.split_whitespace().next().unwrap();
    fs::write(server.file("known_hosts"), format!("{place} {other}")).unwrap();
    let said = refused(server.target(&server.folder("f")));
    assert!(said.contains("key verification failed"), "{said}");
}

#[test]
fn a_refused_port_is_told() {
    let mut server = Server::new();
    let target = server.target(&server.folder("f"));
    server.stop();
    let said = refused(target);
    assert!(
        said.contains("Connection refused") && said.contains("-p"),
        "{said}"
    );
}

#[test]
fn a_refused_key_is_told() {
    let server = Server::new();
    let mut target = server.target(&server.folder("f"));
    let config = server.file("strange_config");
    let usual = fs::read_to_string(server.file("ssh_config")).unwrap();
    let strange = usual.replace(
        &server.file("user").display().to_string(),
        &server.file("stranger").display().to_string(),
    );
    assert_ne!(usual, strange);
    fs::write(&config, strange).unwrap();
    target.config = Some(config);
    let said = refused(target);
    assert!(
        said.contains("Permission denied") && said.contains("agent"),
        "{said}"
    );
}

#[test]
fn an_unknown_host_and_an_unknown_option_are_told() {
    let server = Server::new();
    let mut target = server.target(&server.folder("f"));
    target.options = vec!["NoSuchOption=1".into()];
    let said = refused(target.clone());
    assert!(
        said.contains("nosuchoption") || said.contains("NoSuchOption"),
        "{said}"
    );
    target.options.clear();
    target.host = "no-such-host.invalid".into();
    let said = refused(target);
    assert!(said.contains("check the host's name"), "{said}");
}

#[test]
fn a_server_without_sftp_is_told() {
    let server = Server::with("Subsystem sftp /bin/false");
    let said = refused(server.target(&server.folder("f")));
    assert!(said.contains("cannot connect to 127.0.0.1"), "{said}");
}

#[test]
fn a_server_that_cannot_replace_files_is_refused() {
    let server = Server::with("Subsystem sftp internal-sftp -P posix-rename");
    let said = refused(server.target(&server.folder("f")));
    assert!(said.contains("posix-rename@openssh.com"), "{said}");
}

#[test]
fn a_missing_folder_and_a_file_are_told() {
    let server = Server::new();
    let folder = server.folder("f");
    fs::write(folder.join("file"), "x").unwrap();
    let said = refused(server.target(&folder.join("none")));
    assert!(said.contains("none: no such folder"), "{said}");
    let said = refused(server.target(&folder.join("file")));
    assert!(
        said.contains("no such folder") || said.contains("not a folder"),
        "{said}"
    );
}

#[test]
fn an_unreadable_folder_is_told() {
    let server = Server::new();
    let folder = server.folder("f");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let mut target = server.target(&folder);
    match unprivileged() {
        Some(user) => target.host = format!("{}@127.0.0.1", user.name),
        None => fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap(),
    }
    let said = refused(target);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(said.contains("permission denied"), "{said}");
}

#[test]
fn a_folder_that_is_a_link_is_followed() {
    let server = Server::new();
    let folder = server.folder("f");
    let link = server.file("link");
    symlink(&folder, &link).unwrap();
    fs::write(folder.join("x"), "12345").unwrap();
    let remote = Remote::connect(server.target(&link), LIMITS).unwrap();
    assert_eq!(remote.lstat(Path::new("x")).unwrap().size, 5);
    assert_eq!(
        remote.lstat(Path::new("")).unwrap().kind,
        crate::remote::Kind::Folder
    );
}

#[test]
fn permission_that_is_lost_gives_the_right_errors() {
    let server = Server::new();
    let folder = server.folder("f");
    fs::write(folder.join("secret"), "x").unwrap();
    fs::set_permissions(folder.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::create_dir(folder.join("closed")).unwrap();
    fs::set_permissions(folder.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    let mut target = server.target(&folder);
    if let Some(user) = unprivileged() {
        target.host = format!("{}@127.0.0.1", user.name);
        chown(folder.join("closed"), Some(user.uid.as_raw()), None).unwrap();
    }
    let remote = Remote::connect(target, LIMITS).unwrap();
    let into = tempfile::tempfile().unwrap();
    let fetched = remote.fetch(Path::new("secret"), &into, 0, &|_| Ok(()));
    assert_eq!(fetched.unwrap_err(), Errno::EACCES);
    assert_eq!(
        remote.create(Path::new("closed/x"), 0o644),
        Err(Errno::EACCES)
    );
    assert_eq!(
        remote.make_folder(Path::new("closed/x"), 0o755),
        Err(Errno::EACCES)
    );
    if unprivileged().is_some() {
        let change = crate::remote::Change {
            mode: Some(0o644),
            ..Default::default()
        };
        assert_eq!(remote.set(Path::new("secret"), &change), Err(Errno::EPERM));
    }
}

#[test]
fn the_first_connection_may_come_later() {
    let mut server = Server::new();
    let target = server.target(&server.folder("f"));
    server.stop();
    let limits = Limits {
        operation: Duration::from_millis(700),
        ..LIMITS
    };
    let remote = Remote::offline(target, limits);
    assert_eq!(remote.lstat(Path::new("")), Err(Errno::EIO));
    super::broken::within_patience(|| matches!(remote.state(), State::Down { tries: 1.., .. }));
    match remote.state() {
        State::Down { why, .. } => assert!(why.contains("Connection refused"), "{why}"),
        State::Up => panic!("it cannot be up"),
    }
    server.start();
    super::broken::within_patience(|| remote.lstat(Path::new("")).is_ok());
}

#[test]
fn the_fast_cipher_is_used_unless_either_side_chose_another() {
    let used = |server_allows: &str, user_wants: &[&str]| {
        let server = Server::with(&format!("LogLevel DEBUG1\n{server_allows}"));
        let mut target = server.target(&server.folder("f"));
        target.options = user_wants.iter().copied().map(str::to_owned).collect();
        drop(Remote::connect(target, LIMITS).unwrap());
        let log = server.log();
        let (_, rest) = log.split_once("kex: client->server cipher: ").unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let first = match crate::remote::session::cipher::has_aes() {
        true => "aes128-gcm@openssh.com",
        false => "chacha20-poly1305@openssh.com",
    };
    assert_eq!(used("", &[]), first);
    assert_eq!(used("Ciphers aes256-ctr", &[]), "aes256-ctr");
    assert_eq!(used("", &["Ciphers=aes192-ctr"]), "aes192-ctr");
}

#[test]
fn a_server_that_was_away_for_long_is_found_by_an_operation_that_waits() {
    let mut server = Server::new();
    let target = server.target(&server.folder("f"));
    server.stop();
    // The pause between two tries is at most a quarter of it; beside other tests a connection takes seconds.
    let limits = Limits {
        operation: Duration::from_secs(12),
        ..LIMITS
    };
    let remote = Remote::offline(target, limits);
    super::broken::within_patience(|| matches!(remote.state(), State::Down { tries: 5.., .. }));
    server.start();
    remote.lstat(Path::new("")).unwrap();
}

/// Who finds that a request can no longer be sent waits for the next session: this one has ended by then.
#[test]
fn a_session_that_takes_no_request_has_ended() {
    let server = Server::new();
    let folder = server.folder("f");
    for _ in 0..20 {
        let remote = Remote::connect(server.target(&folder), LIMITS).unwrap();
        let long = Instant::now() + LIMITS.operation;
        let session = remote.link.session(long).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while session.send(&[], long) == Ok(()) {}
                    assert!(session.ended());
                });
            }
            server.cut();
        });
    }
}
