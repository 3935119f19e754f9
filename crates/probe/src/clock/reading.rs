//! The calls that read the kernel's clocks.

/// `CLOCK_MONOTONIC_RAW` in nanoseconds. It counts at the hardware's own rate: NTP neither steps nor slews it.
#[inline(always)]
pub fn monotonic_raw() -> u64 {
    nanoseconds_of(libc::CLOCK_MONOTONIC_RAW)
}

/// `CLOCK_REALTIME` in nanoseconds since 1970, for the record only.
pub fn realtime() -> u64 {
    nanoseconds_of(libc::CLOCK_REALTIME)
}

#[inline(always)]
fn nanoseconds_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. The call cannot fail: both clocks exist since Linux 2.6.28, and the pointer
    // is good.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPU this thread runs on now.
pub fn current_cpu() -> usize {
    // SAFETY: takes no argument; on Linux it fails only where there is no `getcpu`, which no supported kernel lacks.
    unsafe { libc::sched_getcpu() }.max(0) as usize
}
