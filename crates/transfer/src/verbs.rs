//! The verbs `send` and `receive`: the engine behind `oscope transfer`, one JSON object a line on standard output.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::addresses::{connect_to_any, resolve, resolve_all};
use super::key_options::{KeyArguments, ReceiverKey, check_method};
use super::names::shown;
use super::options::{chunk, seconds};
use super::report::{list, only_digest, report, report_error, report_progress, report_received};
use super::source::Links;
use super::{
    DEFAULT_CHUNK, DigestKind, Entrance, Folder, Key, ReceiveMethod, ReceiveOptions, SendMethod,
    SendOptions, Source, admit, listen, receive, receive_sealed, send, send_sealed,
};
use crate::device::Method;
use crate::device::session::Options as DeviceOptions;
use crate::device::verb::{DeviceArguments, Verb};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// How long a sender with a device waits for the receiver to come: a person may have to start it.
const DEVICE_LIMIT: Duration = Duration::from_secs(600);
/// How long a receiver with a device waits for the sender's host to answer.
const DEVICE_CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// What `send` takes.
#[derive(Args)]
pub struct SendArguments {
    /// By which system calls.
    #[arg(long, value_enum, default_value_t = SendMethod::Auto)]
    method: SendMethod,
    /// What each file is verified with [default: blake3; with --device sha512, and none other].
    #[arg(long, value_enum)]
    digest: Option<DigestKind>,
    /// Bytes moved by one call at most; four times as many where it needs no buffer.
    #[arg(long, default_value_t = DEFAULT_CHUNK, value_parser = chunk)]
    chunk: usize,
    /// Seconds without progress that are an error; so is contents' falling ten times as long behind 1024 bytes a second.
    #[arg(long, default_value = "30", value_parser = seconds)]
    stall: Duration,
    /// Seconds that connecting may take.
    #[arg(long, default_value = "10", value_parser = seconds)]
    connect_limit: Duration,
    /// What to do with symbolic links in the folders.
    #[arg(long, value_enum, default_value_t = Links::Keep)]
    links: Links,
    /// Leave out what has this name, or this path from a folder given on, and do not fail for it.
    #[arg(long, value_name = "NAME")]
    skip: Vec<OsString>,
    /// Report every file at the end.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Where a receiver listens; with --device, where to listen for it.
    #[arg(value_name = "ADDR:PORT")]
    address: String,
    /// Files, and folders with all that is below them.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// What `receive` takes.
#[derive(Args)]
pub struct ReceiveArguments {
    /// By which system calls.
    #[arg(long, value_enum, default_value_t = ReceiveMethod::Auto)]
    method: ReceiveMethod,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Where to listen; port 0 has one chosen. With --device, where the sender listens, or will.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7025")]
    listen: String,
    /// Serve one connection, and end.
    #[arg(long)]
    once: bool,
    /// Take files without verifying them.
    #[arg(long)]
    no_verify: bool,
    /// Bytes moved by one call at most; four times as many where it needs no buffer.
    #[arg(long, default_value_t = DEFAULT_CHUNK, value_parser = chunk)]
    chunk: usize,
    /// Seconds without progress that are an error; so is contents' falling ten times as long behind 1024 bytes a second.
    #[arg(long, default_value = "30", value_parser = seconds)]
    stall: Duration,
    /// Report every file at the end.
    #[arg(long)]
    list: bool,
    /// The folder that the files go to.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// Run the verb `send`.
pub fn run_send(arguments: &SendArguments) -> ExitCode {
    match prepare().and_then(|()| sending(arguments)) {
        Ok(false) => ExitCode::FAILURE,
        result => ended(result.map(|_| ())),
    }
}

/// Run the verb `receive`.
pub fn run_receive(arguments: &ReceiveArguments) -> ExitCode {
    ended(prepare().and_then(|()| receiving(arguments)))
}

fn prepare() -> Result<(), Failure> {
    cancel::install()
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report_error(&error);
            match error.is_request() {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

/// Send, and return whether nothing was left out.
fn sending(arguments: &SendArguments) -> Result<bool, Failure> {
    let addresses = resolve_all(&arguments.address)?;
    let links = match arguments.device.device {
        // A device moves regular files alone.
        Some(_) => Links::Skip,
        None => arguments.links,
    };
    let mut gathered = Source::gather(&arguments.files, links, &arguments.skip)?;
    if arguments.device.device.is_none() {
        gathered.join_names();
    }
    let complete = gathered.left_out.is_empty();
    for text in &gathered.notes {
        report(&json!({"event": "note", "text": text}));
    }
    for (name, reason) in &gathered.left_out {
        report(&json!({"event": "left", "name": shown(name), "reason": reason}));
    }
    if let Some(method) = arguments.device.device {
        arguments.key.refuse_key("--device")?;
        gathered.files.retain(|file| !file.is_folder());
        let verify = arguments.digest != Some(DigestKind::None);
        let digest = arguments.digest.unwrap_or(DigestKind::Sha512);
        refuse_engine_options(&[
            ("--method", arguments.method != SendMethod::Auto),
            ("--chunk", arguments.chunk != DEFAULT_CHUNK),
            ("--digest", verify && digest != DigestKind::Sha512),
        ])?;
        let verb = Verb {
            options: DeviceOptions {
                method,
                verify,
                stall: arguments.stall,
                limit: DEVICE_LIMIT,
                descriptors: arguments.device.descriptors,
            },
            list: arguments.list,
            report: &report,
            progress: &report_progress,
        };
        return verb.send(addresses[0], &gathered.files).map(|()| complete);
    }
    let options = SendOptions {
        method: arguments.method,
        digest: arguments.digest.unwrap_or(DigestKind::Blake3),
        chunk: arguments.chunk,
        stall: arguments.stall,
        connect_limit: arguments.connect_limit,
        ..SendOptions::default()
    };
    let key = arguments.key.of_sender()?;
    if key.is_some() {
        check_method(arguments.method.name())?;
    }
    let (stream, address) = connect_to_any(&addresses, options.connect_limit)?;
    report(&json!({"event": "peer", "address": address.to_string()}));
    let sent = match &key {
        Some(key) => send_sealed(stream, key, &gathered.files, &options, &mut report_progress)?,
        None => send(stream, &gathered.files, &options, &mut report_progress)?,
    };
    if arguments.list {
        list(&sent.files);
    }
    report(
        &json!({"event": "done", "here": sent.here, "there": sent.there, "digest": only_digest(&sent.files)}),
    );
    Ok(complete)
}

fn receiving(arguments: &ReceiveArguments) -> Result<(), Failure> {
    let folder = Folder::open(&arguments.into)?;
    if let Some(method) = arguments.device.device {
        return receiving_by_device(method, &folder, arguments);
    }
    let key = arguments.key.of_receiver()?;
    if !matches!(key, ReceiverKey::None) {
        check_method(arguments.method.name())?;
    }
    let listener = listen(resolve(&arguments.listen)?)?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::system("the address listened on", &error))?;
    report(&json!({"event": "listening", "address": address.to_string()}));
    match &key {
        ReceiverKey::None => receiving_plainly(&listener, address, &folder, arguments),
        ReceiverKey::Fresh(key) => {
            report(&json!({"event": "key", "text": key.text(), "address": address.to_string()}));
            receiving_sealed(&listener, key, &folder, arguments)
        }
        ReceiverKey::File(key, made) => {
            if *made {
                let text = "a key file was made: copy it to the sender, by scp or another safe way";
                report(&json!({"event": "note", "text": text}));
            }
            receiving_sealed(&listener, key, &folder, arguments)
        }
    }
}

/// Receive from those who have the key. With `--once` a transfer that fails is not the one: its sender may try again.
fn receiving_sealed(
    listener: &TcpListener,
    key: &Key,
    folder: &Folder,
    arguments: &ReceiveArguments,
) -> Result<(), Failure> {
    let options = receive_options(arguments);
    let mut entrance = Entrance::new(listener, key);
    let refused = |text: &str| report(&json!({"event": "note", "text": text}));
    while let Some(arrived) = entrance.next(&refused) {
        let received = arrived.and_then(|arrival| {
            report(&json!({"event": "peer", "address": arrival.peer.to_string()}));
            receive_sealed(arrival, folder, &options, &mut report_progress)
        });
        match received {
            Ok(received) => {
                report_received(&received, arguments.list);
                if arguments.once {
                    return Ok(());
                }
            }
            Err(error) => report_error(&error),
        }
    }
    match arguments.once {
        true => Err(Failure::failed("interrupted")),
        false => Ok(()),
    }
}

/// Receive from whoever may send in a trusted network.
fn receiving_plainly(
    listener: &TcpListener,
    address: SocketAddr,
    folder: &Folder,
    arguments: &ReceiveArguments,
) -> Result<(), Failure> {
    if !address.ip().to_canonical().is_loopback() {
        let text = format!(
            "whoever reaches {address} from another machine may send; from this one only the same user, and root"
        );
        report(&json!({"event": "note", "text": text}));
    }
    loop {
        let Some(result) = serve(listener, folder, arguments) else {
            return match arguments.once {
                true => Err(Failure::failed("interrupted")),
                false => Ok(()),
            };
        };
        match result {
            result if arguments.once => return result,
            Ok(()) => {}
            Err(error) => report_error(&error),
        }
    }
}

/// As `receiving`; here the sender listens, and is waited for.
fn receiving_by_device(
    method: Method,
    folder: &Folder,
    arguments: &ReceiveArguments,
) -> Result<(), Failure> {
    arguments.key.refuse_key("--device")?;
    refuse_engine_options(&[
        ("--method", arguments.method != ReceiveMethod::Auto),
        ("--chunk", arguments.chunk != DEFAULT_CHUNK),
    ])?;
    let address = resolve(&arguments.listen)?;
    let verb = Verb {
        options: DeviceOptions {
            method,
            verify: !arguments.no_verify,
            stall: arguments.stall,
            limit: DEVICE_CONNECT_LIMIT,
            descriptors: arguments.device.descriptors,
        },
        list: arguments.list,
        report: &report,
        progress: &report_progress,
    };
    verb.receive(address, folder, arguments.once, &report_error)
}

/// What only the engine can do is refused beside a device, not passed over.
fn refuse_engine_options(options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is not for a transfer by --device as it is given"
        ))
        .with_remedy("leave it out")),
        None => Ok(()),
    }
}

