//! The verbs `send` and `receive`: the engine behind `oscope transfer`, one JSON object a line on standard output.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;

use super::addresses::{connect_to_any, resolve, resolve_all};
use super::arguments::{ReceiveArguments, ReceiverKey, SendArguments};
use super::observer::{Event, JsonLines, Observer};
use super::options::{chunk, limit};
use super::{
    DEFAULT_CHUNK, DigestKind, Entrance, Folder, Key, Progress, ReceiveOptions, Received,
    SendOptions, Source, admit, listen, receive, receive_sealed, send, send_sealed,
};
use crate::device::session::Options as DeviceOptions;
use crate::device::verb::Verb as DeviceVerb;
use crate::device::{Method, files};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// How long a sender with a device waits for the receiver to come: a person may have to start it.
const DEVICE_LIMIT: Duration = Duration::from_secs(600);
/// How long a receiver with a device waits for the sender's host to answer.
const DEVICE_CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// What only the verbs take, not `oscope transfer`.
#[derive(Args)]
pub struct EngineArguments {
    /// Bytes moved by one call at most; four times as many where it needs no buffer.
    #[arg(long, default_value_t = DEFAULT_CHUNK, value_parser = chunk)]
    chunk: usize,
    /// Report every file at the end.
    #[arg(long)]
    list: bool,
}

impl Default for EngineArguments {
    fn default() -> Self {
        Self {
            chunk: DEFAULT_CHUNK,
            list: false,
        }
    }
}

/// The verb `send`.
#[derive(Args)]
pub struct SendVerb {
    #[command(flatten)]
    arguments: SendArguments,
    #[command(flatten)]
    engine: EngineArguments,
    /// How long connecting may take.
    #[arg(long, value_name = "T", default_value = "10s", value_parser = |text: &str| limit("--connect-limit", text))]
    connect_limit: Duration,
    /// Where a receiver listens; with --device, where to listen for it.
    #[arg(value_name = "ADDR:PORT")]
    address: String,
    /// Files, and folders with all that is below them.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// The verb `receive`.
#[derive(Args)]
pub struct ReceiveVerb {
    #[command(flatten)]
    arguments: ReceiveArguments,
    #[command(flatten)]
    engine: EngineArguments,
    /// The folder that the files go to.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// One sending: what, where to, and how.
pub struct Sending<'a> {
    /// Files and folders.
    pub files: &'a [PathBuf],
    /// Where a receiver listens.
    pub address: &'a str,
    /// How.
    pub arguments: &'a SendArguments,
    /// How, in the engine.
    pub engine: &'a EngineArguments,
    /// How long connecting may take.
    pub connect_limit: Duration,
    /// Hears what happens.
    pub observer: &'a dyn Observer,
}

/// The receiving of one transfer, or of all that come.
pub struct Receiving<'a> {
    /// The folder.
    pub into: &'a Path,
    /// Makes the folder if need be, once nothing else is wrong with the request.
    pub make_folder: fn(&Path) -> Result<(), Failure>,
    /// How.
    pub arguments: &'a ReceiveArguments,
    /// How, in the engine.
    pub engine: &'a EngineArguments,
    /// Hears what happens.
    pub observer: &'a dyn Observer,
}

/// Run the verb `send`.
pub fn run_send(verb: &SendVerb) -> ExitCode {
    let sending = Sending {
        files: &verb.files,
        address: &verb.address,
        arguments: &verb.arguments,
        engine: &verb.engine,
        connect_limit: verb.connect_limit,
        observer: &JsonLines,
    };
    ended(cancel::install().and_then(|()| sending.run()))
}

/// Run the verb `receive`.
pub fn run_receive(verb: &ReceiveVerb) -> ExitCode {
    let receiving = Receiving {
        into: &verb.into,
        // The verb takes one that is there.
        make_folder: |_| Ok(()),
        arguments: &verb.arguments,
        engine: &verb.engine,
        observer: &JsonLines,
    };
    ended(cancel::install().and_then(|()| receiving.run().map(|()| true)))
}

