//! `MSG_ZEROCOPY`: the network reads the file's pages themselves, and reports on the socket's error queue when it no
//! longer needs them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::link::Link;
use super::send_methods::{Piece, SendStep, Window, send_mapped};
use super::stop::Stop;

/// Mappings that wait for the network at most.
const WAITING: usize = 8;

/// How long one wait for the error queue lasts.
const SLICE_MS: i32 = 100;

/// How long the kernel's last word is waited for once the receiver has everything.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// `sock_extended_err.ee_origin` of a completion, from `linux/errqueue.h`.
const ORIGIN: u8 = 5;

/// `ee_code` of a completion where the kernel copied after all.
const COPIED: u8 = 1;

/// `send` with `MSG_ZEROCOPY` from a mapping.
pub struct ZeroCopy {
    chunk: usize,
    window: Option<Window>,
    /// Mappings sent, each with the number of the last call on it.
    waiting: VecDeque<(u32, Window)>,
    /// Number that the next call will have.
    next: u32,
    /// All calls before this number are complete.
    done: u32,
    completed: u64,
    copied: u64,
}

impl ZeroCopy {
    /// Ask for zero copies on a socket.
    ///
    /// # Errors
    /// Those of setsockopt(2), such as `ENOPROTOOPT`: the kernel does not offer them.
    pub fn new(chunk: usize, socket: RawFd) -> io::Result<Self> {
        let on: i32 = 1;
        // SAFETY: the option is an int, which lives through the call.
        let set = unsafe {
            libc::setsockopt(
                socket,
                libc::SOL_SOCKET,
                libc::SO_ZEROCOPY,
                (&raw const on).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        match set {
            0 => Ok(Self {
                chunk,
                window: None,
                waiting: VecDeque::new(),
                next: 0,
                done: 0,
                completed: 0,
                copied: 0,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Let go of mappings that are no longer needed, until at most `keep` wait.
    fn reap(&mut self, link: &mut Link, keep: usize) -> Result<(), Stop> {
        loop {
            while self.collect(link)? {}
            self.let_go(link);
            if self.waiting.len() <= keep {
                return Ok(());
            }
            self.wait_for_one(link)?;
        }
    }

    /// Wait until the network has finished with at least one call more.
    fn wait_for_one(&mut self, link: &mut Link) -> Result<(), Stop> {
        let (since, done) = (Instant::now(), self.done);
        loop {
            while self.collect(link)? {}
            if self.done != done {
                link.progress();
                return Ok(());
            }
            if !notified_soon(link) {
                link.again(&io::ErrorKind::WouldBlock.into())?;
            } else if since.elapsed() > Duration::from_millis(100) {
                // An error of the connection, too, wakes the poll, without an entry in the queue.
                link.aside()?;
                std::thread::sleep(Duration::from_millis(10));
                link.again(&io::ErrorKind::WouldBlock.into())?;
            }
        }
    }

    /// Unmap what the network needs no more.
    fn let_go(&mut self, link: &mut Link) {
        while self
            .waiting
            .front()
            .is_some_and(|(last, _)| last.wrapping_sub(self.done) > u32::MAX / 2)
        {
            self.waiting.pop_front();
            link.calls += 1;
        }
    }

    /// Take one completion off the error queue: whether there was one.
    fn collect(&mut self, link: &mut Link) -> Result<bool, Stop> {
        // Aligned as control messages must be.
        let mut control = [0_u64; 16];
        // SAFETY: all zeros is a valid, empty message header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        link.calls += 1;
        // SAFETY: the header and the buffer it points to live through the call.
        let got = unsafe {
            libc::recvmsg(
                link.socket(),
                &raw mut message,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(false),
                _ => link.failed(&error).map(|()| false),
            };
        }
        // SAFETY: the kernel filled the header; the first message lies within the buffer if it is not null.
        let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        if first.is_null() {
            return Ok(true);
        }
        // SAFETY: the first control message of the error queue carries a `sock_extended_err`, and the length is checked
        // before it is read.
        let notice = unsafe {
            let whole = libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) as usize;
            if ((*first).cmsg_len as usize) < whole {
                return Ok(true);
            }
            libc::CMSG_DATA(first)
                .cast::<libc::sock_extended_err>()
                .read_unaligned()
        };
        if notice.ee_origin == ORIGIN && notice.ee_errno == 0 {
            // TCP completes in order: `ee_info..=ee_data` goes on from what was done.
            self.done = notice.ee_data.wrapping_add(1);
            let calls = u64::from(notice.ee_data.wrapping_sub(notice.ee_info)) + 1;
            self.completed += calls;
            if notice.ee_code & COPIED != 0 {
                self.copied += calls;
            }
        }
        Ok(true)
    }
}

/// Wait a moment for the error queue: whether there is something in it, or an error of the connection.
fn notified_soon(link: &mut Link) -> bool {
    let mut poll = libc::pollfd {
        fd: link.socket(),
        events: 0,
        revents: 0,
    };
    link.calls += 1;
    // SAFETY: one pollfd, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, SLICE_MS) };
    poll.revents & libc::POLLERR != 0
}

impl SendStep for ZeroCopy {
    fn step(&mut self, link: &mut Link, piece: Piece) -> Result<usize, Stop> {
        let window = Window::of(self.window.take(), piece, link)?;
        let mut flags = libc::MSG_ZEROCOPY;
        let sent = loop {
            match send_mapped(link, &window, piece, self.chunk, flags)? {
                Some(sent) => break sent,
                // So much may be lent to the network at a time, and no more.
                None if self.done != self.next => self.wait_for_one(link)?,
                None => flags = 0,
            }
        };
        if flags == 0 {
            self.completed += 1;
            self.copied += 1;
        } else if sent > 0 {
            self.next = self.next.wrapping_add(1);
        }
        if sent > 0 && sent < piece.length {
            self.window = Some(window);
        } else {
            self.waiting.push_back((self.next.wrapping_sub(1), window));
            self.reap(link, WAITING)?;
        }
        Ok(sent)
    }

    fn settle(&mut self, link: &mut Link) {
        // The receiver may have hung up, so that nothing is asked of the connection but what the kernel reports its
        // pages. Should it not report it, the pages are its own to keep: unmapping leaves them as they are.
        let since = Instant::now();
        while !self.waiting.is_empty() && since.elapsed() < LAST_WAIT {
            match self.collect(link) {
                Ok(true) => self.let_go(link),
                Ok(false) => _ = notified_soon(link),
                Err(_) => return,
            }
        }
    }

    fn note(&self) -> Option<String> {
        (self.copied > 0).then(|| {
            format!(
                "zerocopy: the kernel copied after all in {} of {} calls, as it does on loopback",
                self.copied, self.completed
            )
        })
    }
}
