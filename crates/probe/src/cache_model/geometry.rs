//! The sizes of the caches and TLBs of a core, and those of some that are common.

use std::fmt::{self, Display, Formatter};

use super::lru::Lru;
use oscope_sys::error::Failure;

const KIB: u64 = 1 << 10;
const BASE_PAGE: u64 = 4 * KIB;
const HUGE_PAGE: u64 = 2 << 20;
/// Most ways of a set: a set is searched from end to end.
const MOST_WAYS: u64 = 4096;
/// Most blocks of a store, of 16 B each: far beyond any cache of one core.
const MOST_BLOCKS: u64 = 1 << 24;

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Capacity, in bytes.
    pub bytes: u64,
    /// Ways of a set; `bytes / line_bytes` where it is fully associative.
    pub ways: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
}

/// The size of a TLB for one size of page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlbShape {
    /// Pages it holds.
    pub entries: u64,
    /// Ways of a set; `entries` where it is fully associative.
    pub ways: u64,
}

/// The caches and TLBs of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// First-level data cache.
    pub l1d: CacheShape,
    /// Second-level cache.
    pub l2: CacheShape,
    /// The data TLBs for pages of 4 KiB.
    pub base: Tlbs,
    /// The data TLBs for pages of 2 MiB; `None`: they are not known.
    pub huge: Option<Tlbs>,
}

/// The data TLBs for one size of page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlbs {
    /// First level.
    pub first: TlbShape,
    /// Second level; `None`: it takes no page of this size, and each miss in the first level is a page walk.
    pub second: Option<TlbShape>,
}

impl CacheShape {
    /// An empty cache of this size; `name` is for the message.
    ///
    /// # Errors
    /// As [`empty`].
    pub fn store(self, name: &str) -> Result<Lru, Failure> {
        let whole = self.line_bytes > 0 && self.bytes % self.line_bytes == 0;
        if !whole {
            return Err(Failure::failed(format!(
                "the model has no {name} of {self}: its size is not a multiple of the line's"
            )));
        }
        empty(self.bytes / self.line_bytes, self.ways, self.line_bytes)
            .map_err(|odd| refused(name, &self, &odd))
    }
}

impl TlbShape {
    /// An empty TLB of this size for pages of `page_bytes`; `name` is for the message.
    ///
    /// # Errors
    /// As [`empty`].
    pub fn store(self, name: &str, page_bytes: u64) -> Result<Lru, Failure> {
        empty(self.entries, self.ways, page_bytes).map_err(|odd| refused(name, &self, &odd))
    }
}

fn refused(name: &str, shape: &dyn Display, odd: &Failure) -> Failure {
    Failure::unavailable(
        format!("the model has no {name} of {shape}: {odd}"),
        format!("name a geometry: {}", Geometry::NAMES.join(", ")),
    )
}

/// An empty store of `blocks` blocks, `ways` of them in a set.
///
/// The number of sets must be a power of two, as it is in every L1D, L2 and data TLB of x86 that we know of: 48 KiB of
/// 12 ways are 64 sets, 1536 entries of 6 ways are 256. It is not in last-level caches made of slices, which are not
/// modelled.
///
/// # Errors
/// `Failure::Failed` that says what is wrong with the numbers.
fn empty(blocks: u64, ways: u64, block_bytes: u64) -> Result<Lru, Failure> {
    if !(1..=MOST_WAYS).contains(&ways) {
        return Err(Failure::failed(format!("it takes 1 to {MOST_WAYS} ways")));
    }
    if !(1..=MOST_BLOCKS).contains(&blocks) || blocks % ways != 0 {
        return Err(Failure::failed(format!(
            "{blocks} lines or entries are not a multiple of {ways} ways, or more than {MOST_BLOCKS}"
        )));
    }
    let sets = blocks / ways;
    if !sets.is_power_of_two() || !block_bytes.is_power_of_two() || block_bytes < 2 {
        return Err(Failure::failed(format!(
            "{sets} sets of lines or pages of {block_bytes} B are not powers of two"
        )));
    }
    Ok(Lru::new(sets, ways as u16, block_bytes.ilog2()))
}

impl Geometry {
    /// The names that [`Geometry::named`] knows.
    pub const NAMES: &[&str] = &names();

    /// The geometry of a common core.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let core = TABLE.iter().find(|core| core.name == name)?;
        Some(core.geometry)
    }

    /// The geometry of the common core that CPUs of this vendor, family and model have, with its name.
    #[must_use]
    pub fn of_model(vendor: &str, family: u8, model: u8) -> Option<(&'static str, Self)> {
        let same = |core: &&Core| {
            core.vendor == vendor && core.family == family && core.models.contains(&model)
        };
        TABLE
            .iter()
            .find(same)
            .map(|core| (core.name, core.geometry))
    }

    /// The geometry of the newest core of this vendor that is known, with its name.
    #[must_use]
    pub fn of_vendor(vendor: &str) -> Option<(&'static str, Self)> {
        let newest = TABLE.iter().rfind(|core| core.vendor == vendor)?;
        Some((newest.name, newest.geometry))
    }

    /// The data TLBs for pages of this size.
    ///
    /// # Errors
    /// `Failure::Unavailable` for a size of page whose TLBs are not known.
    pub fn tlbs(&self, page_bytes: u64) -> Result<Tlbs, Failure> {
        match (page_bytes, self.huge) {
            (BASE_PAGE, _) => Ok(self.base),
            (HUGE_PAGE, Some(huge)) => Ok(huge),
            _ => Err(Failure::unavailable(
                format!("the model knows no data TLB for pages of {page_bytes} B on this CPU"),
                format!(
                    "name a geometry and take pages of 4K or 2M: {}",
                    Self::NAMES.join(", ")
                ),
            )),
        }
    }
}

