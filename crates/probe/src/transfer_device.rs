//! Files through the kernel: the devices of `kernel/modules`, which hold the TCP connection themselves.
//!
//! As in OS Project 2 (docs/sources.md), the sender listens and the receiver connects. What goes over the connection is a header, a file and, if wanted, its
//! SHA-512, one file after the other ([`header`]).

pub mod device;
pub mod header;
pub mod modules;
pub mod session;
pub mod stream;
pub mod uapi;
pub mod verb;

pub use device::Device;
pub use stream::{Incoming, Method, Outgoing};