/// The exit status, by whether all is done.
fn ended(result: Result<bool, Failure>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            JsonLines.hear(Event::Failed(&error));
            ExitCode::from(if error.is_request() { 2 } else { 1 })
        }
    }
}

impl Sending<'_> {
    /// Send, and return whether nothing was left out.
    ///
    /// # Errors
    /// The request is wrong, or the transfer failed.
    pub fn run(&self) -> Result<bool, Failure> {
        let (arguments, observer) = (self.arguments, self.observer);
        arguments.check()?;
        let addresses = resolve_all(self.address)?;
        let device = arguments.common.device;
        let mut gathered = Source::gather(self.files, arguments.links, &arguments.skip)?;
        match device {
            Some(_) => files::keep(&mut gathered)?,
            None => gathered.join_names(),
        }
        for text in &gathered.notes {
            observer.note(text);
        }
        for left in &gathered.left_out {
            observer.hear(Event::Progress(Progress::Left(left)));
        }
        let complete = gathered.left_out.is_empty();
        if let Some(method) = device {
            return self
                .by_device(method, addresses[0], &gathered.files)
                .map(|()| complete);
        }
        let options = SendOptions {
            method: arguments.method,
            digest: arguments.digest(),
            chunk: self.engine.chunk,
            stall: arguments.common.stall,
            connect_limit: self.connect_limit,
            ..SendOptions::default()
        };
        let key = arguments.key()?;
        let (stream, address) = connect_to_any(&addresses, options.connect_limit)?;
        observer.hear(Event::Peer(address));
        let mut watch = |progress: Progress| observer.hear(Event::Progress(progress));
        let sent = match &key {
            Some(key) => send_sealed(stream, key, &gathered.files, &options, &mut watch)?,
            None => send(stream, &gathered.files, &options, &mut watch)?,
        };
        observer.conclude(self.engine.list, &sent.files, &sent.here, Some(&sent.there));
        Ok(complete && sent.left_out.is_empty())
    }

    /// As `run`; here the receiver connects.
    fn by_device(
        &self,
        method: Method,
        address: SocketAddr,
        files: &[Source],
    ) -> Result<(), Failure> {
        if files.is_empty() {
            return Err(Failure::failed("no file is left to send"));
        }
        let options = DeviceOptions {
            method,
            verify: self.arguments.digest() != DigestKind::None,
            stall: self.arguments.common.stall,
            limit: DEVICE_LIMIT,
            descriptors: self.arguments.common.descriptors,
        };
        device_verb(options, self.engine, self.observer)?.send(address, files)
    }
}

