//! The names of one folder, as many as a server may list: what it sends without end must end here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attributes::Attributes;
use super::request_error::RequestError;
use super::wire::{Malformed, Reader};

/// Bounds of a listing. Before they are reached it takes less than a gigabyte of memory.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Names at most.
    pub names: usize,
    /// Bytes of all names at most.
    pub bytes: usize,
    /// Time in all, beside that for each name, in limits of one operation.
    pub limits: u32,
    /// Time for each name: a server that sends fewer than this lets in is not waited for.
    pub each: Duration,
}

/// Twice a million names, and a line of about 10 kB/s.
pub const BOUNDS: Bounds = Bounds {
    names: 2 << 20,
    bytes: 256 << 20,
    limits: 10,
    each: Duration::from_millis(10),
};

/// What has been listed.
pub struct Listing {
    bounds: Bounds,
    limit: Duration,
    began: Instant,
    bytes: usize,
    found: Vec<(OsString, Attributes)>,
}

/// What an answer to READDIR brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// At least one new name.
    Names,
    /// Names that are not listed (`.` and `..`).
    Nothing,
    /// No name at all: some servers end a listing with this.
    End,
}

impl Listing {
    /// Nothing as yet; `limit` is that of one operation.
    pub fn new(bounds: Bounds, limit: Duration) -> Self {
        Self {
            bounds,
            limit,
            began: Instant::now(),
            bytes: 0,
            found: Vec::new(),
        }
    }

    /// The names of one answer to READDIR; one that could lead out of the folder is no name.
    pub fn take(&mut self, body: &mut Reader<'_>) -> Result<Brought, Malformed> {
        let (count, before) = (body.number()?, self.found.len());
        for _ in 0..count {
            let name = body.text()?;
            body.text()?;
            let attributes = body.attributes()?;
            if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
                return Err(Malformed);
            }
            if name != b"." && name != b".." {
                self.bytes += name.len();
                self.found
                    .push((OsString::from_vec(name.to_vec()), attributes));
            }
        }
        Ok(match self.found.len() > before {
            true => Brought::Names,
            false if count > 0 => Brought::Nothing,
            false => Brought::End,
        })
    }

    /// Until when the next names are waited for, from now on.
    ///
    /// # Errors
    /// EFBIG: there are more than a folder may have here.
    pub fn deadline(&self) -> Result<Instant, RequestError> {
        let names = self.found.len();
        if names > self.bounds.names || self.bytes > self.bounds.bytes {
            return Err(RequestError::Errno(Errno::EFBIG));
        }
        let each = self.bounds.each * u32::try_from(names).unwrap_or(u32::MAX);
        let last = self.began + self.limit * self.bounds.limits + each;
        Ok(last.min(Instant::now() + self.limit))
    }

    /// All that was listed.
    pub fn into_names(self) -> Vec<(OsString, Attributes)> {
        self.found
    }
}
