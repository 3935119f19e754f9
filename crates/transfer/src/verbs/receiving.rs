//! The receiving of transfers, by the verb or by the command.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use super::{EngineArguments, device_verb};
use crate::addresses::{listen, resolve};
use crate::admission::admit;
use crate::arguments::{ReceiveArguments, ReceiverKey};
use crate::device::Method;
use crate::device::session::Options as DeviceOptions;
use crate::dir_cache::Folder;
use crate::engine::{receive, receive_sealed};
use crate::entrance::Entrance;
use crate::key::Key;
use crate::observer::{Event, Observer};
use crate::options::ReceiveOptions;
use crate::outcome::{Progress, Received};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// How long a receiver with a device waits for the sender's host to answer.
const DEVICE_CONNECT_LIMIT: Duration = Duration::from_secs(10);

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

impl Receiving<'_> {
    /// Receive until what was asked for is done, or until asked to stop.
    ///
    /// # Errors
    /// `Failure::Request` if the request is wrong; `Failure::Unavailable` without the device that it names;
    /// `Failure::Failed` if nothing can be received, or the one transfer failed.
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

/// Sleep until somebody connects, or a moment.
fn await_sender(listener: &TcpListener) {
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
