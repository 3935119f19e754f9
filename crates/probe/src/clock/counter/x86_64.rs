//! The time-stamp counter.

use super::super::choice::{Kernel, Processor};
use oscope_sys::error::Failure;

/// What messages call it.
pub const NAME: &str = "TSC";
/// Ticks by which readings of two CPUs may differ because they are whole: none that matters beside a round trip of a
/// hundred.
pub const TRUNCATION: f64 = 0.0;

/// Turns of the shorter of two loops of known length.
const TURNS: u64 = 10_000;
/// Instructions in a turn of the loop.
const A_TURN: u64 = 2;
/// Pairs of loops tried. An interrupt may fall into one.
const PAIRS: usize = 9;

/// The TSC, after all earlier instructions and before all later ones.
#[inline(always)]
pub fn begin() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the instructions only write the named registers. Without `nomem` the compiler moves no memory access
    // across them.
    unsafe {
        std::arch::asm!(
            "lfence", "rdtsc", "lfence",
            out("eax") low, out("edx") high,
            options(nostack, preserves_flags)
        );
    }
    (high << 32) | low
}

/// The TSC, after all earlier instructions.
#[inline(always)]
pub fn end() -> u64 {
    end_with_cpu().0
}

/// The TSC, after all earlier instructions, and the CPU that gave it.
///
/// `rdtscp` waits for earlier instructions by itself; it also gives `IA32_TSC_AUX`, in which Linux keeps the CPU number
/// in the low 12 bits and the NUMA node above (`arch/x86/include/asm/segment.h`, `vdso_encode_cpunode`).
#[inline(always)]
pub fn end_with_cpu() -> (u64, usize) {
    let (low, high, auxiliary): (u64, u64, u64);
    // SAFETY: as in `begin`.
    unsafe {
        std::arch::asm!(
            "rdtscp", "lfence",
            out("eax") low, out("edx") high, out("ecx") auxiliary,
            options(nostack, preserves_flags)
        );
    }
    ((high << 32) | low, (auxiliary & 0xfff) as usize)
}

/// Not reported: CPUID leaf 15H has it on some processors only, and its crystal may be rounded.
pub fn declared_hz() -> Option<f64> {
    None
}

/// Ask CPUID.
pub fn processor() -> Processor {
    let cpuid = raw_cpuid::CpuId::new();
    Processor::X86 {
        invariant_tsc: cpuid
            .get_advanced_power_mgmt_info()
            .is_some_and(|info| info.has_invariant_tsc()),
        rdtscp: cpuid
            .get_extended_processor_and_feature_identifiers()
            .is_some_and(|info| info.has_rdtscp()),
    }
}

/// Read the kernel's list of clock sources.
pub fn kernel() -> Kernel {
    Kernel::that_lists_tsc()
}

/// Check that the TSC counts instructions: a loop that is longer by a known number must read longer by that number.
///
/// # Errors
/// `Failure::Unavailable` where most of the loops do not.
pub fn prove_instructions() -> Result<(), Failure> {
    let exact = (0..PAIRS)
        .filter(|_| looped(2 * TURNS).wrapping_sub(looped(TURNS)) == A_TURN * TURNS)
        .count();
    if 2 * exact > PAIRS {
        return Ok(());
    }
    Err(Failure::unavailable(
        format!(
            "--clock instructions: the time-stamp counter does not count instructions here ({exact} of {PAIRS} loops \
             of known length read right)"
        ),
        "use a guest: oscope run EXPERIMENT --on guest --clock instructions",
    ))
}

/// What the counter shows for a loop of `turns` turns of [`A_TURN`] instructions.
fn looped(turns: u64) -> u64 {
    let begun = begin();
    // SAFETY: counts a register of its own down to zero and touches nothing else.
    unsafe {
        std::arch::asm!("2:", "dec {turns}", "jnz 2b", turns = inout(reg) turns => _, options(nomem, nostack));
    }
    end().wrapping_sub(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_is_not_emulated_is_refused_with_the_remedy() {
        let failure = prove_instructions().expect_err("the tests run on a real processor");
        assert!(
            matches!(failure, Failure::Unavailable { remedy: Some(remedy), .. } if remedy.contains("--on guest"))
        );
    }
}