impl Display for CacheShape {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            bytes,
            ways,
            line_bytes,
        } = self;
        if bytes % KIB == 0 {
            write!(formatter, "{} KiB", bytes / KIB)?;
        } else {
            write!(formatter, "{bytes} B")?;
        }
        write!(formatter, " ({ways} ways, lines of {line_bytes} B)")
    }
}

impl Display for TlbShape {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} entries ({} ways)", self.entries, self.ways)
    }
}

impl Display for Tlbs {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.second {
            Some(second) => write!(formatter, "{}, second level {second}", self.first),
            None => write!(formatter, "{}, no second level", self.first),
        }
    }
}

impl Display for Geometry {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { l1d, l2, base, .. } = self;
        write!(formatter, "L1D {l1d}, L2 {l2}, dTLB for 4 KiB {base}")?;
        match self.huge {
            Some(huge) => write!(formatter, ", dTLB for 2 MiB {huge}"),
            None => write!(formatter, ", dTLB for 2 MiB not known"),
        }
    }
}

/// A common core, and the CPUs that have it.
struct Core {
    name: &'static str,
    vendor: &'static str,
    /// Display family, as CPUID leaf 1 gives it.
    family: u8,
    /// Display models.
    models: &'static [u8],
    geometry: Geometry,
}

/// L1D of 32 KiB in 8 ways, as all these cores have it.
const L1D: CacheShape = cache(32, 8);
/// First level of Intel for pages of 4 KiB: descriptor 03H.
const INTEL: TlbShape = tlb(64, 4);
/// First level of Intel for pages of 2 MiB: descriptors 5AH and 63H.
const INTEL_HUGE: TlbShape = tlb(32, 4);

/// Sources: caches of Intel: Optimization Reference Manual (248966), tables "Cache Parameters" of each core; TLBs: the
/// descriptors of CPUID leaf 2 that these CPUs report (SDM, volume 2A, table "Encoding of CPUID Leaf 2 Descriptors"),
/// named at each. AMD: Software Optimization Guide for Family 19h (56665), sections "L1/L2 Translation Lookaside
/// Buffers" and "Cache", and CPUID 8000_0005H and 8000_0006H of such a CPU.
/// Of a vendor, the oldest first.
const TABLE: &[Core] = &[
    Core {
        name: "nehalem",
        vendor: "GenuineIntel",
        family: 6,
        models: &[0x1a, 0x1e, 0x1f, 0x2e],
        geometry: Geometry {
            l1d: L1D,
            l2: cache(256, 8),
            // CAH: pages of 4 KiB only.
            base: levels(INTEL, tlb(512, 4)),
            huge: Some(Tlbs {
                first: INTEL_HUGE,
                second: None,
            }),
        },
    },
    Core {
        name: "haswell",
        vendor: "GenuineIntel",
        family: 6,
        models: &[0x3c, 0x3f, 0x45, 0x46],
        geometry: Geometry {
            l1d: L1D,
            l2: cache(256, 8),
            // C1H: pages of 4 KiB and 2 MiB.
            base: levels(INTEL, tlb(1024, 8)),
            huge: Some(levels(INTEL_HUGE, tlb(1024, 8))),
        },
    },
    Core {
        name: "skylake",
        vendor: "GenuineIntel",
        family: 6,
        models: &[0x4e, 0x5e, 0x8e, 0x9e],
        geometry: SKYLAKE,
    },
    Core {
        name: "skylake-server",
        vendor: "GenuineIntel",
        family: 6,
        models: &[0x55],
        geometry: Geometry {
            l2: cache(1024, 16),
            ..SKYLAKE
        },
    },
    Core {
        name: "zen3",
        vendor: "AuthenticAMD",
        family: 0x19,
        models: &[0x00, 0x01, 0x08, 0x21, 0x40, 0x44, 0x50],
        geometry: Geometry {
            l1d: L1D,
            l2: cache(512, 8),
            base: levels(tlb(64, 64), tlb(2048, 8)),
            huge: Some(levels(tlb(64, 64), tlb(2048, 4))),
        },
    },
];

const SKYLAKE: Geometry = Geometry {
    l1d: L1D,
    l2: cache(256, 4),
    // C3H: pages of 4 KiB and 2 MiB.
    base: levels(INTEL, tlb(1536, 6)),
    huge: Some(levels(INTEL_HUGE, tlb(1536, 6))),
};

const fn cache(kib: u64, ways: u64) -> CacheShape {
    CacheShape {
        bytes: kib * KIB,
        ways,
        line_bytes: 64,
    }
}

const fn tlb(entries: u64, ways: u64) -> TlbShape {
    TlbShape { entries, ways }
}

const fn levels(first: TlbShape, second: TlbShape) -> Tlbs {
    Tlbs {
        first,
        second: Some(second),
    }
}

const fn names() -> [&'static str; TABLE.len()] {
    let mut names = [""; TABLE.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = TABLE[place].name;
        place += 1;
    }
    names
}
