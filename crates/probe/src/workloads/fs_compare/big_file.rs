//! The one big file: made in the server's folder, read whole through the mount, compared on the server.

use std::fs::{File, FileTimes};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use super::operation::{Done, failed, interrupted, long_ago, timed};
use crate::clock::Clock;
use crate::disk::content;
use crate::shared_folder::SharedFolder;
use crate::xor;
use oscope_sys::cancel;
use oscope_sys::cancel::survive_size_limit;
use oscope_sys::error::Failure;

/// Bytes of a block that is read at random, changed or appended.
pub const BLOCK: u64 = 4 << 10;
/// Bytes read at once.
const PIECE: usize = 128 << 10;
/// Bytes made or compared at once, outside the clock; a multiple of 8.
const CHUNK: u64 = 1 << 20;
const NAME: &str = "big";
/// Where in the series that contents are taken from those of new blocks begin: beyond any file.
const BLOCKS_FROM: u64 = 1 << 50;

/// The big file.
#[derive(Debug)]
pub struct BigFile {
    /// Bytes, before anything was appended.
    pub size: u64,
    /// Where the server has it.
    pub served: PathBuf,
    /// Where the client has it.
    pub mounted: PathBuf,
    /// The block that was last written, and where.
    pub block: Option<(u64, Vec<u8>)>,
    /// The XOR of its 32-bit words, as it was made.
    xor: u32,
    /// How many blocks were made so far.
    blocks: u64,
    piece: Vec<u8>,
}

impl BigFile {
    /// Make it in the server's folder.
    ///
    /// # Errors
    /// `Failure::Unavailable` if there is no room; `Failure::Failed` after a signal, or with the kernel's reason.
    pub fn make(folder: &SharedFolder, size: u64) -> Result<Self, Failure> {
        survive_size_limit()?;
        let mut made = Self {
            size,
            served: folder.served().join(NAME),
            mounted: folder.mounted().join(NAME),
            block: None,
            xor: 0,
            blocks: 0,
            piece: vec![0; PIECE],
        };
        made.write()?;
        Ok(made)
    }

    /// Write it anew in the server's folder, as it was at first.
    ///
    /// # Errors
    /// As for [`BigFile::make`].
    fn write(&mut self) -> Result<(), Failure> {
        let refused = |error: io::Error| failed("writing", &self.served, &error);
        let mut file = File::create(&self.served).map_err(refused)?;
        let mut folded = 0;
        for (offset, length) in chunks(self.size) {
            if cancel::requested() {
                return Err(interrupted());
            }
            let mut chunk = vec![0; length];
            content::fill(offset, &mut chunk);
            folded ^= xor::fold_at(&chunk, offset);
            file.write_all(&chunk).map_err(refused)?;
        }
        file.set_times(FileTimes::new().set_modified(long_ago()))
            .map_err(refused)?;
        self.xor = folded;
        self.block = None;
        Ok(())
    }

    /// Have the client know it as it was at first: write it anew if it was changed, and have a client that has nothing
    /// of it read it whole.
    ///
    /// # Errors
    /// As for [`BigFile::make`] and [`BigFile::read_whole`].
    pub fn introduce(&mut self, folder: &mut SharedFolder, clock: &Clock) -> Result<(), Failure> {
        if self.block.is_some() {
            self.write()?;
        }
        folder.renew_unless_new()?;
        self.read_whole(clock).map(drop)
    }

    /// Open it through the mount, read all of it, and close it.
    ///
    /// # Errors
    /// `Failure::Failed` if it is not as it was made, after a signal, or with the kernel's reason.
    pub fn read_whole(&mut self, clock: &Clock) -> Result<Done, Failure> {
        let path = &self.mounted;
        let refused = |doing: &str, error: io::Error| failed(doing, path, &error);
        let (mut file, open_ns) = timed(clock, || {
            File::open(path).map_err(|error| refused("opening", error))
        })?;
        let (mut bytes, mut folded) = (0, 0);
        loop {
            if cancel::requested() {
                return Err(interrupted());
            }
            let length = match file.read(&mut self.piece) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(refused("reading", error)),
            };
            folded ^= xor::fold_at(&self.piece[..length], bytes);
            bytes += length as u64;
        }
        let (_, close_ns) = timed(clock, || {
            close(file).map_err(|error| refused("closing", error))
        })?;
        if (bytes, folded) != (self.size, self.xor) {
            return Err(Failure::failed(format!(
                "{} was read as {bytes} B of XOR {folded:08x}, and is {} B of XOR {:08x}",
                path.display(),
                self.size,
                self.xor
            )));
        }
        Ok(Done {
            bytes: Some(bytes),
            files: 1,
            open_ns: Some(open_ns),
            close_ns: Some(close_ns),
        })
    }

    /// Another block than all before, for `offset`: until the file is written anew, the server is to have it there.
    pub fn next_block(&mut self, offset: u64) -> &[u8] {
        self.blocks += 1;
        let mut block = vec![0; BLOCK as usize];
        content::fill(BLOCKS_FROM + self.blocks * BLOCK, &mut block);
        &self.block.insert((offset, block)).1
    }

    /// Compare all of what the server has with what it should have: the content as it was made, and the last block in
    /// it or after it.
    ///
    /// # Errors
    /// `Failure::Failed` that names the place.
    pub fn compare(&self) -> Result<(), Failure> {
        let refused = |error: io::Error| failed("reading", &self.served, &error);
        let mut file = File::open(&self.served).map_err(refused)?;
        let length = match &self.block {
            Some((offset, block)) => self.size.max(offset + block.len() as u64),
            None => self.size,
        };
        let found = file.metadata().map_err(refused)?.len();
        if found != length {
            return Err(Failure::failed(format!(
                "{} has {found} B, and should have {length} B",
                self.served.display()
            )));
        }
        for (offset, length) in chunks(length) {
            if cancel::requested() {
                return Err(interrupted());
            }
            let mut chunk = vec![0; length];
            file.read_exact(&mut chunk).map_err(refused)?;
            if let Some(wrong) = self.differs(offset, &chunk) {
                return Err(Failure::failed(format!(
                    "{} is not what was written, from byte {wrong} on",
                    self.served.display()
                )));
            }
        }
        Ok(())
    }

    /// The first byte of `chunk`, which begins at `offset` of the file, that is not what it should be.
    fn differs(&self, offset: u64, chunk: &[u8]) -> Option<u64> {
        let mut wanted = vec![0; chunk.len()];
        content::fill(offset, &mut wanted);
        if let Some((from, block)) = &self.block {
            let end = offset + chunk.len() as u64;
            let (first, last) = (offset.max(*from), end.min(from + block.len() as u64));
            if first < last {
                wanted[(first - offset) as usize..(last - offset) as usize]
                    .copy_from_slice(&block[(first - from) as usize..(last - from) as usize]);
            }
        }
        let wrong = chunk.iter().zip(&wanted).position(|(one, two)| one != two);
        wrong.map(|place| offset + place as u64)
    }
}

/// Where parts of a file of this length begin, and how long they are.
fn chunks(length: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..length)
        .step_by(CHUNK as usize)
        .map(move |offset| (offset, (length - offset).min(CHUNK) as usize))
}

/// Close a file and return the error that close(2) reports; dropping it would lose that error.
///
/// # Errors
/// The errno of close(2), such as `EDQUOT`, `ENOSPC` or `EIO` of what was written before.
pub fn close(file: File) -> io::Result<()> {
    nix::unistd::close(file).map_err(io::Error::from)
}
