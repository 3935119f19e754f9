//! Which clock to trust.

use std::fs;
use std::path::Path;

use clap::ValueEnum;

use super::ClockKind;
use oscope_sys::error::Failure;

/// The clock asked for on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// The TSC where the processor promises that it runs at a constant rate and the kernel trusts it, else the monotonic clock.
    Auto,
    /// The TSC, also without that promise.
    Tsc,
    /// The TSC of an emulated guest where it counts instructions, which is proved first.
    Instructions,
    /// `CLOCK_MONOTONIC_RAW`.
    Monotonic,
}

/// The clock sources that the kernel would use now.
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// What the kernel says of the time-stamp counter. It compares the counter with other clocks while it runs and between CPUs when they start, and
/// takes it off its list when one of them disagrees (arch/x86/kernel/tsc.c, tsc_sync.c, kernel/time/clocksource.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The TSC is on the list.
    Trusts,
    /// The TSC is not on the list.
    Distrusts,
    /// There is no list to read, as where /sys is not mounted.
    Silent,
}

impl Kernel {
    /// Read the kernel's list of clock sources.
    pub fn of_this_machine() -> Self {
        Self::of_list(Path::new(CLOCK_SOURCES))
    }

    fn of_list(path: &Path) -> Self {
        match fs::read_to_string(path) {
            Ok(list) if list.split_whitespace().any(|name| name == "tsc") => Self::Trusts,
            Ok(_) => Self::Distrusts,
            Err(_) => Self::Silent,
        }
    }
}

/// What the processor says of its time-stamp counter.
#[derive(Debug, Clone, Copy)]
pub enum Processor {
    /// x86-64, with the answers of CPUID.
    X86 {
        /// Leaf 0x8000_0007, EDX bit 8: the rate is constant in all power states.
        invariant_tsc: bool,
        /// Leaf 0x8000_0001, EDX bit 27.
        rdtscp: bool,
    },
    /// Another architecture: no TSC.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code))]
    Other,
}

impl Processor {
    /// Ask CPUID.
    #[cfg(target_arch = "x86_64")]
    pub fn of_this_machine() -> Self {
        let cpuid = raw_cpuid::CpuId::new();
        Self::X86 {
            invariant_tsc: cpuid
                .get_advanced_power_mgmt_info()
                .is_some_and(|info| info.has_invariant_tsc()),
            rdtscp: cpuid
                .get_extended_processor_and_feature_identifiers()
                .is_some_and(|info| info.has_rdtscp()),
        }
    }

    /// There is nothing to ask.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_this_machine() -> Self {
        Self::Other
    }
}

/// The clock to use on this machine, and the reason where it is not a trustworthy TSC.
///
/// # Errors
/// As those of `choose`.
pub fn of_this_machine(wanted: Wanted) -> Result<(ClockKind, Option<String>), Failure> {
    choose(
        wanted,
        Processor::of_this_machine(),
        Kernel::of_this_machine(),
    )
}

/// The clock to use, and the reason where it is not the plain expectation (a trustworthy TSC).
///
/// # Errors
/// `Failure::Unavailable` if the TSC was asked for by name and cannot be read.
fn choose(
    wanted: Wanted,
    processor: Processor,
    kernel: Kernel,
) -> Result<(ClockKind, Option<String>), Failure> {
    if wanted == Wanted::Monotonic {
        let why = "asked for by --clock monotonic".into();
        return Ok((ClockKind::MonotonicRaw, Some(why)));
    }
    let lacking = match processor {
        Processor::Other => Some("this architecture has no time-stamp counter"),
        Processor::X86 { rdtscp: false, .. } => Some("the processor has no rdtscp instruction"),
        Processor::X86 { .. } => None,
    };
    let distrusted = why_distrusted(processor, kernel);
    match (wanted, lacking) {
        (Wanted::Tsc, Some(reason)) => Err(Failure::unavailable(
            format!("--clock tsc: {reason}"),
            "use --clock auto",
        )),
        (Wanted::Instructions, Some(reason)) => Err(Failure::unavailable(
            format!("--clock instructions: {reason}"),
            "use a guest: oscope run EXPERIMENT --on guest --clock instructions",
        )),
        (Wanted::Instructions, None) => Ok((ClockKind::Instructions, None)),
        (_, Some(reason)) => Ok((ClockKind::MonotonicRaw, Some(reason.into()))),
        (Wanted::Tsc, None) => {
            let why = distrusted.map(|why| format!("asked for by --clock tsc, though {why}"));
            Ok((ClockKind::Tsc, why))
        }
        (_, None) => Ok(distrusted.map_or((ClockKind::Tsc, None), |why| {
            (ClockKind::MonotonicRaw, Some(why.into()))
        })),
    }
}