/// Wait for a sender and serve it; `None` if the probe is asked to stop instead.
fn serve(
    listener: &TcpListener,
    folder: &Folder,
    arguments: &ReceiveArguments,
) -> Option<Result<(), Failure>> {
    let options = receive_options(arguments);
    let (stream, peer) = loop {
        if cancel::requested() {
            return None;
        }
        match listener.accept() {
            Ok((stream, peer)) => match admit(stream, &options) {
                Ok(stream) => break (stream, peer),
                // It is no transfer: `--once` goes on waiting for one.
                Err(error) => report(&json!({"event": "note", "text": error.to_string()})),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => await_sender(listener),
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                // Such as no descriptors left: not an error of one connection, and no reason for a busy loop.
                thread::sleep(Duration::from_millis(100));
                return Some(Err(Failure::system("accepting a connection", &error)));
            }
        }
    };
    report(&json!({"event": "peer", "address": peer.to_string()}));
    Some(
        receive(stream, folder, &options, &mut report_progress)
            .map(|received| report_received(&received, arguments.list)),
    )
}

fn receive_options(arguments: &ReceiveArguments) -> ReceiveOptions {
    ReceiveOptions {
        method: arguments.method,
        verify: !arguments.no_verify,
        chunk: arguments.chunk,
        stall: arguments.stall,
        ..ReceiveOptions::default()
    }
}

/// Sleep until somebody connects, or a moment.
fn await_sender(listener: &TcpListener) {
    use nix::poll::{PollFd, PollFlags, poll};
    use std::os::fd::AsFd;
    let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    // Whatever woke it, the caller looks again.
    let _ = poll(&mut wanted, 250_u16);
}

/// The connection vanished before it was accepted, or a signal came.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
