//! What the probe can measure: one file for each workload, and what several share.

mod call_numbers;
mod calls;
pub mod null;
pub mod process_create;
pub mod syscall_cost;
pub mod syscall_throughput;
