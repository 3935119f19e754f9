//! How the sender moves bytes of a file into the connection: one type a method, one step a call of [`SendStep::step`].

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use memmap2::{Mmap, MmapOptions};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;

use super::link::{Link, counted};
use super::stop::Stop;

/// A part of a file to move.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    /// The file.
    pub file: &'a File,
    /// Its name, for errors.
    pub name: &'a [u8],
    /// Where the part begins.
    pub at: u64,
    /// Bytes.
    pub length: usize,
}

/// One method of sending.
pub trait SendStep {
    /// Move the beginning of a part, which ends within one segment: how many bytes, 0 if the file ends here.
    ///
    /// # Errors
    /// [`Stop`]: the file cannot be read, or the connection fails.
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop>;

    /// The bytes that the last step moved, where they are in memory.
    fn moved(&self) -> &[u8] {
        &[]
    }

    /// The receiver has everything: let go of what is kept for the network.
    fn settle(&mut self, _link: &mut Link) {}

    /// A note on how it went.
    fn note(&self) -> Option<String> {
        None
    }
}

/// `pread` and `send`.
pub(super) struct ReadWrite {
    pub(super) buffer: Vec<u8>,
    pub(super) moved: usize,
}

impl SendStep for ReadWrite {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let part = piece.length.min(self.buffer.len());
        link.calls += 1;
        let got = match piece.file.read_at(&mut self.buffer[..part], piece.at) {
            Ok(got) => got,
            Err(error) => return Err(Stop::system(piece.name, "reading", &error)),
        };
        link.send(&self.buffer[..got], 0)?;
        self.moved = got;
        Ok(got)
    }

    fn moved(&self) -> &[u8] {
        &self.buffer[..self.moved]
    }
}

/// A mapped part of a file.
pub struct Window {
    /// The pages.
    pub map: Mmap,
    /// Where in the file they begin.
    pub at: u64,
    file: i32,
}

impl Window {
    /// Map the part, with its page tables filled; the same window again if it is the same part.
    pub fn of(kept: Option<Self>, piece: Piece, link: &mut Link) -> Result<Self, Stop> {
        let same = |window: &Self| {
            window.file == piece.file.as_raw_fd()
                && window.at <= piece.at
                && window.at + window.map.len() as u64 == piece.at + piece.length as u64
        };
        if let Some(window) = kept.filter(same) {
            return Ok(window);
        }
        link.calls += 2;
        // SAFETY: the pages are read by the kernel alone, in `send`, where a file truncated meanwhile is `EFAULT` and
        // not a signal; no reference to their bytes is made here.
        let map = unsafe {
            MmapOptions::new()
                .offset(piece.at)
                .len(piece.length)
                .populate()
                .map(piece.file)
        };
        Ok(Self {
            map: map.map_err(|error| Stop::system(piece.name, "mapping", &error))?,
            at: piece.at,
            file: piece.file.as_raw_fd(),
        })
    }
}

/// `send` bytes of a mapping, which are never touched here: 0 where the file has none any more, `None` where the kernel
/// has no buffers for it.
///
/// # Errors
/// [`Stop`]: the connection fails.
pub fn send_mapped(
    link: &mut Link,
    window: &Window,
    piece: Piece,
    most: usize,
    flags: i32,
) -> Result<Option<usize>, Stop> {
    let skip = usize::try_from(piece.at - window.at).unwrap_or(usize::MAX);
    let length = piece
        .length
        .min(most)
        .min(window.map.len().saturating_sub(skip));
    loop {
        link.calls += 1;
        let since = Instant::now();
        // SAFETY: `skip + length` is within the mapping, which outlives the call; the kernel answers `EFAULT` for pages
        // past the file's end.
        let sent = unsafe {
            libc::send(
                link.socket(),
                window.map.as_ptr().add(skip).cast(),
                length,
                flags | libc::MSG_NOSIGNAL,
            )
        };
        let answer = counted(sent);
        match answer.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EFAULT)) => return Ok(Some(0)),
            Err(Some(libc::ENOBUFS)) => return Ok(None),
            _ => {}
        }
        if let Some(sent) = link.taken(since, answer)? {
            return Ok(Some(sent));
        }
    }
}

