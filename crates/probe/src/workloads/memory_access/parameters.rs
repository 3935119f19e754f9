//! The parameters and metrics of `memory.access`, as described.

use std::path::PathBuf;

use serde::Deserialize;

use super::area::{Backing, Initialise};
use super::policy::Policy;
use super::reclaim;
use super::simulation;
use super::usage;
use super::walk::{Footprint, Pattern};
use crate::cache_model::Geometry;
use crate::description::{Describe, Metric, Metrics, Quantity};
use crate::pressure::{Scope, SwapKind};
use oscope_sys::mapping::Pages;

/// Parameters of `memory.access`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// seq: each working set of 512 lines begins where the last one ended; random: anywhere. Both generate the random
    /// number.
    #[parameter(choice("seq"))]
    pub pattern: Pattern,
    /// full: the sets lie in all of the memory; first64th: in its first 1/64, since the base is added in bytes instead
    /// of lines, an error of CS380L lab 2.
    #[parameter(choice("full"))]
    pub footprint: Footprint,
    /// What the memory is backed by: nothing, or a file of zeros made for each repetition, privately or shared.
    #[parameter(choice("anonymous"))]
    pub mapping: Backing,
    /// Whether the kernel makes all pages present as it maps them (MAP_POPULATE; for huge pages MADV_POPULATE_WRITE).
    #[parameter(boolean(false))]
    pub populate: bool,
    /// What is done to all of the memory first: set to 0, and given to the file's device (msync does nothing to
    /// anonymous memory).
    #[parameter(choice("none"))]
    pub initialise: Initialise,
    /// Working sets walked, 16 times each; CS380L lab 2 has 1048576. Compare figures for each set.
    #[parameter(integer(1 << 15, 1..=1 << 32))]
    pub sets: u64,
    /// Length of the memory, a multiple of the page size; the least is two working sets, the most what the int of
    /// CS380L lab 2 can index.
    #[parameter(bytes(1 << 30, 64 << 10..=128 << 30))]
    pub size: u64,
    /// What the memory is made of: base pages, or transparent huge ones (anonymous memory only), proved by smaps.
    #[parameter(choice("4K"))]
    pub pages: Pages,
    /// Counts of caches and TLBs: by the processor's counters, by a model of them fed with the same addresses, or by
    /// both where there are counters.
    #[parameter(choice("none"))]
    pub counters: Source,
    /// Sizes of the simulated caches and TLBs: this CPU's, or a named one's.
    #[parameter(words("host", &[&["host"], Geometry::NAMES].concat()).only_with("counters", &["simulated", "both"]))]
    pub geometry: String,
    /// compete: while the sets are walked, another process touches as much memory as there is, at random.
    #[parameter(choice("none"))]
    pub pressure: Pressed,
    /// Where the pressure acts: in a memory control group made for the run, or on the whole machine.
    #[parameter(choice("group").only_with("pressure", &["compete"]))]
    pub scope: Scope,
    /// Memory that both share in the group, and that the competitor maps, rounded down to whole pages; 0: 256 MiB for a
    /// group, all memory for the machine.
    #[parameter(bytes(0, 0..=1 << 40).only_with("pressure", &["compete"]))]
    pub limit: u64,
    /// What the swap made for the run lies on; auto: a file where the file system takes one, else zram.
    #[parameter(choice("auto").only_with("pressure", &["compete"]))]
    pub swap: SwapKind,
    /// Size of that swap.
    #[parameter(bytes(2 << 30, 1 << 20..=1 << 40).only_with("pressure", &["compete"]))]
    pub swap_size: u64,
    /// Least time before the competitor's resident set counts as stable; without effect with steps.
    #[parameter(seconds(5.0, 0.0..=3600.0).only_with("pressure", &["compete"]))]
    pub wait: f64,
    /// Pages that the competitor touches after each set, while the walk waits; 0: it runs freely. With steps, the order
    /// of all accesses is the same each time and for every policy, so that only the kernel makes counts differ. The
    /// competitor begins with 32 steps for each of its pages.
    #[parameter(integer(0, 0..=1 << 20).only_with("pressure", &["compete"]))]
    pub steps: u64,
    /// Which pages the kernel reclaims first. asis: as this machine is set; own: by its active and inactive list;
    /// reclaim-active: as own, but pages that it would activate are reclaimed, as in CS380L lab 2; reclaim-referenced:
    /// as reclaim-active, and references do not count at all; mglru: by the multi-generational LRU. It is set for the
    /// whole machine, and restored afterwards.
    #[parameter(choice("asis"))]
    pub policy: Policy,
    /// Where the scratch file is made: it decides which file system and device are measured.
    #[parameter(path("/var/tmp"))]
    pub directory: PathBuf,
}

