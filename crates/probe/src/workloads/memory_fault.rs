//! `memory.fault`: what a page fault costs, by what the kernel has to do for it.

mod fresh;
mod holder;
mod single_pages;
mod swapped;
mod touch;

use std::path::PathBuf;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::disk::scratch::Scratch;
use crate::pressure::SwapKind;
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use fresh::{Fresh, page_of};
use oscope_sys::affinity::Pinned;
use oscope_sys::error::Failure;
use oscope_sys::mapping::Pages;
use oscope_sys::worker::{assign_cpus, run_pinned, take_seat};
use swapped::Room;
use touch::Tally;

/// Parameters of `memory.fault`.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// zero-page: a first read of anonymous memory; anonymous: a first write; file: a read of a page that is in the
    /// page cache; file-major: a read of a page that is on the device only (proved); copy-on-write: a write after fork,
    /// while the child holds the page; huge: a first write to a huge page; swap-in: a read of a page that is in swap
    /// only (proved). Half of each such page is zeros, so that zram compresses it.
    #[parameter(choice("anonymous"))]
    kind: FaultKind,
    /// Each is pinned to a CPU, the allowed ones in turn, and touches an equal share of the pages.
    #[parameter(integer(1, 1..=4096))]
    threads: usize,
    /// Memory touched in a repetition, made anew for each; rounded up to whole pages, or to whole huge ones.
    #[parameter(bytes(64 << 20, 1 << 20..=1 << 40))]
    size: u64,
    /// What holds the swap that is made for swap-in (as root, three times the size): zram, a compressed device in
    /// memory; file, in the directory, read one page at a time; auto: zram, whose cost is the kernel's and not a
    /// device's, or a file where there is none.
    #[parameter(choice("auto").only_with("kind", &["swap-in"]))]
    swap: SwapKind,
    /// Where the scratch file is made: it decides which file system and device are measured.
    #[parameter(path("/var/tmp").only_with("kind", &["file", "file-major", "swap-in"]))]
    directory: PathBuf,
}

/// What the kernel has to do for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FaultKind {
    ZeroPage,
    Anonymous,
    File,
    FileMajor,
    CopyOnWrite,
    Huge,
    SwapIn,
}

impl FaultKind {
    /// What anonymous memory of this kind is made of.
    fn pages(self) -> Pages {
        match self {
            Self::Huge => Pages::Huge,
            _ => Pages::Base,
        }
    }

    /// Whether the touches write.
    fn writes(self) -> bool {
        matches!(self, Self::Anonymous | Self::CopyOnWrite | Self::Huge)
    }
}

/// The prepared workload.
#[derive(Debug)]
pub struct MemoryFault {
    kind: FaultKind,
    /// Bytes that a fault is to make present.
    page: usize,
    /// Pages touched in a repetition.
    pages: u64,
    cpus: Vec<usize>,
    scratch: Option<Rc<Scratch>>,
    /// Sum of the bytes that touches find.
    expected: u64,
    /// The memory of the last repetition, to be verified.
    fresh: Option<Fresh>,
    /// After the memory, which has to be gone when the swap is read back.
    swap: Option<Room>,
    tally: Tally,
    repetitions: u64,
    notes: Vec<String>,
    _pinned: Option<Pinned>,
}