/// Why a TSC that can be read may not tell the time.
fn why_distrusted(processor: Processor, kernel: Kernel) -> Option<&'static str> {
    match processor {
        Processor::X86 {
            invariant_tsc: false,
            ..
        } => Some("CPUID does not promise a constant TSC rate (0x80000007 EDX bit 8)"),
        _ if kernel == Kernel::Distrusts => Some(
            "the kernel does not trust the TSC: it is not in /sys/devices/system/clocksource/clocksource0/available_clocksource",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscope_sys::testing::Folder;

    fn x86(invariant_tsc: bool, rdtscp: bool) -> Processor {
        Processor::X86 {
            invariant_tsc,
            rdtscp,
        }
    }

    #[test]
    fn a_trustworthy_counter_is_taken_without_remark() {
        for kernel in [Kernel::Trusts, Kernel::Silent] {
            for wanted in [Wanted::Auto, Wanted::Tsc] {
                let chosen = choose(wanted, x86(true, true), kernel).unwrap();
                assert_eq!(chosen, (ClockKind::Tsc, None));
            }
        }
    }

    #[test]
    fn each_fallback_says_why() {
        for (processor, kernel, word) in [
            (x86(false, true), Kernel::Trusts, "constant"),
            (x86(true, false), Kernel::Trusts, "rdtscp"),
            (x86(true, true), Kernel::Distrusts, "kernel"),
            (Processor::Other, Kernel::Silent, "architecture"),
        ] {
            let (kind, why) = choose(Wanted::Auto, processor, kernel).unwrap();
            assert_eq!(kind, ClockKind::MonotonicRaw);
            assert!(why.unwrap().contains(word));
        }
    }

    #[test]
    fn the_counter_by_name_is_taken_with_a_remark_or_refused() {
        for (processor, kernel) in [
            (x86(false, true), Kernel::Trusts),
            (x86(true, true), Kernel::Distrusts),
        ] {
            let (kind, why) = choose(Wanted::Tsc, processor, kernel).unwrap();
            assert_eq!(kind, ClockKind::Tsc);
            assert!(why.is_some());
        }
        for (wanted, processor) in [
            (Wanted::Tsc, x86(true, false)),
            (Wanted::Instructions, x86(true, false)),
            (Wanted::Tsc, Processor::Other),
        ] {
            assert!(choose(wanted, processor, Kernel::Trusts).is_err());
        }
    }

    #[test]
    fn the_monotonic_clock_by_name_is_always_there() {
        let (kind, why) = choose(Wanted::Monotonic, x86(true, true), Kernel::Trusts).unwrap();
        assert_eq!(kind, ClockKind::MonotonicRaw);
        assert!(why.is_some());
    }

    #[test]
    fn the_kernel_trusts_what_it_lists() {
        let folder = Folder::new();
        let list = folder.0.join("available_clocksource");
        assert_eq!(Kernel::of_list(&list), Kernel::Silent);
        for (text, verdict) in [
            ("tsc kvm-clock \n", Kernel::Trusts),
            ("kvm-clock tsc-early hpet \n", Kernel::Distrusts),
            ("\n", Kernel::Distrusts),
        ] {
            fs::write(&list, text).unwrap();
            assert_eq!(Kernel::of_list(&list), verdict);
        }
    }
}