/// `send` from a mapping.
pub(super) struct Mapped {
    pub(super) window: Option<Window>,
    pub(super) chunk: usize,
}

impl SendStep for Mapped {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let window = Window::of(self.window.take(), piece, link)?;
        let sent = send_mapped(link, &window, piece, self.chunk, 0)?
            .ok_or_else(|| Stop::here("sending: no buffer space"))?;
        self.window = (sent < piece.length).then_some(window);
        Ok(sent)
    }
}

/// `sendfile`.
pub(super) struct SendFile {
    pub(super) chunk: usize,
}

impl SendStep for SendFile {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        loop {
            let mut offset = offset(piece.at);
            link.calls += 1;
            let since = Instant::now();
            // SAFETY: `offset` lives through the call; both files are open.
            let sent = unsafe {
                libc::sendfile(
                    link.socket(),
                    piece.file.as_raw_fd(),
                    &raw mut offset,
                    piece.length.min(self.chunk),
                )
            };
            if let Some(sent) = link.taken(since, counted(sent))? {
                return Ok(sent);
            }
        }
    }
}

/// An offset as the kernel takes it; sizes beyond are refused long before.
pub fn offset(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// A pipe, both ends.
pub struct Pipe {
    /// Bytes come out here.
    pub out: OwnedFd,
    /// Bytes go in here.
    pub into: OwnedFd,
    /// Bytes that it surely takes.
    pub size: usize,
}

impl Pipe {
    /// A pipe of about `wanted` bytes, or what is allowed.
    ///
    /// # Errors
    /// Those of pipe2(2), such as `EMFILE`.
    pub fn new(wanted: usize) -> io::Result<Self> {
        let (out, into) = pipe2(OFlag::O_CLOEXEC)?;
        let asked = i32::try_from(wanted.min(1 << 20)).unwrap_or(1 << 20);
        // The size below shows what the limit of pipes forbids.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(asked));
        let size = fcntl(&into, FcntlArg::F_GETPIPE_SZ)? as usize;
        Ok(Self { out, into, size })
    }
}

/// `splice`, by way of a pipe.
pub(super) struct Splice {
    pub(super) pipe: Pipe,
    pub(super) chunk: usize,
}

impl Splice {
    pub(super) fn new(chunk: usize) -> io::Result<Self> {
        Ok(Self {
            pipe: Pipe::new(chunk)?,
            chunk,
        })
    }

    /// Empty the pipe into the socket.
    fn pour(&self, link: &mut Link, mut left: usize) -> Result<(), Stop> {
        while left > 0 {
            link.calls += 1;
            let since = Instant::now();
            // SAFETY: no offsets are passed; both descriptors are open.
            let sent = unsafe {
                libc::splice(
                    self.pipe.out.as_raw_fd(),
                    std::ptr::null_mut(),
                    link.socket(),
                    std::ptr::null_mut(),
                    left,
                    libc::SPLICE_F_MOVE,
                )
            };
            left -= link.taken(since, counted(sent))?.unwrap_or(0);
        }
        Ok(())
    }
}

impl SendStep for Splice {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let mut offset = offset(piece.at);
        link.calls += 1;
        // SAFETY: `offset` lives through the call; both descriptors are open.
        let got = unsafe {
            libc::splice(
                piece.file.as_raw_fd(),
                &raw mut offset,
                self.pipe.into.as_raw_fd(),
                std::ptr::null_mut(),
                piece.length.min(self.chunk).min(self.pipe.size),
                libc::SPLICE_F_MOVE,
            )
        };
        let got = counted(got).map_err(|error| Stop::system(piece.name, "reading", &error))?;
        self.pour(link, got)?;
        Ok(got)
    }
}
