//! Networks that exist for a measurement alone: two namespaces joined by a pair of virtual Ethernet devices, slowed
//! down on purpose.
//!
//! The namespaces have no name. Open descriptors keep them, so that they vanish with the process, also after a kill,
//! and the devices with them (network_namespaces(7), veth(4)).

mod kinds;
mod link;
mod namespace;
mod owner;
mod shape;

pub use link::{DEVICE, Link};
pub use owner::{Owner, is_own_address, owner};
pub use shape::Shape;
