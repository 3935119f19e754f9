//! Known work by the instructions of x86-64.

use std::arch::asm;
use std::arch::x86_64::{_mm_clflush, _mm_mfence};
use std::cell::Cell;

/// Bytes of the smallest page.
#[inline(always)]
pub fn page() -> usize {
    4096
}

/// Pages to touch so that no TLB holds them: more than a second-level TLB does (4096 in 2024).
pub const MANY_PAGES: usize = 8192;

/// Three instructions a time, in a chain of multiplications.
pub fn multiply(times: u64) {
    // SAFETY: only the named registers are written.
    unsafe {
        asm!(
            "2:", "imul {value}, {value}", "dec {left}", "jnz 2b",
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
            "mov {shifted}, {state}", "shl {shifted}, 13", "xor {state}, {shifted}",
            "mov {shifted}, {state}", "shr {shifted}, 7", "xor {state}, {shifted}",
            "mov {shifted}, {state}", "shl {shifted}, 17", "xor {state}, {shifted}",
            "bt {state}, 40", "jc 3f", "inc {taken}", "3:", "dec {left}", "jnz 2b",
            state = inout(reg) state, shifted = out(reg) _, taken = inout(reg) 0_u64 => _, left = inout(reg) times => _,
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
            "2:", "mov {loaded}, [{place}]", "dec {left}", "jnz 2b",
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
            "2:", "mov [{place}], {left}", "dec {left}", "jnz 2b",
            place = in(reg) &raw mut value, left = inout(reg) times => _, options(nostack)
        );
    }
    std::hint::black_box(value);
}

/// Write the line that `place` lies in back to memory and throw it out of all caches, before anything later.
///
/// # Safety
/// `place` must be an address that can be read.
#[inline(always)]
pub unsafe fn flush_line(place: *const u8) {
    // SAFETY: the caller's.
    unsafe {
        _mm_clflush(place);
        _mm_mfence();
    }
}
