//! What the kernel reports of the machine and of the limits of this process.

pub mod cgroup;
pub mod cpu;
pub mod found;
pub mod identity;
pub mod memory;
