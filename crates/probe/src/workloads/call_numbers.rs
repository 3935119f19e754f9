//! Which system call numbers may be called in a loop with zeroes as arguments.
//!
//! Numbers and names of x86-64 are those of `arch/x86/entry/syscalls/syscall_64.tbl`; a number from 424 on means the
//! same on every architecture.

use oscope_sys::error::Failure;
use table::{HARMLESS, UNASSIGNED};

/// First number open to new calls: below it, all are known.
const FIRST_NEW: u32 = 448;
/// Last number accepted: beyond it the x32 ABI begins (`arch/x86/include/uapi/asm/unistd.h`, `__X32_SYSCALL_BIT`).
const LAST: u32 = (1 << 30) - 1;
/// On x86-64 before Linux 5.4 the 64-bit entry reaches x32's own calls here, with `rt_sigreturn` among them. Refused
/// everywhere, so that a number is open to new calls on all architectures or on none.
const X32: std::ops::RangeInclusive<u32> = 512..=547;

mod x86_64 {
    /// Take no argument, return at once and change nothing.
    pub const HARMLESS: [u32; 10] = [
        24,  // sched_yield
        39,  // getpid
        102, // getuid
        104, // getgid
        107, // geteuid
        108, // getegid
        110, // getppid
        111, // getpgrp
        186, // gettid
        219, // restart_syscall
    ];
    /// Never assigned on x86-64 (`syscall_64.tbl`: "don't use numbers 387 through 423"; 335 and 336 are `uretprobe` and
    /// `uprobe`, which kill a caller that is no trampoline).
    pub const UNASSIGNED: std::ops::RangeInclusive<u32> = 337..=423;
}

/// Numbers of the generic table (`include/uapi/asm-generic/unistd.h`). arm64 has no `getpgrp`, `open`, `fork`, `vfork`
/// or `pipe`: the C library makes them of `getpgid`, `openat`, `clone` and `pipe2`.
mod aarch64 {
    /// Take no argument, return at once and change nothing.
    pub const HARMLESS: [u32; 9] = [
        124, // sched_yield
        128, // restart_syscall
        172, // getpid
        173, // getppid
        174, // getuid
        175, // geteuid
        176, // getgid
        177, // getegid
        178, // gettid
    ];
    /// Never assigned where a `long` has 64 bits: "295 through 402 are unassigned", and 403 to 423 are calls with times
    /// of 64 bits for 32-bit machines.
    pub const UNASSIGNED: std::ops::RangeInclusive<u32> = 295..=423;
}

/// Another architecture: only numbers that mean the same everywhere.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other {
    /// None is known to be harmless.
    pub const HARMLESS: [u32; 0] = [];
    /// None is known to be unassigned: an empty range.
    #[expect(clippy::reversed_empty_ranges, reason = "it is meant to be empty")]
    pub const UNASSIGNED: std::ops::RangeInclusive<u32> = 1..=0;
}

#[cfg(target_arch = "aarch64")]
use aarch64 as table;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other as table;
#[cfg(target_arch = "x86_64")]
use x86_64 as table;

/// What a refusal adds.
const NOTE: &str = if cfg!(target_arch = "aarch64") {
    "; arm64 numbers its calls differently from x86-64, and open, pipe, fork, vfork and getpgrp do not exist on it"
} else {
    ""
};

/// First and last of each range of numbers that may be measured on some architecture, in ascending order: the probe of
/// a host may be of another one than that of who plans for it, and both have to describe the same.
pub fn accepted() -> Vec<(u32, u32)> {
    let harmless = [&x86_64::HARMLESS[..], &aarch64::HARMLESS].concat();
    let mut ranges: Vec<_> = harmless
        .into_iter()
        .map(|number| (number, number))
        .collect();
    // The two ranges overlap, so that their union is one range.
    let (arm, x86) = (aarch64::UNASSIGNED, x86_64::UNASSIGNED);
    let first = *arm.start().min(x86.start());
    let last = *arm.end().max(x86.end());
    ranges.push((first, last));
    ranges.extend([(FIRST_NEW, *X32.start() - 1), (*X32.end() + 1, LAST)]);
    ranges.sort_unstable();
    ranges
}

