//! One transfer over one connection, by either side.

use std::net::TcpStream;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal};

use super::dir_cache::Folder;
use super::entrance::Arrival;
use super::handshake;
use super::key::Key;
use super::link::Link;
use super::meter::Meter;
use super::options::{ReceiveOptions, SendOptions};
use super::outcome::{Progress, Received, Sent};
use super::receiver::Receiver;
use super::sender::{self, Sender};
use super::source::Source;
use super::stop::Stop;
use oscope_sys::error::Failure;

/// Send `files` over a plain connection and wait for the receipt.
///
/// # Errors
/// `Failure::Failed`: whatever kept one side from moving, verifying or naming a file; the other side reports the same
/// reason.
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
    let result = Meter::new(watch).and_then(|meter| Sender::new(link, options, meter).run(files));
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
    let result =
        Meter::new(watch).and_then(|meter| Receiver::new(link, into, options, meter).run());
    result.map_err(|stop| report_stop(link, stop))
}

fn link(stream: TcpStream, stall: Duration, least_pace: u64) -> Result<Link, Failure> {
    ignore_pipe_signal()?;
    Link::new(stream, stall, least_pace).map_err(|stop| stop.error)
}

/// Send the peer the reason why this side stops, where it does not know yet.
pub fn report_stop(link: &mut Link, stop: Stop) -> Failure {
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
