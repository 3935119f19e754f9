//! `disk.write`: how fast a new file is written with a given block size.

mod pattern;
mod stream;
mod target;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use self::pattern::Pattern;
use self::stream::{Flush, Plan};
use self::target::{Destination, Existing, OnFailure, Target};
use crate::clock::reading;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::disk::{direct, layers};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::error::Failure;

/// Largest block, in bytes.
const LARGEST_BLOCK: u64 = 32 << 20;
/// Most blocks; with the largest, 2^63 bytes, beyond which no file offset goes.
const MOST_BLOCKS: u64 = 1 << 38;
/// Bytes read back at once to check the content.
const PIECE: u64 = 64 << 10;
/// Pieces read back at most, spread evenly from the first to the last.
const PIECES: u64 = 64;

/// How the data get to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sync {
    None,
    Fdatasync,
    Direct,
}

/// Parameters of `disk.write`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// The file to make, which stays; it has its name only once it is whole. Each repetition replaces the one before.
    /// Without it, a scratch file, which is gone after the repetition.
    #[parameter(path(""))]
    file: PathBuf,
    /// Where the scratch file is made: it decides which file system and device are measured.
    #[parameter(path("/var/tmp").only_with("file", &[""]))]
    directory: PathBuf,
    /// Bytes to write; the last block may be shorter.
    #[parameter(bytes(1 << 30, 4096..=1 << 40).only_with("count", &[0]))]
    size: u64,
    /// Bytes given to each write(2).
    #[parameter(bytes(128 << 10, 1..=LARGEST_BLOCK))]
    block_size: u64,
    /// Blocks to write; 0: as many as fill size.
    #[parameter(integer(0, 0..=MOST_BLOCKS).unit("blocks"))]
    count: u64,
    /// none leaves the data in the page cache, fdatasync waits at the end until the device has them, direct goes past
    /// the page cache (O_DIRECT).
    #[parameter(choice("none"))]
    sync: Sync,
    /// What happens to a regular file of that name. replace: the new file is renamed over it once it is whole; until
    /// then both need room. Nothing else is ever replaced.
    #[parameter(choice("refuse").never_with("file", &[""]))]
    existing: Existing,
    /// What happens to a named file that could not be written as a whole; one that a signal interrupted is removed.
    #[parameter(choice("remove").never_with("file", &[""]))]
    on_failure: OnFailure,
}

/// The prepared workload.
#[derive(Debug)]
pub struct DiskWrite {
    destination: Destination,
    sync: Sync,
    plan: Plan,
    pattern: Pattern,
    /// The file of the repetition under way, until it is verified.
    target: Option<Target>,
    noted: bool,
}

