//! The verbs `send` and `receive`: the engine behind `oscope transfer`, one JSON object a line on standard output.

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::addresses::{connect_to_any, resolve, resolve_all};
use super::{
    Blame, DEFAULT_CHUNK, DigestKind, FileDone, Folder, Progress, ReceiveMethod, ReceiveOptions,
    SendMethod, SendOptions, Source, TransferError, admit, listen, receive, send,
};
use crate::cancel;
use crate::transfer_device::Method;
use crate::transfer_device::session::Options as DeviceOptions;
use crate::transfer_device::verb::{DeviceArguments, Verb};

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
    /// Report every file at the end.
    #[arg(long)]
    list: bool,
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

fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    match digits.parse().map(Duration::try_from_secs_f64) {
        Ok(Ok(time)) if time >= Duration::from_millis(1) => Ok(time),
        _ => Err("a number of seconds, 0.001 or more".into()),
    }
}

fn chunk(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if (4096..=64 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("bytes, 4096 to 67108864".into()),
    }
}

/// Run the verb `send`.
pub fn run_send(arguments: &SendArguments) -> ExitCode {
    ended(prepare().and_then(|()| sending(arguments)))
}

/// Run the verb `receive`.
pub fn run_receive(arguments: &ReceiveArguments) -> ExitCode {
    ended(prepare().and_then(|()| receiving(arguments)))
}

fn prepare() -> Result<(), TransferError> {
    cancel::install().map_err(|failure| TransferError::failed(failure.to_string()))
}

fn ended(result: Result<(), TransferError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report_error(&error);
            match error.kind {
                Blame::Usage => ExitCode::from(2),
                Blame::Failed => ExitCode::FAILURE,
            }
        }
    }
}

fn sending(arguments: &SendArguments) -> Result<(), TransferError> {
    let addresses = resolve_all(&arguments.address)?;
    let gathered = Source::gather(&arguments.files)?;
    for text in &gathered.notes {
        report(&json!({"event": "note", "text": text}));
    }
    if let Some(method) = arguments.device.device {
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
        return verb.send(addresses[0], &gathered.files);
    }
    let options = SendOptions {
        method: arguments.method,
        digest: arguments.digest.unwrap_or(DigestKind::Blake3),
        chunk: arguments.chunk,
        stall: arguments.stall,
        connect_limit: arguments.connect_limit,
        ..SendOptions::default()
    };
    let (stream, address) = connect_to_any(&addresses, options.connect_limit)?;
    report(&json!({"event": "peer", "address": address.to_string()}));
    let sent = send(stream, &gathered.files, &options, &mut report_progress)?;
    if arguments.list {
        list(&sent.files);
    }
    report(
        &json!({"event": "done", "here": sent.here, "there": sent.there, "digest": only_digest(&sent.files)}),
    );
    Ok(())
}

fn receiving(arguments: &ReceiveArguments) -> Result<(), TransferError> {
    let folder = Folder::open(&arguments.into)?;
    if let Some(method) = arguments.device.device {
        return receiving_by_device(method, &folder, arguments);
    }
    let listener = listen(resolve(&arguments.listen)?)?;
    let address = listener
        .local_addr()
        .map_err(|error| TransferError::system("the address listened on", &error))?;
    report(&json!({"event": "listening", "address": address.to_string()}));
    if !address.ip().to_canonical().is_loopback() {
        let text = format!(
            "whoever reaches {address} from another machine may send; from this one only the same user, and root"
        );
        report(&json!({"event": "note", "text": text}));
    }
    loop {
        let Some(result) = serve(&listener, &folder, arguments) else {
            return match arguments.once {
                true => Err(TransferError::failed("interrupted")),
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
) -> Result<(), TransferError> {
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
fn refuse_engine_options(options: &[(&str, bool)]) -> Result<(), TransferError> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(TransferError::usage(format!(
            "{option} is not for a transfer by --device as it is given"
        ))
        .remedy("leave it out")),
        None => Ok(()),
    }
}

/// Wait for a sender and serve it; `None` if the probe is asked to stop instead.
fn serve(
    listener: &TcpListener,
    folder: &Folder,
    arguments: &ReceiveArguments,
) -> Option<Result<(), TransferError>> {
    let options = ReceiveOptions {
        method: arguments.method,
        verify: !arguments.no_verify,
        chunk: arguments.chunk,
        stall: arguments.stall,
        ..ReceiveOptions::default()
    };
    let (stream, peer) = loop {
        if cancel::requested() {
            return None;
        }
        match listener.accept() {
            Ok((stream, peer)) => match admit(stream, &options) {
                Ok(stream) => break (stream, peer),
                // It is no transfer: `--once` goes on waiting for one.
                Err(error) => report(&json!({"event": "note", "text": error.message})),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => await_sender(listener),
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                // Such as no descriptors left: not an error of one connection, and no reason for a busy loop.
                thread::sleep(Duration::from_millis(100));
                return Some(Err(TransferError::system("accepting a connection", &error)));
            }
        }
    };
    report(&json!({"event": "peer", "address": peer.to_string()}));
    Some(receive(stream, folder, &options, &mut report_progress).map(|received| {
        if arguments.list {
            list(&received.files);
        }
        let digest = only_digest(&received.files);
        report(&json!({"event": "done", "here": received.here, "there": Value::Null, "digest": digest}));
    }))
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

/// The digest of the file, where there was one only.
fn only_digest(files: &[FileDone]) -> Option<&str> {
    match files {
        [one] => one.digest.as_deref(),
        _ => None,
    }
}

fn list(files: &[FileDone]) {
    for file in files {
        report(&json!({
            "event": "file", "name": file.name, "bytes": file.bytes, "digest": file.digest, "skipped": file.skipped,
        }));
    }
}

fn report_progress(progress: Progress) {
    match progress {
        Progress::Moved {
            file,
            files,
            of_files,
            bytes,
            of_bytes,
        } => report(&json!({
            "event": "progress", "file": file, "files": files, "of_files": of_files, "bytes": bytes, "of_bytes": of_bytes,
        })),
        Progress::Note(text) => report(&json!({"event": "note", "text": text})),
    }
}

fn report_error(error: &TransferError) {
    report(
        &json!({"event": "error", "message": error.message, "remedy": error.remedy, "kind": error.kind}),
    );
}

/// One line on standard output; who no longer reads it wants the transfer to end.
fn report(event: &Value) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{event}").and_then(|()| out.flush()).is_err() {
        cancel::request();
    }
}
