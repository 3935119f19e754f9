//! Work of known size: counted loops, and steps each of which needs the one before.

use std::arch::asm;

use oscope_sys::cancel;

/// Multiplier and increment of Knuth's 64-bit linear congruential generator (MMIX).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Keep the compiler from knowing `value`: no instruction, no memory access, but whatever led to it must be done.
#[inline(always)]
pub fn opaque(value: u64) -> u64 {
    let mut value = value;
    // SAFETY: no instruction at all; the compiler only has to assume that the register changed.
    unsafe {
        asm!("/* {0} */", inout(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Do `work` `count` times, or until a signal comes; how often it was done.
///
/// The signal is looked for after every `stride` times, so that a loop of minutes ends in time and the look costs
/// nothing.
#[inline(always)]
pub fn repeat(count: u64, stride: u64, mut work: impl FnMut()) -> u64 {
    let mut done = 0;
    while done < count && !cancel::requested() {
        let pause = count.min(done.saturating_add(stride));
        while done < pause {
            work();
            done = opaque(done + 1);
        }
    }
    done
}

/// Do `count` multiply-and-add steps from `start`, each on the result of the step before.
#[inline(always)]
pub fn lcg_steps(start: u64, count: u64) -> u64 {
    let mut value = start;
    for _ in 0..count {
        value = opaque(value.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT));
    }
    value
}

/// Where [`lcg_steps`] must end, by repeated squaring of the step: few multiplications whatever the count.
pub fn destination(start: u64, count: u64) -> u64 {
    let (mut factor, mut term) = (1u64, 0u64);
    let (mut step_factor, mut step_term) = (MULTIPLIER, INCREMENT);
    let mut left = count;
    while left > 0 {
        if left & 1 == 1 {
            factor = factor.wrapping_mul(step_factor);
            term = term.wrapping_mul(step_factor).wrapping_add(step_term);
        }
        step_term = step_term.wrapping_mul(step_factor.wrapping_add(1));
        step_factor = step_factor.wrapping_mul(step_factor);
        left >>= 1;
    }
    start.wrapping_mul(factor).wrapping_add(term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn work_is_repeated_as_often_as_requested_whatever_the_stride(count in 0u64..500, stride in 1u64..600) {
            let mut times = 0;
            prop_assert_eq!(repeat(count, stride, || times += 1), count);
            prop_assert_eq!(times, count);
        }

        #[test]
        fn the_walk_ends_where_it_must(start: u64, count in 0u64..5000) {
            prop_assert_eq!(lcg_steps(start, count), destination(start, count));
        }

        #[test]
        fn a_step_left_out_is_seen(start: u64, count in 1u64..1_000_000_000) {
            prop_assert_ne!(destination(start, count), destination(start, count - 1));
        }
    }
}
