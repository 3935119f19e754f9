//! Pinning the calling thread to a CPU, and putting it back.

use std::collections::BTreeSet;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::diagnostics;
use crate::error::Failure;

/// The calling thread.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// The CPUs that the calling thread may run on, in rising order.
///
/// # Errors
/// `Failure::Failed` if the kernel refuses (more CPUs than a `cpu_set_t` holds).
pub fn allowed() -> Result<Vec<usize>, Failure> {
    Ok(members(&current()?))
}

/// The CPUs that are there and switched on, in rising order.
///
/// # Errors
/// `Failure::Failed` if the kernel does not report it, or not as `Documentation/admin-guide/cputopology.rst` has it.
pub fn online() -> Result<Vec<usize>, Failure> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::system(&format!("reading {path}"), error))?;
    parse_list(&text).ok_or_else(|| Failure::failed(format!("{path} is {text:?}")))
}

/// No kernel has more CPUs (NR_CPUS of x86 is 8192 at most).
const MOST_CPUS: usize = 1 << 16;

/// CPUs as the kernel lists them, such as `0-2,5`, each once, ascending, none in an empty one; `None` if it is no such
/// list.
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// Keep the calling thread on `cpu` from now on.
///
/// # Errors
/// `Failure::Failed` if that CPU does not exist or is not allowed.
pub fn pin(cpu: usize) -> Result<(), Failure> {
    keep_on(THIS_THREAD, &[cpu])
        .map_err(|error| Failure::system(&format!("pinning to CPU {cpu}"), error))
}

/// Keep a process of one thread on `cpus` from now on.
///
/// # Errors
/// `Failure::Failed` if none of them is allowed, or it has ended.
pub fn place(process: Pid, cpus: &[usize]) -> Result<(), Failure> {
    keep_on(process, cpus).map_err(|error| {
        Failure::system(
            &format!("placing the process {process} on CPUs {cpus:?}"),
            error,
        )
    })
}

fn keep_on(thread: Pid, cpus: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu))?;
    sched_setaffinity(thread, &set)
}

/// Keeps the calling thread on one CPU, or on several; dropping it gives back the CPUs the thread had before.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pin the calling thread to `cpu`.
    ///
    /// # Errors
    /// As for [`pin`].
    pub fn to(cpu: usize) -> Result<Self, Failure> {
        let before = current()?;
        pin(cpu)?;
        Ok(Self { before })
    }

    /// Let the calling thread run on each of `cpus`.
    ///
    /// # Errors
    /// `Failure::Failed` if none of them is allowed, or one cannot be.
    pub fn over(cpus: &[usize]) -> Result<Self, Failure> {
        let before = current()?;
        keep_on(THIS_THREAD, cpus)
            .map_err(|error| Failure::system(&format!("spreading over CPUs {cpus:?}"), error))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(error) = sched_setaffinity(THIS_THREAD, &self.before) {
            diagnostics::warn(format_args!("cannot give back the CPU affinity: {error}"));
        }
    }
}

fn current() -> Result<CpuSet, Failure> {
    sched_getaffinity(THIS_THREAD)
        .map_err(|error| Failure::system("reading the CPU affinity", error))
}

/// The CPUs of a set, ascending.
pub fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_is_undone_by_dropping() {
        let before = allowed().unwrap();
        let last = *before.last().unwrap();
        let pinned = Pinned::to(last).unwrap();
        assert_eq!(allowed().unwrap(), [last]);
        drop(pinned);
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn spreading_undoes_pinning_until_it_is_dropped() {
        let all = allowed().unwrap();
        let _pinned = Pinned::to(all[0]).unwrap();
        let spread = Pinned::over(&all).unwrap();
        assert_eq!(allowed().unwrap(), all);
        drop(spread);
        assert_eq!(allowed().unwrap(), [all[0]]);
        assert!(Pinned::over(&[]).is_err());
    }

    #[test]
    fn a_list_of_cpus_is_read_as_the_kernel_writes_it() {
        assert_eq!(parse_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("3,1,1-2"), Some(vec![1, 2, 3]));
        for none in ["0-x", "a", "1-", "3-1", "0,,1", "0-99999999"] {
            assert_eq!(parse_list(none), None, "{none}");
        }
        let online = online().unwrap();
        assert!(allowed().unwrap().iter().all(|cpu| online.contains(cpu)));
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        assert!(pin(CpuSet::count() - 1).is_err());
        assert!(pin(usize::MAX).is_err());
    }
}
