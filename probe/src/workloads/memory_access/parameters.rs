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
use crate::description::{Better, Kind, Metric, Parameter, only_with};
use crate::pressure::{Scope, SwapKind};
use crate::workloads::disk::source::Place;
use crate::workloads::mapping::Pages;

/// Parameters of `memory.access`.
#[derive(Debug, Clone, Deserialize)]
pub struct Parameters {
    pub pattern: Pattern,
    pub footprint: Footprint,
    pub mapping: Backing,
    pub populate: bool,
    pub initialise: Initialise,
    pub sets: u64,
    pub size: u64,
    pub pages: Pages,
    pub counters: Source,
    pub geometry: String,
    pub pressure: Pressed,
    pub scope: Scope,
    pub limit: u64,
    pub swap: SwapKind,
    pub swap_size: u64,
    /// In seconds.
    pub wait: f64,
    pub steps: u64,
    pub policy: Policy,
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

const GIBIBYTE: u64 = 1 << 30;

fn bytes(
    name: &'static str,
    default: u64,
    bounds: std::ops::RangeInclusive<u64>,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        kind: Kind::Bytes {
            default,
            minimum: *bounds.start(),
            maximum: *bounds.end(),
        },
        unit: Some("B"),
        applies: Vec::new(),
        doc,
    }
}

/// The parameters in the order in which help shows them.
pub fn parameters() -> Vec<Parameter> {
    [walked(), counted(), pressed()].concat()
}

fn walked() -> Vec<Parameter> {
    vec![
        Parameter::choice(
            "pattern",
            "seq",
            &["seq", "random"],
            "seq: each working set of 512 lines begins where the last one ended; random: anywhere. The random number is drawn in both.",
        ),
        Parameter::choice(
            "footprint",
            "full",
            &["full", "first64th"],
            "full: the sets lie in all of the memory; first64th: in its first 1/64, since the base is added in bytes instead of lines, which is the document's error.",
        ),
        Parameter::choice(
            "mapping",
            "anonymous",
            &["anonymous", "private", "shared"],
            "What the memory is backed by: nothing, or a file of zeros made for each repetition, privately or shared.",
        ),
        Parameter {
            name: "populate",
            kind: Kind::Boolean { default: false },
            unit: None,
            applies: Vec::new(),
            doc: "Whether the kernel makes all pages present as it maps them (MAP_POPULATE; for huge pages MADV_POPULATE_WRITE).",
        },
        Parameter::choice(
            "initialise",
            "none",
            &["none", "memset", "memset+msync"],
            "What is done to all of the memory first: set to 0, and given to the file's device (msync does nothing to anonymous memory).",
        ),
        Parameter {
            name: "sets",
            kind: Kind::Integer {
                default: 1 << 15,
                minimum: 1,
                maximum: 1 << 32,
            },
            unit: None,
            applies: Vec::new(),
            doc: "Working sets walked, 16 times each; the document has 1048576. Compare figures for each set.",
        },
        bytes(
            "size",
            GIBIBYTE,
            64 << 10..=128 << 30,
            "Length of the memory, a multiple of the page size; the least is two working sets, the most what the document's int can index.",
        ),
        Parameter::choice(
            "pages",
            "4K",
            &["4K", "huge"],
            "What the memory is made of: base pages, or transparent huge ones (anonymous memory only), proved by smaps.",
        ),
    ]
}

fn counted() -> Vec<Parameter> {
    let all = vec![
        Parameter::choice(
            "counters",
            "none",
            &["none", "hardware", "simulated", "both"],
            "Counts of caches and TLBs: by the processor's counters, by a model of them fed with the same addresses, or by both where there are counters.",
        ),
        Parameter::choice(
            "geometry",
            "host",
            &[&["host"], Geometry::NAMES].concat(),
            "Sizes of the simulated caches and TLBs: this CPU's, or a named one's.",
        ),
    ];
    only_with(all, &["geometry"], "counters", &["simulated", "both"])
}

