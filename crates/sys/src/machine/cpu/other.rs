//! An architecture that is asked nothing by an instruction.

use super::super::found::{Found, Remedy, text};
use super::Processor;

/// There is nothing to compare with.
pub fn corrected(processor: Processor) -> Processor {
    processor
}

/// The hypervisor's name as the kernel gives it.
///
/// # Errors
/// The file that is missing: no instruction reports it.
pub fn hypervisor() -> Found<String> {
    text("/sys/hypervisor/type")
        .or_else(|_| text("/proc/device-tree/hypervisor/compatible"))
        .or_remedy("systemd-detect-virt may know it")
}
