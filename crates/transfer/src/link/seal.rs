//! Records of a keyed connection: a length (16 bits, little-endian) and a Noise message, encrypted and authenticated in
//! its place in the stream. A record that was changed, left out, repeated or moved does not open, and ends the
//! connection.

use std::io;

use snow::StatelessTransportState;

/// Bytes of a Noise message at most (The Noise Protocol Framework, 3).
pub const LONGEST: usize = 65_535;

/// Bytes of its check.
const CHECK: usize = 16;

/// Bytes of contents of a record at most.
const CONTENTS: usize = LONGEST - CHECK;

/// Bytes before a record's message.
const HEAD: usize = 2;

/// Bytes that are received ahead at most. A receiver that takes several hundred KiB a call is woken less often, which
/// saves more time than a smaller buffer does by staying in the second-level cache.
pub const COMING: usize = 14 * (HEAD + LONGEST);

/// What a keyed connection has beside a plain one.
pub struct Seal {
    keys: StatelessTransportState,
    sealed: u64,
    opened: u64,
    /// Records that wait to be sent, from `gone` to `filled`; the rest was sent and is written over.
    going: Vec<u8>,
    gone: usize,
    filled: usize,
    /// Bytes received, from `start` to `end`.
    coming: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Seal {
    /// After a handshake; `opened` records of the peer were opened during it.
    pub fn new(keys: StatelessTransportState, opened: u64) -> Self {
        Self {
            keys,
            sealed: 0,
            opened,
            going: Vec::new(),
            gone: 0,
            filled: 0,
            coming: vec![0; COMING].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    /// Encrypt bytes into records of about the same length, to be sent after those that wait.
    pub fn seal(&mut self, bytes: &[u8]) {
        let records = bytes.len().div_ceil(CONTENTS);
        for number in 0..records {
            let part = &bytes[bytes.len() * number / records..bytes.len() * (number + 1) / records];
            let at = self.filled;
            self.filled = at + HEAD + part.len() + CHECK;
            if self.going.len() < self.filled {
                self.going.resize(self.filled, 0);
            }
            let (head, message) = self.going[at..self.filled].split_at_mut(HEAD);
            // A record's length is at most 65,535, and its buffer has that length: neither can fail.
            let length = self
                .keys
                .write_message(self.sealed, part, message)
                .expect("a record fits its message");
            head.copy_from_slice(&u16::try_from(length).expect("at most 65,535").to_le_bytes());
            self.sealed += 1;
        }
    }

    /// What waits to be sent.
    pub fn waiting(&self) -> &[u8] {
        &self.going[self.gone..self.filled]
    }

    /// So many bytes of it are sent.
    pub fn sent(&mut self, count: usize) {
        self.gone += count;
        if self.gone == self.filled {
            self.filled = 0;
            self.gone = 0;
        }
    }

    /// Where received bytes go; never empty after [`Self::open`] has answered `None`.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.coming.len() - self.end < HEAD + LONGEST {
            self.coming.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.coming[self.end..]
    }

    /// So many bytes were received there.
    pub fn received(&mut self, count: usize) {
        self.end += count;
    }

    /// Decrypt the next record, if it is here whole and has room: how many bytes of contents, at least one.
    ///
    /// # Errors
    /// It is not the peer's next record: `InvalidData`.
    pub fn open(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(head) = self.coming[self.start..self.end].first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*head));
        let message = self.start + HEAD..self.start + HEAD + length;
        if length <= CHECK {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if message.end > self.end || length > into.len() {
            return Ok(None);
        }
        let end = message.end;
        let contents = self
            .keys
            .read_message(self.opened, &self.coming[message], into)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.opened += 1;
        self.start = end;
        Ok(Some(contents))
    }
}
