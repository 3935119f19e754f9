//! Which clock to trust.

use clap::ValueEnum;

use super::ClockKind;
use crate::error::Failure;

/// The clock asked for on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// The TSC where the processor promises that it runs at a constant rate, else the monotonic clock.
    Auto,
    /// The TSC, also without that promise.
    Tsc,
    /// The TSC of an emulated guest where it counts instructions, which is proved first.
    Instructions,
    /// `CLOCK_MONOTONIC_RAW`.
    Monotonic,
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

/// The clock to use, and the reason where it is not the plain expectation (a trustworthy TSC).
///
/// # Errors
/// `Failure::Unavailable` if the TSC was asked for by name and cannot be read.
pub fn choose(
    wanted: Wanted,
    processor: Processor,
) -> Result<(ClockKind, Option<String>), Failure> {
    let lacking = match processor {
        Processor::Other => Some("this architecture has no time-stamp counter"),
        Processor::X86 { rdtscp: false, .. } => Some("the processor has no rdtscp instruction"),
        Processor::X86 { .. } => None,
    };
    let invariant = matches!(
        processor,
        Processor::X86 {
            invariant_tsc: true,
            ..
        }
    );
    match (wanted, lacking) {
        (Wanted::Monotonic, _) => Ok((
            ClockKind::MonotonicRaw,
            Some("asked for by --clock monotonic".into()),
        )),
        (Wanted::Tsc, Some(reason)) => Err(Failure::unavailable(
            format!("--clock tsc: {reason}"),
            "use --clock auto",
        )),
        (Wanted::Instructions, Some(reason)) => Err(Failure::unavailable(
            format!("--clock instructions: {reason}"),
            "use a guest: oscope run EXPERIMENT --on guest --clock instructions",
        )),
        (Wanted::Instructions, None) => Ok((ClockKind::Instructions, None)),
        (Wanted::Auto, Some(reason)) => Ok((ClockKind::MonotonicRaw, Some(reason.into()))),
        (Wanted::Auto | Wanted::Tsc, None) if invariant => Ok((ClockKind::Tsc, None)),
        (Wanted::Tsc, None) => Ok((
            ClockKind::Tsc,
            Some("asked for by --clock tsc, though CPUID does not promise a constant rate".into()),
        )),
        (Wanted::Auto, None) => Ok((
            ClockKind::MonotonicRaw,
            Some("CPUID does not promise a constant TSC rate (0x80000007 EDX bit 8)".into()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86(invariant_tsc: bool, rdtscp: bool) -> Processor {
        Processor::X86 {
            invariant_tsc,
            rdtscp,
        }
    }

    #[test]
    fn a_trustworthy_counter_is_taken_without_remark() {
        assert_eq!(
            choose(Wanted::Auto, x86(true, true)).unwrap(),
            (ClockKind::Tsc, None)
        );
        assert_eq!(
            choose(Wanted::Tsc, x86(true, true)).unwrap(),
            (ClockKind::Tsc, None)
        );
    }

    #[test]
    fn each_fallback_says_why() {
        for (processor, word) in [
            (x86(false, true), "constant"),
            (x86(true, false), "rdtscp"),
            (Processor::Other, "architecture"),
        ] {
            let (kind, why) = choose(Wanted::Auto, processor).unwrap();
            assert_eq!(kind, ClockKind::MonotonicRaw);
            assert!(why.unwrap().contains(word));
        }
    }

    #[test]
    fn the_counter_by_name_is_taken_with_a_remark_or_refused() {
        let (kind, why) = choose(Wanted::Tsc, x86(false, true)).unwrap();
        assert_eq!(kind, ClockKind::Tsc);
        assert!(why.is_some());
        assert!(choose(Wanted::Tsc, x86(true, false)).is_err());
        assert!(choose(Wanted::Instructions, x86(true, false)).is_err());
        assert!(choose(Wanted::Tsc, Processor::Other).is_err());
    }

    #[test]
    fn the_monotonic_clock_by_name_is_always_there() {
        let (kind, why) = choose(Wanted::Monotonic, x86(true, true)).unwrap();
        assert_eq!(kind, ClockKind::MonotonicRaw);
        assert!(why.is_some());
    }
}
