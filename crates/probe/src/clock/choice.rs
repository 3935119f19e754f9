//! Which clock to trust.

use std::fs;
use std::path::Path;

use clap::ValueEnum;

use super::offsets::Skew;
use super::{ClockKind, counter};
use oscope_sys::affinity;
use oscope_sys::error::Failure;

/// The clock asked for on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RequestedClock {
    /// The TSC where the processor promises that it runs at a constant rate, the kernel trusts it and the CPUs'
    /// counters agree, else the monotonic clock.
    Auto,
    /// The TSC, also without that promise.
    Tsc,
    /// The virtual counter of arm64, also where the kernel uses another clock source.
    #[cfg_attr(not(target_arch = "aarch64"), value(skip), allow(dead_code))]
    Cntvct,
    /// The TSC of an emulated guest where it counts instructions, which is proved first.
    Instructions,
    /// `CLOCK_MONOTONIC_RAW`.
    Monotonic,
}

/// The clock sources that the kernel would use now.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// The clock source that the kernel uses now.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What the kernel says of the counter. It compares the TSC with other clocks while it runs and between CPUs when they
/// start, and takes it off its list when one of them disagrees (arch/x86/kernel/tsc.c, tsc_sync.c,
/// kernel/time/clocksource.c). The counter of arm64 is its clock source unless the device tree or the user wants
/// another one (drivers/clocksource/arm_arch_timer.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The TSC is on the list; the counter of arm64 is in use.
    Trusts,
    /// It is not.
    Distrusts,
    /// There is no list to read, as where /sys is not mounted.
    Silent,
}

impl Kernel {
    /// Whether the TSC is on the kernel's list of clock sources.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub fn that_lists_tsc() -> Self {
        Self::of_list(Path::new(CLOCK_SOURCES), "tsc")
    }

    /// Whether the kernel uses the counter of arm64.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    pub fn that_uses_arch_sys_counter() -> Self {
        Self::of_list(Path::new(CLOCK_SOURCE), "arch_sys_counter")
    }

    fn of_list(path: &Path, source: &str) -> Self {
        match fs::read_to_string(path) {
            Ok(list) if list.split_whitespace().any(|name| name == source) => Self::Trusts,
            Ok(_) => Self::Distrusts,
            Err(_) => Self::Silent,
        }
    }
}

/// What the processor says of its counter. Each architecture has one of these.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code)]
pub enum Processor {
    /// x86-64, with the answers of CPUID.
    X86 {
        /// Leaf 0x8000_0007, EDX bit 8: the rate is constant in all power states.
        invariant_tsc: bool,
        /// Leaf 0x8000_0001, EDX bit 27.
        rdtscp: bool,
    },
    /// arm64: no TSC, but a counter of constant rate.
    Arm64,
    /// Another architecture: no counter is read.
    Other,
}

/// The clock to use on this machine, and the reason where it is not a trustworthy TSC.
///
/// # Errors
/// As those of `choose`.
pub fn of_this_machine(wanted: RequestedClock) -> Result<(ClockKind, Option<String>), Failure> {
    choose(wanted, counter::processor(), counter::kernel(), || {
        Skew::between(&affinity::allowed()?)
    })
}

/// As [`of_this_machine`], where an earlier process of this boot has looked for a skew between the CPUs.
///
/// # Errors
/// As those of `choose`.
pub fn assuming_no_skew(wanted: RequestedClock) -> Result<(ClockKind, Option<String>), Failure> {
    let kernel = match counter::kernel() {
        // An earlier process of an older build took the TSC also where the list cannot be read.
        Kernel::Silent => Kernel::Trusts,
        known => known,
    };
    choose(wanted, counter::processor(), kernel, || Ok(None))
}

/// The clock to use, and the reason where it is not the plain expectation (a trustworthy counter). `skew` looks for one
/// between the CPUs' counters, and is asked only where nothing else speaks against the TSC.
///
/// # Errors
/// `Failure::Unavailable` if a counter was asked for by name and cannot be read.
fn choose(
    wanted: RequestedClock,
    processor: Processor,
    kernel: Kernel,
    skew: impl FnOnce() -> Result<Option<Skew>, Failure>,
) -> Result<(ClockKind, Option<String>), Failure> {
    if wanted == RequestedClock::Monotonic {
        let why = "asked for by --clock monotonic".into();
        return Ok((ClockKind::MonotonicRaw, Some(why)));
    }
    let lacking = match processor {
        Processor::Arm64 => return choose_arm64(wanted, kernel),
        Processor::Other => Some("this architecture has no time-stamp counter"),
        Processor::X86 { rdtscp: false, .. } => Some("the processor has no rdtscp instruction"),
        Processor::X86 { .. } => None,
    };
    let judged = || judge(processor, kernel, skew);
    match (wanted, lacking) {
        (RequestedClock::Tsc, Some(reason)) => Err(Failure::unavailable(
            format!("--clock tsc: {reason}"),
            "use --clock auto",
        )),
        (RequestedClock::Cntvct, _) => Err(Failure::unavailable(
            "--clock cntvct: this architecture has no cntvct_el0",
            "use --clock auto",
        )),
        (RequestedClock::Instructions, Some(reason)) => Err(Failure::unavailable(
            format!("--clock instructions: {reason}"),
            "use a guest: oscope run EXPERIMENT --on guest --clock instructions",
        )),
        (RequestedClock::Instructions, None) => Ok((ClockKind::Instructions, None)),
        (_, Some(reason)) => Ok((ClockKind::MonotonicRaw, Some(reason.into()))),
        (RequestedClock::Tsc, None) => {
            let (_, why) = judged();
            let why = why.map(|why| format!("asked for by --clock tsc, though {why}"));
            Ok((ClockKind::Tsc, why))
        }
        (_, None) => Ok(judged()),
    }
}

