//! The options of `oscope transfer` and of the verbs: what each takes, and what excludes what.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::key::{Key, VARIABLE};
use super::options::{DigestKind, ReceiveMethod, SendMethod, limit, quoted};
use super::source::Links;
use crate::device::Method;
use oscope_sys::error::Failure;

/// What `send` takes beside what to send and where to.
#[derive(Args)]
pub struct SendArguments {
    /// How files are sent; auto: what costs the least CPU time here.
    #[arg(long, value_enum, default_value_t = SendMethod::Auto)]
    pub method: SendMethod,
    /// What the receiver verifies each file by [default: with a key xxh3, against accidents alone, as the key
    /// authenticates what is sent; with --trusted-network blake3; with --device sha512].
    #[arg(long, value_enum)]
    pub digest: Option<DigestKind>,
    /// Send no digests; the receiver needs this option too.
    #[arg(long)]
    pub no_verify: bool,
    /// Make links in the folders anew, send what they lead to, or leave them out.
    #[arg(long, value_enum, default_value_t = Links::Keep)]
    pub links: Links,
    /// Leave out what has this name, or this path; repeatable.
    #[arg(long, value_name = "NAME")]
    pub skip: Vec<OsString>,
    /// The receiver's key: a file of mode 600, or - for standard input [default: the environment variable
    /// OSCOPE_TRANSFER_KEY].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArguments,
}

/// What `receive` takes beside the folder.
#[derive(Args)]
pub struct ReceiveArguments {
    /// Where senders connect; port 0 takes a free one and prints it. Other hosts need an address of this host in their
    /// network here. With --device: where the sender listens, or will.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:7025",
        value_parser = |text: &str| address("--listen", text)
    )]
    pub listen: String,
    /// End after one transfer [default: go on until Ctrl-C].
    #[arg(long)]
    pub once: bool,
    /// How files are written; auto: what costs the least CPU time here.
    #[arg(long, value_enum, default_value_t = ReceiveMethod::Auto)]
    pub method: ReceiveMethod,
    /// Take files from a sender that sends no digests.
    #[arg(long)]
    pub no_verify: bool,
    /// Take files from who has the key in this file (mode 600; one that is not there is made) [default: a new key,
    /// printed on standard error].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArguments,
}

/// What both take.
#[derive(Args)]
pub struct CommonArguments {
    /// Give up after this long without progress, or ten times as far behind 1 KiB/s in a file.
    #[arg(long, value_name = "T", default_value = "30s", value_parser = |text: &str| limit("--stall", text))]
    pub stall: Duration,
    /// Neither authenticate nor encrypt; both sides need this option.
    #[arg(long)]
    pub trusted_network: bool,
    /// Go through the kernel modules' device, by calls or by its mapped area. The roles turn: the sender listens, and
    /// the receiver connects to it.
    #[arg(long, value_enum)]
    pub device: Option<Method>,
    /// With --device: print the descriptors of the mapped pages.
    #[arg(long)]
    pub descriptors: bool,
}

/// How a receiver has its key.
pub enum ReceiverKey {
    /// It has none: the network is trusted.
    None,
    /// Made for this receiver, to be printed.
    Fresh(Key),
    /// From a file; whether the file was made just now.
    File(Key, bool),
}

impl SendArguments {
    /// Refuse what excludes each other.
    ///
    /// # Errors
    /// `Failure::Request`: the options contradict each other.
    pub fn check(&self) -> Result<(), Failure> {
        if let (true, Some(digest)) = (self.no_verify, self.digest) {
            return Err(exclusive("--no-verify", &named("--digest", &digest)));
        }
        if let (Some(device), Some(digest)) = (self.common.device, self.digest) {
            if !matches!(digest, DigestKind::Sha512 | DigestKind::None) {
                let text = format!(
                    "--digest: {} verifies by sha512, not {}",
                    named("--device", &device),
                    name(&digest)
                );
                return Err(Failure::usage(text).with_remedy("leave it out"));
            }
        }
        self.common.check(&self.method, self.key.as_deref())
    }

    /// What files are verified by.
    pub fn digest(&self) -> DigestKind {
        match (self.no_verify, self.common.device) {
            (true, _) => DigestKind::None,
            (false, Some(_)) => self.digest.unwrap_or(DigestKind::Sha512),
            // What comes over a keyed connection is authenticated; of a plain one the digest is all there is.
            (false, None) if self.common.trusted_network => {
                self.digest.unwrap_or(DigestKind::Blake3)
            }
            (false, None) => self.digest.unwrap_or(DigestKind::Xxh3),
        }
    }