/// Where counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    None,
    Hardware,
    Simulated,
    Both,
}

impl Source {
    /// Whether the hardware is asked.
    pub fn asks_hardware(self) -> bool {
        matches!(self, Self::Hardware | Self::Both)
    }

    /// Whether the model is.
    pub fn asks_model(self) -> bool {
        matches!(self, Self::Simulated | Self::Both)
    }
}

/// Whether a competitor for memory runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pressed {
    None,
    Compete,
}

/// The metrics of the walk itself.
#[derive(Metrics)]
pub struct WalkValues {
    #[metric(time("s", Quantity::Time).of("the walk over all sets"))]
    pub time_s: f64,
    #[metric(time("ns", Quantity::Time).per("set").note("A set is 16 walks over 512 lines."))]
    pub set_ns: f64,
    #[metric(time("s", Quantity::CpuTime)
        .of("the walk")
        .note("Of the measured process alone, user and system together (getrusage)."))]
    pub cpu_s: f64,
    #[metric(time("s", Quantity::Time)
        .of("the initialisation")
        .note("It maps, populates, sets and syncs the memory (msync), and writes over 16 MiB to flush the caches."))]
    pub init_time_s: f64,
}

/// What the walk found and did.
#[derive(Metrics)]
pub struct MappingValues {
    #[metric(found("KiB", "resident memory of the mapping after the walk")
        .note("Rss of smaps, without the zero page."))]
    pub resident_kib: f64,
    #[metric(found("1", "base pages of the mapping that were present or swapped out after the walk")
        .note("By pagemap. For a file, pages that the kernel mapped around a fault are included, pages that it took \
               away are not."))]
    pub touched_pages: f64,
    #[metric(found("1", "loads and stores of the walk").note("They are sets x 16 x 512."))]
    pub accesses: f64,
    #[metric(found("1", "loads of the walk").note("Seven of eight accesses."))]
    pub reads: f64,
    #[metric(found("1", "stores of the walk").note("One of eight accesses."))]
    pub writes: f64,
}

/// When there is no value of what only some kernels count.
const UNCOUNTED: &str = "where the kernel does not count them";
const COUNTED: &str = "Counted by the hardware, in user mode.";
const NO_COUNTER: &str = "without a counter";

/// What the hardware counted of the walk.
#[derive(Metrics)]
pub struct CounterValues {
    #[metric(found("1", "loads of the walk's process").note(COUNTED).null_when(NO_COUNTER))]
    pub l1d_read_access: Option<f64>,
    #[metric(found("1", "stores of the walk's process").note(COUNTED).null_when(NO_COUNTER))]
    pub l1d_write_access: Option<f64>,
    #[metric(spent("1", "loads that missed the L1D").note(COUNTED).null_when(NO_COUNTER))]
    pub l1d_read_miss: Option<f64>,
    #[metric(spent("1", "loads that missed the dTLB")
        .note("Counted by the hardware, in user mode: AMD counts misses of its first level, Intel of both.")
        .null_when(NO_COUNTER))]
    pub dtlb_read_miss: Option<f64>,
    #[metric(spent("1", "stores that missed the dTLB").note(COUNTED).null_when(NO_COUNTER))]
    pub dtlb_write_miss: Option<f64>,
}

/// What the competitor did before the walk.
#[derive(Metrics)]
pub struct PressureValues {
    #[metric(found("KiB", "resident set of the competitor once it is stable"))]
    pub pressure_resident_kib: f64,
    #[metric(time("s", Quantity::WaitingTime)
        .of("the probe until the competitor is stable")
        .note("It ends before the walk begins.")
        .not_compared())]
    pub pressure_wait_s: f64,
}

/// The metrics, the headline one first.
pub fn metrics() -> Vec<Metric> {
    let mut metrics = WalkValues::described();
    metrics.extend(used(usage::NAMES, USED_BY_WALK));
    metrics.extend(used(usage::INIT_NAMES, USED_BY_INITIALISATION));
    metrics.extend(reclaimed());
    metrics.extend(MappingValues::described());
    metrics.extend(CounterValues::described());
    metrics.extend(simulated());
    metrics.extend(PressureValues::described());
    metrics
}