impl Workload for DiskWrite {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "disk.write",
            version: 1,
            purpose: "How fast a new file is written with a given block size",
            timing_model: "time_s = (raw - correction) in seconds; throughput = bytes / 2^20 / time_s. Inside the \
                clock: for each block a stamp of 8 B in each 4 KiB of the buffer, made beforehand of random bytes, \
                and write(2), called again for what it did not take; with sync=fdatasync one fdatasync(2) at the end. \
                Outside: opening, and after it reading back up to 64 pieces of 64 KiB, naming, removing. With \
                sync=none what fits is only copied to the page cache, until the limit of dirty pages slows the writer \
                down. With sync=direct the device has answered, but may still hold data in a cache of its own.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, _context: &Context) -> Result<Self, Failure> {
        let Parameters {
            file,
            directory,
            size,
            block_size,
            count,
            sync,
            existing,
            on_failure,
        } = parameters;
        oscope_sys::cancel::survive_size_limit()?;
        let total = match count {
            0 => size,
            count => count * block_size,
        };
        let flush = match sync {
            Sync::Fdatasync => Flush::Data,
            Sync::None | Sync::Direct => Flush::None,
        };
        let largest = block_size.max(PIECE) as usize;
        Ok(Self {
            destination: Destination::new(file, directory, existing, on_failure)?,
            sync,
            plan: Plan {
                total,
                block_size: block_size as usize,
                flush,
            },
            pattern: Pattern::new(largest),
            target: None,
            noted: false,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    // Every repetition writes a new file: there is nothing to warm up.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        // One that was not verified goes before there is another.
        self.target = None;
        let target = self.destination.open()?;
        let name = self.destination.name();
        if self.sync == Sync::Direct {
            self.check_alignment(&target.file, &name)?;
            set_direct(&target.file, OFlag::O_DIRECT)?;
        }
        let notes = self.notes(&target.file, &name)?;
        self.pattern.renew(reading::realtime());
        let cpu_before = cpu_time()?;
        let (progress, result) =
            region.measure(|| stream::write(&target.file, &mut self.pattern, &self.plan));
        let cpu = cpu_time()?.saturating_sub(cpu_before);
        if let Err(stop) = result {
            let fate = match stop {
                stream::Stop::Interrupted => "what was written is removed".to_owned(),
                _ => self.destination.give_up(target),
            };
            return Err(stop.explain(&name, &self.plan, progress, fate));
        }
        self.target = Some(target);
        let time_s = region.clock().nanoseconds(region.corrected()?) / 1e9;
        let bytes = progress.bytes as f64;
        let values = Values {
            throughput: bytes / f64::from(1 << 20) / time_s,
            time_s,
            bytes,
            calls: progress.calls as f64,
            cpu_s: cpu.as_secs_f64(),
        };
        Ok(Work {
            metrics: values.values(),
            done: progress.bytes,
            wanted: self.plan.total,
            notes,
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        let target = self.target.take();
        let target = target.ok_or_else(|| Failure::failed("no file was written"))?;
        match self.check(&target.file) {
            Ok(()) => self.destination.keep(target),
            Err(failure) => {
                let fate = self.destination.give_up(target);
                Err(Failure::failed(format!("{failure}; {fate}")))
            }
        }
    }
}

impl DiskWrite {
    /// Direct I/O takes whole blocks of the device, the last one included.
    fn check_alignment(&self, file: &File, name: &str) -> Result<(), Failure> {
        let alignment = direct::aligned(file, name, self.plan.block_size as u64)?.offset;
        if self.plan.total % alignment != 0 {
            return Err(Failure::request(
                "size",
                format!(
                    "direct I/O on {name} takes multiples of {alignment} bytes, not {}",
                    self.plan.total
                ),
            ));
        }
        Ok(())
    }

    /// The file has its length, and its first, its last and the pieces between them are what was written, as the page
    /// cache gives them.
    fn check(&mut self, file: &File) -> Result<(), Failure> {
        let name = self.destination.name();
        let failed =
            |error: std::io::Error| Failure::system(&format!("reading {name} back"), &error);
        set_direct(file, OFlag::empty())?;
        let length = file.metadata().map_err(failed)?.len();
        if length != self.plan.total {
            return Err(Failure::failed(format!(
                "{name} has {length} bytes, not {}",
                self.plan.total
            )));
        }
        let mut found = vec![0; PIECE as usize];
        for offset in pieces(length) {
            let found = &mut found[..(length - offset).min(PIECE) as usize];
            file.read_exact_at(found, offset).map_err(failed)?;
            if *found != *self.pattern.block(offset, found.len()) {
                return Err(Failure::failed(format!(
                    "{name} reads back otherwise than written, in the {} bytes from byte {offset} on",
                    found.len()
                )));
            }
        }
        Ok(())
    }

    /// Once a request: what lies below.
    fn notes(&mut self, file: &File, name: &str) -> Result<Vec<String>, Failure> {
        if std::mem::replace(&mut self.noted, true) {
            return Ok(Vec::new());
        }
        Ok(vec![layers::below(file, name)?])
    }
}

/// Where the pieces begin that are read back of `length` bytes.
fn pieces(length: u64) -> Vec<u64> {
    let last = length.div_ceil(PIECE).saturating_sub(1);
    let steps = last.min(PIECES - 1);
    let piece = |step| u128::from(last) * u128::from(step) / u128::from(steps.max(1));
    (0..=steps).map(|step| piece(step) as u64 * PIECE).collect()
}

/// Have the file read and written directly, or not.
fn set_direct(file: &File, direct: OFlag) -> Result<(), Failure> {
    let set = fcntl(file, FcntlArg::F_GETFL).and_then(|flags| {
        let others = OFlag::from_bits_retain(flags).difference(OFlag::O_DIRECT);
        fcntl(file, FcntlArg::F_SETFL(others.union(direct)))
    });
    set.map(|_| ())
        .map_err(|error| Failure::system("switching direct I/O", error))
}

/// CPU time of this process, user and system, of all threads.
fn cpu_time() -> Result<Duration, Failure> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(Duration::from)
        .map_err(|error| Failure::system("reading the CPU time", error))
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(rate("MiB/s", "bytes written"))]
    throughput: f64,
    #[metric(time("s", Quantity::Time)
        .of("the writing")
        .note("It includes fdatasync(2) where requested. The cost of reading the clock is subtracted."))]
    time_s: f64,
    #[metric(found("B", "bytes written"))]
    bytes: f64,
    #[metric(found("calls", "calls of write(2)"))]
    calls: f64,
    #[metric(time("s", Quantity::CpuTime)
        .of("the probe")
        .note("User and system. The kernel's own threads that write back are not included."))]
    cpu_s: f64,
}

#[cfg(test)]
mod tests;
