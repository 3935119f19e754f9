//! Whether CPU time can be split into user and system mode.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getres};

use oscope_sys::error::Failure;

/// Ticks that a time must last for its split into user and system mode to mean something.
const FEWEST_TICKS: f64 = 10.0;

/// The least CPU time, in seconds, whose split into user and system mode means something. Most kernels sample the mode
/// at ticks and scale the samples to the exact sum (`kernel/sched/cputime.c`): a time without a tick in the kernel is
/// all user time.
///
/// # Errors
/// `Failure::Failed` if the kernel does not report the length of a tick.
pub fn least_split_s() -> Result<f64, Failure> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_err(|error| Failure::system("reading the length of a tick", error))?;
    Ok(FEWEST_TICKS * tick.num_nanoseconds() as f64 / 1e9)
}
