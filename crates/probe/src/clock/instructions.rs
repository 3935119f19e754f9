//! The clock that counts instructions: the TSC of a processor emulated by QEMU with `-icount shift=0,sleep=off`.
//!
//! Each executed instruction advances the guest's time by a nanosecond, and the emulated TSC by a tick. While no
//! processor has anything to do, time jumps to the next timer (QEMU's manual, "TCG Instruction Counting").

use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Before a request's repetitions the guest sleeps until its time is a multiple of this. When a request arrives depends
/// on the host, and idle time passes in no time: without it the kernel's periodic work (such as the writing of dirty
/// pages, every 5 s) would come at another distance in each boot, and what the kernel remembers of its devices' speed
/// (shares of write-back, by periods of 3 s, halved in each: mm/page-writeback.c) would be forgotten to another degree.
const LONG_REST_NS: i64 = 120_000_000_000;
/// The same before each repetition, for what the last one left to be done.
const REST_NS: i64 = 20_000_000;
/// Phases of the timer interrupt that are distinguished.
const PHASE_NS: i64 = 100_000;

/// When the kernel's timer interrupt comes, within its period: rounded, since a busy wait sees it some instructions
/// late.
static PHASE: OnceLock<i64> = OnceLock::new();

/// Let the guest forget what was before: for the begin of a request.
pub fn settle_long() {
    rest(LONG_REST_NS);
}

/// Let the guest come to rest, then return soon after a timer interrupt, so that the next is far away, and falls into
/// the same place of every repetition that is longer than that.
pub fn settle() {
    rest(REST_NS);
}

/// Sleep until 0.2 to 0.3 ms after a timer interrupt, and after the next multiple of `period_ns` of the kernel's time.
///
/// A sleeper wakes at the nanosecond that it asked for, and what follows is the same each time.
fn rest(period_ns: i64) {
    let phase = *PHASE.get_or_init(phase);
    let multiple = (now(libc::CLOCK_MONOTONIC) / period_ns + 1) * period_ns;
    let until = multiple + phase + 3 * PHASE_NS;
    let until = libc::timespec {
        tv_sec: until / 1_000_000_000,
        tv_nsec: until % 1_000_000_000,
    };
    // SAFETY: `until` is valid, and with an absolute time the kernel reports no remaining one. Cut short by a signal,
    // the rest is shorter.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}

/// Find when, within its period, the timer interrupt comes: the kernel's coarse time advances in it.
fn phase() -> i64 {
    let before = now(libc::CLOCK_MONOTONIC_COARSE);
    while now(libc::CLOCK_MONOTONIC_COARSE) == before {
        std::hint::spin_loop();
    }
    let since = now(libc::CLOCK_MONOTONIC) % resolution(libc::CLOCK_MONOTONIC_COARSE);
    since / PHASE_NS * PHASE_NS
}

/// The step of a clock of the kernel, in nanoseconds; of the coarse one, the period of the timer interrupt.
fn resolution(clock: libc::clockid_t) -> i64 {
    let mut step = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: as in `now`.
    let step = unsafe {
        libc::clock_getres(clock, step.as_mut_ptr());
        step.assume_init()
    };
    (step.tv_sec * 1_000_000_000 + step.tv_nsec).max(1)
}

/// The time of a clock of the kernel, in nanoseconds.
fn now(clock: libc::clockid_t) -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is good; the clocks exist since Linux 2.6.32. A timespec of zeroes is valid.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_ends_after_the_next_multiple_of_its_period() {
        const PERIOD_NS: i64 = 20_000_000;
        let before = now(libc::CLOCK_MONOTONIC);
        rest(PERIOD_NS);
        assert!(now(libc::CLOCK_MONOTONIC) / PERIOD_NS > before / PERIOD_NS);
    }

    #[test]
    fn the_phase_lies_within_the_period_of_the_timer_interrupt() {
        let found = phase();
        assert!((0..resolution(libc::CLOCK_MONOTONIC_COARSE)).contains(&found));
        assert_eq!(found % PHASE_NS, 0);
    }
}
