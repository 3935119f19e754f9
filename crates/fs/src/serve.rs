//! `oscope-fs serve`: the server's side, on standard input and output, in place of OpenSSH's sftp-server.
//!
//! It speaks SFTP version 3 with OpenSSH's extensions, so that any client can use it, and eight extensions of its own,
//! by which `oscope-fs mount` has what SFTP lacks (`serve@oscope` announces them; all numbers are big-endian, times are
//! i64 seconds and u32 nanoseconds):
//!
//! - `attributes@oscope` with every ATTRS: access, modification and change time, number of links (u32), device (u32);
//! - `times@oscope` with attributes that are to be set: access and modification time;
//! - `mknod@oscope`, a request: path, mode with the kind of file (u32), device (u32);
//! - `replace@oscope`, a request: two paths, a flag (u32), size (u64) and modification time. The first file takes the
//!   second's name if that stands for this version of a file, or, where the flag is 0, for nothing. Else the status is
//!   ECANCELED, and nothing was done;
//! - `digest@oscope`, a request, which is announced by itself: a path. The answer is the size of the file (u64) and the
//!   first 16 bytes of the BLAKE3 hash of its content (text). EFBIG: it has more than 4 MiB; EBUSY: it changed while it
//!   was read; EINVAL: it is no regular file;
//! - `whole@oscope`, a request, which is announced by itself: a path, and how many bytes are wanted at most (u32). The
//!   answer is the file's attributes and its content (text). EFBIG: it has more; else as for `digest@oscope`;
//! - `fill@oscope`, a request, which is announced by itself: a path, a modification time, a content (text), and the
//!   times that are to be set, as attributes. An empty file with that modification time gets the content. The answer is
//!   its attributes. ECANCELED: it is no such file; EBUSY: another has it open; ESTALE: it was filled, but another has
//!   given its name to another file, or made it longer or shorter, which a lease prevents where there is one. After any
//!   other error it is as before, if that was possible;
//! - `xattrs@oscope`, a request, which is announced by itself: two paths. The second file gets the extended attributes
//!   of the first, with its access control list, and loses its own where the first has none; nothing is done where the
//!   first is not there.
//!
//! A status says in its message which error number it is (`errno 39`). It runs as the user who logs in, and can do no
//! more than he can.

mod files;
mod handles;
mod names;
mod place;
mod reply;
mod small;

use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;

use nix::errno::Errno;

use crate::remote::wire::{Malformed, Packet, Reader, VERSION, kind};
use handles::Handles;
use reply::status;

/// Bytes of a packet that are taken at most: OpenSSH's limit.
const LONGEST: u32 = 256 << 10;
/// Bytes of data in one packet at most; the rest is for what stands around them.
const DATA: u32 = LONGEST - 1024;

/// Extensions, each with its version.
const EXTENSIONS: [(&str, &str); 12] = [
    ("posix-rename@openssh.com", "1"),
    ("statvfs@openssh.com", "2"),
    ("hardlink@openssh.com", "1"),
    ("fsync@openssh.com", "1"),
    ("lsetstat@openssh.com", "1"),
    ("limits@openssh.com", "1"),
    ("copy-data", "1"),
    ("serve@oscope", "1"),
    ("digest@oscope", "1"),
    ("whole@oscope", "1"),
    ("fill@oscope", "1"),
    ("xattrs@oscope", "1"),
];

/// Answer requests until the client ends the connection.
pub fn run() -> ExitCode {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    match serve(&mut input, &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // To the client's ssh, which shows it there.
            eprintln!("oscope-fs serve: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answer the requests of `input`, each when the one before is answered.
fn serve(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut handles = Handles::default();
    while let Some(packet) = receive(input)? {
        let answer = answer(&mut handles, &packet).map_err(|Malformed| {
            io::Error::new(ErrorKind::InvalidData, "a request that is not whole")
        })?;
        output.write_all(&answer)?;
        output.flush()?;
    }
    Ok(())
}

/// The next packet without its length; `None` at the end.
fn receive(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes(length);
    if length == 0 || length > LONGEST {
        let why = format!("a request of {length} bytes");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    let mut packet = vec![0; length as usize];
    input.read_exact(&mut packet)?;
    Ok(Some(packet))
}

/// The answer to one packet.
fn answer(handles: &mut Handles, packet: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut body = Reader(packet);
    let kind = body.byte()?;
    let id = body.number()?;
    if kind == kind::INIT {
        return Ok(hello().finish());
    }
    let packet = match done(handles, kind, id, &mut body)? {
        Ok(packet) => packet,
        Err(error) => status(id, error),
    };
    Ok(packet.finish())
}

/// The first answer: what this server can do. Its number is the version, where others have their id.
fn hello() -> Packet {
    EXTENSIONS.iter().fold(
        Packet::request(kind::VERSION, VERSION),
        |packet, (name, version)| packet.text(name.as_bytes()).text(version.as_bytes()),
    )
}

/// What a request leads to.
type Done = Result<Result<Packet, Errno>, Malformed>;

fn done(handles: &mut Handles, kind: u8, id: u32, body: &mut Reader<'_>) -> Done {
    match kind {
        kind::OPEN => files::open(handles, id, body),
        kind::CLOSE => files::close(handles, id, body),
        kind::READ => files::read(handles, id, body, DATA),
        kind::WRITE => files::write(handles, id, body),
        kind::FSTAT => files::stat(handles, id, body),
        kind::FSETSTAT => files::set(handles, id, body),
        kind::OPENDIR => files::open_folder(handles, id, body),
        kind::READDIR => files::read_folder(handles, id, body),
        kind::EXTENDED => match body.text()? {
            b"fsync@openssh.com" => files::sync(handles, id, body),
            b"copy-data" => files::copy(handles, id, body),
            b"digest@oscope" => small::digest(id, body),
            b"whole@oscope" => small::whole(id, body, DATA),
            b"fill@oscope" => small::fill(id, body),
            b"limits@openssh.com" => Ok(Ok(limits(id))),
            name => names::extended(id, name, body),
        },
        kind => names::request(id, kind, body),
    }
}

fn limits(id: u32) -> Packet {
    let lengths = [LONGEST, DATA, DATA, 0];
    lengths.into_iter().fold(
        Packet::request(kind::EXTENDED_REPLY, id),
        |packet, value| packet.long(value.into()),
    )
}

#[cfg(test)]
mod tests;