    /// The key; `None` where the network is trusted.
    ///
    /// # Errors
    /// `Failure::Request` if there is no key, what is given is none, or the method cannot encrypt; `Failure::Failed` if
    /// standard input or the key file cannot be read.
    pub fn key(&self) -> Result<Option<Key>, Failure> {
        if self.common.trusted_network {
            return Ok(None);
        }
        let key = match &self.key {
            Some(path) if path == Path::new("-") => {
                let mut text = String::new();
                io::stdin()
                    .take(4096)
                    .read_to_string(&mut text)
                    .map_err(|error| Failure::system("reading the key from standard input", &error))?;
                Key::parse(&text)
            }
            Some(path) => Key::read(path),
            None => match std::env::var(VARIABLE) {
                Ok(text) => Key::parse(&text),
                Err(_) => Err(Failure::usage("no key is given").with_remedy(format!(
                    "set {VARIABLE} to the key that the receiver printed, or give --key FILE (- is standard input)"
                ))),
            },
        }?;
        check_method(self.method.name())?;
        Ok(Some(key))
    }
}

impl ReceiveArguments {
    /// Refuse what excludes each other.
    ///
    /// # Errors
    /// `Failure::Request`: the options contradict each other.
    pub fn check(&self) -> Result<(), Failure> {
        if self.key.as_deref() == Some(Path::new("-")) {
            return Err(Failure::usage("--key - is for send alone")
                .with_remedy("name a file, which is made if it is not there"));
        }
        self.common.check(&self.method, self.key.as_deref())
    }

    /// The key.
    ///
    /// # Errors
    /// `Failure::Request` if the key file cannot be used or made, or the method cannot encrypt; `Failure::Failed` if
    /// the disk is full or no random numbers are to be had.
    pub fn key(&self) -> Result<ReceiverKey, Failure> {
        if self.common.trusted_network {
            return Ok(ReceiverKey::None);
        }
        let key = match &self.key {
            None => ReceiverKey::Fresh(Key::new()?),
            Some(path) => {
                let (key, made) = Key::read_or_make(path)?;
                ReceiverKey::File(key, made)
            }
        };
        check_method(self.method.name())?;
        Ok(key)
    }
}

impl CommonArguments {
    fn check(&self, method: &impl clap::ValueEnum, key: Option<&Path>) -> Result<(), Failure> {
        if self.descriptors && self.device.is_none() {
            return Err(
                Failure::usage("--descriptors is about the pages of a device")
                    .with_remedy("add --device mmap, or leave it out"),
            );
        }
        let device = self.device.map(|device| named("--device", &device));
        if let Some(device) = &device {
            if name(method) != "auto" {
                return Err(exclusive(device, &named("--method", method)));
            }
        }
        let keyless = match self.trusted_network {
            true => Some("--trusted-network".to_owned()),
            false => device,
        };
        match (key, keyless) {
            (Some(_), Some(other)) => Err(exclusive("--key", &other)),
            _ => Ok(()),
        }
    }
}

fn exclusive(one: &str, other: &str) -> Failure {
    Failure::usage(format!("{one} and {other} exclude each other")).with_remedy("leave one out")
}

/// An option with its value.
fn named(option: &str, value: &impl clap::ValueEnum) -> String {
    format!("{option} {}", name(value))
}

fn name(value: &impl clap::ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// With a key contents pass through memory: other methods are refused, not passed over.
fn check_method(name: &str) -> Result<(), Failure> {
    match name {
        "auto" | "readwrite" => Ok(()),
        _ => Err(Failure::usage(format!("--method {name} cannot encrypt"))
            .with_remedy("leave it out, or add --trusted-network")),
    }
}

/// What `option` says is an address, in the form that it has to have: whether there is such a host is not looked at
/// here.
///
/// # Errors
/// `Failure::Request`: it has no port, or one that is none.
pub fn address(option: &str, text: &str) -> Result<String, Failure> {
    let parts = text.rsplit_once(':').filter(|(host, port)| {
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(inner) => !inner.is_empty() && !inner.contains(']'),
            None => {
                !host.is_empty() && !host.contains(|each: char| each == ':' || each.is_whitespace())
            }
        };
        let is_number =
            (1..=5).contains(&port.len()) && port.bytes().all(|digit| digit.is_ascii_digit());
        is_host && is_number && port.parse::<u16>().is_ok()
    });
    match parts {
        Some(_) => Ok(text.to_owned()),
        None => Err(
            Failure::usage(format!("{option}: {} is not ADDR:PORT", quoted(text)))
                .with_remedy("write it like 127.0.0.1:7025"),
        ),
    }
}