/// Whether system call `number` may be measured.
///
/// # Errors
/// `Failure::Request` that names the numbers that may be measured: this one may do harm, or is not known not to.
pub fn admit(number: u32) -> Result<(), Failure> {
    if UNASSIGNED.contains(&number) {
        return Ok(());
    }
    if HARMLESS.contains(&number) {
        return Ok(());
    }
    if number > LAST {
        return Err(refused(format!(
            "nr:{number} is no system call number; the last accepted is {LAST}"
        )));
    }
    if X32.contains(&number) {
        return Err(refused(format!(
            "nr:{number} belongs to the x32 ABI, whose rt_sigreturn would end the probe"
        )));
    }
    if number >= FIRST_NEW {
        return Ok(());
    }
    Err(refused(format!(
        "nr:{number} is refused: it takes arguments, never returns, creates processes or changes the machine; \
         accepted are {HARMLESS:?}, unassigned numbers and those from {FIRST_NEW} on{NOTE}"
    )))
}

fn refused(message: String) -> Failure {
    Failure::request("call", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_have_what_any_architecture_admits_and_nothing_else() {
        let ranges = accepted();
        for number in (0..2000).chain([LAST, LAST + 1, 0x4000_0039, u32::MAX]) {
            let within = ranges
                .iter()
                .any(|&(first, last)| (first..=last).contains(&number));
            let elsewhere = x86_64::HARMLESS.contains(&number)
                || x86_64::UNASSIGNED.contains(&number)
                || aarch64::HARMLESS.contains(&number)
                || aarch64::UNASSIGNED.contains(&number);
            assert_eq!(within, elsewhere || admit(number).is_ok(), "{number}");
            assert!(within || admit(number).is_err(), "{number}");
        }
    }

    /// The literals of the generic table are those of the C library's headers.
    #[test]
    #[cfg(target_arch = "aarch64")]
    fn the_numbers_of_arm64_are_those_of_its_headers() {
        let known = [
            libc::SYS_sched_yield,
            libc::SYS_restart_syscall,
            libc::SYS_getpid,
            libc::SYS_getppid,
            libc::SYS_getuid,
            libc::SYS_geteuid,
            libc::SYS_getgid,
            libc::SYS_getegid,
            libc::SYS_gettid,
        ];
        assert_eq!(aarch64::HARMLESS.map(i64::from), known);
    }

    #[test]
    fn new_calls_are_admitted() {
        for number in [448, 470, 511, 548, 1023, 99_999, LAST] {
            assert_eq!(admit(number), Ok(()));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_that_harm_are_refused() {
        // read, rt_sigreturn, pause, fork, vfork, exit, reboot, exit_group, uretprobe, uprobe, clone3, x32
        // rt_sigreturn, x32 fork.
        for number in [
            0,
            15,
            34,
            57,
            58,
            60,
            169,
            231,
            335,
            336,
            435,
            447,
            513,
            LAST + 1,
            0x4000_0039,
            u32::MAX,
        ] {
            assert!(admit(number).is_err(), "{number}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn harmless_and_unassigned_numbers_are_admitted() {
        for number in [24, 39, 110, 219, 337, 400, 423] {
            assert_eq!(admit(number), Ok(()));
        }
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn calls_that_harm_are_refused() {
        // io_setup, umount2, exit, exit_group, rt_sigreturn, reboot, clone, execve, wait4, clone3, x32 calls of x86-64.
        for number in [
            0,
            39,
            93,
            94,
            139,
            142,
            220,
            221,
            260,
            294,
            424,
            435,
            447,
            513,
            LAST + 1,
            u32::MAX,
        ] {
            assert!(admit(number).is_err(), "{number}");
        }
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn harmless_and_unassigned_numbers_are_admitted() {
        for number in [124, 172, 173, 128, 295, 400, 423] {
            assert_eq!(admit(number), Ok(()));
        }
    }
}