fn pressed() -> Vec<Parameter> {
    let all = vec![
        Parameter::choice(
            "pressure",
            "none",
            &["none", "compete"],
            "compete: another process touches as much memory as there is, at random, while the sets are walked.",
        ),
        Parameter::choice(
            "scope",
            "group",
            &["group", "machine"],
            "Whom it presses: a memory control group made for the run, or the whole machine.",
        ),
        bytes(
            "limit",
            0,
            0..=1 << 40,
            "Memory that both share in the group, and that the competitor maps; 0: 256 MiB for a group, all memory for the machine.",
        ),
        Parameter::choice(
            "swap",
            "auto",
            &SwapKind::NAMES,
            "What the swap made for the run lies on; auto: a file where the file system takes one, else zram.",
        ),
        bytes(
            "swap_size",
            2 * GIBIBYTE,
            1 << 20..=1 << 40,
            "Size of that swap.",
        ),
        Parameter {
            name: "wait",
            kind: Kind::Duration {
                default: 5.0,
                minimum: 0.0,
                maximum: 3600.0,
            },
            unit: Some("s"),
            applies: Vec::new(),
            doc: "Least time that the competitor has before its resident set is judged to be stable; nothing where it takes turns.",
        },
        Parameter {
            name: "steps",
            kind: Kind::Integer {
                default: 0,
                minimum: 0,
                maximum: 1 << 20,
            },
            unit: None,
            applies: Vec::new(),
            doc: "Pages that the competitor touches after each set, while the walk waits; 0: it runs freely. With turns the order of all accesses is the same each \
                time, and for every policy, so that counts differ by what the kernel does only; it begins with 32 steps for each of its pages.",
        },
        Parameter::choice(
            "policy",
            "asis",
            &Policy::NAMES,
            "Which pages the kernel reclaims first. asis: as this machine is set; own: by its active and inactive list; reclaim-active: so, but pages that it would \
                activate are reclaimed, as in the document; reclaim-referenced: so, and references do not count at all; mglru: by the multi-generational LRU. \
                It is set for the whole machine, and put back afterwards.",
        ),
        Place::directory(),
    ];
    let theirs = ["scope", "limit", "swap", "swap_size", "wait", "steps"];
    only_with(all, &theirs, "pressure", &["compete"])
}

const fn found(name: &'static str, unit: &'static str, doc: &'static str) -> Metric {
    Metric::new(name, unit, Better::Neither, doc)
}

const fn less(name: &'static str, unit: &'static str, doc: &'static str) -> Metric {
    Metric::new(name, unit, Better::Less, doc)
}

/// The metrics, the headline one first.
pub fn metrics() -> Vec<Metric> {
    let mut metrics = vec![
        less("time_s", "s", "Time of the walk over all sets."),
        less("set_ns", "ns", "Time of a set: 16 walks over 512 lines."),
        less(
            "cpu_s",
            "s",
            "CPU time of the walk, of the measured process alone: user and system mode together (getrusage).",
        ),
        less(
            "init_time_s",
            "s",
            "Time of the initialisation: mapping, populating, setting, msync, and writing over 16 MiB to flush the caches.",
        ),
    ];
    metrics.extend(used(usage::NAMES));
    metrics.extend(used(usage::INIT_NAMES));
    metrics.extend(reclaimed());
    metrics.extend(there());
    metrics.extend(counts());
    metrics.extend(simulated());
    metrics.extend([
        found(
            "pressure_resident_kib",
            "KiB",
            "The competitor's resident set when it was stable.",
        ),
        found(
            "pressure_wait_s",
            "s",
            "How long the competitor took until it was stable.",
        ),
    ]);
    metrics
}

