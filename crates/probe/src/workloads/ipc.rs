//! What the workloads of interprocess communication share: channels, and a partner at their other end.

pub mod channel;
pub mod partner;
pub mod pattern;
pub mod placement;
pub mod ring;
pub mod usage;
