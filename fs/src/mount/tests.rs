//! Tests over a real sshd and real mounts.

mod files;
mod names;
mod rig;
mod trouble;
