//! An exchange as programs have it that were not made for speed: for each file a header, its data and a wait for the
//! answer, each in a write of its own.
//!
//! With a socket's defaults the sender's kernel holds the data back, since the header has not been acknowledged
//! (Nagle's algorithm, RFC 896), and the receiver's kernel holds the acknowledgement back, since an answer may take it
//! along (RFC 1122, 4.2.3.2): for 40 ms, each time.

use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;

use crate::workloads::transfer::files::One;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Bytes of a header: number, length, mode and time, 8 each.
const HEADER: usize = 32;
/// What the receiver answers to each file.
const ANSWER: [u8; 1] = *b"+";
/// Bytes read at once.
const PIECE: usize = 64 << 10;
/// No progress for so long is an error.
const STALL: Duration = Duration::from_secs(30);

/// What one side did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Files that went whole.
    pub files: u64,
    /// Bytes of contents.
    pub bytes: u64,
    /// System calls that move contents and words, and those on the files; not those that only set options of the
    /// socket.
    pub calls: u64,
    /// Until the last file was written, in ns.
    pub time_ns: u64,
}

/// Send every file of a folder.
///
/// # Errors
/// `Failure::Failed` after a signal, if the receiver has gone, or with the kernel's reason.
pub fn send(
    mut stream: TcpStream,
    source: &Path,
    files: &[One],
    nodelay: bool,
) -> Result<Done, Failure> {
    let started = Instant::now();
    let mut done = Done::default();
    let mut all = || -> io::Result<()> {
        prepare(&stream)?;
        stream.set_nodelay(nodelay)?;
        let mut data = Vec::new();
        for one in files {
            if cancel::requested() {
                return Err(ErrorKind::Interrupted.into());
            }
            load(
                &source.join(one.name()),
                one.length,
                &mut data,
                &mut done.calls,
            )?;
            write(&mut stream, &header(*one), &mut done.calls)?;
            write(&mut stream, &data, &mut done.calls)?;
            let mut answer = [0];
            read(&mut stream, &mut answer, &mut done.calls)?;
            done.files += 1;
            done.bytes += one.length;
        }
        Ok(())
    };
    all().map_err(|error| Failure::system("sending in small writes", &error))?;
    done.time_ns = started.elapsed().as_nanos() as u64;
    Ok(done)
}

/// Receive files into a folder until the sender has no more.
///
/// # Errors
/// `Failure::Failed` if the sender has gone in the middle, or with the kernel's reason.
pub fn receive(mut stream: TcpStream, destination: &Path) -> Result<Done, Failure> {
    let started = Instant::now();
    let mut done = Done::default();
    let mut all = || -> io::Result<()> {
        prepare(&stream)?;
        let mut piece = vec![0; PIECE];
        loop {
            // The kernel leaves this state by itself, so that it is asked for again (tcp(7)).
            delay_acknowledgements(&stream)?;
            let Some(one) = next(&mut stream, &mut done.calls)? else {
                return Ok(());
            };
            store(&mut stream, one, destination, &mut piece, &mut done.calls)?;
            done.files += 1;
            done.bytes += one.length;
            done.time_ns = started.elapsed().as_nanos() as u64;
            write(&mut stream, &ANSWER, &mut done.calls)?;
        }
    };
    all().map_err(|error| Failure::system("receiving small writes", &error))?;
    Ok(done)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))
}

/// Switch TCP_QUICKACK off (tcp(7)). Connections inherit it from the socket that listens, so that their first bytes are
/// not acknowledged at once either.
///
/// # Errors
/// The errno of setsockopt(2).
pub fn delay_acknowledgements(socket: &impl AsRawFd) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the value has the length passed, and lives during the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(answer).map(drop)?)
}

fn header(one: One) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let fields = [
        one.number,
        one.length,
        one.mode.into(),
        one.modified_ns as u64,
    ];
    for (place, field) in header.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    header
}

/// The next file that is announced; `None` once the sender has hung up.
fn next(stream: &mut TcpStream, calls: &mut u64) -> io::Result<Option<One>> {
    let mut header = [0; HEADER];
    *calls += 1;
    let first = stream.read(&mut header)?;
    if first == 0 {
        return Ok(None);
    }
    read(stream, &mut header[first..], calls)?;
    let mut fields = [0; HEADER / 8];
    for (field, place) in fields.iter_mut().zip(header.chunks_exact(8)) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(place);
        *field = u64::from_le_bytes(bytes);
    }
    let [number, length, mode, modified] = fields;
    Ok(Some(One {
        number,
        length,
        mode: mode as u32 & 0o777,
        modified_ns: modified as i64,
    }))
}

/// Read the data of a file from the connection, and write it.
fn store(
    stream: &mut TcpStream,
    one: One,
    destination: &Path,
    piece: &mut [u8],
    calls: &mut u64,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(destination.join(one.name()))?;
    let mut left = one.length;
    while left > 0 {
        let most = left.min(piece.len() as u64) as usize;
        *calls += 1;
        let length = stream.read(&mut piece[..most])?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        write(&mut file, &piece[..length], calls)?;
        left -= length as u64;
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(one.modified_ns as u64);
    file.set_times(FileTimes::new().set_modified(modified))?;
    file.set_permissions(Permissions::from_mode(one.mode))?;
    // Opening, two attributes, closing.
    *calls += 4;
    Ok(())
}

/// Read a file whole.
fn load(path: &Path, length: u64, data: &mut Vec<u8>, calls: &mut u64) -> io::Result<()> {
    let mut file = File::open(path)?;
    data.resize(length as usize, 0);
    read(&mut file, data, calls)?;
    *calls += 2;
    Ok(())
}

/// Fill the buffer, and count the calls.
fn read(from: &mut impl Read, buffer: &mut [u8], calls: &mut u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        *calls += 1;
        match from.read(&mut buffer[filled..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => filled += length,
        }
    }
    Ok(())
}

/// Write all of it, and count the calls.
fn write(to: &mut impl Write, data: &[u8], calls: &mut u64) -> io::Result<()> {
    let mut written = 0;
    while written < data.len() {
        *calls += 1;
        written += to.write(&data[written..])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_describes_the_file() {
        let one = One::of(12, 345);
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(&header(one)).expect("it is connected");
        drop(stream);
        let (mut stream, _) = listener.accept().expect("one came");
        let mut calls = 0;
        assert_eq!(
            next(&mut stream, &mut calls).expect("the header is complete"),
            Some(one)
        );
        assert_eq!(next(&mut stream, &mut calls).expect("it has ended"), None);
    }
}
