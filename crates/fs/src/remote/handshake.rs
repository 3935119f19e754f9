//! The first words on a connection: the version, what the server can do, whether the folder is there and may be read.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attributes::{Attributes, Extensions, Kind};
use super::pipeline::RequestPipeline;
use super::request_error::RequestError;
use super::session::Session;
use super::target::Target;
use super::wire::{Packet, Status, kind};
use oscope_sys::error::Failure;

/// Bytes of a read or write where the server does not report its limits: what every SFTP server takes.
const LENGTH: u32 = 32 << 10;

/// Bytes of a read or write at most, whatever a server offers: OpenSSH takes packets of 256 KiB.
const LONGEST: u32 = 256 << 10;

/// Make a started session ready for use.
///
/// # Errors
/// `Failure::Failed` with a remedy: no answer in time, what ssh said, no such folder, or a server that lacks what is
/// needed. The session has ended then.
pub fn greet(session: &Arc<Session>, target: &Target, limit: Duration) -> Result<(), Failure> {
    let mut pipeline = RequestPipeline::new(session, target, Instant::now() + limit);
    let known = match hello(&mut pipeline) {
        Ok(Ok(())) => folder(&mut pipeline),
        Ok(Err(failure)) => Ok(Err(failure)),
        Err(trouble) => Err(trouble),
    };
    let failure = match known {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(failure)) => {
            session.end(&failure.to_string());
            session.reap();
            failure
        }
        Err(trouble) => {
            let seconds = limit.as_secs_f64();
            session.end(&match trouble {
                RequestError::Late => format!("no answer within {seconds} s"),
                _ => "the connection ended".to_owned(),
            });
            explain(target, &session.reap())
        }
    };
    Err(failure)
}

/// Version and extensions.
fn hello(pipeline: &mut RequestPipeline<'_>) -> Result<Result<(), Failure>, RequestError> {
    let id = pipeline.hello()?;
    let answer = pipeline.answer(id)?;
    let mut body = answer.body();
    let mut has = Extensions {
        read_length: LENGTH,
        write_length: LENGTH,
        ..Extensions::default()
    };
    while !body.is_empty() {
        let (name, version) = (body.text()?, body.text()?);
        match (name, version) {
            (b"posix-rename@openssh.com", b"1") => has.posix_rename = true,
            (b"hardlink@openssh.com", b"1") => has.hardlink = true,
            (b"fsync@openssh.com", b"1") => has.fsync = true,
            (b"statvfs@openssh.com", b"2") => has.statvfs = true,
            (b"lsetstat@openssh.com", b"1") => has.lsetstat = true,
            (b"limits@openssh.com", b"1") => has.limits = true,
            (b"copy-data", b"1") => has.copy_data = true,
            (b"serve@oscope", b"1") => has.exact = true,
            (b"digest@oscope", b"1") => has.digest = true,
            (b"whole@oscope", b"1") => has.whole = true,
            (b"fill@oscope", b"1") => has.fill = true,
            (b"xattrs@oscope", b"1") => has.xattrs = true,
            _ => {}
        }
    }
    if !has.posix_rename {
        return Ok(Err(Failure::remediable(
            format!(
                "{}: its SFTP server cannot rename over a file that is there (posix-rename@openssh.com), so a file \
                 could not be replaced whole",
                pipeline.target.host
            ),
            "use a server that runs OpenSSH",
        )));
    }
    if pipeline.target.helper.is_some() && !has.exact {
        return Ok(Err(Failure::remediable(
            format!(
                "{}: its oscope-fs is of a version that this one cannot work with",
                pipeline.target.host
            ),
            "install the same version on both",
        )));
    }
    if has.limits {
        let id = pipeline.ask(|id| Packet::extended(id, "limits@openssh.com"));
        let lengths = pipeline.read(id, kind::EXTENDED_REPLY, |body| {
            body.long()?;
            Ok((body.long()?, body.long()?))
        })?;
        if let Ok((read, write)) = lengths {
            has.read_length = length(read);
            has.write_length = length(write);
        }
    }
    // Set once: a session is greeted once.
    let _ = pipeline.session.extensions.set(has);
    Ok(Ok(()))
}

/// A limit of the server as a length that is used; 0 means that it has none.
fn length(reported: u64) -> u32 {
    match u32::try_from(reported) {
        Ok(0) | Err(_) => LONGEST,
        Ok(reported) => reported.min(LONGEST),
    }
}

