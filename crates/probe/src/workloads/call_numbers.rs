//! Which system call numbers may be called in a loop with zeroes as arguments.
//!
//! Numbers and names are those of `arch/x86/entry/syscalls/syscall_64.tbl`; a number from 424 on means the same on every architecture.

/// First number open to new calls: below it, all are known.
const FIRST_NEW: u32 = 448;
/// Last number accepted: beyond it the x32 ABI begins (`arch/x86/include/uapi/asm/unistd.h`, `__X32_SYSCALL_BIT`).
const LAST: u32 = (1 << 30) - 1;
/// On kernels before 5.4 the 64-bit entry reaches x32's own calls here, with `rt_sigreturn` among them.
const X32: std::ops::RangeInclusive<u32> = 512..=547;

/// Take no argument, return at once and change nothing.
#[cfg(target_arch = "x86_64")]
const HARMLESS: [u32; 10] = [
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
#[cfg(not(target_arch = "x86_64"))]
const HARMLESS: [u32; 0] = [];

/// Never assigned on x86-64 (`syscall_64.tbl`: "don't use numbers 387 through 423"; 335 and 336 are `uretprobe` and `uprobe`,
/// which kill a caller that is no trampoline).
#[cfg(target_arch = "x86_64")]
const UNASSIGNED: std::ops::RangeInclusive<u32> = 337..=423;

/// Whether system call `number` may be measured.
///
/// # Errors
/// Why not, in one line.
pub fn admit(number: u32) -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    if UNASSIGNED.contains(&number) {
        return Ok(());
    }
    if HARMLESS.contains(&number) {
        return Ok(());
    }
    if number > LAST {
        return Err(format!(
            "nr:{number} is no system call number; the last accepted is {LAST}"
        ));
    }
    if X32.contains(&number) {
        return Err(format!(
            "nr:{number} belongs to the x32 ABI, whose rt_sigreturn would end the probe"
        ));
    }
    if number >= FIRST_NEW {
        return Ok(());
    }
    Err(format!(
        "nr:{number} is refused: it takes arguments, never returns, creates processes or changes the machine; \
         accepted are {HARMLESS:?}, unassigned numbers and those from {FIRST_NEW} on"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_calls_are_admitted() {
        for number in [448, 470, 511, 548, 1023, 99_999, LAST] {
            assert_eq!(admit(number), Ok(()));
        }
    }

    #[test]
    fn calls_that_harm_are_refused() {
        // read, rt_sigreturn, pause, fork, vfork, exit, reboot, exit_group, uretprobe, uprobe, clone3, x32 rt_sigreturn, x32 fork.
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
}
