//! Digests of files, computed behind the moving bytes.
//!
//! A [`StreamingDigest`] reads a file again, as far as it has been moved, and digests it: from the page cache, where
//! the bytes just went through. On the receiver it thus covers what is really in the file, whatever system call wrote
//! it there; no mapping is read, so that a file truncated meanwhile is an error and not a SIGBUS. The exception is XXH3
//! on a keyed connection ([`StreamingDigest::reach_with`]), unless the file is resumed.

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

use super::holes;
use super::options::DigestKind;
use super::wire::BLOCK;

/// From this size on a file is digested by a second thread.
pub const THREADED: u64 = 1 << 20;

/// Bytes digested at once: they stay in the second-level cache.
const WINDOW: usize = 256 << 10;
const _: () = assert!(WINDOW as u64 >= holes::WINDOW);

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
    (!digest.is_empty()).then(|| ::hex::encode(digest))
}

/// Digests a file as far as it has been moved.
pub enum StreamingDigest {
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
    file: Arc<File>,
    at: u64,
    size: u64,
    /// Only its data are read, and digested with their places.
    sparse: bool,
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

impl StreamingDigest {
    /// Follow a file that will have `size` bytes, from its beginning. Of a `sparse` one the data and their places are
    /// digested ([`holes`]). `in_memory`: from where on the calling thread has the contents in its memory, too. Where
    /// that is all, XXH3 is taken there at any size, of the bytes that the thread reads from the file or writes to it.
    /// To read them again would cost three times as much as XXH3 itself. Other digests are of what is read again, and
    /// so is that of a file that is resumed: while the thread read its beginning, the peer would hear nothing.
    ///
    /// # Errors
    /// `EAGAIN` if no thread is to be had.
    pub fn start(
        kind: DigestKind,
        file: &Arc<File>,
        size: u64,
        sparse: bool,
        in_memory: Option<u64>,
    ) -> io::Result<Self> {
        if kind == DigestKind::None {
            return Ok(Self::Nothing);
        }
        let reader = Reader::new(kind, file, size, sparse);
        match size < THREADED || (in_memory == Some(0) && kind == DigestKind::Xxh3) {
            true => Ok(Self::Here(reader)),
            false => Ok(Self::There(Thread::start(reader, size)?)),
        }
    }

    /// As [`Self::reach`], where the file's bytes before `mark` are these: they are digested from memory if nothing
    /// else is missing before them.
    ///
    /// # Errors
    /// As for [`Self::reach`].
    pub fn reach_with(&mut self, bytes: &[u8], mark: u64) -> io::Result<()> {
        match self {
            Self::Here(reader) if !reader.sparse && reader.at + bytes.len() as u64 == mark => {
                reader.hasher.update(bytes);
                reader.at = mark;
                Ok(())
            }
            _ => self.reach(mark),
        }
    }

    /// The bytes before `mark` are in the file now.
    ///
    /// # Errors
    /// Those of read(2); `ErrorKind::UnexpectedEof` if the file ends early.
    pub fn reach(&mut self, mark: u64) -> io::Result<()> {
        match self {
            Self::Here(reader) => reader.read_to(mark),
            Self::There(thread) => {
                let before = thread.shared.mark.swap(mark, Ordering::Release);
                if before / WINDOW as u64 != mark / WINDOW as u64 {
                    if let Some(handle) = &thread.handle {
                        handle.thread().unpark();
                    }
                }
                Ok(())
            }
            Self::Nothing => Ok(()),
        }
    }

    /// The digest of all `size` bytes, which have been reached; `waiting` is called every now and then until it is
    /// there.
    ///
    /// # Errors
    /// The bytes are not in the file, as the outer result; or what `waiting` answers.
    pub fn finish<E>(
        self,
        mut waiting: impl FnMut() -> Result<(), E>,
    ) -> Result<io::Result<Vec<u8>>, E> {
        match self {
            Self::Here(reader) => Ok(reader.finish()),
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
    fn new(kind: DigestKind, file: &Arc<File>, size: u64, sparse: bool) -> Self {
        Self {
            hasher: Hasher::new(kind),
            file: Arc::clone(file),
            at: 0,
            size,
            sparse,
            buffer: vec![0; WINDOW.min(usize::try_from(size).unwrap_or(WINDOW))],
        }
    }

    fn read_to(&mut self, mark: u64) -> io::Result<()> {
        while self.window(mark)? {}
        Ok(())
    }

    /// Digest the next bytes before `mark`: whether there were any.
    fn window(&mut self, mark: u64) -> io::Result<bool> {
        let end = match self.sparse {
            true => self.data_end(mark)?,
            false => mark.min(self.at + WINDOW as u64),
        };
        if end <= self.at || end > mark {
            return Ok(false);
        }
        let length = usize::try_from(end - self.at).map_err(io::Error::other)?;
        let part = &mut self.buffer[..length];
        self.file.read_exact_at(part, self.at)?;
        match self.sparse {
            true => digest_data(&mut self.hasher, part, self.at),
            false => self.hasher.update(part),
        }
        self.at = end;
        Ok(true)
    }

    /// Pass over the hole that begins here, as far as it is known: where the data behind it are digested to.
    fn data_end(&mut self, mark: u64) -> io::Result<u64> {
        if self.at < mark {
            let (data, _) = holes::next_data(&self.file, self.at, self.size)?;
            // Behind the mark nothing may be written yet.
            let known = match mark < self.size {
                true => mark - mark % BLOCK,
                false => mark,
            };
            self.at = self.at.max(data.min(known));
        }
        Ok(self.size.min((self.at / holes::WINDOW + 1) * holes::WINDOW))
    }

    /// The digest of all that was read.
    fn finish(mut self) -> io::Result<Vec<u8>> {
        if self.sparse {
            // What was not read is a hole only if the file reaches beyond it.
            if self.file.metadata()?.len() != self.size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.hasher.update(&self.size.to_le_bytes());
        }
        Ok(self.hasher.finish())
    }
}

/// Digest the data among these bytes of a file, which are there from a multiple of [`BLOCK`] on and within one
/// [`holes::WINDOW`].
fn digest_data(hasher: &mut Hasher, bytes: &[u8], at: u64) {
    const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
    let is_zero = |from: usize| {
        let block = &bytes[from..bytes.len().min(from + ZEROS.len())];
        block == &ZEROS[..block.len()]
    };
    let mut from = 0;
    while from < bytes.len() {
        let mut end = from;
        while end < bytes.len() && !is_zero(end) {
            end = bytes.len().min(end + ZEROS.len());
        }
        if end > from {
            hasher.update(&(at + from as u64).to_le_bytes());
            hasher.update(&((end - from) as u64).to_le_bytes());
            hasher.update(&bytes[from..end]);
        }
        from = end + ZEROS.len();
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
                let result = blocked
                    .and_then(|()| follow(&mut reader, size, &seen))
                    .and_then(|()| reader.finish());
                // Nobody listens when the transfer was given up.
                let _ = results.send(result);
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
        reader.window(shared.mark.load(Ordering::Acquire))?;
    }
    Ok(())
}