/// The folder is there, and may be read.
fn folder(pipeline: &mut RequestPipeline<'_>) -> Result<Result<(), Failure>, RequestError> {
    let here = Path::new("");
    let shown = format!(
        "{}:{}",
        pipeline.target.host,
        pipeline.target.folder.display()
    );
    let (look, open) = (
        pipeline.ask_path(kind::LSTAT, here),
        pipeline.ask_path(kind::OPENDIR, here),
    );
    let answer = pipeline.answer(look)?;
    let opened = pipeline.handle(open)?;
    let failure = |why: &str, remedy: &str| Failure::remediable(format!("{shown}: {why}"), remedy);
    let Ok(found) = answer.get(kind::ATTRS, |body| body.attributes()) else {
        return Ok(Err(failure(
            "its SFTP server does not report size, owner, mode and times of files",
            "use a server that runs OpenSSH",
        )));
    };
    Ok(match (found, opened) {
        (Ok(attributes), Ok(_)) if attributes.kind == Kind::Folder => Ok(()),
        (Err(Status::NoSuchFile), _) => Err(failure(
            "no such folder",
            "make it there, or check the name",
        )),
        (Ok(Attributes { kind, .. }), _) if kind != Kind::Folder => {
            Err(failure("not a folder", "name a folder"))
        }
        (Err(Status::Exact(Errno::ENOTDIR)), _) => Err(failure("not a folder", "name a folder")),
        (Err(Status::PermissionDenied), _) | (_, Err(Status::PermissionDenied)) => Err(failure(
            "permission denied on the server",
            "let the user who logs in read it, or log in as another",
        )),
        _ => Err(failure(
            "the server cannot read this folder",
            "look at it on the server",
        )),
    })
}

/// Words of ssh, and what would fix it.
const KNOWN: [(&str, &str); 14] = [
    // Before what the rest of its line would be taken for.
    (
        "user config file",
        "name a file of ssh's settings that is there by -F, or leave -F out",
    ),
    (
        "HOST IDENTIFICATION HAS CHANGED",
        "find out why the server's key has changed; then fix known_hosts",
    ),
    (
        "key verification failed",
        "compare the server's key with what its owner says, then `ssh HOST` once, or add it to known_hosts",
    ),
    (
        "Permission denied",
        "see that `ssh HOST` lets you in without asking for a password: a key file or an agent is needed",
    ),
    (
        "Too many authentication failures",
        "name the right key with -o IdentityFile=FILE -o IdentitiesOnly=yes",
    ),
    (
        "Connection refused",
        "see that sshd runs there, and give its port with -p",
    ),
    ("resolve hostname", "check the host's name"),
    ("Name or service not known", "check the host's name"),
    (
        "timed out",
        "see that the host is up and that nothing between drops the packets",
    ),
    (
        "no answer within",
        "see that the host is up, or allow more time with --timeout",
    ),
    (
        "No route to host",
        "see that the host is up and the network reaches it",
    ),
    ("Network is unreachable", "see that the network is up"),
    (
        "subsystem request failed",
        "let sshd offer SFTP: `Subsystem sftp internal-sftp` in its sshd_config",
    ),
    (
        "onfiguration option",
        "check the options given with -o and the file given with -F",
    ),
];

/// What the server's shell says of a program that is not there, where one was asked for.
const HELPER: [(&str, &str); 2] = [
    (
        "not found",
        "install oscope-fs there or give its path by --helper=PROGRAM; without --helper only SFTP is needed",
    ),
    (
        "No such file or directory",
        "give the path of oscope-fs there by --helper=PROGRAM; without --helper only SFTP is needed",
    ),
];

/// What ssh said, as a failure with what would fix it.
pub fn explain(target: &Target, said: &str) -> Failure {
    let helper = target.helper.as_ref().map_or(&[][..], |_| &HELPER[..]);
    let remedy = KNOWN
        .iter()
        .chain(helper)
        .find(|(part, _)| said.contains(part))
        .map(|(_, remedy)| *remedy);
    no_connection(target, said, remedy)
}

/// Why there is no ssh that could say anything.
pub fn not_started(target: &Target, why: &Failure) -> Failure {
    no_connection(target, &why.to_string(), why.remedy())
}

fn no_connection(target: &Target, why: &str, remedy: Option<&str>) -> Failure {
    let (host, why) = (&target.host, why.trim_end_matches('.'));
    Failure::remediable(
        format!("cannot connect to {host}: {why}"),
        remedy.unwrap_or("see what `ssh HOST` says"),
    )
}
