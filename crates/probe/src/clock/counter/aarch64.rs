//! The virtual counter of the generic timer, `CNTVCT_EL0` (Arm Architecture Reference Manual for A-profile, chapter
//! D12).
//!
//! It counts at a constant rate in all power states, and all CPUs read one system counter. Its step is coarse beside
//! that of the TSC: 10 to 50 ns on most processors before Armv8.6, 1 ns since.

use std::arch::asm;

use super::super::choice::{Kernel, Processor};
use super::super::reading;
use oscope_sys::error::Failure;

/// What messages call it.
pub const NAME: &str = "cntvct_el0";
/// Ticks by which readings of two CPUs may differ because they are whole: a round trip may take less than a tick.
pub const TRUNCATION: f64 = 1.0;

/// The counter, after all earlier instructions and before all later ones.
#[inline(always)]
pub fn begin() -> u64 {
    read()
}

/// The counter, after all earlier instructions and before all later ones.
#[inline(always)]
pub fn end() -> u64 {
    read()
}

/// A reading like [`end`], and the CPU on which the thread ran right after it: no instruction gives both.
#[inline(always)]
pub fn end_with_cpu() -> (u64, usize) {
    (read(), reading::current_cpu())
}

/// `isb` before the read keeps it from being taken early, as in the kernel (`arch/arm64/include/asm/arch_timer.h`); the
/// one behind keeps later work from beginning before it. `dsb ld` waits for earlier loads, for which `isb` need not
/// wait; `lfence` does so on x86-64.
#[inline(always)]
fn read() -> u64 {
    let ticks;
    // SAFETY: the instructions only write the named register; Linux lets programs read this counter. Without `nomem`
    // the compiler moves no memory access across them.
    unsafe {
        asm!("dsb ld", "isb", "mrs {ticks}, \
            cntvct_el0", "isb", ticks = out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

/// `CNTFRQ_EL0`, which the firmware sets; `None` where it left it at 0.
pub fn declared_hz() -> Option<f64> {
    let hz: u64;
    // SAFETY: reads a register that Linux lets programs read.
    unsafe {
        asm!("mrs {hz}, cntfrq_el0", hz = out(reg) hz, options(nomem, nostack, preserves_flags));
    }
    // The upper half is reserved.
    let hz = hz as u32;
    (hz > 0).then_some(f64::from(hz))
}

/// The architecture promises a constant rate.
pub fn processor() -> Processor {
    Processor::Arm64
}

/// Read the kernel's clock source.
pub fn kernel() -> Kernel {
    Kernel::that_uses_arch_sys_counter()
}

/// The counter of an emulated processor advances once in many instructions, so that it counts none: the choice of the
/// clock never gets here.
///
/// # Errors
/// Always.
pub fn prove_instructions() -> Result<(), Failure> {
    Err(Failure::unavailable(
        "--clock instructions: cntvct_el0 does not count instructions",
        "use a guest on x86-64: oscope run EXPERIMENT --on guest --clock instructions",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_on_at_its_declared_frequency() {
        let hz = declared_hz().expect("firmware and emulators set it");
        let (first, since) = (begin(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (ticks, seconds) = (end() - first, since.elapsed().as_secs_f64());
        let ratio = ticks as f64 / hz / seconds;
        // The thread may be away between the readings of the two clocks.
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn instructions_are_not_counted() {
        assert!(prove_instructions().is_err());
    }
}
