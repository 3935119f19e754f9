//! Which CPU is a neighbour of which, and how large the caches are.

use std::fs;

use oscope_sys::affinity::parse_list;
use oscope_sys::error::Failure;
use oscope_sys::machine::cpu;

/// Another CPU, and what it shares with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its number.
    pub cpu: usize,
    /// What it shares.
    pub shares: Shares,
}

/// What two CPUs share; the nearer, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shares {
    /// One core: they are SMT siblings.
    Core,
    /// One package, with its last cache.
    Package,
    /// Only the machine.
    Machine,
}

impl Shares {
    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Core => "its SMT sibling",
            Self::Package => "another core of its package, since it has no SMT sibling here",
            Self::Machine => "of another package, since no other CPU of its own is allowed here",
        }
    }
}

/// The nearest of the `allowed` CPUs beside `cpu`.
///
/// # Errors
/// `Failure::Unavailable` where there is no other.
pub fn neighbour(cpu: usize, allowed: &[usize]) -> Result<Neighbour, Failure> {
    let topology = |name: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        let text = fs::read_to_string(path).ok();
        text.and_then(|text| parse_list(&text)).unwrap_or_default()
    };
    // The older name of both files (Documentation/admin-guide/cputopology.rst) is on every kernel.
    nearest(
        cpu,
        allowed,
        &topology("thread_siblings_list"),
        &topology("core_siblings_list"),
    )
}

fn nearest(
    cpu: usize,
    allowed: &[usize],
    core: &[usize],
    package: &[usize],
) -> Result<Neighbour, Failure> {
    let groups = [
        (core, Shares::Core),
        (package, Shares::Package),
        (allowed, Shares::Machine),
    ];
    let found = groups.into_iter().find_map(|(members, shares)| {
        let other = |&&member: &&usize| member != cpu && allowed.contains(&member);
        let cpu = *members.iter().rev().find(other)?;
        Some(Neighbour { cpu, shares })
    });
    found.ok_or_else(|| {
        Failure::unavailable(
            format!("CPU {cpu} has no neighbour here: one CPU is allowed"),
            "allow another CPU (taskset, cpuset), or choose the cause hog",
        )
    })
}

/// Bytes of the largest cache; `None` where the kernel does not report it.
pub fn last_cache_bytes() -> Option<u64> {
    let caches = cpu::caches().ok()?;
    caches.iter().map(|cache| cache.size_bytes).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_allowed_neighbour_is_taken() {
        let all = [0, 1, 2, 3, 4, 5];
        let found = |allowed: &[usize]| nearest(1, allowed, &[0, 1], &[0, 1, 2, 3]);
        let is = |cpu, shares| Ok(Neighbour { cpu, shares });
        assert_eq!(found(&all), is(0, Shares::Core));
        assert_eq!(found(&all[1..]), is(3, Shares::Package));
        assert_eq!(found(&[1, 4, 5]), is(5, Shares::Machine));
        assert!(matches!(found(&[1]), Err(Failure::Unavailable { .. })));
    }

    #[test]
    fn this_machine_reports_its_own() {
        let allowed = oscope_sys::affinity::allowed().expect("some CPU is allowed");
        let last = *allowed.last().expect("some CPU is allowed");
        match neighbour(last, &allowed) {
            Ok(found) => assert!(found.cpu != last && allowed.contains(&found.cpu)),
            Err(_) => assert_eq!(allowed.len(), 1),
        }
    }
}