const USED_BY_WALK: [&str; 7] = [
    "the walk",
    "the walk",
    "minor page faults of the walk",
    "major page faults of the walk",
    "growth of the highest resident set in the walk",
    "blocks of 512 B that the walk read from devices",
    "blocks of 512 B made dirty by the walk",
];

const USED_BY_INITIALISATION: [&str; 7] = [
    "the initialisation",
    "the initialisation",
    "minor page faults of the initialisation",
    "major page faults of the initialisation",
    "growth of the highest resident set in the initialisation",
    "blocks of 512 B that the initialisation read from devices",
    "blocks of 512 B made dirty by the initialisation",
];

/// Figures of getrusage under these names, each of this.
fn used(names: [&'static str; 7], what: [&'static str; 7]) -> [Metric; 7] {
    let [utime, stime, minflt, majflt, maxrss, inblock, oublock] = names;
    let [
        in_user,
        in_system,
        minor,
        major,
        growth,
        blocks_in,
        blocks_out,
    ] = what;
    [
        Metric::time(utime, "s", Quantity::UserTime).of(in_user).note(
            "By getrusage. Most kernels separate it from system time by sampling at ticks of 1 to 10 ms.",
        ),
        Metric::time(stime, "s", Quantity::SystemTime)
            .of(in_system)
            .note("By getrusage; sampled as the user CPU time is."),
        Metric::found(minflt, "1", minor).note("They needed no device (getrusage)."),
        Metric::found(majflt, "1", major).note(
            "By getrusage. The kernel calls a fault major if it reads swap, or if it finds a page of a mapped file \
                not in the page cache. The file made here has room and was never written, so that nothing is read \
                from a device for it.",
        ),
        Metric::found(maxrss, "KiB", growth).note(
            "By getrusage, which may be some 100 pages a CPU too low or too high. The initialisation's includes the \
             16 MiB that flush the caches.",
        ),
        Metric::found(inblock, "1", blocks_in)
            .note("By getrusage.")
            .null_when(UNCOUNTED),
        Metric::found(oublock, "1", blocks_out)
            .note("They are to be written to devices, and counted by getrusage when a page becomes dirty.")
            .null_when(UNCOUNTED),
    ]
}

/// What `/proc/vmstat` counts.
fn reclaimed() -> impl Iterator<Item = Metric> {
    let described = [
        (
            "pages read from swap during the walk",
            "Of the whole machine, the competitor included (pswpin).",
        ),
        (
            "pages written to swap during the walk",
            "Of the whole machine (pswpout).",
        ),
        (
            "anonymous pages that came back soon after their reclaim",
            "Of the whole machine (workingset_refault_anon).",
        ),
        (
            "file pages that came back soon after their reclaim",
            "Of the whole machine (workingset_refault_file).",
        ),
        (
            "pages moved to the active list",
            "Of the whole machine (pgactivate); the multi-generational LRU counts few.",
        ),
        (
            "pages scanned for reclaim",
            "Of the whole machine (pgscan_anon + pgscan_file).",
        ),
        (
            "pages reclaimed",
            "Of the whole machine (pgsteal_anon + pgsteal_file).",
        ),
    ];
    reclaim::NAMES
        .into_iter()
        .zip(described)
        .map(|(name, (what, note))| {
            Metric::found(name, "1", what)
                .note(note)
                .null_when(UNCOUNTED)
        })
}

fn simulated() -> impl Iterator<Item = Metric> {
    let counts = [
        "SIMULATED loads that looked into the L1D",
        "SIMULATED stores that looked into the L1D",
        "SIMULATED loads that missed the L1D",
        "SIMULATED stores that missed the L1D",
        "SIMULATED misses of the L1D that missed the L2",
        "SIMULATED loads that missed the dTLB",
        "SIMULATED stores that missed the dTLB",
        "SIMULATED misses of the dTLB that missed the second-level TLB",
    ];
    let [names @ .., rate] = simulation::NAMES;
    let rate = Metric::rate(rate, "accesses/s", "accesses that the model processed")
        .note("In its last run.")
        .not_compared();
    let counted = names.into_iter().zip(counts);
    counted
        .map(|(name, what)| Metric::found(name, "1", what))
        .chain([rate])
}
