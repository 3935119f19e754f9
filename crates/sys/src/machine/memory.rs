//! Memory: how much there is, and the policies that change what touching it costs.

use serde_json::{Value, json};

use super::cgroup;
use super::found::{Found, Ledger, Remedy, number, text};

/// Bytes in a page.
#[must_use]
pub fn page_bytes() -> u64 {
    // SAFETY: it only reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// A field of `/proc/meminfo`, in bytes (the file writes KiB as `kB`).
#[must_use]
pub fn meminfo_field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// The word in brackets, as in `always [madvise] never`.
#[must_use]
pub fn chosen_word(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// The chosen word of `/sys/kernel/mm/transparent_hugepage/enabled`.
///
/// # Errors
/// Where the kernel has no transparent huge pages, with the remedy.
pub fn transparent_huge_pages() -> Found<String> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = text(path).or_remedy("run a kernel with CONFIG_TRANSPARENT_HUGEPAGE")?;
    chosen_word(&text)
        .map(str::to_owned)
        .ok_or_else(|| format!("{path} holds {text:?}, with no word chosen"))
}

/// Bytes that this process can still touch without swapping or being killed: the least of `MemAvailable` and what each
/// memory cgroup above it has left.
///
/// # Errors
/// `/proc/meminfo` does not have it (Linux before 3.14).
pub fn room() -> Found<u64> {
    let available = machine_room()?;
    Ok(cgroup::memory_room().map_or(available, |room| room.min(available)))
}

/// Bytes that the machine can still give without swapping, whatever the limits of this process.
///
/// # Errors
/// `/proc/meminfo` does not have it (Linux before 3.14).
pub fn machine_room() -> Found<u64> {
    let meminfo = text("/proc/meminfo")?;
    Ok(meminfo_field(&meminfo, "MemAvailable").ok_or("/proc/meminfo has no MemAvailable")?)
}

/// The `memory` object.
pub fn record(ledger: &mut Ledger) -> Value {
    let meminfo = text("/proc/meminfo");
    let field = |name: &str| -> Found<u64> {
        let meminfo = meminfo.as_ref().map_err(Clone::clone)?;
        meminfo_field(meminfo, name).ok_or_else(|| format!("/proc/meminfo has no {name}"))
    };
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page
        .ok()
        .flatten()
        .ok_or_else(|| "sysconf does not report the page size".to_owned());
    let lru_gen = text("/sys/kernel/mm/lru_gen/enabled")
        .or_remedy("run Linux 6.1 or later with CONFIG_LRU_GEN");
    json!({
        "total_bytes": ledger.take("total_bytes", field("MemTotal")),
        "available_bytes": ledger.take("available_bytes", field("MemAvailable")),
        "swap_total_bytes": ledger.take("swap_total_bytes", field("SwapTotal")),
        "page_bytes": ledger.take("page_bytes", page),
        "thp": ledger.take("thp", transparent_huge_pages()),
        "lru_gen": ledger.take("lru_gen", lru_gen),
        "overcommit": ledger.take("overcommit", number::<u8>("/proc/sys/vm/overcommit_memory")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24684096 kB\n\
        MemFree:        24264856 kB\n\
        MemAvailable:   24311544 kB\n\
        SwapTotal:             0 kB\n\
        HugePages_Total:       3\n";

    #[test]
    fn fields_are_in_bytes() {
        assert_eq!(meminfo_field(MEMINFO, "MemTotal"), Some(24_684_096 * 1024));
        assert_eq!(meminfo_field(MEMINFO, "SwapTotal"), Some(0));
    }

    #[test]
    fn a_missing_field_or_one_without_unit_is_none() {
        assert_eq!(meminfo_field(MEMINFO, "Mem"), None);
        assert_eq!(meminfo_field(MEMINFO, "HugePages_Total"), None);
        assert_eq!(meminfo_field("MemTotal: many kB", "MemTotal"), None);
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen_word("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen_word("always madvise never"), None);
    }
}
