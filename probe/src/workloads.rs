//! What the probe can measure: one file for each workload, and what several share.

mod call_numbers;
mod calls;
mod host_id;
pub mod null;
pub mod process_create;
pub mod syscall_cost;
pub mod syscall_throughput;