impl Receiving<'_> {
    /// Receive until what was asked for is done, or until asked to stop.
    ///
    /// # Errors
    /// The request is wrong, nothing can be received, or the one transfer failed.
    pub fn run(&self) -> Result<(), Failure> {
        self.arguments.check()?;
        if let Some(method) = self.arguments.common.device {
            return self.by_device(method, &self.folder()?);
        }
        // An address that is taken makes no key, and neither it nor a wrong key file a folder.
        let listener = listen(resolve(&self.arguments.listen)?)?;
        let key = self.arguments.key()?;
        let folder = self.folder()?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::system("the address listened on", &error))?;
        self.observer.hear(Event::Listening(address));
        match &key {
            ReceiverKey::None => self.plainly(&listener, address, &folder),
            ReceiverKey::Fresh(key) => {
                self.observer.hear(Event::Key(&key.text(), address));
                self.sealed(&listener, key, &folder)
            }
            ReceiverKey::File(key, made) => {
                if *made {
                    self.observer.note(
                        "a key file was made: copy it to the sender, by scp or another safe way",
                    );
                }
                self.sealed(&listener, key, &folder)
            }
        }
    }

    /// The folder, made if need be.
    fn folder(&self) -> Result<Folder, Failure> {
        (self.make_folder)(self.into)?;
        Folder::open(self.into)
    }

    /// Receive from those who have the key. With `--once` a transfer that fails is not the one: its sender may try
    /// again.
    fn sealed(&self, listener: &TcpListener, key: &Key, folder: &Folder) -> Result<(), Failure> {
        let options = self.options();
        let mut entrance = Entrance::new(listener, key);
        let refused = |text: &str| self.observer.note(text);
        while let Some(arrived) = entrance.next(&refused) {
            let received = arrived.and_then(|arrival| {
                self.observer.hear(Event::Peer(arrival.peer));
                receive_sealed(arrival, folder, &options, &mut self.watch())
            });
            match received {
                Ok(received) => {
                    self.conclude(&received);
                    if self.arguments.once {
                        return Ok(());
                    }
                }
                Err(error) => self.observer.hear(Event::Failed(&error)),
            }
        }
        self.stopped()
    }

    /// Receive from whoever may send in a trusted network.
    fn plainly(
        &self,
        listener: &TcpListener,
        address: SocketAddr,
        folder: &Folder,
    ) -> Result<(), Failure> {
        if !address.ip().to_canonical().is_loopback() {
            self.observer.note(&format!(
                "whoever reaches {address} from another machine may send; from this one only the same user, and root"
            ));
        }
        while let Some(result) = self.serve(listener, folder) {
            match result {
                result if self.arguments.once => return result,
                Ok(()) => {}
                Err(error) => self.observer.hear(Event::Failed(&error)),
            }
        }
        self.stopped()
    }

    /// As `run`; here the sender listens, and is waited for.
    fn by_device(&self, method: Method, folder: &Folder) -> Result<(), Failure> {
        let options = DeviceOptions {
            method,
            verify: !self.arguments.no_verify,
            stall: self.arguments.common.stall,
            limit: DEVICE_CONNECT_LIMIT,
            descriptors: self.arguments.common.descriptors,
        };
        let verb = device_verb(options, self.engine, self.observer)?;
        let address = resolve(&self.arguments.listen)?;
        verb.receive(address, folder, self.arguments.once)
    }

    /// Wait for a sender and serve it; `None` if asked to stop instead.
    fn serve(&self, listener: &TcpListener, folder: &Folder) -> Option<Result<(), Failure>> {
        let options = self.options();
        let (stream, peer) = loop {
            if cancel::requested() {
                return None;
            }
            match listener.accept() {
                Ok((stream, peer)) => match admit(stream, &options) {
                    Ok(stream) => break (stream, peer),
                    // It is no transfer: `--once` goes on waiting for one.
                    Err(error) => self.observer.note(&error.to_string()),
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
        self.observer.hear(Event::Peer(peer));
        Some(
            receive(stream, folder, &options, &mut self.watch())
                .map(|received| self.conclude(&received)),
        )
    }

    fn watch(&self) -> impl FnMut(Progress) {
        |progress| self.observer.hear(Event::Progress(progress))
    }

    fn conclude(&self, received: &Received) {
        self.observer
            .conclude(self.engine.list, &received.files, &received.here, None);
    }

    /// What it is to have been asked to stop: for the one transfer that was waited for it is a failure.
    fn stopped(&self) -> Result<(), Failure> {
        match self.arguments.once {
            true => Err(Failure::failed("interrupted")),
            false => Ok(()),
        }
    }

    fn options(&self) -> ReceiveOptions {
        ReceiveOptions {
            method: self.arguments.method,
            verify: !self.arguments.no_verify,
            chunk: self.engine.chunk,
            stall: self.arguments.common.stall,
            ..ReceiveOptions::default()
        }
    }
}

/// What only the engine can do is refused beside a device, not passed over.
fn device_verb<'a>(
    options: DeviceOptions,
    engine: &EngineArguments,
    observer: &'a dyn Observer,
) -> Result<DeviceVerb<'a>, Failure> {
    match engine.chunk {
        DEFAULT_CHUNK => Ok(DeviceVerb {
            options,
            list: engine.list,
            observer,
        }),
        _ => Err(
            Failure::usage("--chunk is not for a transfer by --device as it is given")
                .with_remedy("leave it out"),
        ),
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
