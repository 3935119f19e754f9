//! The channels through which bytes go from one side to the other.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use clap::ValueEnum;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::{RcvBuf, SndBuf};
use nix::sys::socket::{
    AddressFamily, GetSockOpt, SockFlag, SockType, getsockopt, setsockopt, socketpair,
};
use nix::unistd::Pid;
use serde::Deserialize;

use super::ring;
pub use super::ring::Waiting;
use oscope_sys::error::Failure;

/// Kinds of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A pipe of the default capacity (pipe(7)).
    Pipe,
    /// A pair of stream sockets of this machine (unix(7), SOCK_STREAM).
    Local,
    /// A pair of message sockets of this machine (unix(7), SOCK_SEQPACKET).
    Seqpacket,
    /// A connection over 127.0.0.1 that sends at once (tcp(7), TCP_NODELAY).
    Tcp,
    /// A ring in shared memory ([`ring`]).
    Shm,
    /// A pipe that refers to the sender's pages (vmsplice(2)).
    Vmsplice,
}

impl Kind {
    /// Whether its ends are sockets, the only ones that have buffer sizes to set.
    pub fn is_socket(self) -> bool {
        matches!(self, Self::Local | Self::Seqpacket | Self::Tcp)
    }
}

/// What a channel is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Its kind.
    pub kind: Kind,
    /// How its ends wait.
    pub waiting: Waiting,
    /// SO_SNDBUF and SO_RCVBUF to ask for, in bytes; without effect on what is no socket.
    pub socket_buffer: Option<usize>,
}

/// The end into which bytes are put. Dropping it lets the other side read what is left, and then 0 bytes.
pub enum Sender {
    /// A descriptor for write(2).
    Descriptor(OwnedFd),
    /// A pipe for vmsplice(2), and the flags of the call, which does not heed O_NONBLOCK.
    Spliced(OwnedFd, libc::c_uint),
    /// The ring.
    Ring(ring::Writer),
}

/// The end out of which bytes are taken. Dropping it lets the other side's calls fail with EPIPE or ECONNRESET.
pub enum Receiver {
    /// A descriptor for read(2).
    Descriptor(OwnedFd),
    /// The ring.
    Ring(ring::Reader),
}

/// One side of a channel both ways.
pub struct Duplex {
    /// To the other side.
    pub sender: Sender,
    /// From the other side.
    pub receiver: Receiver,
}

impl Sender {
    /// One call that hands over `data`: at most all of it, of a message socket one message. How many bytes the channel
    /// took.
    ///
    /// By vmsplice the channel refers to the memory itself, which must not change until the other side has read it.
    ///
    /// # Errors
    /// `EAGAIN` where the end refuses to wait, `EINTR` after a signal, `EPIPE` or `ECONNRESET` if the other side has
    /// gone, `EMSGSIZE`.
    #[inline(always)]
    pub fn send(&mut self, data: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Descriptor(end) => {
                // SAFETY: the memory is valid for the call.
                let answer =
                    unsafe { libc::write(end.as_raw_fd(), data.as_ptr().cast(), data.len()) };
                Errno::result(answer).map(|count| count as usize)
            }
            Self::Spliced(end, flags) => {
                let piece = libc::iovec {
                    iov_base: data.as_ptr().cast_mut().cast(),
                    iov_len: data.len(),
                };
                // SAFETY: the memory is valid for the call, and the kernel only reads it; that it stays as it is until
                // it was read matters to the content of the channel alone, since the kernel holds the pages.
                let answer =
                    unsafe { libc::vmsplice(end.as_raw_fd(), &raw const piece, 1, *flags) };
                Errno::result(answer).map(|count| count as usize)
            }
            Self::Ring(writer) => writer.write(data),
        }
    }

    /// Its descriptor; the ring has none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Descriptor(end) | Self::Spliced(end, _) => Some(end.as_fd()),
            Self::Ring(_) => None,
        }
    }

    /// The other end was moved to this process, if to any: a side of the ring that sleeps looks whether it lives. To be
    /// called once that is made, as by [`MeasuredPeer::spawn`](super::measured_peer::MeasuredPeer::spawn). A descriptor
    /// needs no such call.
    pub fn watch(&mut self, process: Option<Pid>) {
        if let Self::Ring(writer) = self {
            writer.watch(process);
        }
    }
}

impl Receiver {
    /// One call that takes what is there, of a message socket one message. How many bytes; 0: the other side has gone.
    ///
    /// # Errors
    /// `EAGAIN` where the end refuses to wait, `EINTR` after a signal, `ECONNRESET` if the other side has gone.
    #[inline(always)]
    pub fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Descriptor(end) => {
                // SAFETY: the memory is valid for the call, and nobody else's.
                let answer =
                    unsafe { libc::read(end.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
                Errno::result(answer).map(|count| count as usize)
            }
            Self::Ring(reader) => reader.read(into),
        }
    }

    /// Its descriptor; the ring has none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Descriptor(end) => Some(end.as_fd()),
            Self::Ring(_) => None,
        }
    }

    /// As [`Sender::watch`].
    pub fn watch(&mut self, process: Option<Pid>) {
        if let Self::Ring(reader) = self {
            reader.watch(process);
        }
    }
}

