//! What arm64 reports by registers.

use std::arch::asm;

use super::super::found::{Found, Remedy, text};
use super::Processor;

/// The processor of `/proc/cpuinfo`, or what the registers say where that names no implementer, as every kernel of
/// arm64 does: under a user-mode emulator the file may be that of the machine outside.
pub fn corrected(processor: Processor) -> Processor {
    let is_of_arm64 = processor
        .vendor
        .as_ref()
        .is_ok_and(|vendor| vendor.starts_with("0x"));
    if is_of_arm64 {
        return processor;
    }
    let main_id = main_id();
    Processor {
        model: main_id.clone().map(described),
        vendor: main_id.map(|register| format!("{:#04x}", register >> 24 & 0xff)),
        microcode: Err("arm64 reports no microcode".to_owned()),
        flags: Ok(hardware_capabilities()),
    }
}

/// `MIDR_EL1`. The kernel answers for the register, which programs cannot read themselves
/// (`Documentation/arch/arm64/cpu-feature-registers.rst`).
fn main_id() -> Found<u64> {
    // SAFETY: takes no pointer.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
    if capabilities & libc::HWCAP_CPUID == 0 {
        return Err(
            "/proc/cpuinfo names no implementer and the kernel gives no MIDR_EL1: it needs Linux 4.11 or \
             later".to_owned(),
        );
    }
    let register;
    // SAFETY: only the named register is written; the capability says that the kernel allows it.
    unsafe {
        asm!("mrs {register}, midr_el1", register = out(reg) register, options(nomem, nostack, preserves_flags));
    }
    Ok(register)
}

/// The fields of `MIDR_EL1`, written as those of `/proc/cpuinfo` are.
fn described(register: u64) -> String {
    format!(
        "implementer {:#04x} part {:#05x} variant {:#x} revision {}",
        register >> 24 & 0xff,
        register >> 4 & 0xfff,
        register >> 20 & 0xf,
        register & 0xf
    )
}

/// The capabilities that the kernel gives to programs, in place of their names.
fn hardware_capabilities() -> String {
    // SAFETY: takes no pointer.
    let words = [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| unsafe { libc::getauxval(kind) });
    format!("hwcap:{:#x} hwcap2:{:#x}", words[0], words[1])
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

#[cfg(test)]
mod tests {
    use super::super::parse_processor;
    use super::*;

    #[test]
    fn the_fields_of_the_register_are_written_as_the_kernel_writes_them() {
        // Neoverse N1, r3p1.
        assert_eq!(
            described(0x413f_d0c1),
            "implementer 0x41 part 0xd0c variant 0x3 revision 1"
        );
    }

    #[test]
    fn the_processor_of_another_machine_is_replaced() {
        let own = corrected(parse_processor(
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu\n",
        ));
        assert!(
            own.model
                .is_ok_and(|model| model.starts_with("implementer "))
        );
        assert!(own.vendor.is_ok_and(|vendor| vendor.starts_with("0x")));
        assert!(own.flags.is_ok_and(|flags| flags.starts_with("hwcap:")));
        let kernels = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(
            corrected(parse_processor(kernels)),
            parse_processor(kernels)
        );
    }
}
