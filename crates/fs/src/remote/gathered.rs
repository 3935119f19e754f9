//! Pieces of a file that come in sequence, and are written together.
//!
//! The page cache of a copy has folios as large as the writes that made it (`__filemap_get_folio`, mm/filemap.c). Later
//! reads are a little faster out of larger ones, and a piece of a server is 128 KiB mostly.

use std::fs::File;
use std::io::{self, IoSlice};

use nix::errno::Errno;
use nix::sys::uio::pwritev;

use super::wire::Answer;

/// Bytes that are written together, from a multiple of it on.
const TOGETHER: u64 = 512 << 10;

/// Pieces that are written together at most; pwritev(2) takes 1024.
const PIECES: usize = 64;

/// Pieces that are not yet written, without a gap between them.
#[derive(Default)]
pub struct Gathered {
    offset: u64,
    end: u64,
    answers: Vec<(Answer, usize)>,
}

impl Gathered {
    /// Whether a piece at this offset can be added.
    pub fn takes(&self, offset: u64) -> bool {
        self.answers.is_empty() || offset == self.end
    }

    /// Add the first `length` bytes of an answer, which belong at an offset. Whether it is time to write.
    pub fn add(&mut self, offset: u64, answer: Answer, length: usize) -> bool {
        if self.answers.is_empty() {
            self.offset = offset;
        }
        self.end = offset + length as u64;
        self.answers.push((answer, length));
        self.end / TOGETHER != self.offset / TOGETHER || self.answers.len() == PIECES
    }

    /// Write all to the file; give the answers back.
    ///
    /// # Errors
    /// Those of pwritev(2); `EIO`: it is not an answer to a read.
    pub fn write(&mut self, into: &File) -> io::Result<Vec<Answer>> {
        let pieces = self.answers.iter().map(|(answer, length)| {
            let data = answer.body().text().ok()?.get(..*length)?;
            Some(IoSlice::new(data))
        });
        let pieces: Option<Vec<IoSlice<'_>>> = pieces.collect();
        let mut pieces = pieces.ok_or(Errno::EIO)?;
        let (mut left, mut offset) = (&mut pieces[..], self.offset);
        while offset < self.end {
            match pwritev(into, left, i64::try_from(offset).map_err(|_| Errno::EFBIG)?) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut left, written);
                    offset += written as u64;
                }
                Err(Errno::EINTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        self.offset = self.end;
        let answers = std::mem::take(&mut self.answers);
        Ok(answers.into_iter().map(|(answer, _)| answer).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::super::wire::kind;
    use super::*;
    use crate::testing::contents;

    fn answer(data: &[u8]) -> Answer {
        let mut bytes = vec![kind::DATA, 0, 0, 0, 7];
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        Answer::new(bytes).unwrap().1
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_in_any_order_come_where_they_belong(
            lengths in prop::collection::vec(1..400_000_usize, 1..20),
            late in prop::collection::vec(any::<bool>(), 20),
        ) {
            let content = contents(lengths.iter().sum());
            let mut offset = 0;
            let pieces: Vec<_> = lengths.iter().map(|length| {
                offset += length;
                (offset - length, *length)
            }).collect();
            let (last, first): (Vec<_>, Vec<_>) = pieces.into_iter().zip(late).partition(|(_, late)| *late);
            let file = tempfile::tempfile().unwrap();
            let mut gathered = Gathered::default();
            let mut answers = 0;
            for ((offset, length), _) in first.into_iter().chain(last) {
                if !gathered.takes(offset as u64) {
                    answers += gathered.write(&file).unwrap().len();
                }
                // What the server gave too much is left out.
                let data = [&content[offset..offset + length], b"more"].concat();
                if gathered.add(offset as u64, answer(&data), length) {
                    answers += gathered.write(&file).unwrap().len();
                }
            }
            answers += gathered.write(&file).unwrap().len();
            let mut found = vec![0; content.len() + 1];
            prop_assert_eq!(file.read_at(&mut found, 0).unwrap(), content.len());
            prop_assert_eq!(&found[..content.len()], &content[..]);
            prop_assert_eq!(answers, lengths.len());
        }
    }
}
