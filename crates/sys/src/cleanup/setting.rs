//! Settings of the kernel that are borrowed: set for a request, and restored as they were, also after a kill.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::resource::{Outcome, Resource, strange};
use super::{CleanupGuard, tunable};
use crate::affinity::parse_list;
use crate::diagnostics::program;
use crate::error::Failure;

/// Pages read from swap at once, as a power of two (Documentation/admin-guide/sysctl/vm.rst).
pub const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// What `my_precious()` logs: 0 nothing, 1 at a limited rate, 2 a line each call (kernel/patches/my_precious.patch).
pub const MY_PRECIOUS_LOG: &str = "/proc/sys/kernel/my_precious_log";
/// Which referenced folios are reclaimed all the same: 0 none, 1 those that would be activated, 2 all
/// (kernel/patches/reclaim-policy.patch).
pub const RECLAIM_REFERENCED: &str = "/proc/sys/vm/reclaim_referenced";
/// Which parts of the multi-generational LRU are on, as bits; bit 0 is the LRU itself
/// (Documentation/admin-guide/mm/multigen_lru.rst).
pub const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";
/// The CPUs that may take an interrupt (Documentation/core-api/irq/irq-affinity.rst).
const AFFINITY: &str = "smp_affinity_list";
/// The settings that may be changed here, beside those of [`tunable`].
const SETTINGS: [&str; 4] = [PAGE_CLUSTER, MY_PRECIOUS_LOG, RECLAIM_REFERENCED, LRU_GEN];

/// Folders of tests, each of which stands for the root of a kernel.
static ROOTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Have the settings below `root` count as the kernel's, in this process: for tests, which change none of the
/// machine's.
#[doc(hidden)]
pub fn accept_below(root: &Path) {
    let mut roots = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    roots.push(root.to_owned());
}

/// Have the kernel's setting at `path` be `value` until what is returned is dropped; `None` where it is so already.
///
/// # Errors
/// `Failure::Unavailable` where it cannot be read or set: with `remedy` where this kernel has no such setting.
pub fn borrow(path: &Path, value: &str, remedy: &str) -> Result<Option<CleanupGuard>, Failure> {
    let before = fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::unavailable(format!("this kernel has no {}", path.display()), remedy)
        }
        _ => Failure::system(&format!("reading {}", path.display()), error),
    })?;
    let before = chosen(before.trim()).to_owned();
    if before == value || path.ends_with(AFFINITY) && same(path, &before, value) {
        return Ok(None);
    }
    let made = CleanupGuard::log_intent(Resource::Setting {
        path: PathBuf::from(path),
        before,
        set: value.to_owned(),
    })?;
    fs::write(path, value).map_err(|error| {
        Failure::unavailable_system(
            &format!("{} cannot be set", path.display()),
            error,
            "run as root, on a machine or in a container that may change it",
        )
    })?;
    let now = fs::read_to_string(path)
        .map_err(|error| Failure::system(&format!("reading {}", path.display()), error))?;
    match same(path, now.trim(), value) {
        true => Ok(Some(made)),
        false => Err(Failure::failed(format!(
            "{} is {} and not {value}",
            path.display(),
            now.trim()
        ))),
    }
}

/// Write what the setting was, unless somebody has set it since.
///
/// # Errors
/// `Failure::Unavailable` where it is no setting that is changed here, or cannot be written.
pub fn put_back(path: &Path, before: &str, set: &str) -> Result<Outcome, Failure> {
    if !is_ours(path) {
        return Err(strange(path, "is no setting that is changed here"));
    }
    let now = match fs::read_to_string(path) {
        // The same kernel runs, so that it is only hidden, and still set.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Failure::unavailable(
                format!("{} is not there now", path.display()),
                format!("mount /proc and /sys, and run {} restore", program()),
            ));
        }
        other => other.map_err(Failure::from)?,
    };
    // Somebody has set it since, and will have meant it.
    if !same(path, now.trim(), set) {
        return Ok(Outcome::Gone);
    }
    fs::write(path, before).map_err(|error| {
        Failure::unavailable_system(
            &format!("writing {before} to {}", path.display()),
            error,
            format!("as root: echo {before} > {}", path.display()),
        )
    })?;
    Ok(Outcome::Undone)
}

/// What is chosen in a text such as `always [madvise] never`; else the text.
pub fn chosen(text: &str) -> &str {
    let bracketed = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(value, _)| value)
}

