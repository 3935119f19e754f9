//! An open handle of the server. Who drops it has it closed, on whatever path: no error can leave a file open there.

use std::cell::Cell;
use std::ops::Deref;

use super::pipeline::RequestPipeline;
use super::session::Session;
use super::wire::kind;

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

    /// Gather the request that closes it, for who has to know whether that succeeds: the id of its answer. Without this
    /// it is closed when it is dropped, with the next request over this connection, whoever asks it, or in half a
    /// second; a failure to do so concerns nobody.
    pub fn ask_close(&self, pipeline: &mut RequestPipeline<'_>) -> u32 {
        self.closing.set(true);
        pipeline.ask_handle(kind::CLOSE, self)
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
