//! Known work by the instructions of arm64.

use std::arch::asm;
use std::cell::Cell;

/// Bytes of the smallest page: 4, 16 or 64 KiB, as the kernel was built.
pub fn page() -> usize {
    // SAFETY: takes no pointer. Every kernel knows its page size.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Pages to touch so that no TLB holds them: more than a second-level TLB does (3072 in 2024). With pages of 64 KiB
/// they are 256 MiB.
pub const MANY_PAGES: usize = 4096;

/// Three instructions a time, in a chain of multiplications.
pub fn multiply(times: u64) {
    // SAFETY: only the named registers are written.
    unsafe {
        asm!(
            "2:", "mul {value}, {value}, {value}", "subs {left}, {left}, #1", "b.ne 2b",
            value = inout(reg) 3_u64 => _, left = inout(reg) times => _, options(nomem, nostack)
        );
    }
}

/// One branch a time that is taken or not by a bit of a xorshift generator (Marsaglia 2003), which no predictor can
/// learn.
pub fn branch_at_random(times: u64) {
    thread_local! { static STATE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) } }
    let mut state = STATE.get();
    // SAFETY: only the named registers are written.
    unsafe {
        asm!(
            "2:",
            "eor {state}, {state}, {state}, lsl #13",
            "eor {state}, {state}, {state}, lsr #7",
            "eor {state}, {state}, {state}, lsl #17",
            "tbnz {state}, #40, 3f", "add {taken}, {taken}, #1", "3:", "subs {left}, {left}, #1", "b.ne 2b",
            state = inout(reg) state, taken = inout(reg) 0_u64 => _, left = inout(reg) times => _,
            options(nomem, nostack)
        );
    }
    STATE.set(state);
}

/// One load a time.
pub fn read_one_line(times: u64) {
    let value = 1_u64;
    // SAFETY: it reads a local variable.
    unsafe {
        asm!(
            "2:", "ldr {loaded}, [{place}]", "subs {left}, {left}, #1", "b.ne 2b",
            place = in(reg) &raw const value, loaded = out(reg) _, left = inout(reg) times => _,
            options(readonly, nostack)
        );
    }
}

/// One store a time.
pub fn write_one_line(times: u64) {
    let mut value = 1_u64;
    // SAFETY: it writes a local variable.
    unsafe {
        asm!(
            "2:", "str {left}, [{place}]", "subs {left}, {left}, #1", "b.ne 2b",
            place = in(reg) &raw mut value, left = inout(reg) times => _, options(nostack)
        );
    }
    std::hint::black_box(value);
}

/// Write the line that `place` lies in back to memory and throw it out of all caches, before anything later. Linux lets
/// programs do so (`SCTLR_EL1.UCI`).
///
/// # Safety
/// `place` must be an address that can be read.
#[inline(always)]
pub unsafe fn flush_line(place: *const u8) {
    // SAFETY: the caller's.
    unsafe {
        asm!("dc civac, {place}", "dsb sy", "isb", place = in(reg) place, options(nostack, preserves_flags));
    }
}
