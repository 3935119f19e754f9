//! What the workloads of the transfer lab share: the files that are sent, where they lie, and the proof that they
//! arrived.

pub mod check;
pub mod files;
pub mod folder;
