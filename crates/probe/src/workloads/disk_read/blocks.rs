//! Reading block by block into a buffer: read(2), and pread(2) with and without O_DIRECT.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::pass::{Pass, Tally};
use oscope_sys::error::Failure;

/// Read with read(2), which goes by the file's own position; the position is set only where the next stretch lies
/// elsewhere.
pub fn read(pass: &Pass, mut file: &File, buffer: &mut [u8]) -> Result<Tally, Failure> {
    let mut position = None;
    by_blocks(pass, buffer, |buffer, offset| {
        if position != Some(offset) {
            file.seek(SeekFrom::Start(offset))?;
        }
        let read = file.read(buffer)?;
        position = Some(offset + read as u64);
        Ok(read)
    })
}

/// Read with pread(2).
pub fn pread(pass: &Pass, file: &File, buffer: &mut [u8]) -> Result<Tally, Failure> {
    by_blocks(pass, buffer, |buffer, offset| file.read_at(buffer, offset))
}

/// Read one stretch with pread(2).
pub fn pread_one(
    pass: &Pass,
    file: &File,
    stretch: (u64, u64),
    buffer: &mut [u8],
    tally: &mut Tally,
) -> Result<(), Failure> {
    let end = stretch.1;
    one(pass, stretch, buffer, tally, &mut |buffer, offset| {
        // No more than the stretch has: what lies beyond is another's to read.
        let rest = buffer.len().min((end - offset) as usize);
        file.read_at(&mut buffer[..rest], offset)
    })
}

/// Take stretch after stretch and read it block by block.
#[inline(always)]
fn by_blocks(
    pass: &Pass,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<usize>,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while let Some(stretch) = pass.stretch() {
        one(pass, stretch, buffer, &mut tally, &mut read)?;
    }
    Ok(tally)
}

/// Read a stretch in blocks as large as the buffer.
#[inline(always)]
fn one(
    pass: &Pass,
    (begin, end): (u64, u64),
    buffer: &mut [u8],
    tally: &mut Tally,
    read: &mut impl FnMut(&mut [u8], u64) -> std::io::Result<usize>,
) -> Result<(), Failure> {
    let block = buffer.len() as u64;
    let mut offset = begin;
    while offset < end {
        // The file's last block is asked for whole: direct I/O takes no other.
        let asked = (end.next_multiple_of(block) - offset).min(block) as usize;
        let read = match read(&mut buffer[..asked], offset) {
            Ok(0) => return Err(cut_short(pass, offset)),
            Ok(read) => read.min((end - offset) as usize),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(pass, offset, &error)),
        };
        tally.calls += 1;
        tally.take(&buffer[..read], offset, 0, pass.purpose);
        offset += read as u64;
    }
    Ok(())
}

/// The file ends earlier than it did.
pub fn cut_short(pass: &Pass, offset: u64) -> Failure {
    pass.stop();
    Failure::failed(format!(
        "the file ends at byte {offset}, {} bytes early: it shrank while it was read",
        pass.length - offset
    ))
}

/// A read error at `offset`.
pub fn broken(pass: &Pass, offset: u64, error: &std::io::Error) -> Failure {
    pass.stop();
    Failure::system(
        &format!("reading at byte {offset} of {}", pass.length),
        error,
    )
}
