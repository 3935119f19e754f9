//! The clock that counts instructions: the TSC of a processor emulated by QEMU with `-icount shift=0,sleep=off`.
//!
//! Each executed instruction advances the guest's time by a nanosecond, and the emulated TSC by a tick. While no processor has
//! anything to do, time jumps to the next timer (QEMU's manual, "TCG Instruction Counting").

use std::mem::MaybeUninit;

use super::reading;
use crate::error::Failure;

/// Turns of the shorter of two loops of known length.
const TURNS: u64 = 10_000;
/// Instructions in a turn of the loop.
const A_TURN: u64 = 2;
/// Pairs of loops tried. An interrupt may fall into one.
const PAIRS: usize = 9;
/// Time to sleep before a repetition, so that what input and output left to be done is done.
const REST_NS: i64 = 10_000_000;

/// Check that the TSC counts instructions: a loop that is longer by a known number must read longer by that number.
///
/// # Errors
/// `Failure::Unavailable` where most of the loops do not.
#[cfg(target_arch = "x86_64")]
pub fn prove() -> Result<(), Failure> {
    let exact = (0..PAIRS)
        .filter(|_| looped(2 * TURNS).wrapping_sub(looped(TURNS)) == A_TURN * TURNS)
        .count();
    if 2 * exact > PAIRS {
        return Ok(());
    }
    Err(Failure::unavailable(
        format!(
            "--clock instructions: the time-stamp counter does not count instructions here ({exact} of {PAIRS} loops of known length read right)"
        ),
        "use a guest: oscope run EXPERIMENT --on guest --clock instructions",
    ))
}

/// Elsewhere the choice of the clock never falls on the TSC.
///
/// # Errors
/// Never returns.
#[cfg(not(target_arch = "x86_64"))]
pub fn prove() -> Result<(), Failure> {
    unreachable!("the TSC is chosen on x86-64 only")
}

/// What the counter shows for a loop of `turns` turns of [`A_TURN`] instructions.
#[cfg(target_arch = "x86_64")]
fn looped(turns: u64) -> u64 {
    let begin = reading::tsc_begin();
    // SAFETY: counts a register of its own down to zero and touches nothing else.
    unsafe {
        std::arch::asm!("2:", "dec {turns}", "jnz 2b", turns = inout(reg) turns => _, options(nomem, nostack));
    }
    reading::tsc_end().0.wrapping_sub(begin)
}

/// Let the guest come to rest, then return right after a timer interrupt, so that the next is as far away as can be, and falls into
/// the same place of every repetition that is longer than that.
pub fn settle() {
    let rest = libc::timespec {
        tv_sec: 0,
        tv_nsec: REST_NS,
    };
    // SAFETY: `rest` is valid, and the remaining time is not asked for. Cut short by a signal, the rest is shorter.
    unsafe { libc::nanosleep(&raw const rest, std::ptr::null_mut()) };
    let before = tick();
    while tick() == before {
        std::hint::spin_loop();
    }
}

/// The kernel's time as of its last timer interrupt, in nanoseconds.
fn tick() -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is good; the clock exists since Linux 2.6.32. A timespec of zeroes is valid.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_ends_right_after_a_tick() {
        let before = tick();
        settle();
        assert!(tick() - before >= REST_NS);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_processor_that_is_not_emulated_is_refused_with_the_remedy() {
        let failure = prove().expect_err("the tests run on a real processor");
        assert!(
            matches!(failure, Failure::Unavailable { remedy: Some(remedy), .. } if remedy.contains("--on guest"))
        );
    }
}
