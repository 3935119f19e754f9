//! The methods by their names: one value for each, ready to move bytes.

use std::io;

use super::link::Link;
use super::options::{ReceiveMethod, SendMethod, UNBUFFERED};
use super::receive_methods::{self, ReceiveStep};
use super::ring::{RingReceiver, RingSender};
use super::send_methods::{self, Pipe, SendFile, SendStep};
use super::zerocopy::ZeroCopy;

/// Make ready to send by a method.
///
/// # Errors
/// What pipe(2), io_uring_setup(2) or, for `SO_ZEROCOPY`, setsockopt(2) fails with.
pub fn sender(method: SendMethod, chunk: usize, link: &Link) -> io::Result<Box<dyn SendStep>> {
    Ok(match method {
        SendMethod::ReadWrite => Box::new(send_methods::ReadWrite {
            buffer: vec![0; chunk],
            moved: 0,
        }),
        SendMethod::Mmap => Box::new(send_methods::Mapped {
            window: None,
            chunk,
        }),
        SendMethod::Auto | SendMethod::SendFile => Box::new(SendFile {
            chunk: chunk * UNBUFFERED,
        }),
        SendMethod::Splice => Box::new(send_methods::Splice::new(chunk * UNBUFFERED)?),
        SendMethod::ZeroCopy => Box::new(ZeroCopy::new(chunk, link.socket())?),
        SendMethod::Uring => Box::new(RingSender::new(chunk)?),
    })
}

/// Make ready to receive by a method.
///
/// # Errors
/// No pipe or no `io_uring` is to be had: what pipe(2) or io_uring_setup(2) fails with.
pub fn receiver(method: ReceiveMethod, chunk: usize) -> io::Result<Box<dyn ReceiveStep>> {
    Ok(match method {
        ReceiveMethod::Auto | ReceiveMethod::ReadWrite => Box::new(receive_methods::ReadWrite {
            buffer: vec![0; chunk],
        }),
        ReceiveMethod::Mmap => Box::new(receive_methods::Mapped { chunk }),
        ReceiveMethod::Splice => Box::new(receive_methods::Splice {
            pipe: Pipe::new(chunk * UNBUFFERED)?,
            chunk: chunk * UNBUFFERED,
        }),
        ReceiveMethod::Uring => Box::new(RingReceiver::new(chunk)?),
    })
}
