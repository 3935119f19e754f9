//! What the workloads of interprocess communication share: channels, and a partner at their other end.

mod being;
pub mod channel;
mod futex;
pub mod partner;
pub mod pattern;
pub mod placement;
pub mod ring;
mod shared;
pub mod usage;
