//! What the client has open.

use std::collections::HashMap;
use std::fs::{File, ReadDir};

use nix::errno::Errno;

use crate::remote::wire::{Malformed, Reader};

/// Handles at most: a client that closes none must not take all that the system has.
const MOST: usize = 4096;

/// Open files and folders, by number.
#[derive(Default)]
pub struct Handles {
    open: HashMap<u64, Open>,
    next: u64,
}

/// One of them.
pub enum Open {
    /// A file.
    File(File),
    /// A folder that is being listed.
    Folder(ReadDir),
}

impl Handles {
    /// Keep it: its handle.
    pub fn keep(&mut self, open: Open) -> Result<[u8; 8], Errno> {
        if self.open.len() >= MOST {
            return Err(Errno::EMFILE);
        }
        self.next += 1;
        self.open.insert(self.next, open);
        Ok(self.next.to_be_bytes())
    }

    /// The file of the handle that comes next in a request.
    pub fn file(&self, body: &mut Reader<'_>) -> Result<Result<&File, Errno>, Malformed> {
        Ok(match self.open.get(&number(body)?) {
            Some(Open::File(file)) => Ok(file),
            _ => Err(Errno::EBADF),
        })
    }

    /// The folder of the handle that comes next in a request.
    pub fn folder(
        &mut self,
        body: &mut Reader<'_>,
    ) -> Result<Result<&mut ReadDir, Errno>, Malformed> {
        Ok(match self.open.get_mut(&number(body)?) {
            Some(Open::Folder(folder)) => Ok(folder),
            _ => Err(Errno::EBADF),
        })
    }

    /// Take away what has the handle that comes next in a request.
    pub fn take(&mut self, body: &mut Reader<'_>) -> Result<Option<Open>, Malformed> {
        Ok(self.open.remove(&number(body)?))
    }
}

/// A handle's number; 0, which none has, for bytes that are no handle of ours.
fn number(body: &mut Reader<'_>) -> Result<u64, Malformed> {
    let bytes = body.handle()?;
    Ok(bytes.try_into().map_or(0, u64::from_be_bytes))
}
