//! Tests over a real sshd and real mounts.

mod ahead;
mod beside;
mod changed;
mod files;
mod kernel_size;
mod left;
mod leftovers;
mod modes;
mod names;
mod opening;
mod rig;
mod server_errors;
mod size;
mod taken;
