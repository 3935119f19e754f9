//! The instructions and calls that read the clocks.

/// The TSC, after all earlier instructions and before all later ones.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn tsc_begin() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the instructions only write the named registers. Without `nomem` the compiler moves no memory access across them.
    unsafe {
        std::arch::asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    (high << 32) | low
}

/// The TSC, after all earlier instructions, and the CPU that gave it.
///
/// `rdtscp` waits for earlier instructions by itself; it also gives `IA32_TSC_AUX`, in which Linux keeps the CPU number in the low
/// 12 bits and the NUMA node above (`arch/x86/include/asm/segment.h`, `vdso_encode_cpunode`).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn tsc_end() -> (u64, usize) {
    let (low, high, auxiliary): (u64, u64, u64);
    // SAFETY: as in `tsc_begin`.
    unsafe {
        std::arch::asm!("rdtscp", "lfence", out("eax") low, out("edx") high, out("ecx") auxiliary, options(nostack, preserves_flags));
    }
    ((high << 32) | low, (auxiliary & 0xfff) as usize)
}

/// Elsewhere the choice of the clock never falls on the TSC.
#[cfg(not(target_arch = "x86_64"))]
pub fn tsc_begin() -> u64 {
    unreachable!("the TSC is chosen on x86-64 only")
}

/// Elsewhere the choice of the clock never falls on the TSC.
#[cfg(not(target_arch = "x86_64"))]
pub fn tsc_end() -> (u64, usize) {
    unreachable!("the TSC is chosen on x86-64 only")
}

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
    // SAFETY: `time` is a valid timespec. The call cannot fail: both clocks exist since Linux 2.6.28, and the pointer is good.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPU this thread runs on now.
pub fn current_cpu() -> usize {
    // SAFETY: takes no argument; on Linux it fails only where there is no `getcpu`, which no supported kernel lacks.
    unsafe { libc::sched_getcpu() }.max(0) as usize
}