/// Make a channel one way.
///
/// # Errors
/// `Failure::Unavailable` where a limit or a missing loopback forbids it, `Failure::Failed` where it went wrong.
pub fn one_way(plan: Plan) -> Result<(Sender, Receiver), Failure> {
    match plan.kind {
        Kind::Shm => {
            let (writer, reader) = ring::new(plan.waiting)?;
            Ok((Sender::Ring(writer), Receiver::Ring(reader)))
        }
        Kind::Vmsplice => {
            let (receiver, sender) = pipe(plan.waiting)?;
            let flags = match plan.waiting {
                Waiting::Refuses => libc::SPLICE_F_NONBLOCK,
                Waiting::Sleeps | Waiting::Spins => 0,
            };
            Ok((
                Sender::Spliced(sender, flags),
                Receiver::Descriptor(receiver),
            ))
        }
        Kind::Pipe => {
            let (receiver, sender) = pipe(plan.waiting)?;
            Ok((Sender::Descriptor(sender), Receiver::Descriptor(receiver)))
        }
        Kind::Local | Kind::Seqpacket | Kind::Tcp => {
            let (sender, receiver) = sockets(plan)?;
            Ok((Sender::Descriptor(sender), Receiver::Descriptor(receiver)))
        }
    }
}

/// Make a channel both ways: one connection of sockets, two of all else.
///
/// # Errors
/// As [`one_way`].
pub fn both_ways(plan: Plan) -> Result<(Duplex, Duplex), Failure> {
    if plan.kind.is_socket() {
        let (one, other) = sockets(plan)?;
        return Ok((duplex(one)?, duplex(other)?));
    }
    let (there, end) = one_way(plan)?;
    let (back, beginning) = one_way(plan)?;
    let one = Duplex {
        sender: there,
        receiver: beginning,
    };
    let other = Duplex {
        sender: back,
        receiver: end,
    };
    Ok((one, other))
}

fn duplex(socket: OwnedFd) -> Result<Duplex, Failure> {
    let again = socket
        .try_clone()
        .map_err(|error| refused("a socket", &error))?;
    Ok(Duplex {
        sender: Sender::Descriptor(socket),
        receiver: Receiver::Descriptor(again),
    })
}

/// The reading end and the writing end of a pipe.
fn pipe(waiting: Waiting) -> Result<(OwnedFd, OwnedFd), Failure> {
    let flags = OFlag::O_CLOEXEC;
    let ends = nix::unistd::pipe2(flags).map_err(|error| refused("a pipe", &error.into()))?;
    set_waiting(&ends.0, waiting)?;
    set_waiting(&ends.1, waiting)?;
    Ok(ends)
}

/// Two sockets joined to each other, with the buffers asked for.
fn sockets(plan: Plan) -> Result<(OwnedFd, OwnedFd), Failure> {
    let (one, other) = match plan.kind {
        Kind::Tcp => connection(plan.socket_buffer)?,
        Kind::Seqpacket => socket_pair(SockType::SeqPacket)?,
        _ => socket_pair(SockType::Stream)?,
    };
    for socket in [&one, &other] {
        set_buffers(socket.as_fd(), plan.socket_buffer)?;
        set_waiting(socket, plan.waiting)?;
    }
    Ok((one, other))
}

fn socket_pair(kind: SockType) -> Result<(OwnedFd, OwnedFd), Failure> {
    socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|error| refused("a pair of sockets", &error.into()))
}

/// A connection over the loopback.
fn connection(buffer: Option<usize>) -> Result<(OwnedFd, OwnedFd), Failure> {
    let no_loopback = |error: io::Error| {
        Failure::unavailable(
            format!("no TCP connection over 127.0.0.1: {error}"),
            "bring the loopback up (ip link set lo up)",
        )
        .because_of(error)
    };
    let failed = |error| Failure::system("accepting a TCP connection over 127.0.0.1", error);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(no_loopback)?;
    // The window's scale is settled when the connection is made: a socket that is accepted has the listener's buffers.
    set_buffers(listener.as_fd(), buffer)?;
    let address = listener.local_addr().map_err(no_loopback)?;
    let one = TcpStream::connect(address).map_err(no_loopback)?;
    let own = one.local_addr().map_err(failed)?;
    // Anybody on this machine may connect to that port.
    let other = loop {
        let (stream, from) = listener.accept().map_err(failed)?;
        if from == own {
            break stream;
        }
    };
    for stream in [&one, &other] {
        stream
            .set_nodelay(true)
            .map_err(|error| Failure::system("setting TCP_NODELAY", error))?;
    }
    Ok((one.into(), other.into()))
}

fn set_waiting(end: &OwnedFd, waiting: Waiting) -> Result<(), Failure> {
    let flags = match waiting {
        Waiting::Refuses => OFlag::O_NONBLOCK,
        Waiting::Sleeps | Waiting::Spins => OFlag::empty(),
    };
    fcntl(end, FcntlArg::F_SETFL(flags))
        .map(drop)
        .map_err(|error| Failure::system("setting O_NONBLOCK", error))
}

fn set_buffers(socket: BorrowedFd, bytes: Option<usize>) -> Result<(), Failure> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    // The kernel takes no more than net.core.wmem_max and rmem_max anyhow (socket(7)).
    let bytes = bytes.min(libc::c_int::MAX as usize);
    setsockopt(&socket, SndBuf, &bytes)
        .and_then(|()| setsockopt(&socket, RcvBuf, &bytes))
        .map_err(|error| Failure::system("setting a socket's buffer", error))
}

/// What the kernel keeps as `SndBuf` or `RcvBuf` (SO_SNDBUF, SO_RCVBUF), in bytes: twice what was asked, or more, for
/// its own bookkeeping (socket(7)).
///
/// # Errors
/// `Failure::Failed` if it is no socket.
pub fn socket_buffer(
    socket: BorrowedFd,
    option: impl GetSockOpt<Val = usize>,
) -> Result<usize, Failure> {
    getsockopt(&socket, option)
        .map_err(|error| Failure::system("reading a socket's buffer size", error))
}

fn refused(what: &str, error: &io::Error) -> Failure {
    Failure::unavailable(
        format!("{what} cannot be made: {error}"),
        "raise ulimit -n, or /proc/sys/fs/file-max",
    )
    .because_of(error)
}
