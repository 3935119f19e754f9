//! Where a peer is: the addresses of a name, and the one that takes a connection.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// How long a name's addresses are waited for.
const RESOLVE_LIMIT: Duration = Duration::from_secs(10);

/// The first address of a name.
///
/// # Errors
/// As for [`resolve_all`].
pub fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    resolve_all(text).map(|addresses| addresses[0])
}

/// All addresses of a name, at least one.
///
/// # Errors
/// `Failure::Request` if the name has no address; `Failure::Failed` if the name server does not answer within 10 s, no
/// thread is to be had, or a signal asked to stop.
pub fn resolve_all(text: &str) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let wrong = |reason: String| {
        Failure::usage(format!("{text}: {reason}"))
            .with_remedy("give an address and a port, such as 127.0.0.1:7025")
    };
    // The resolver has no limit of its own, and does not end when it is asked to.
    let (answers, answer) = mpsc::sync_channel(1);
    let name = text.to_owned();
    let ask = move || {
        let found = name.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        // Nobody listens any more where it took too long.
        let _ = answers.send(found);
    };
    thread::Builder::new()
        .name("resolver".into())
        .spawn(ask)
        .map_err(|error| Failure::system("resolving", &error))?;
    let since = Instant::now();
    while since.elapsed() < RESOLVE_LIMIT && !cancel::requested() {
        match answer.recv_timeout(Duration::from_millis(100)) {
            Ok(Ok(found)) if found.is_empty() => return Err(wrong("no such address".into())),
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => return Err(wrong(oscope_sys::error::errno_message(&error))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(wrong("not resolved".into())),
        }
    }
    Err(match cancel::requested() {
        true => Failure::failed("interrupted"),
        false => Failure::failed(format!(
            "{text}: no answer with its address within {} s",
            RESOLVE_LIMIT.as_secs()
        ))
        .with_remedy("give an address in numbers"),
    })
}

/// Connect to the first of a receiver's addresses that takes it, all within the limit: the first one's error if none
/// does.
///
/// # Errors
/// As for [`connect`].
pub fn connect_to_any(
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let since = Instant::now();
    let mut first = None;
    for (tried, &address) in addresses.iter().enumerate() {
        let left = limit.saturating_sub(since.elapsed());
        // One that does not answer leaves time for the others.
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
        match connect(address, share) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) if cancel::requested() => return Err(error),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| Failure::failed("connecting: no address")))
}

/// Connect to a receiver within a limit.
///
/// # Errors
/// `Failure::Failed` with the errno of connect(2), such as `ECONNREFUSED`; without one if nobody answers in time, or a
/// signal asked to stop.
pub fn connect(address: SocketAddr, limit: Duration) -> Result<TcpStream, Failure> {
    let since = Instant::now();
    loop {
        let left = limit.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(Failure::failed(format!(
                "connecting to {address}: no answer within {} s",
                limit.as_secs_f64()
            )));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(_) if cancel::requested() => {
                return Err(Failure::failed("interrupted"));
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::TimedOut
                ) => {}
            Err(error) => {
                return Err(Failure::system(&format!("connecting to {address}"), &error)
                    .with_remedy("start `oscope transfer receive` there, and check the address"));
            }
        }
    }
}

/// Listen for senders, without blocking in `accept`; port 0 has the kernel choose one.
///
/// # Errors
/// `Failure::Failed` with the errno of bind(2): `EADDRINUSE` if the port is taken, `EADDRNOTAVAIL` if the address is
/// not of this machine.
pub fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let doing = format!("listening on {address}");
        Failure::system(&doing, &error)
            .with_remedy("choose another --listen, or end what listens there")
    })?;
    listener
        .set_nonblocking(true)
        .map_err(|error| Failure::system("preparing to listen", &error))?;
    Ok(listener)
}
