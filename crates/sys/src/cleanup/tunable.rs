//! The files of settings that make measurements steadier, as patterns of which a `*` stands for one or more digits.
//!
//! Documentation/admin-guide/pm/cpufreq.rst, admin-guide/mm/transhuge.rst, admin-guide/sysctl/kernel.rst,
//! core-api/irq/irq-affinity.rst.

use std::path::Path;

/// Which frequencies the CPUs run at.
pub const GOVERNOR: &[&str] = &["/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"];
/// Whether CPUs exceed their nominal frequency; the driver decides which there is.
pub const TURBO: &[&str] = &[
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
];
/// Which memory is given in huge pages.
pub const HUGE_PAGES: &[&str] = &["/sys/kernel/mm/transparent_hugepage/enabled"];
/// How far addresses are random in each process.
pub const RANDOM_ADDRESSES: &[&str] = &["/proc/sys/kernel/randomize_va_space"];
/// The CPUs that take the devices' interrupts.
pub const INTERRUPTS: &[&str] = &["/proc/irq/*/smp_affinity_list"];
const ALL: [&[&str]; 5] = [GOVERNOR, TURBO, HUGE_PAGES, RANDOM_ADDRESSES, INTERRUPTS];

/// Whether a path is that of a setting that may be tuned.
pub fn is_tunable(path: &Path) -> bool {
    ALL.into_iter()
        .flatten()
        .any(|place| fits(Path::new(place), path))
}

/// Whether a path is that of a pattern, of which a `*` stands for digits.
pub fn fits(pattern: &Path, path: &Path) -> bool {
    let (wanted, given) = (pattern.components(), path.components());
    pattern.components().count() == path.components().count()
        && wanted.zip(given).all(|(wanted, given)| {
            let (wanted, given) = (wanted.as_os_str(), given.as_os_str());
            let (Some(wanted), Some(given)) = (wanted.to_str(), given.to_str()) else {
                return false;
            };
            match wanted.split_once('*') {
                None => wanted == given,
                Some((before, after)) => given
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(after))
                    .is_some_and(|digits| {
                        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
                    }),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_digits_alone() {
        let pattern = Path::new("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
        let fits = |path| fits(pattern, Path::new(path));
        assert!(fits(
            "/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor"
        ));
        for other in [
            "/sys/devices/system/cpu/cpu/cpufreq/scaling_governor",
            "/sys/devices/system/cpu/cpu1x/cpufreq/scaling_governor",
            "/sys/devices/system/cpu/cpu1/../cpufreq/scaling_governor",
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor/more",
            "/tmp/cpu1/cpufreq/scaling_governor",
        ] {
            assert!(!fits(other), "{other}");
        }
        assert!(is_tunable(Path::new("/proc/irq/24/smp_affinity_list")));
        assert!(!is_tunable(Path::new("/proc/irq/default_smp_affinity")));
        assert!(!is_tunable(Path::new("/etc/passwd")));
    }
}
