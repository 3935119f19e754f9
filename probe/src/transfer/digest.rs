//! Digests of files, computed behind the moving bytes.
//!
//! A [`Follower`] reads a file again, as far as it has been moved, and digests it: from the page cache, where the bytes just went
//! through. On the receiver it thus covers what is really in the file, whatever system call wrote it there; no mapping is read, so that a
//! file truncated meanwhile is an error and not a SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::SigSet;
use sha2::{Digest, Sha512};
use twox_hash::XxHash3_128;

use super::options::DigestKind;

/// From this size on a file is digested by a second thread.
pub const THREADED: u64 = 1 << 20;

/// Bytes digested at once: they stay in the second-level cache.
const WINDOW: usize = 256 << 10;

/// A digest under way.
pub enum Hasher {
    /// BLAKE3.
    Blake3(Box<blake3::Hasher>),
    /// SHA-512.
    Sha512(Box<Sha512>),
    /// XXH3 of 128 bits.
    Xxh3(Box<XxHash3_128>),
    /// None is wanted.
    None,
}

impl Hasher {
    /// A digest of nothing yet.
    pub fn new(kind: DigestKind) -> Self {
        match kind {
            DigestKind::Blake3 => Self::Blake3(Box::default()),
            DigestKind::Sha512 => Self::Sha512(Box::default()),
            DigestKind::Xxh3 => Self::Xxh3(Box::default()),
            DigestKind::None => Self::None,
        }
    }

    /// Go on with these bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(state) => {
                state.update(bytes);
            }
            Self::Sha512(state) => state.update(bytes),
            Self::Xxh3(state) => state.write(bytes),
            Self::None => {}
        }
    }

    /// The digest; empty if none was wanted.
    pub fn finish(self) -> Vec<u8> {
        match self {
            Self::Blake3(state) => state.finalize().as_bytes().to_vec(),
            Self::Sha512(state) => state.finalize().to_vec(),
            Self::Xxh3(state) => state.finish_128().to_be_bytes().to_vec(),
            Self::None => Vec::new(),
        }
    }
}

/// The digest of bytes that are in memory.
pub fn of(kind: DigestKind, bytes: &[u8]) -> Vec<u8> {
    match kind {
        DigestKind::Blake3 => blake3::hash(bytes).as_bytes().to_vec(),
        DigestKind::Sha512 => Sha512::digest(bytes).to_vec(),
        DigestKind::Xxh3 => XxHash3_128::oneshot(bytes).to_be_bytes().to_vec(),
        DigestKind::None => Vec::new(),
    }
}

/// A digest in hexadecimal; `None` if none was wanted.
pub fn hex(digest: &[u8]) -> Option<String> {
    (!digest.is_empty()).then(|| digits(digest))
}

/// Two hexadecimal digits a byte.
pub fn digits(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
    let both = |&byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(both).collect()
}

/// Digests a file as far as it has been moved.
pub enum Follower {
    /// In the calling thread.
    Here(Reader),
    /// In a thread of its own.
    There(Thread),
    /// Not at all.
    Nothing,
}

/// The part of a file that is digested so far.
pub struct Reader {
    hasher: Hasher,
    file: File,
    at: u64,
    buffer: Vec<u8>,
}

/// A thread that digests behind a mark.
pub struct Thread {
    shared: Arc<Shared>,
    answer: Receiver<io::Result<Vec<u8>>>,
    handle: Option<JoinHandle<()>>,
}

struct Shared {
    mark: AtomicU64,
    give_up: AtomicBool,
}

impl Follower {
    /// Follow a file that will have `size` bytes, from its beginning.
    ///
    /// # Errors
    /// The file cannot be held open twice, or no thread is to be had.
    pub fn start(kind: DigestKind, file: &File, size: u64) -> io::Result<Self> {
        if kind == DigestKind::None {
            return Ok(Self::Nothing);
        }
        let reader = Reader {
            hasher: Hasher::new(kind),
            file: file.try_clone()?,
            at: 0,
            buffer: vec![0; WINDOW.min(usize::try_from(size).unwrap_or(WINDOW))],
        };
        match size < THREADED {
            true => Ok(Self::Here(reader)),
            false => Ok(Self::There(Thread::start(reader, size)?)),
        }
    }

    /// The bytes before `mark` are in the file now.
    ///
    /// # Errors
    /// They are not.
    pub fn reach(&mut self, mark: u64) -> io::Result<()> {
        match self {
            Self::Here(reader) => reader.read_to(mark),
            Self::There(thread) => {
                let before = thread.shared.mark.swap(mark, Ordering::Release);
                if before / WINDOW as u64 != mark / WINDOW as u64
                    && let Some(handle) = &thread.handle
                {
                    handle.thread().unpark();
                }
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }

    /// The digest of all `size` bytes, which have been reached; `waiting` is called every now and then until it is there.
    ///
    /// # Errors
    /// The bytes are not in the file, as the outer result; or what `waiting` answers.
    pub fn finish<E>(
        self,
        mut waiting: impl FnMut() -> Result<(), E>,
    ) -> Result<io::Result<Vec<u8>>, E> {
        match self {
            Self::Here(reader) => Ok(Ok(reader.hasher.finish())),
            Self::There(thread) => loop {
                if let Some(handle) = &thread.handle {
                    handle.thread().unpark();
                }
                match thread.answer.recv_timeout(Duration::from_millis(200)) {
                    Ok(answer) => return Ok(answer),
                    Err(RecvTimeoutError::Timeout) => waiting()?,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Ok(Err(io::Error::other("the digest's thread ended")));
                    }
                }
            },
            Self::Nothing => Ok(Ok(Vec::new())),
        }
    }
}

impl Reader {
    fn read_to(&mut self, mark: u64) -> io::Result<()> {
        while self.at < mark {
            let left = usize::try_from(mark - self.at).unwrap_or(usize::MAX);
            let part = &mut self.buffer[..left.min(WINDOW)];
            self.file.read_exact_at(part, self.at)?;
            self.hasher.update(part);
            self.at += part.len() as u64;
        }
        Ok(())
    }
}

impl Thread {
    fn start(mut reader: Reader, size: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            mark: AtomicU64::new(0),
            give_up: AtomicBool::new(false),
        });
        let (results, answer) = mpsc::sync_channel(1);
        let seen = Arc::clone(&shared);
        let handle = thread::Builder::new()
            .name("digest".into())
            .spawn(move || {
                // Signals are for the thread that waits on the connection.
                let blocked = SigSet::all().thread_block().map_err(io::Error::from);
                let result = blocked.and_then(|()| follow(&mut reader, size, &seen));
                // Nobody listens when the transfer was given up.
                let _ = results.send(result.map(|()| reader.hasher.finish()));
            })?;
        Ok(Self {
            shared,
            answer,
            handle: Some(handle),
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.give_up.store(true, Ordering::Release);
        if let Some(handle) = self.handle.take() {
            handle.thread().unpark();
            // A panic there has been answered as a closed channel.
            let _ = handle.join();
        }
    }
}

/// Digest whole windows as they are reached, and the last part.
fn follow(reader: &mut Reader, size: u64, shared: &Shared) -> io::Result<()> {
    while reader.at < size {
        let want = (reader.at + WINDOW as u64).min(size);
        while shared.mark.load(Ordering::Acquire) < want {
            if shared.give_up.load(Ordering::Acquire) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            thread::park();
        }
        if shared.give_up.load(Ordering::Acquire) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        reader.read_to(want)?;
    }
    Ok(())
}
