//! What a channel takes: found by trying.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::sockopt::{RcvBuf, SndBuf};

use crate::workloads::ipc::channel::{Kind, Plan, Waiting, one_way, socket_buffer};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Bytes of a page, of which a place in a pipe refers to one.
pub const PAGE_BYTES: usize = 4096;
/// Time for filling a channel; very small writes into a large one take seconds.
const LONGEST_FILLING: Duration = Duration::from_secs(1);

/// Bytes that a channel takes before it is full, handed over in pieces of `piece`; `None` if it was not full within a
/// second, or a signal came.
///
/// # Errors
/// Those of [`one_way`]; `Failure::Failed` with the kernel's reason if the channel refuses for another one.
pub fn capacity(plan: Plan, piece: &[u8]) -> Result<Option<u64>, Failure> {
    let (mut sender, _receiver) = one_way(Plan {
        waiting: Waiting::Refuses,
        ..plan
    })?;
    let latest = Instant::now() + LONGEST_FILLING;
    let mut taken = 0;
    while Instant::now() < latest && !cancel::requested() {
        match sender.send(piece) {
            Ok(count) => taken += count as u64,
            Err(Errno::EAGAIN) => return Ok(Some(taken)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(Failure::system("filling the channel", error)),
        }
    }
    Ok(None)
}

/// The most bytes of `block` that one message may have; of a channel without messages, all of it.
///
/// # Errors
/// Those of [`one_way`]; `Failure::Failed` if the channel takes no message at all.
pub fn message(plan: Plan, block: &mut [u8]) -> Result<usize, Failure> {
    if plan.kind != Kind::Seqpacket {
        return Ok(block.len());
    }
    let (mut sender, mut receiver) = one_way(Plan {
        waiting: Waiting::Refuses,
        ..plan
    })?;
    let whole = block.len();
    let mut fits = |length: usize| {
        let sent = match sender.send(&block[..length]) {
            Err(Errno::EMSGSIZE | Errno::ENOBUFS) => Ok(false),
            Err(error) => Err(error),
            Ok(_) => receiver.receive(&mut block[..length]).map(|_| true),
        };
        sent.map_err(|error| Failure::system("sending a message", error))
    };
    if fits(whole)? {
        return Ok(whole);
    }
    let (mut most, mut too_many) = (0, whole);
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        match fits(middle)? {
            true => most = middle,
            false => too_many = middle,
        }
    }
    match most {
        0 => Err(Failure::failed(
            "the channel takes no message, not even of 1 B",
        )),
        most => Ok(most),
    }
}

/// What the kernel made of the socket buffers asked for, where it is something else.
///
/// # Errors
/// `Failure::Failed` with the reason of getsockopt(2).
pub fn granted(
    asked: usize,
    sender: BorrowedFd,
    receiver: BorrowedFd,
) -> Result<Option<String>, Failure> {
    let send = socket_buffer(sender, SndBuf)?;
    let receive = socket_buffer(receiver, RcvBuf)?;
    let other = (send, receive) != (asked, asked);
    Ok(other.then(|| {
        format!(
            "sockbuf=buffer asked for {asked} B; the kernel made SO_SNDBUF {send} B and SO_RCVBUF {receive} B (it \
            doubles what is asked, which net.core.wmem_max and rmem_max bound, and has a least value)"
        )
    }))
}

/// Pages that a pipe may refer to (F_GETPIPE_SZ, pipe(7)).
///
/// # Errors
/// `Failure::Failed` if it is no pipe.
pub fn pipe_pages(pipe: &OwnedFd) -> Result<usize, Failure> {
    fcntl(pipe, FcntlArg::F_GETPIPE_SZ)
        .map(|bytes| bytes as usize / PAGE_BYTES)
        .map_err(|error| Failure::system("reading the size of a pipe", error))
}