/// The clock to use on arm64. Programs can always read its counter, but only the kernel knows whether it keeps time:
/// where the kernel says nothing, the counter is not trusted.
fn choose_arm64(
    wanted: RequestedClock,
    kernel: Kernel,
) -> Result<(ClockKind, Option<String>), Failure> {
    let distrusted = match kernel {
        Kernel::Trusts => None,
        Kernel::Distrusts => Some(
            "the kernel's clock source is not arch_sys_counter \
             (/sys/devices/system/clocksource/clocksource0/current_clocksource)",
        ),
        Kernel::Silent => Some(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource cannot be read: whether the kernel \
             trusts cntvct_el0 is not known",
        ),
    };
    match (wanted, distrusted) {
        (RequestedClock::Tsc, _) => Err(Failure::unavailable(
            "--clock tsc: this architecture has no time-stamp counter",
            "use --clock auto",
        )),
        (RequestedClock::Instructions, _) => Err(Failure::unavailable(
            "--clock instructions: the counter of an emulated arm64 processor does not count instructions",
            "use a guest on x86-64: oscope run EXPERIMENT --on guest --clock instructions",
        )),
        (RequestedClock::Cntvct, Some(why)) => Ok((
            ClockKind::Cntvct,
            Some(format!("asked for by --clock cntvct, though {why}")),
        )),
        (_, Some(why)) => Ok((ClockKind::MonotonicRaw, Some(why.into()))),
        (_, None) => Ok((ClockKind::Cntvct, None)),
    }
}

/// The clock to use where the TSC can be read, and what speaks against the TSC. Where the CPUs cannot be asked whether
/// their counters agree, the kernel's verdict stands: it has compared them itself (arch/x86/kernel/tsc_sync.c).
fn judge(
    processor: Processor,
    kernel: Kernel,
    skew: impl FnOnce() -> Result<Option<Skew>, Failure>,
) -> (ClockKind, Option<String>) {
    let constant = !matches!(
        processor,
        Processor::X86 {
            invariant_tsc: false,
            ..
        }
    );
    let refusal = match kernel {
        _ if !constant => {
            "CPUID does not promise a constant TSC rate (0x80000007 EDX bit 8)".into()
        }
        Kernel::Distrusts => {
            format!("the kernel does not trust the TSC: it is not in {CLOCK_SOURCES}")
        }
        Kernel::Silent => {
            format!(
                "{CLOCK_SOURCES} cannot be read: whether the kernel trusts the TSC is not known"
            )
        }
        Kernel::Trusts => match skew() {
            Ok(None) => return (ClockKind::Tsc, None),
            Ok(Some(skew)) => skew.to_string(),
            Err(failure) => {
                let why = format!(
                    "the kernel trusts it; whether the CPUs' counters agree is not known: {failure}"
                );
                return (ClockKind::Tsc, Some(why));
            }
        },
    };
    (ClockKind::MonotonicRaw, Some(refusal))
}

#[cfg(test)]
mod tests {
    use super::super::offsets::Offsets;
    use super::*;
    use oscope_sys::testing::Folder;

    fn agreed() -> Result<Option<Skew>, Failure> {
        Ok(None)
    }

    fn unasked() -> Result<Option<Skew>, Failure> {
        panic!("nobody asks for the skew")
    }

    fn apart() -> Result<Option<Skew>, Failure> {
        let offsets = Offsets {
            cpus: vec![0, 1],
            ticks: vec![0.0, -500.0],
            error_ticks: vec![0.0, 60.0],
        };
        Ok(offsets.skew())
    }

    fn x86(invariant_tsc: bool, rdtscp: bool) -> Processor {
        Processor::X86 {
            invariant_tsc,
            rdtscp,
        }
    }