/// Figures of getrusage under these names.
fn used(names: [&'static str; 7]) -> [Metric; 7] {
    let [utime, stime, minflt, majflt, maxrss, inblock, oublock] = names;
    [
        less(
            utime,
            "s",
            "Time in user mode (getrusage); most kernels split it from system time by sampling at ticks of 1 to 10 ms.",
        ),
        less(
            stime,
            "s",
            "Time in the kernel (getrusage); see the time in user mode.",
        ),
        found(
            minflt,
            "1",
            "Page faults that needed no device (getrusage).",
        ),
        found(
            majflt,
            "1",
            "Page faults that the kernel calls major (getrusage): those that read swap, and of a mapped file each that finds its page not in the page \
                cache, although nothing is read from a device for the file made here, which has room and was never written.",
        ),
        found(
            maxrss,
            "KiB",
            "Growth of the highest resident set (getrusage), which the kernel may tell some 100 pages a CPU too low or too high; that of the \
                initialisation holds the 16 MiB flushed.",
        ),
        found(
            inblock,
            "1",
            "Blocks of 512 B read from devices (getrusage); null where the kernel does not count them.",
        ),
        found(
            oublock,
            "1",
            "Blocks of 512 B to be written, counted when a page becomes dirty (getrusage); null likewise.",
        ),
    ]
}

/// What `/proc/vmstat` counts.
fn reclaimed() -> impl Iterator<Item = Metric> {
    let docs = [
        "Pages read from swap during the walk, by the whole machine, the competitor included (pswpin); null where the kernel does not count them, as for the next six.",
        "Pages written to swap during the walk, by the whole machine (pswpout).",
        "Pages of anonymous memory that came back soon after they were reclaimed, of the whole machine (workingset_refault_anon).",
        "Pages of files that came back soon after they were reclaimed, of the whole machine (workingset_refault_file).",
        "Pages moved to the active list, of the whole machine (pgactivate); the multi-generational LRU does it otherwise, and counts few.",
        "Pages looked at for reclaim, of the whole machine (pgscan_anon + pgscan_file).",
        "Pages reclaimed, of the whole machine (pgsteal_anon + pgsteal_file).",
    ];
    reclaim::NAMES
        .into_iter()
        .zip(docs)
        .map(|(name, doc)| found(name, "1", doc))
}

fn there() -> [Metric; 5] {
    [
        found(
            "resident_kib",
            "KiB",
            "Resident memory of the mapping after the walk (Rss of smaps), without the zero page.",
        ),
        found(
            "touched_pages",
            "1",
            "Base pages of the mapping that were present or swapped out after the walk (pagemap); for a file, those that the kernel mapped \
                around a fault as well, and not those it took away.",
        ),
        found(
            "accesses",
            "1",
            "Loads and stores of the walk: sets x 16 x 512.",
        ),
        found("reads", "1", "Loads: seven of eight accesses."),
        found("writes", "1", "Stores: one of eight accesses."),
    ]
}

fn counts() -> [Metric; 5] {
    [
        found(
            "l1d_read_access",
            "1",
            "Loads in user mode, counted by the hardware; null where it does not.",
        ),
        found("l1d_write_access", "1", "Stores, likewise."),
        less("l1d_read_miss", "1", "Loads that missed the L1D, likewise."),
        less(
            "dtlb_read_miss",
            "1",
            "Loads that missed the dTLB, likewise; AMD counts its first level, Intel both.",
        ),
        less(
            "dtlb_write_miss",
            "1",
            "Stores that missed the dTLB, likewise.",
        ),
    ]
}

fn simulated() -> Vec<Metric> {
    let docs = [
        "SIMULATED loads that looked into the L1D.",
        "SIMULATED stores that looked into the L1D.",
        "SIMULATED loads that missed the L1D.",
        "SIMULATED stores that missed the L1D.",
        "SIMULATED misses of the L1D that missed the L2.",
        "SIMULATED loads that missed the dTLB.",
        "SIMULATED stores that missed the dTLB.",
        "SIMULATED misses of the dTLB that missed the second-level TLB.",
        "Accesses that the model took in a second, when it was last fed.",
    ];
    let units = ["1", "1", "1", "1", "1", "1", "1", "1", "accesses/s"];
    simulation::NAMES
        .into_iter()
        .zip(units)
        .zip(docs)
        .map(|((name, unit), doc)| found(name, unit, doc))
        .collect()
}
