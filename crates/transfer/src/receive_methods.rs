//! How the receiver moves bytes from the connection into a file: one type a method, one step a call of
//! [`ReceiveStep::step`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;

use super::link::{Link, counted};
use super::send_methods::{Piece, Pipe, offset};
use super::stop::Stop;

/// Bytes mapped at once for writing; an interrupted transfer leaves at most so many zeros behind what it received.
pub const WINDOW: usize = 1 << 20;

/// One method of receiving.
pub trait ReceiveStep {
    /// Receive the beginning of a part: how many bytes, at least one.
    ///
    /// # Errors
    /// [`Stop`]: the file cannot be written, or the connection fails.
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop>;
}

/// A file cannot be written.
pub fn unwritten(name: &[u8], error: &io::Error) -> Stop {
    Stop::system(name, "writing", error)
}

/// Write bytes that are in memory.
///
/// # Errors
/// [`Stop`] with the errno of write(2): [`unwritten`].
pub fn write(
    link_calls: &mut u64,
    file: &File,
    name: &[u8],
    bytes: &[u8],
    at: u64,
) -> Result<(), Stop> {
    *link_calls += 1;
    file.write_all_at(bytes, at)
        .map_err(|error| unwritten(name, &error))
}

/// `recv` and `pwrite`.
pub(super) struct ReadWrite {
    pub(super) buffer: Vec<u8>,
}

impl ReceiveStep for ReadWrite {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        if link.is_sealed() {
            let mut calls = 0;
            // At most the buffer's length: it is digested while it is still in the second-level cache.
            let bytes = link.opened(piece.length.min(self.buffer.len()))?;
            let got = bytes.len();
            write(&mut calls, piece.file, piece.name, bytes, piece.at)?;
            link.calls += calls;
            return Ok(got);
        }
        let part = piece.length.min(self.buffer.len());
        let got = link.receive(&mut self.buffer[..part])?;
        write(
            &mut link.calls,
            piece.file,
            piece.name,
            &self.buffer[..got],
            piece.at,
        )?;
        Ok(got)
    }
}

/// `recv` into a mapping.
pub(super) struct Mapped {
    pub(super) chunk: usize,
}

impl ReceiveStep for Mapped {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let length = piece.length.min(WINDOW);
        link.calls += 3;
        piece
            .file
            .set_len(piece.at + length as u64)
            .map_err(|error| unwritten(piece.name, &error))?;
        let map = MmapOptions::new()
            .offset(piece.at)
            .len(length)
            .map_raw(piece.file)
            .map_err(|error| Stop::system(piece.name, "mapping", &error))?;
        let mut filled = 0;
        let result = loop {
            if filled == length {
                break Ok(length);
            }
            let most = (length - filled).min(self.chunk);
            // SAFETY: `filled + most` is within the mapping, which outlives the call; the kernel alone writes there,
            // where a page that cannot be had is `EFAULT` and not a signal, and no reference to its bytes is ever made.
            match unsafe { link.receive_at(map.as_mut_ptr().add(filled), most) } {
                Ok(Some(got)) => filled += got,
                Ok(None) => break Err(no_page(piece, filled)),
                Err(stop) => break Err(stop),
            }
        };
        if result.is_err() {
            // The partial's length shows a later transfer where to resume; if this fails, the zeros at its end do.
            let _ = piece.file.set_len(piece.at + filled as u64);
        }
        result
    }
}

/// Why a page of the mapping could not be had: `fallocate` for it returns the error.
fn no_page(piece: Piece, filled: usize) -> Stop {
    let left = (piece.length.min(WINDOW) - filled) as u64;
    let got = posix_fallocate(piece.file, offset(piece.at + filled as u64), offset(left));
    let error = got.err().unwrap_or(Errno::EFAULT);
    unwritten(piece.name, &io::Error::from(error))
}

/// `splice`, by way of a pipe.
pub(super) struct Splice {
    pub(super) pipe: Pipe,
    pub(super) chunk: usize,
}

impl Splice {
    /// Empty the pipe into the file.
    fn pour(&self, link: &mut Link, piece: Piece, left: usize) -> Result<(), Stop> {
        let mut at = offset(piece.at);
        let end = at + offset(left as u64);
        while at < end {
            link.calls += 1;
            // SAFETY: `at` lives through the call, which moves it on; both descriptors are open.
            let written = unsafe {
                libc::splice(
                    self.pipe.out.as_raw_fd(),
                    std::ptr::null_mut(),
                    piece.file.as_raw_fd(),
                    &raw mut at,
                    usize::try_from(end - at).unwrap_or(0),
                    libc::SPLICE_F_MOVE,
                )
            };
            if written <= 0 {
                let error = match written {
                    0 => io::ErrorKind::WriteZero.into(),
                    _ => io::Error::last_os_error(),
                };
                match error.kind() {
                    io::ErrorKind::Interrupted => link.failed(&error)?,
                    // A file system that takes nothing from pipes.
                    io::ErrorKind::InvalidInput => return self.carry(link, piece, at, end),
                    _ => return Err(unwritten(piece.name, &error)),
                }
            }
        }
        Ok(())
    }
}

impl Splice {
    /// Empty the pipe into the file by hand.
    fn carry(&self, link: &mut Link, piece: Piece, from: i64, end: i64) -> Result<(), Stop> {
        let mut buffer = vec![0; usize::try_from(end - from).unwrap_or(0)];
        let mut filled = 0;
        while filled < buffer.len() {
            link.calls += 1;
            match nix::unistd::read(&self.pipe.out, &mut buffer[filled..]) {
                Ok(got) if got > 0 => filled += got,
                Ok(_) => return Err(Stop::here("reading a pipe: it ended")),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(unwritten(piece.name, &error.into())),
            }
        }
        let at = u64::try_from(from).unwrap_or(0);
        write(&mut link.calls, piece.file, piece.name, &buffer, at)
    }
}

impl ReceiveStep for Splice {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let most = piece.length.min(self.chunk).min(self.pipe.size);
        loop {
            link.calls += 1;
            let since = Instant::now();
            // SAFETY: no offsets are passed; both descriptors are open.
            let got = unsafe {
                libc::splice(
                    link.socket(),
                    std::ptr::null_mut(),
                    self.pipe.into.as_raw_fd(),
                    std::ptr::null_mut(),
                    most,
                    libc::SPLICE_F_MOVE,
                )
            };
            if let Some(got) = link.came(since, counted(got))? {
                self.pour(link, piece, got)?;
                return Ok(got);
            }
        }
    }
}
