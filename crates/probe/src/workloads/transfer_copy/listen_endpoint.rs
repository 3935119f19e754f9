//! How the two sides come together: a place where one of them will listen, and the other that finds it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrIn};

use super::parameters::ConnectMode;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_transfer::{self as transfer, ReceiveOptions};

/// What a side that was refused sleeps before it tries again.
const SLEEP: Duration = Duration::from_secs(1);
/// Longest part of a sleep after which a signal is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time until a connection that is not refused stands.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Longest time that one side waits for the other, beyond what that one is late.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections that may wait to be accepted: there is one.
const BACKLOG: i32 = 16;

/// Where a side will be found.
#[derive(Debug)]
pub struct ListenEndpoint {
    /// For which meeting it was made.
    pub meeting: ConnectMode,
    /// The socket that listens, or will.
    pub socket: TcpListener,
    /// Where that is.
    pub address: SocketAddr,
}

impl ListenEndpoint {
    /// A door that is open already, with meeting=ready, or one that refuses whoever comes.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn new(meeting: ConnectMode, at: IpAddr) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::system(&format!("listening at {at}"), &error);
        let socket = match (meeting, at) {
            (ConnectMode::Ready, at) => transfer::listen((at, 0).into())?,
            (_, IpAddr::V4(at)) => reserve(at).map_err(failed)?,
            (_, IpAddr::V6(at)) => {
                return Err(Failure::failed(format!("{at} is no address of IPv4")));
            }
        };
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self {
            meeting,
            socket,
            address,
        })
    }

    /// Listen from now on, where this door refused so far.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn open(&self) -> Result<(), Failure> {
        Backlog::new(BACKLOG)
            .and_then(|backlog| socket::listen(&self.socket, backlog))
            .map_err(|error| Failure::system("listen", io::Error::from(error)))
    }

    /// Wait for the one who comes.
    ///
    /// # Errors
    /// `Failure::Failed` if nobody comes, after a signal, or with the kernel's reason.
    pub fn accept(&self) -> Result<TcpStream, Failure> {
        let latest = Instant::now() + PATIENCE;
        loop {
            self.await_one(latest)?;
            let accepted = self.socket.accept();
            let (stream, _) = accepted.map_err(|error| Failure::system("accept", &error))?;
            // Another user's is none of ours: the port is free to be found by all.
            if let Ok(stream) = transfer::admit(stream, &ReceiveOptions::default()) {
                return Ok(stream);
            }
        }
    }

    /// Wait until somebody is there.
    fn await_one(&self, latest: Instant) -> Result<(), Failure> {
        loop {
            let left = latest.saturating_duration_since(Instant::now());
            if cancel::requested() {
                return Err(Failure::failed("interrupted by a signal"));
            }
            if left.is_zero() {
                return Err(Failure::failed("the other side did not come"));
            }
            let mut one = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            // A signal may come just before the wait begins.
            let limit = PollTimeout::try_from(left.min(LOOK)).unwrap_or(PollTimeout::MAX);
            match poll(&mut one, limit) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(Failure::system("poll", io::Error::from(error))),
            }
        }
    }
}

/// A socket bound to a free port that does not listen: the port is nobody else's, and who connects is refused.
///
/// A port that is merely free might be given to the connecting socket itself, which is then connected to itself (RFC
/// 9293, 3.5).
fn reserve(at: Ipv4Addr) -> io::Result<TcpListener> {
    let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
    let socket = socket::socket(AddressFamily::Inet, kind, flags, None)?;
    let address = SockaddrIn::from(SocketAddrV4::new(at, 0));
    socket::bind(socket.as_raw_fd(), &address)?;
    Ok(TcpListener::from(socket))
}

/// Connect to a side that listens already.
///
/// # Errors
/// `Failure::Failed` if it does not, after a signal, or with the kernel's reason.
pub fn connect(address: SocketAddr) -> Result<TcpStream, Failure> {
    transfer::connect(address, CONNECT_LIMIT)
}

/// Connect to a side that comes `late`, with a sleep after each refusal.
///
/// # Errors
/// `Failure::Failed` if it does not come, after a signal, or with the kernel's reason.
pub fn connect_with_sleeps(address: SocketAddr, late: Duration) -> Result<TcpStream, Failure> {
    let latest = Instant::now() + late + PATIENCE;
    loop {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < latest =>
            {
                sleep(SLEEP)?;
            }
            other => {
                return other
                    .map_err(|error| Failure::system(&format!("connecting to {address}"), &error));
            }
        }
    }
}

/// Sleep for so long.
///
/// # Errors
/// `Failure::Failed` after a signal.
pub fn sleep(time: Duration) -> Result<(), Failure> {
    let latest = Instant::now() + time;
    loop {
        let left = latest.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if cancel::requested() {
            return Err(Failure::failed("interrupted by a signal"));
        }
        thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_reserved_door_refuses_until_it_is_opened() {
        let door = ListenEndpoint::new(ConnectMode::Retry, HERE).expect("a port is free");
        let refused = TcpStream::connect(door.address).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        door.open().expect("it is ours");
        let stream = connect(door.address).expect("it listens");
        let other = door.accept().expect("one came");
        assert_eq!(
            stream.local_addr().expect("it is connected"),
            other.peer_addr().expect("it is connected")
        );
    }

    #[test]
    fn a_sender_that_is_refused_sleeps_and_comes_again() {
        let door = ListenEndpoint::new(ConnectMode::Retry, HERE).expect("a port is free");
        let address = door.address;
        let receiver = thread::spawn(move || {
            thread::sleep(SLEEP / 2);
            door.open().expect("it is ours");
            door.accept().expect("one comes")
        });
        let started = Instant::now();
        // Open until the other side has accepted: whose a connection was that has ended is not known.
        let stream = connect_with_sleeps(address, Duration::ZERO).expect("it is let in");
        assert!(started.elapsed() >= SLEEP, "{:?}", started.elapsed());
        receiver.join().expect("it ends");
        drop(stream);
    }
}
