//! Files through the kernel: the devices of `kernel/modules`, which hold the TCP connection themselves.
//!
//! As in OS Project 2 (docs/sources.md), the sender listens and the receiver connects. What goes over the connection is
//! a header, a file and, if wanted, its SHA-512, one file after the other ([`header`]).

pub(crate) mod files;
pub mod header;
pub mod modules;
pub mod node;
pub(crate) mod session;
mod stream;
mod uapi;
pub(crate) mod verb;

pub use stream::{Incoming, Method, Outgoing};
