//! Which key a side of a transfer uses: the options `--key` and `--trusted-network`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use super::key::{Key, VARIABLE};
use oscope_sys::error::Failure;

/// What both verbs take.
#[derive(Args)]
pub struct KeyArguments {
    /// The file with the key that both sides have, of mode 600; at a sender - is standard input, at a receiver a file that is not there is made.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Neither authenticate nor encrypt: whoever reaches the receiver from another machine may send.
    #[arg(long, conflicts_with = "key")]
    trusted_network: bool,
}

/// How a receiver has its key.
pub enum ReceiverKey {
    /// It has none: the network is trusted.
    None,
    /// CleanupGuard for this receiver, to be printed.
    Fresh(Key),
    /// From a file; whether the file was made just now.
    File(Key, bool),
}

impl KeyArguments {
    /// The key of a receiver.
    ///
    /// # Errors
    /// The file cannot be used, or no random numbers are to be had.
    pub fn of_receiver(&self) -> Result<ReceiverKey, Failure> {
        Ok(match &self.key {
            _ if self.trusted_network => ReceiverKey::None,
            None => ReceiverKey::Fresh(Key::new()?),
            Some(path) => {
                let (key, made) = Key::read_or_make(path)?;
                ReceiverKey::File(key, made)
            }
        })
    }

    /// The key of a sender; `None` where the network is trusted.
    ///
    /// # Errors
    /// There is none, or what is given is none.
    pub fn of_sender(&self) -> Result<Option<Key>, Failure> {
        if self.trusted_network {
            return Ok(None);
        }
        match &self.key {
            Some(path) if path == Path::new("-") => {
                let mut text = String::new();
                io::stdin()
                    .take(4096)
                    .read_to_string(&mut text)
                    .map_err(|error| Failure::system("reading the key from standard input", &error))?;
                Key::parse(&text).map(Some)
            }
            Some(path) => Key::read(path).map(Some),
            None => match std::env::var(VARIABLE) {
                Ok(text) => Key::parse(&text).map(Some),
                Err(_) => Err(Failure::usage("no key is given").with_remedy(format!(
                    "set {VARIABLE} to the key that the receiver printed, or give --key FILE (- is standard input)"
                ))),
            },
        }
    }

    /// Refuse them where they have no meaning.
    ///
    /// # Errors
    /// A key was given.
    pub fn refuse_key(&self, beside: &str) -> Result<(), Failure> {
        match self.key {
            Some(_) => Err(Failure::usage(format!("{beside} takes no key"))
                .with_remedy("leave out --key: what goes through a device is not encrypted")),
            None => Ok(()),
        }
    }
}

/// With a key contents pass through memory: other methods are refused, not passed over.
///
/// # Errors
/// The method cannot encrypt.
pub fn check_method(name: &str) -> Result<(), Failure> {
    match name {
        "auto" | "readwrite" => Ok(()),
        _ => Err(Failure::usage(format!("--method {name} cannot encrypt"))
            .with_remedy("leave it out, or add --trusted-network")),
    }
}
