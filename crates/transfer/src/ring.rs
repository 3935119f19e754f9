//! Sending and receiving by `io_uring`: while one buffer is on the connection, the other is at the file.
//!
//! Each call on the socket is linked to a time limit, and a step waits for all that it queued: nothing is in flight
//! when it returns. Where it fails before, its ring waits, which is dropped before the buffers are.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

use io_uring::types::{Fd, Timespec};
use io_uring::{opcode, squeue};

use super::link::Link;
use super::receive_methods::{ReceiveStep, unwritten, write};
use super::send_methods::{Piece, SendStep};
use super::stop::Stop;
use oscope_sys::{cancel, in_flight};

/// How long one call on the socket waits.
const SLICE_NS: u32 = 250_000_000;

const SOCKET: u64 = 1;
const LIMIT: u64 = 2;
const FILE: u64 = 3;

/// What the calls of one round answered, as the kernel does: a count or a negated error.
#[derive(Default)]
struct Answers {
    socket: Option<i32>,
    file: Option<i32>,
}

struct Ring {
    ring: in_flight::Ring,
    limit: Timespec,
}

impl Ring {
    fn new() -> io::Result<Self> {
        Ok(Self {
            ring: in_flight::Ring::new(4)?,
            limit: Timespec::new().nsec(SLICE_NS),
        })
    }

    /// Queue a call on the socket, with its limit, and one on the file, and wait for all.
    ///
    /// # Safety
    /// The buffers that the entries name must live, and not be touched, until this returns, and after an error until
    /// the ring is dropped.
    unsafe fn round(
        &mut self,
        link: &mut Link,
        socket: Option<squeue::Entry>,
        file: Option<squeue::Entry>,
    ) -> io::Result<Answers> {
        let mut entries = Vec::with_capacity(3);
        if let Some(entry) = socket {
            entries.push(entry.flags(squeue::Flags::IO_LINK).user_data(SOCKET));
            entries.push(
                opcode::LinkTimeout::new(&raw const self.limit)
                    .build()
                    .user_data(LIMIT),
            );
        }
        entries.extend(file.map(|entry| entry.user_data(FILE)));
        // SAFETY: the caller keeps the buffers, and `self` keeps the limit.
        unsafe { self.ring.push(&entries) };
        let mut answers = Answers::default();
        while self.ring.missing() > 0 {
            link.calls += 1;
            // A signal does not end it: what follows depends on how much is on the connection.
            self.ring.wait_through_signals()?;
            while let Some(done) = self.ring.next_entry() {
                match done.user_data() {
                    SOCKET => answers.socket = Some(done.result()),
                    FILE => answers.file = Some(done.result()),
                    _ => {}
                }
            }
        }
        Ok(answers)
    }
}

/// A call's count, or its error; one that its limit ended counts as "would block".
fn judged(answer: i32) -> io::Result<usize> {
    match answer.unsigned_abs() {
        count if answer >= 0 => Ok(count as usize),
        number if number == libc::ECANCELED.unsigned_abs() => Err(io::ErrorKind::WouldBlock.into()),
        _ => Err(io::Error::from_raw_os_error(-answer)),
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Reads ahead while it sends.
pub struct RingSender {
    ring: Ring,
    buffers: [Vec<u8>; 2],
}

impl RingSender {
    /// A ring and two buffers.
    ///
    /// # Errors
    /// The kernel does not offer `io_uring`.
    pub fn new(chunk: usize) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new()?,
            buffers: [vec![0; chunk], vec![0; chunk]],
        })
    }
}

