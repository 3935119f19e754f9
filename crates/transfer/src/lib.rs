//! The transfer engine: files over one TCP connection, each verified before it gets its name.
//!
//! One implementation for the verbs `send` and `receive` and for the workload `transfer.copy`. With a key that both
//! sides have, a connection is authenticated and encrypted ([`send_sealed`], [`receive_sealed`]); without, it is for
//! measurements over loopback, where other users are refused, and for networks that are trusted. Contents are not
//! forced to the disk.
//!
//! Threads are std's and not `oscope_sys::worker`'s, whose workers start at one moment, do a job and end. Here they are
//! scoped ones that share borrowed state (`receiver::small`, `source::walk`), one for each file under way that sleeps
//! until there is more to digest (`digest`), and one that cannot be ended: the resolver's (`addresses`).

mod addresses;
mod admission;
mod arguments;
mod beneath;
pub mod command;
pub mod device;
mod digest;
mod dir_cache;
mod entrance;
mod handshake;
mod holes;
mod key;
mod link;
mod linked;
mod meter;
mod names;
mod observer;
mod options;
mod outcome;
mod partial;
mod receive_methods;
mod receiver;
mod ring;
mod send_methods;
mod sender;
mod source;
mod stop;
mod temporary;
#[cfg(test)]
mod tests;
mod trial;
pub mod verbs;
mod wire;
mod zerocopy;

use oscope_sys::error::Failure;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal};

pub use admission::admit;
pub use dir_cache::Folder;
pub use entrance::{Arrival, Entrance};
pub use key::Key;
pub use options::{
    DEFAULT_CHUNK, DigestKind, ReceiveMethod, ReceiveOptions, SendMethod, SendOptions,
};
pub use outcome::{FileDone, LeftOut, Progress, Received, Sent, Tally};
pub use source::Source;

use link::Link;
use meter::Meter;
use stop::Stop;

/// Send `files` over a plain connection and wait for the receipt.
///
/// # Errors
/// Whatever kept one side from moving, verifying or naming a file, in one line; the other side reports the same reason.
pub fn send(
    stream: TcpStream,
    files: &[Source],
    options: &SendOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Sent, Failure> {
    sender::check(files).map_err(|stop| stop.error)?;
    send_over(
        &mut link(stream, options.stall, options.least_pace)?,
        files,
        options,
        watch,
    )
}

/// As [`send`], over a connection that only who has the key can read or answer.
///
/// # Errors
/// As for [`send`], or the receiver has not proved that it has the key: then it was sent nothing.
pub fn send_sealed(
    stream: TcpStream,
    key: &Key,
    files: &[Source],
    options: &SendOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Sent, Failure> {
    sender::check(files).map_err(|stop| stop.error)?;
    let keys = handshake::open(&stream, key, options.connect_limit)?;
    let mut link = link(stream, options.stall, options.least_pace)?;
    link.seal(keys);
    send_over(&mut link, files, options, watch)
}

fn send_over(
    link: &mut Link,
    files: &[Source],
    options: &SendOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Sent, Failure> {
    let result =
        Meter::new(watch).and_then(|meter| sender::Sender::new(link, options, meter).run(files));
    result.map_err(|stop| report_stop(link, stop))
}

/// Receive what a sender sends over a plain connection, into a folder.
///
/// # Errors
/// As for [`send`]; no file has its name that was not whole and verified.
pub fn receive(
    stream: TcpStream,
    into: &Folder,
    options: &ReceiveOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Received, Failure> {
    receive_over(
        &mut link(stream, options.stall, options.least_pace)?,
        into,
        options,
        watch,
    )
}

/// As [`receive`], from a sender that has proved that it has the key.
///
/// # Errors
/// As for [`receive`].
pub fn receive_sealed(
    arrival: Arrival,
    into: &Folder,
    options: &ReceiveOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Received, Failure> {
    let mut link = link(arrival.stream, options.stall, options.least_pace)?;
    link.seal_after_confirmation(arrival.keys);
    receive_over(&mut link, into, options, watch)
}

fn receive_over(
    link: &mut Link,
    into: &Folder,
    options: &ReceiveOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Received, Failure> {
    link.keep_pace();
    let result = Meter::new(watch)
        .and_then(|meter| receiver::Receiver::new(link, into, options, meter).run());
    result.map_err(|stop| report_stop(link, stop))
}

fn link(stream: TcpStream, stall: Duration, least_pace: u64) -> Result<Link, Failure> {
    ignore_pipe_signal()?;
    Link::new(stream, stall, least_pace).map_err(|stop| stop.error)
}

/// Send the peer the reason why this side stops, where it does not know yet.
fn report_stop(link: &mut Link, stop: Stop) -> Failure {
    if let Some((file, reason)) = stop.to_peer.map(|reason| *reason) {
        let remedy = stop.error.remedy().unwrap_or_default();
        link.refuse(&file, &reason, remedy, stop.useless);
    }
    stop.error
}

/// `sendfile` and `splice` know no `MSG_NOSIGNAL`: a vanished peer must be an error and no signal.
fn ignore_pipe_signal() -> Result<(), Failure> {
    oscope_sys::cancel::handle(Signal::SIGPIPE, SigHandler::SigIgn)
}

/// Connect to a receiver within a limit.
///
/// # Errors
/// Nobody listens there, or nobody answers in time.
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
            Err(_) if oscope_sys::cancel::requested() => {
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
/// The address is not of this machine, or the port is taken.
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