    #[test]
    fn a_trustworthy_counter_is_taken_without_remark() {
        for wanted in [RequestedClock::Auto, RequestedClock::Tsc] {
            let chosen = choose(wanted, x86(true, true), Kernel::Trusts, agreed).unwrap();
            assert_eq!(chosen, (ClockKind::Tsc, None));
        }
    }

    #[test]
    fn a_skew_between_the_cpus_refuses_the_counter() {
        let unknown = || Err(Failure::failed("CPU 1 did not answer CPU 0"));
        let chosen = |wanted, skew: fn() -> Result<Option<Skew>, Failure>| {
            choose(wanted, x86(true, true), Kernel::Trusts, skew).unwrap()
        };
        for (skew, auto, words) in [
            (
                apart as fn() -> _,
                ClockKind::MonotonicRaw,
                "of CPU 1 differs from that of CPU 0 by -500",
            ),
            // The kernel's own comparison stands.
            (unknown, ClockKind::Tsc, "CPU 1 did not answer CPU 0"),
        ] {
            let (kind, why) = chosen(RequestedClock::Auto, skew);
            assert_eq!(kind, auto);
            assert!(why.as_ref().unwrap().contains(words), "{why:?}");
            let (kind, why) = chosen(RequestedClock::Tsc, skew);
            assert_eq!(kind, ClockKind::Tsc);
            assert!(why.as_ref().unwrap().contains(words), "{why:?}");
        }
    }

    #[test]
    fn each_fallback_says_why() {
        for (processor, kernel, word) in [
            (x86(false, true), Kernel::Trusts, "constant"),
            (x86(true, false), Kernel::Trusts, "rdtscp"),
            (x86(true, true), Kernel::Distrusts, "kernel does not trust"),
            (x86(true, true), Kernel::Silent, "cannot be read"),
            (Processor::Other, Kernel::Silent, "architecture"),
        ] {
            let (kind, why) = choose(RequestedClock::Auto, processor, kernel, unasked).unwrap();
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
            let (kind, why) = choose(RequestedClock::Tsc, processor, kernel, unasked).unwrap();
            assert_eq!(kind, ClockKind::Tsc);
            assert!(why.is_some());
        }
        for (wanted, processor) in [
            (RequestedClock::Tsc, x86(true, false)),
            (RequestedClock::Instructions, x86(true, false)),
            (RequestedClock::Tsc, Processor::Other),
        ] {
            assert!(choose(wanted, processor, Kernel::Trusts, unasked).is_err());
        }
    }

    #[test]
    fn the_monotonic_clock_by_name_is_always_there() {
        let (kind, why) = choose(
            RequestedClock::Monotonic,
            x86(true, true),
            Kernel::Trusts,
            unasked,
        )
        .unwrap();
        assert_eq!(kind, ClockKind::MonotonicRaw);
        assert!(why.is_some());
    }

    #[test]
    fn the_counter_of_arm64_is_taken_where_the_kernel_uses_it() {
        let chosen = |wanted, kernel| choose(wanted, Processor::Arm64, kernel, unasked).unwrap();
        assert_eq!(
            chosen(RequestedClock::Auto, Kernel::Trusts),
            (ClockKind::Cntvct, None)
        );
        for (kernel, word) in [
            (Kernel::Distrusts, "is not arch_sys_counter"),
            (Kernel::Silent, "cannot be read"),
        ] {
            let (kind, why) = chosen(RequestedClock::Auto, kernel);
            assert_eq!(kind, ClockKind::MonotonicRaw);
            assert!(why.unwrap().contains(word));
            let (kind, why) = chosen(RequestedClock::Cntvct, kernel);
            assert_eq!(kind, ClockKind::Cntvct);
            assert!(why.unwrap().contains("--clock cntvct"));
        }
        assert!(
            choose(
                RequestedClock::Tsc,
                Processor::Arm64,
                Kernel::Trusts,
                unasked
            )
            .is_err()
        );
        assert!(
            choose(
                RequestedClock::Instructions,
                Processor::Arm64,
                Kernel::Trusts,
                unasked
            )
            .is_err()
        );
        assert!(
            choose(
                RequestedClock::Cntvct,
                x86(true, true),
                Kernel::Trusts,
                unasked
            )
            .is_err()
        );
    }

    #[test]
    fn the_kernel_trusts_what_it_lists() {
        let folder = Folder::new();
        let list = folder.0.join("available_clocksource");
        assert_eq!(Kernel::of_list(&list, "tsc"), Kernel::Silent);
        for (text, verdict) in [
            ("tsc kvm-clock \n", Kernel::Trusts),
            ("kvm-clock tsc-early hpet \n", Kernel::Distrusts),
            ("\n", Kernel::Distrusts),
        ] {
            fs::write(&list, text).unwrap();
            assert_eq!(Kernel::of_list(&list, "tsc"), verdict);
        }
    }
}
