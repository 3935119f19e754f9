//! What the probe can measure: one file for each workload, and what several share.

mod call_numbers;
mod calls;
pub mod command_run;
pub mod disk_drop_caches;
pub mod disk_peers;
pub mod disk_read;
pub mod disk_write;
mod fresh_process;
pub mod fs_compare;
mod host_id;
pub mod ipc;
pub mod ipc_latency;
pub mod ipc_throughput;
pub mod memory_access;
pub mod memory_bandwidth;
pub mod memory_fault;
pub mod memory_latency;
mod my_precious;
pub mod null;
pub mod process_create;
pub mod syscall_cost;
pub mod syscall_throughput;
pub mod syscall_uring_nop;
pub mod transfer;
pub mod transfer_copy;
pub mod transfer_device;
