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
mod engine;
mod entrance;
mod handshake;
mod holes;
mod key;
mod link;
mod linked;
mod meter;
mod methods;
mod names;
mod naming;
mod observer;
mod options;
mod outcome;
mod partial;
mod place;
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

pub use addresses::{connect, listen};
pub use admission::admit;
pub use dir_cache::Folder;
pub use engine::{receive, receive_sealed, send, send_sealed};
pub use entrance::{Arrival, Entrance};
pub use key::Key;
pub use options::{
    DEFAULT_CHUNK, DigestKind, ReceiveMethod, ReceiveOptions, SendMethod, SendOptions,
};
pub use outcome::{FileDone, LeftOut, Progress, Received, Sent, Tally};
pub use source::Source;
