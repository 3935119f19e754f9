//! `memory.latency`: how long a load takes that needs the one before, over memory of any size.

mod ring;

use serde::Deserialize;

use crate::description::{Describe, Description, Metric, SchedulingIsolation};
use crate::region::Region;
use crate::workload::{Context, Work, Workload};
use oscope_sys::error::Failure;
use oscope_sys::mapping::Pages;
use ring::Ring;

/// Loads before the clock starts, at most: they bring back what little ran between two repetitions pushed out of caches
/// of up to 4 MiB (in lines of 64 B), and take some 10 ms where every one goes to memory.
const WARMING_LOADS: u64 = 1 << 16;

/// Parameters of `memory.latency`.
#[derive(Debug, Clone, Copy, Deserialize, Describe)]
pub struct Parameters {
    /// Memory over which the slots are spread, at least two strides; touched before and proved resident by smaps.
    #[parameter(bytes(64 << 10, 128..=1 << 40))]
    size: u64,
    /// From one slot to the next in memory, a multiple of 8. Slots that lie a power of two apart share few sets of a
    /// cache, and so fill it early.
    #[parameter(bytes(64, 8..=1 << 40))]
    stride: u64,
    /// What the memory is made of: base pages (MADV_NOHUGEPAGE) or transparent huge pages (MADV_HUGEPAGE), proved by
    /// smaps.
    #[parameter(choice("4K"))]
    pages: Pages,
    /// random: one round through all slots in an order drawn at random, the same each time; forward: in rising order,
    /// which prefetchers follow.
    #[parameter(choice("random"))]
    order: Order,
}

/// In which order the slots are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Random,
    Forward,
}

/// The prepared workload.
#[derive(Debug)]
pub struct MemoryLatency {
    ring: Ring,
}

impl Workload for MemoryLatency {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "memory.latency",
            version: 1,
            purpose: "How long a load takes that depends on the one before: the levels of caches and TLBs",
            timing_model: "time_ns = (raw - correction) / iterations. An iteration is one load of 8 bytes, whose \
                address is what the load before gave; 64 stand in a row, and the loop's counter runs beside them. \
                Inside the clock: the loads, and whatever misses of caches and TLBs they meet. Outside: making, \
                touching and linking the slots, and one pass over them, of at most 65536 loads, before each \
                repetition. The chase goes on where the last repetition ended, so that each slot is met again only \
                after all the others.",
            parameters: Parameters::parameters(),
            metrics: vec![Metric::TIME_NS, Metric::CYCLES],
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Always,
        }
    }

    fn prepare(parameters: Parameters, _context: &Context) -> Result<Self, Failure> {
        check(parameters)?;
        Ok(Self {
            ring: Ring::new(parameters)?,
        })
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let warming = self.ring.chase(WARMING_LOADS.min(self.ring.slots()));
        self.ring.arrive(warming);
        let chase = region.measure(|| self.ring.chase(iterations));
        let done = self.ring.arrive(chase);
        Ok(Work {
            metrics: region.time_and_cycles(iterations)?,
            done,
            wanted: iterations,
            notes: Vec::new(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        self.ring.verify()
    }
}

/// What the description cannot rule out.
fn check(parameters: Parameters) -> Result<(), Failure> {
    let Parameters { size, stride, .. } = parameters;
    let fault = if stride % ring::SLOT_BYTES != 0 {
        format!("must be a multiple of {} B, not {stride}", ring::SLOT_BYTES)
    } else if size / stride < 2 {
        format!(
            "must be at most {} B, half of size, not {stride}",
            size / 2 / ring::SLOT_BYTES * ring::SLOT_BYTES
        )
    } else if size / stride > ring::MOST_SLOTS {
        format!(
            "must be such that {size} B have at most {} slots, not {stride}",
            ring::MOST_SLOTS
        )
    } else {
        return Ok(());
    };
    Err(Failure::request("stride", fault))
}

#[cfg(test)]
mod tests;
