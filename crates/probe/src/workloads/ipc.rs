//! What the workloads of interprocess communication share: channels, and a peer at their other end.

pub mod channel;
pub mod measured_peer;
pub mod pattern;
pub mod placement;
pub mod ring;
pub mod usage;
