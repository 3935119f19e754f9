//! What x86-64 reports by CPUID.

use super::super::found::Found;
use super::Processor;

/// The kernel names the processor by CPUID as well.
pub fn corrected(processor: Processor) -> Processor {
    processor
}

/// The hypervisor's name as CPUID gives it, or `none` on a bare machine.
///
/// # Errors
/// Never on x86.
pub fn hypervisor() -> Found<String> {
    use raw_cpuid::{CpuId, Hypervisor};
    let cpuid = CpuId::new();
    if !cpuid
        .get_feature_info()
        .is_some_and(|features| features.has_hypervisor())
    {
        return Ok("none".to_owned());
    }
    Ok(
        match cpuid.get_hypervisor_info().map(|info| info.identify()) {
            Some(Hypervisor::Unknown(..)) | None => "unknown".to_owned(),
            Some(named) => format!("{named:?}").to_lowercase(),
        },
    )
}