/// Whether the path is that of a setting.
fn is_ours(path: &Path) -> bool {
    let roots = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = |known: &&str| {
        Path::new(known) == path
            || roots
                .iter()
                .any(|root| root.join(known.trim_start_matches('/')) == path)
    };
    SETTINGS.iter().any(is_known) || tunable::is_tunable(path)
}

/// Whether two texts mean one value. What the kernel shows of the LRU depends on the processor beside what was written,
/// so that only the bit of the LRU itself is compared.
fn same(path: &Path, one: &str, other: &str) -> bool {
    let (one, other) = (chosen(one), chosen(other));
    if path.ends_with(AFFINITY) {
        return parse_list(one).is_some() && parse_list(one) == parse_list(other);
    }
    if path.ends_with(LRU_GEN.trim_start_matches('/')) {
        return lru_is_on(one).is_some() && lru_is_on(one) == lru_is_on(other);
    }
    one == other
}

fn lru_is_on(text: &str) -> Option<bool> {
    let bits = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{below, kernel, value};

    #[test]
    fn a_borrowed_setting_is_put_back_as_it_was() {
        let folder = kernel(&[(RECLAIM_REFERENCED, "0"), (LRU_GEN, "0x0007")]);
        for (path, set, before) in [
            (RECLAIM_REFERENCED, "2", "0"),
            (LRU_GEN, "0x0000", "0x0007"),
        ] {
            let borrowed = borrow(&below(&folder, path), set, "none").expect("it can be set");
            assert_eq!(value(&folder, path), set);
            drop(borrowed.expect("it was something else"));
            assert_eq!(value(&folder, path), before);
        }
    }

    #[test]
    fn what_is_so_already_is_not_touched() {
        let folder = kernel(&[(MY_PRECIOUS_LOG, "2"), (LRU_GEN, "0x0007")]);
        for (path, set) in [(MY_PRECIOUS_LOG, "2"), (LRU_GEN, "0x0007")] {
            let borrowed = borrow(&below(&folder, path), set, "none").expect("it can be read");
            assert!(borrowed.is_none());
            assert_eq!(value(&folder, path), set);
        }
    }

    #[test]
    fn a_part_of_the_lru_is_not_the_whole() {
        let folder = kernel(&[(LRU_GEN, "0x0001")]);
        let borrowed = borrow(&below(&folder, LRU_GEN), "0x0007", "none").expect("it can be set");
        assert_eq!(value(&folder, LRU_GEN), "0x0007");
        drop(borrowed);
        assert_eq!(value(&folder, LRU_GEN), "0x0001");
    }

    #[test]
    fn what_somebody_set_meanwhile_stays() {
        let folder = kernel(&[(RECLAIM_REFERENCED, "0")]);
        let path = below(&folder, RECLAIM_REFERENCED);
        let borrowed = borrow(&path, "1", "none").expect("it can be set");
        fs::write(&path, "2").expect("it can be written");
        drop(borrowed);
        assert_eq!(value(&folder, RECLAIM_REFERENCED), "2");
    }

    #[test]
    fn a_kernel_without_it_is_reported_with_the_remedy() {
        let folder = kernel(&[]);
        let refused = borrow(&below(&folder, RECLAIM_REFERENCED), "1", "boot another");
        let Err(Failure::Unavailable {
            message, remedy, ..
        }) = refused
        else {
            panic!("it has none");
        };
        assert!(
            message.contains("reclaim_referenced") && remedy.as_deref() == Some("boot another")
        );
    }

    #[test]
    fn what_the_kernel_shows_of_the_lru_is_compared_by_its_first_bit() {
        let path = Path::new(LRU_GEN);
        assert!(same(path, "0x0003", "0x0007") && same(path, "0x0000", "0x0002"));
        assert!(!same(path, "0x0007", "0x0000") && !same(path, "y", "y"));
        assert!(!same(Path::new(PAGE_CLUSTER), "3", "0"));
    }

    #[test]
    fn the_choice_among_several_and_lists_of_cpus_are_compared_by_what_they_mean() {
        let thp = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
        assert!(same(thp, "always [madvise] never", "madvise"));
        assert!(!same(thp, "always [madvise] never", "always"));
        let affinity = Path::new("/proc/irq/24/smp_affinity_list");
        assert!(same(affinity, "0-2", "0,1,2") && !same(affinity, "0", "1"));
    }
}
