//! `memory.bandwidth`: how fast memory is read, written and copied.

mod buffers;
mod layout;
mod stream;

use serde::Deserialize;
use serde_json::json;

use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::region::Region;
use crate::workload::{Context, Work, Workload};
use buffers::Buffers;
use layout::Layout;
use oscope_sys::affinity::Pinned;
use oscope_sys::error::Failure;
use oscope_sys::mapping::Pages;
use oscope_sys::worker::{assign_cpus, run_pinned, take_seat};
use stream::{Share, Tally};

const MIB: f64 = (1 << 20) as f64;

/// Parameters of `memory.bandwidth`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// read: the XOR of all words is taken; write: every byte is set to one value; copy: from the memory into the
    /// window.
    #[parameter(choice("read"))]
    operation: Operation,
    /// Each is pinned to a CPU, the allowed ones in turn, and has an equal share of the memory; 0: one for each CPU.
    #[parameter(integer(1, 0..=4096))]
    threads: usize,
    /// Memory that all threads together go over in a pass, touched before and proved resident by smaps.
    #[parameter(bytes(1 << 28, 4096..=1 << 40))]
    size: u64,
    /// copy only: the buffer of each thread into which its share is copied, again and again from its start; 0: as large
    /// as the share.
    #[parameter(bytes(0, 0..=1 << 40))]
    window: u64,
    /// What the memory is made of: base pages (MADV_NOHUGEPAGE) or transparent huge pages (MADV_HUGEPAGE), proved by
    /// smaps.
    #[parameter(choice("4K"))]
    pages: Pages,
}

/// What is done with the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Read,
    Write,
    Copy,
}

/// The prepared workload.
#[derive(Debug)]
pub struct MemoryBandwidth {
    layout: Layout,
    buffers: Buffers,
    /// Repetitions begun.
    repetitions: u64,
    /// What the threads of the last repetition did.
    tally: Tally,
    notes: Vec<String>,
    _pinned: Option<Pinned>,
}

impl Workload for MemoryBandwidth {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "memory.bandwidth",
            version: 2,
            purpose: "How fast memory is read, written and copied, by one thread or several",
            timing_model: "time_s = (raw - correction) in seconds / iterations; throughput = size / time_s. An \
                iteration is one pass of all threads over their shares. Inside the clock: from the opening of the \
                gate behind which the threads wait, running, until the last one has ended (about 1 us with several \
                threads). read: the XOR of all words, by loads of 256 bits with AVX2, no prefetch by software. write: \
                the C library's memset, and copy: its memcpy, of at most 1 GiB at a time; they choose their stores, \
                those past the caches among them, by the length. Memory traffic may thus exceed the bytes counted: an \
                ordinary store first reads the line.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::With(vec![("threads", vec![json!(1)])]),
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let cpus = assign_cpus(context.cpu, context.allowed(), parameters.threads);
        let layout = Layout::new(cpus, &parameters)?;
        let pinned = take_seat(context.cpu, &layout.cpus)?;
        Ok(Self {
            buffers: Buffers::new(parameters.operation, parameters.pages, &layout)?,
            notes: cpu_sharing(layout.cpus.len(), context.allowed().len()),
            layout,
            repetitions: 0,
            tally: Tally::default(),
            _pinned: pinned,
        })
    }

    fn run(&mut self, iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.repetitions += 1;
        let mut shares = self.buffers.shares(&self.layout, mark(self.repetitions));
        shares.iter_mut().for_each(Share::spoil);
        let jobs = shares
            .iter_mut()
            .map(|share| || share.passes(iterations))
            .collect();
        let tallies = run_pinned(&self.layout.cpus, jobs, |work| region.measure(work))?;
        self.tally = tallies.iter().fold(Tally::default(), |all, tally| Tally {
            bytes: all.bytes + tally.bytes,
            wrong: all.wrong + tally.wrong,
        });
        let seconds = region.clock().nanoseconds(region.corrected()?) / 1e9;
        Ok(Work {
            metrics: metrics(self.layout.size(), seconds / iterations as f64)?,
            done: self.tally.bytes,
            wanted: self.layout.size().saturating_mul(iterations),
            notes: self.notes.clone(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        if self.tally.wrong > 0 {
            return Err(Failure::failed(format!(
                "the XOR of what was read was wrong {} times",
                self.tally.wrong
            )));
        }
        let shares = self.buffers.shares(&self.layout, mark(self.repetitions));
        for (number, share) in shares.iter().enumerate() {
            if let Some(place) = share.first_wrong() {
                return Err(Failure::failed(format!(
                    "byte {place} of what thread {number} wrote is not what it must be"
                )));
            }
        }
        Ok(())
    }
}

/// What the last pass of a repetition writes: not 0, and never the same in two repetitions running.
fn mark(repetition: u64) -> u8 {
    (repetition % 251) as u8 + 1
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(rate("MiB/s", "bytes read, written or copied")
        .note("A byte that is copied counts once, though it is read and written."))]
    throughput: f64,
    #[metric(time("s", Quantity::Time).of("one pass over all bytes"))]
    time_s: f64,
}

fn metrics(size: u64, seconds: f64) -> Result<Vec<(&'static str, f64)>, Failure> {
    // A time may come out at zero or below, but then there is no rate.
    if seconds <= 0.0 {
        return Err(Failure::failed(
            "the passes took no longer than reading the clock: ask for more size or iterations",
        ));
    }
    let values = Values {
        throughput: size as f64 / MIB / seconds,
        time_s: seconds,
    };
    Ok(values.values())
}

fn cpu_sharing(threads: usize, cpus: usize) -> Vec<String> {
    let crowded = threads > cpus;
    crowded
        .then(|| format!("{threads} threads share {cpus} CPUs"))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests;
