//! The beginning of a keyed connection: the Noise protocol (<https://noiseprotocol.org/noise.html>), by the crate
//! `snow`.
//!
//! Pattern `NNpsk0`: both sides prove that they have the key, which never goes over the network, and agree on fresh
//! keys, so that who records a connection and learns the key later reads nothing. What each says: [`SEALED`] and a
//! message of [`MESSAGE`] bytes. The sender's first record is the confirmation that it is no replay of an earlier
//! connection: only with it does a receiver hear the transfer protocol at all.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use snow::{Builder, HandshakeState, StatelessTransportState};

use super::key::Key;
use super::wire::{NAME, PREAMBLE};
use oscope_sys::error::Failure;

/// What each side of a keyed connection says first; as long as [`PREAMBLE`], and with the same name. Each version has
/// its own letter (version 2 had `s`): with another [`PREAMBLE`] the keys would not fit, and it would look as if they
/// were different ones.
pub const SEALED: &[u8; PREAMBLE.len()] = b"oscope.transfer/t\n";

/// What a receiver says to who has another key.
pub const OTHER_KEY: &[u8; PREAMBLE.len()] = b"oscope.transfer/!\n";

/// Bytes of a handshake message: a public key, and the check of an empty message.
pub const MESSAGE: usize = 32 + 16;

/// What a side says first, whole.
pub const OPENING: usize = SEALED.len() + MESSAGE;

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Bytes that the sender's first record has: its length, what a transfer begins with, and its check.
pub const CONFIRMATION: usize = 2 + PREAMBLE.len() + 16;

fn started(key: &Key, is_sender: bool) -> Result<HandshakeState, snow::Error> {
    let builder = Builder::new(PATTERN.parse()?)
        .prologue(PREAMBLE)?
        .psk(0, key.bytes())?;
    match is_sender {
        true => builder.build_initiator(),
        false => builder.build_responder(),
    }
}

fn broken(error: snow::Error) -> Failure {
    Failure::failed(format!("the handshake: {error}"))
}

/// Answer what a sender said first: what to send it, and the keys of the connection. `None` if its key is another.
///
/// # Errors
/// `Failure::Failed`: the cipher or the random numbers cannot be had here.
pub fn answer(
    key: &Key,
    opening: &[u8],
) -> Result<Option<(Vec<u8>, StatelessTransportState)>, Failure> {
    let mut state = started(key, false).map_err(broken)?;
    let mut nothing = [0; MESSAGE];
    let message = &opening[SEALED.len()..];
    if !matches!(state.read_message(message, &mut nothing), Ok(0)) {
        return Ok(None);
    }
    let mut reply = SEALED.to_vec();
    reply.resize(OPENING, 0);
    state
        .write_message(&[], &mut reply[SEALED.len()..])
        .map_err(broken)?;
    let keys = state.into_stateless_transport_mode().map_err(broken)?;
    Ok(Some((reply, keys)))
}

/// Open a connection as the sender, within a limit.
///
/// # Errors
/// `Failure::Failed`: the receiver has another key, takes plain transfers only, speaks something else, or nothing
/// within the limit.
pub fn open(
    stream: &TcpStream,
    key: &Key,
    limit: Duration,
) -> Result<StatelessTransportState, Failure> {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "the receiver".into(), |peer| peer.to_string());
    let failed = |error: &io::Error| Failure::system(&format!("the handshake with {peer}"), error);
    let mut state = started(key, true).map_err(broken)?;
    let mut opening = SEALED.to_vec();
    opening.resize(OPENING, 0);
    state
        .write_message(&[], &mut opening[SEALED.len()..])
        .map_err(broken)?;
    (&*stream)
        .write_all(&opening)
        .map_err(|error| failed(&error))?;
    let since = Instant::now();
    let mut said = [0; OPENING];
    let (first, message) = said.split_at_mut(SEALED.len());
    heard(stream, first, since, limit, &peer)?;
    if first != SEALED {
        return Err(stranger(first, &peer));
    }
    heard(stream, message, since, limit, &peer)?;
    match state.read_message(message, &mut [0; MESSAGE]) {
        Ok(0) => state.into_stateless_transport_mode().map_err(broken),
        _ => Err(
            Failure::failed(format!("{peer} does not have this key: nothing was sent"))
                .with_remedy("check the address: somebody else may listen there"),
        ),
    }
}

/// Who answers something else than a keyed receiver is sent nothing more.
fn stranger(said: &[u8], peer: &str) -> Failure {
    if said == OTHER_KEY {
        return Failure::failed(format!("{peer} has another key: nothing was sent"))
            .with_remedy("give the key that the receiver printed, or the same key file");
    }
    if said == PREAMBLE {
        let message = format!("{peer} takes transfers without a key alone: nothing was sent");
        return Failure::failed(message)
            .with_remedy("receive without --trusted-network, or send with it");
    }
    if said[..NAME] == PREAMBLE[..NAME] {
        let message = format!("{peer} speaks another version of Oscope transfer: nothing was sent");
        return Failure::failed(message).with_remedy("use the same Oscope on both sides");
    }
    Failure::failed(format!("no Oscope transfer speaks on {peer}"))
        .with_remedy("check the address and that `oscope transfer receive` runs there")
}

/// Receive so many bytes before the limit has passed.
fn heard(
    stream: &TcpStream,
    into: &mut [u8],
    since: Instant,
    limit: Duration,
    peer: &str,
) -> Result<(), Failure> {
    let mut have = 0;
    while have < into.len() {
        if oscope_sys::cancel::requested() {
            return Err(Failure::failed("interrupted"));
        }
        let left = limit.saturating_sub(since.elapsed());
        if left.is_zero() {
            let message = format!(
                "{peer} is connected and did not answer within {} s",
                limit.as_secs_f64()
            );
            return Err(Failure::failed(message).with_remedy(
                "a receiver may be busy with another transfer: send again when it is done",
            ));
        }
        let slice = left.min(Duration::from_millis(250));
        stream
            .set_read_timeout(Some(slice))
            .map_err(|error| Failure::system("the connection", &error))?;
        match (&*stream).read(&mut into[have..]) {
            Ok(0) => {
                return Err(
                    Failure::failed(format!("{peer} closed the connection")).with_remedy(
                        "check the address and that `oscope transfer receive` runs there",
                    ),
                );
            }
            Ok(got) => have += got,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => {
                return Err(Failure::system(
                    &format!("the handshake with {peer}"),
                    &error,
                ));
            }
        }
    }
    Ok(())
}