impl Workload for MemoryFault {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "memory.fault",
            version: 2,
            purpose: "What a page fault costs: zero page, new page, file, copy after fork, huge page, swap",
            timing_model: "time_ns = (raw - correction) x threads / faults; faults_per_s = faults / (raw - \
                correction). Inside the clock: a touch (a load or a store of one byte) of each page in rising order, \
                two calls of getrusage and the writing of 8 KiB of stack by each thread (some 1 us together, after a \
                fork 4 us), and with several threads the opening of their gate until the end of the last (about 1 \
                us). A touch costs the exception, its handling, the return and the access itself; every 512th fault \
                on base pages also makes a page table. Outside: making the memory, writing it, forking, emptying or \
                filling the page cache. Files are mapped page by page, each in a mapping of its own that the kernel \
                cannot merge with the next, since it would otherwise map the neighbours along (fault-around); finding \
                one of so many mappings is inside the clock. Swap is read a page at a time, without readahead.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::With(vec![
                ("threads", vec![json!(1)]),
                (
                    "kind",
                    ["zero-page", "anonymous", "file", "huge"]
                        .map(Value::from)
                        .to_vec(),
                ),
            ]),
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let kind = parameters.kind;
        let page = page_of(kind)?;
        let pages = parameters.size.div_ceil(page);
        check_threads(&parameters, pages)?;
        let scratch = match kind {
            FaultKind::File | FaultKind::FileMajor => Some(
                context
                    .files()
                    .scratch(&parameters.directory, pages * page)?,
            ),
            _ => None,
        };
        let swap = match kind {
            FaultKind::SwapIn => Some(Room::make(
                parameters.swap,
                pages * page,
                &parameters.directory,
            )?),
            _ => None,
        };
        let cpus = assign_cpus(context.cpu, context.allowed(), parameters.threads);
        let pinned = take_seat(context.cpu, &cpus)?;
        Ok(Self {
            kind,
            page: page as usize,
            pages,
            notes: cpu_sharing(cpus.len(), context.allowed().len())
                .into_iter()
                .chain(swap.as_ref().map(Room::note))
                .collect(),
            cpus,
            expected: match kind {
                FaultKind::File | FaultKind::FileMajor | FaultKind::SwapIn => {
                    touch::expected(pages, page)
                }
                _ => 0,
            },
            scratch,
            fresh: None,
            swap,
            tally: Tally::default(),
            repetitions: 0,
            _pinned: pinned,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        // Given back before the next is made, and before the page cache is emptied: mapped pages stay.
        self.fresh = None;
        self.repetitions += 1;
        let (mut fresh, state) = Fresh::make(
            self.kind,
            self.pages * self.page as u64,
            self.scratch.as_deref(),
            self.swap.as_ref(),
        )?;
        let mark = mark(self.repetitions);
        let shares = fresh.shares(
            self.page,
            self.cpus.len(),
            self.kind.writes().then_some(mark),
        );
        let jobs = shares.into_iter().map(|share| || share.touch());
        let tallies = run_pinned(&self.cpus, jobs.collect(), |work| region.measure(work))?;
        self.tally = tallies
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .fold(Tally::default(), Tally::and);
        self.fresh = Some(fresh);
        let elapsed_ns = region.clock().nanoseconds(region.corrected()?);
        Ok(Work {
            metrics: values(self.tally, self.cpus.len(), elapsed_ns).values(),
            done: self.tally.touched,
            wanted: self.pages,
            notes: self.notes.iter().cloned().chain(state).collect(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        let major = match self.kind {
            FaultKind::FileMajor | FaultKind::SwapIn => self.pages,
            _ => 0,
        };
        let strays = match self.kind {
            // The thread's own pages are shared with the child as well: the kernel writes to its rseq area when it is
            // scheduled (rseq(2)).
            FaultKind::CopyOnWrite => self.cpus.len() as u64,
            _ => 0,
        };
        self.tally.judge(self.pages, major, strays)?;
        if self.tally.sum != self.expected {
            return Err(Failure::failed(format!(
                "the bytes found sum up to {}, not {}: other memory was touched",
                self.tally.sum, self.expected
            )));
        }
        let fresh = self.fresh.as_mut();
        let fresh = fresh.ok_or_else(|| Failure::failed("no memory was made"))?;
        fresh.prove(
            self.page,
            self.kind.writes().then_some(mark(self.repetitions)),
        )
    }
}

/// Refuse more threads than there are units to share.
fn check_threads(parameters: &Parameters, pages: u64) -> Result<(), Failure> {
    let (most, each) = match parameters.kind {
        FaultKind::File | FaultKind::FileMajor => (
            (parameters.size / fresh::PIECE_BYTES as u64).max(1),
            "2 MiB",
        ),
        _ => (pages, "page"),
    };
    if parameters.threads as u64 <= most {
        return Ok(());
    }
    Err(Failure::request(
        "threads",
        format!(
            "must be at most {most}, one for each {each} of size, not {}",
            parameters.threads
        ),
    ))
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(time("ns", Quantity::Time)
        .per("fault")
        .note("As the thread that faults sees it, the access included. Where threads share a CPU, it includes their \
               waiting for it."))]
    time_ns: f64,
    #[metric(rate("faults/s", "faults of all threads"))]
    faults_per_s: f64,
    #[metric(found("1", "page faults")
        .note("Minor and major ones, counted by getrusage(2): one for each page touched."))]
    faults: f64,
    #[metric(found("1", "page faults that waited for a device").note("Counted by getrusage(2)."))]
    major: f64,
}

fn values(tally: Tally, threads: usize, elapsed_ns: f64) -> Values {
    let faults = (tally.minor + tally.major) as f64;
    Values {
        time_ns: elapsed_ns * threads as f64 / faults,
        faults_per_s: faults / elapsed_ns * 1e9,
        faults,
        major: tally.major as f64,
    }
}

/// What the touches of a repetition write: not 0, and never the same in two repetitions running.
fn mark(repetition: u64) -> u8 {
    (repetition % 251) as u8 + 1
}

fn cpu_sharing(threads: usize, cpus: usize) -> Option<String> {
    (threads > cpus).then(|| format!("{threads} threads share {cpus} CPUs"))
}

#[cfg(test)]
mod tests;