impl SendStep for RingSender {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let chunk = self.buffers[0].len();
        let (mut read, mut sent) = (0, 0);
        // Bytes in the buffer that is to be sent.
        let mut full = 0;
        let mut ended = false;
        let mut unread = None;
        while sent < read || (read < piece.length && !ended) {
            let [current, next] = &mut self.buffers;
            let want = (piece.length - read).min(chunk);
            let file = (want > 0 && !ended).then(|| {
                opcode::Read::new(Fd(piece.file.as_raw_fd()), next.as_mut_ptr(), length(want))
                    .offset(piece.at + read as u64)
                    .build()
            });
            let socket = (full > 0).then(|| {
                opcode::Send::new(Fd(link.socket()), current.as_ptr(), length(full))
                    .flags(libc::MSG_NOSIGNAL)
                    .build()
            });
            let since = Instant::now();
            // SAFETY: the buffers belong to `self` and are not touched before the round is over; the counts are within
            // them.
            let answers = unsafe { self.ring.round(link, socket, file) }
                .map_err(|error| Stop::system(piece.name, "reading", &error))?;
            if cancel::requested() {
                // What was read and is not sent does not count.
                if let Some(answer) = answers.socket {
                    sent += link.taken(since, judged(answer))?.unwrap_or(0);
                }
                break;
            }
            if let Some(answer) = answers.socket {
                let count = link.taken(since, judged(answer))?.unwrap_or(0);
                link.send(&self.buffers[0][count.min(full)..full], 0)?;
                sent += full;
                full = 0;
            }
            match answers.file.map(judged) {
                Some(Ok(got)) => {
                    ended = got == 0;
                    read += got;
                    full = got;
                    self.buffers.swap(0, 1);
                }
                // What was read before is sent, and counts.
                Some(Err(error)) => {
                    ended = true;
                    unread = Some(error);
                }
                None => {}
            }
        }
        match unread {
            Some(error) if sent == 0 => Err(Stop::system(piece.name, "reading", &error)),
            // Not 0: that is the end of the file.
            None if sent == 0 && cancel::requested() => Err(Stop::file(piece.name, "interrupted")),
            _ => Ok(sent),
        }
    }
}

/// Writes the last buffer while it receives the next.
pub struct RingReceiver {
    ring: Ring,
    buffers: [Vec<u8>; 2],
}

impl RingReceiver {
    /// A ring and two buffers.
    ///
    /// # Errors
    /// The kernel does not offer `io_uring`.
    pub fn new(chunk: usize) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new()?,
            buffers: [vec![0; chunk], vec![0; chunk]],
        })
    }
}

impl ReceiveStep for RingReceiver {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let chunk = self.buffers[0].len();
        let (mut received, mut written) = (0, 0);
        // Bytes in the buffer that is to be written.
        let mut full = 0;
        let mut trouble = None;
        while written < received || (received < piece.length && trouble.is_none()) {
            let [current, next] = &mut self.buffers;
            let want = (piece.length - received).min(chunk);
            let socket = (want > 0 && trouble.is_none()).then(|| {
                opcode::Recv::new(Fd(link.socket()), next.as_mut_ptr(), length(want)).build()
            });
            let file = (full > 0).then(|| {
                opcode::Write::new(Fd(piece.file.as_raw_fd()), current.as_ptr(), length(full))
                    .offset(piece.at + written as u64)
                    .build()
            });
            let since = Instant::now();
            // SAFETY: the buffers belong to `self` and are not touched before the round is over; the counts are within
            // them.
            let answers = unsafe { self.ring.round(link, socket, file) }
                .map_err(|error| Stop::system(piece.name, "receiving", &error))?;
            if let Some(answer) = answers.file {
                let count = judged(answer).map_err(|error| unwritten(piece.name, &error))?;
                let rest = &self.buffers[0][count.min(full)..full];
                let at = piece.at + (written + count) as u64;
                if !rest.is_empty() {
                    write(&mut link.calls, piece.file, piece.name, rest, at)?;
                }
                written += full;
                full = 0;
            }
            match answers
                .socket
                .map(|answer| link.came(since, judged(answer)))
            {
                Some(Ok(Some(count))) => {
                    received += count;
                    full = count;
                    self.buffers.swap(0, 1);
                }
                Some(Ok(None)) | None => {}
                // What is in hand is written before the transfer ends.
                Some(Err(stop)) => trouble = Some(stop),
            }
            if trouble.is_none() && cancel::requested() {
                trouble = Some(Stop::file(piece.name, "interrupted"));
            }
        }
        match trouble {
            Some(stop) => Err(stop),
            None => Ok(written),
        }
    }
}

#[cfg(test)]
mod tests;
