//! What the kernel reclaimed and brought back, of the whole machine (`/proc/vmstat`).

use std::fs;

use super::patience::retry;
use oscope_sys::error::Failure;

/// Reading it has the kernel add up what each CPU has counted by itself (Documentation/admin-guide/sysctl/vm.rst); for
/// root only.
const REFRESH: &str = "/proc/sys/vm/stat_refresh";
/// Figures.
const FIGURES: usize = 7;

/// The figures, in pages.
pub const NAMES: [&str; FIGURES] = [
    "swap_ins",
    "swap_outs",
    "refaults_anon",
    "refaults_file",
    "activations",
    "scanned",
    "reclaimed",
];

/// The kernel's counters whose sum each is. Those that count kswapd apart leave out what control groups reclaim
/// (`shrink_inactive_list`, mm/vmscan.c), those that count anonymous memory and files apart do not.
const COUNTERS: [&[&str]; FIGURES] = [
    &["pswpin"],
    &["pswpout"],
    &["workingset_refault_anon"],
    &["workingset_refault_file"],
    &["pgactivate"],
    &["pgscan_anon", "pgscan_file"],
    &["pgsteal_anon", "pgsteal_file"],
];

/// The counts by now, or what was added to them; `None` of what the kernel does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaim([Option<u64>; FIGURES]);

impl Reclaim {
    /// By now, since the machine was started.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn now() -> Result<Self, Failure> {
        // Where it is refused, the figures are some pages a CPU behind.
        let _ = fs::read(REFRESH);
        let read = || {
            fs::read_to_string("/proc/vmstat")
                .map_err(|error| Failure::system("reading /proc/vmstat", error))
        };
        Ok(Self::parse(&retry(read)?))
    }

    fn parse(text: &str) -> Self {
        let counter = |name: &&str| -> Option<u64> {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines
                .find(|(found, _)| found == name)?
                .1
                .trim()
                .parse()
                .ok()
        };
        Self(COUNTERS.map(|names| names.iter().map(counter).sum()))
    }

    /// What was added since `before`.
    pub fn since(self, before: Self) -> Self {
        let mut added = self.0;
        for (now, before) in added.iter_mut().zip(before.0) {
            *now = now
                .zip(before)
                .map(|(now, before)| now.wrapping_sub(before));
        }
        Self(added)
    }

    /// The figures that the kernel counts.
    pub fn metrics(self) -> impl Iterator<Item = (&'static str, f64)> {
        NAMES
            .into_iter()
            .zip(self.0)
            .filter_map(|(name, value)| Some((name, value? as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "nr_free_pages 5\n\
        pswpin 7\n\
        pswpout 9\n\
        workingset_refault_anon 3\n\
        pgactivate 11\n\
        pgscan_kswapd 100\n\
        pgscan_anon 20\n\
        pgscan_file 22\n\
        pgsteal_anon 4\n";

    #[test]
    fn counters_are_found_by_their_whole_name_and_added_up() {
        let found: Vec<_> = Reclaim::parse(TEXT).metrics().collect();
        let expected = [
            ("swap_ins", 7.0),
            ("swap_outs", 9.0),
            ("refaults_anon", 3.0),
            ("activations", 11.0),
            ("scanned", 42.0),
        ];
        // A sum is not reported if the kernel does not count a part of it.
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_added_is_reported() {
        let later = Reclaim::parse(&TEXT.replace("pswpin 7", "pswpin 19"));
        let added: Vec<_> = later.since(Reclaim::parse(TEXT)).metrics().collect();
        assert_eq!(added[0], ("swap_ins", 12.0));
        assert!(added[1..].iter().all(|(_, value)| *value == 0.0));
    }

    #[test]
    fn this_kernel_reports_some() {
        let now = Reclaim::now().expect("the kernel reports it");
        assert!(now.metrics().any(|(name, _)| name == "activations"));
    }
}
