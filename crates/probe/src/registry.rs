//! The workloads this probe knows: one line each.

use crate::description::Description;
use crate::harness::{self, Instrument, Outcome};
use crate::names;
use crate::protocol::{Event, Request};
use crate::workload::Workload;
use crate::workloads::{
    command_run, disk_drop_caches, disk_peers, disk_read, disk_write, fs_compare, ipc_latency,
    ipc_throughput, memory_access, memory_bandwidth, memory_fault, memory_latency, null,
    process_create, syscall_cost, syscall_throughput, syscall_uring_nop, transfer_copy,
    transfer_device,
};
use oscope_sys::error::Failure;

/// Every workload, in the order in which lists show them.
pub static REGISTRY: &[Entry] = &[
    Entry::of::<null::Null>(),
    Entry::of::<syscall_cost::SyscallCost>(),
    Entry::of::<syscall_throughput::SyscallThroughput>(),
    Entry::of::<syscall_uring_nop::UringNop>(),
    Entry::of::<process_create::ProcessCreate>(),
    Entry::of::<memory_latency::MemoryLatency>(),
    Entry::of::<memory_access::MemoryAccess>(),
    Entry::of::<memory_bandwidth::MemoryBandwidth>(),
    Entry::of::<memory_fault::MemoryFault>(),
    Entry::of::<disk_read::DiskRead>(),
    Entry::of::<disk_write::DiskWrite>(),
    Entry::of::<disk_drop_caches::DropCaches>(),
    Entry::of::<disk_peers::DiskPeers>(),
    Entry::of::<ipc_throughput::IpcThroughput>(),
    Entry::of::<ipc_latency::IpcLatency>(),
    Entry::of::<transfer_copy::TransferCopy>(),
    Entry::of::<transfer_device::TransferDevice>(),
    Entry::of::<fs_compare::FsCompare>(),
    Entry::of::<command_run::CommandRun>(),
];

/// Does one request with one kind of workload.
type Run = fn(&Request, &Instrument, &mut dyn FnMut(Event)) -> Result<Outcome, Failure>;

/// A workload, its type forgotten.
pub struct Entry {
    /// What the workload says about itself.
    pub describe: fn() -> Description,
    /// Does a request.
    pub run: Run,
}

impl Entry {
    const fn of<W: Workload>() -> Self {
        Self {
            describe: W::describe,
            run: harness::run::<W>,
        }
    }
}

/// The workload of this name.
///
/// # Errors
/// `Failure::Request` that names the nearest.
pub fn find(name: &str) -> Result<&'static Entry, Failure> {
    REGISTRY
        .iter()
        .find(|entry| (entry.describe)().name == name)
        .ok_or_else(|| {
            let known = REGISTRY.iter().map(|entry| (entry.describe)().name);
            Failure::request("workload", names::unknown("workload", name, known))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Kind;

    #[test]
    fn what_a_parameter_depends_on_is_a_parameter_of_its_workload_with_these_levels() {
        let mut conditions = 0;
        for description in REGISTRY.iter().map(|entry| (entry.describe)()) {
            for parameter in &description.parameters {
                for condition in &parameter.applies {
                    let what = format!("{}: {}", description.name, parameter.name);
                    let other = description
                        .parameters
                        .iter()
                        .find(|other| other.name == condition.parameter)
                        .unwrap_or_else(|| panic!("{what} depends on {}", condition.parameter));
                    // One that may have no meaning itself would leave open what holds.
                    assert!(other.applies.is_empty(), "{what}");
                    assert!(!condition.levels.is_empty(), "{what}");
                    if let Kind::Choice { choices, .. } = &other.kind {
                        let known = |level: &serde_json::Value| {
                            level.as_str().is_some_and(|level| choices.contains(&level))
                        };
                        assert!(condition.levels.iter().all(known), "{what}");
                    }
                    conditions += 1;
                }
            }
        }
        assert!(conditions > 20, "{conditions}");
    }
}
