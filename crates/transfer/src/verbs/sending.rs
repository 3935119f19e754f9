//! One sending, by the verb or by the command.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{EngineArguments, device_verb};
use crate::addresses::{connect_to_any, resolve_all};
use crate::arguments::SendArguments;
use crate::device::session::Options as DeviceOptions;
use crate::device::{Method, files};
use crate::engine::{send, send_sealed};
use crate::observer::{Event, Observer};
use crate::options::{DigestKind, SendOptions};
use crate::outcome::Progress;
use crate::source::Source;
use oscope_sys::error::Failure;

/// How long a sender with a device waits for the receiver to come: a person may have to start it.
const DEVICE_LIMIT: Duration = Duration::from_secs(600);

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

impl Sending<'_> {
    /// Send, and return whether nothing was left out.
    ///
    /// # Errors
    /// `Failure::Request` if the request is wrong; `Failure::Unavailable` without the device that it names;
    /// `Failure::Failed` if the transfer failed.
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
