//! Networks that exist for their maker alone: two namespaces joined by a pair of virtual Ethernet devices, slowed
//! down on purpose.
//!
//! The namespaces have no name. Open descriptors keep them, so that they vanish with the process, also after a kill,
//! and the devices with them (network_namespaces(7), veth(4)).

mod device;
mod failure;
mod link;
mod namespace;
mod netlink;
mod owner;
mod shape;

pub use device::DEVICE;
pub use failure::LinkFailure;
pub use link::Link;
pub use owner::{Owner, is_own_address, owner};
pub use shape::Shape;
