//! The geometry of this CPU: its caches as the kernel reports them, its TLBs as CPUID does.

use super::geometry::{CacheShape, Geometry};
use super::tlb_leaves;
use oscope_sys::error::Failure;
use oscope_sys::machine::cpu::{Cache, caches};

impl Geometry {
    /// The geometry of this CPU, and what was assumed where the CPU does not say all, a line each.
    ///
    /// In a virtual machine both are what the hypervisor lets the guest see.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this machine does not report its caches or TLBs; the remedy names the geometries
    /// that can be taken instead.
    pub fn of_this_cpu() -> Result<(Self, Vec<String>), Failure> {
        let found = caches().map_err(unknown)?;
        let l1d = pick(&found, 1)?;
        let l2 = pick(&found, 2)?;
        let (base, huge, notes) = tlb_leaves::read().map_err(unknown)?;
        let geometry = Self {
            l1d,
            l2,
            base,
            huge,
        };
        Ok((geometry, notes))
    }
}

fn unknown(why: String) -> Failure {
    Failure::unavailable(
        format!("the geometry of this CPU is not known: {why}"),
        format!("name a geometry: {}", Geometry::NAMES.join(", ")),
    )
}

/// The cache of this level that holds data.
fn pick(caches: &[Cache], level: u64) -> Result<CacheShape, Failure> {
    let holds_data = |cache: &&Cache| cache.level == level && cache.kind != "instruction";
    let cache = caches
        .iter()
        .find(holds_data)
        .ok_or_else(|| unknown(format!("the kernel reports no data cache of level {level}")))?;
    if cache.ways == 0 {
        return Err(unknown(format!(
            "the kernel does not report the ways of the cache of level {level}"
        )));
    }
    Ok(CacheShape {
        bytes: cache.size_bytes,
        ways: cache.ways,
        line_bytes: cache.line_bytes,
    })
}
