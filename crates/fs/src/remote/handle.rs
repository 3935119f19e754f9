//! An open handle of the server. Who drops it has it closed, on whatever path: no error can leave a file open there.

use std::cell::Cell;
use std::ops::Deref;

use super::session::Session;

/// An open file or folder of the server.
pub struct Handle<'a> {
    session: &'a Session,
    bytes: Vec<u8>,
    closing: Cell<bool>,
}

impl<'a> Handle<'a> {
    /// Of an answer to OPEN or OPENDIR.
    pub fn new(session: &'a Session, bytes: Vec<u8>) -> Self {
        Self {
            session,
            bytes,
            closing: Cell::new(false),
        }
    }

    /// The request that closes it is gathered: dropping it does no more.
    pub fn closes(&self) {
        self.closing.set(true);
    }
}

impl Deref for Handle<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.closing.get() {
            self.session.close_handle(&self.bytes);
        }
    }
}
