//! `disk.read`: reading a file, from a cold or a warm page cache, in several ways.

mod adaptive;
mod blocks;
mod mapped;
mod method;
mod parameters;
mod pass;
mod ring;

use std::fs::File;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut};
use nix::time::ClockId;
use serde_json::{Value, json};

use crate::description::{Describe, Description, Metrics, SchedulingIsolation};
use crate::disk::residency::{Residency, make_cold, make_warm};
use crate::disk::source::Source;
use crate::disk::{content, direct, layers};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use adaptive::Race;
use mapped::Mapped;
use method::{Asked, Engine, Method};
use oscope_sys::affinity::Pinned;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::worker::{assign_cpus, run_pinned, take_seat};
use parameters::Cache;
pub use parameters::{Parameters, Values};
use pass::{Pass, Tally, Use};

/// The prepared workload.
#[derive(Debug)]
pub struct DiskRead {
    source: Source,
    cache: Cache,
    purpose: Use,
    longest: Duration,
    /// Bytes to be read.
    length: u64,
    method: Method,
    /// The file as each thread has it open.
    files: Vec<File>,
    /// The threads' buffers in a row.
    buffers: Option<MmapMut>,
    /// The threads' CPUs.
    cpus: Vec<usize>,
    _pinned: Option<Pinned>,
    notes: Vec<String>,
    tally: Tally,
}

impl Workload for DiskRead {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "disk.read",
            version: 3,
            purpose: "Reading a file from a cold or a warm page cache, block by block",
            timing_model: "throughput = bytes / 2^20 / time_s, time_s = raw - correction. Inside the clock: the calls \
                that read, with work=xor the folding of the bytes, with engine=uring the making of the rings, and \
                with several threads the end of the last. Outside: opening the file, making buffers, threads and an \
                empty mapping, emptying or filling the page cache, with cache=cold bringing this program back into \
                memory, writing back what is dirty before it is read past \
                the cache, and taking a mapping down.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::With(vec![
                ("threads", vec![json!(1)]),
                ("cache", vec![json!("warm")]),
                (
                    "engine",
                    ["read", "pread", "mmap"].map(Value::from).to_vec(),
                ),
            ]),
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let source = Source::open(&parameters.place, context.files())?;
        let asked = Asked {
            engine: parameters.engine,
            threads: parameters.threads,
            block: parameters.block_size,
            depth: parameters.queue_depth,
            cpus: context.allowed().len() as u64,
            cached: match parameters.cache {
                Cache::Cold => Some(0.0),
                Cache::Warm => Some(1.0),
                // Only auto goes by it, and on a large file looking takes time.
                Cache::Found if parameters.engine != Engine::Auto => None,
                Cache::Found => Residency::if_reported(&source.file, source.length)?
                    .map(|residency| residency.share()),
            },
        };
        let (method, chosen) = asked.method(&source)?;
        if method.engine.is_direct() && parameters.cache == Cache::Warm {
            return Err(Failure::request(
                "cache",
                "warm has no meaning with direct I/O, which goes round the page cache; choose found or cold",
            ));
        }
        let cpus = assign_cpus(context.cpu, context.allowed(), method.threads as usize);
        let pinned = take_seat(context.cpu, &cpus)?;
        let length = match parameters.count {
            0 => source.length,
            count => source.length.min(count.saturating_mul(method.block)),
        };
        let mut notes = Vec::from_iter(chosen);
        // A warm reading never gets there.
        if parameters.cache == Cache::Cold {
            notes.push(layers::below(&source.file, &source.name)?);
        }
        Ok(Self {
            files: open(&source, method)?,
            buffers: buffers(method)?,
            cache: parameters.cache,
            purpose: parameters.work,
            longest: Duration::from_secs_f64(parameters.longest),
            cpus,
            _pinned: pinned,
            tally: Tally::default(),
            source,
            length,
            method,
            notes,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    // A first reading differs from later ones, and is to be seen.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        let (work, values) = self.read(region)?;
        Ok(Work {
            metrics: values.values(),
            ..work
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        if self.tally.bytes == 0 {
            return Err(Failure::failed("nothing was read"));
        }
        self.source.check_unchanged()?;
        self.check_content()?;
        let complete = self.purpose == Use::Xor && self.tally.bytes == self.source.length;
        if let Some(known) = self.source.known_xor().filter(|_| complete) {
            if known != self.tally.xor {
                return Err(Failure::failed(format!(
                    "the XOR is {:08x}, though that of the same file is {known:08x}",
                    self.tally.xor
                )));
            }
        }
        self.source
            .remember_reading(complete.then_some(self.tally.xor));
        Ok(())
    }
}

impl DiskRead {
    /// One repetition: the work, which has no metrics yet, and their values.
    ///
    /// # Errors
    /// As for [`Workload::run`].
    pub fn read(&mut self, region: &mut Region) -> Result<(Work, Values), Failure> {
        self.source.check_unchanged()?;
        let state = match self.cache {
            Cache::Found => {
                self.write_back()?;
                None
            }
            Cache::Cold => Some(make_cold(&self.source.file, self.length)?),
            Cache::Warm => Some(make_warm(&self.source.file, self.length)?),
        };
        let resident = Residency::if_reported(&self.source.file, self.length)?;
        let earlier_reads = self.source.reads();
        let deadline = Instant::now().checked_add(self.longest);
        let pass = Pass::new(self.length, self.method.block, self.purpose, deadline);
        let mut cpu_s = 0.0;
        let tally = self
            .go(&pass, |work| cpu_s = measured(region, work))
            .map_err(|failure| failure.context(&self.source.name))?;
        self.tally = tally;
        let whole = tally.bytes == self.length;
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let time_s = region.clock().nanoseconds(region.corrected()?) / 1e9;
        let bytes = tally.bytes as f64;
        let has_xor = self.purpose == Use::Xor && whole;
        let values = Values {
            throughput: bytes / f64::from(1 << 20) / time_s,
            time_s,
            bytes,
            calls: tally.calls as f64,
            cpu_s,
            xor: has_xor.then(|| f64::from(tally.xor)),
            resident: resident.map(|residency| residency.share()),
            earlier_reads: earlier_reads as f64,
        };
        let work = Work {
            metrics: Vec::new(),
            done: tally.bytes,
            wanted: if over { tally.bytes } else { self.length },
            notes: self.notes.iter().cloned().chain(state).collect(),
        };
        Ok((work, values))
    }

    /// Read the file once, together, between the two readings of the clock that `measure` takes.
    fn go(
        &mut self,
        pass: &Pass,
        measure: impl FnOnce(&mut dyn FnMut()),
    ) -> Result<Tally, Failure> {
        let mapped = match self.method.engine {
            Engine::Mmap | Engine::Auto => Some(Mapped::new(&self.source.file, self.length)?),
            _ => None,
        };
        let race = Race::default();
        let each = self.method.buffer() as usize;
        let mut parts = self.buffers.iter_mut().flat_map(|all| all.chunks_mut(each));
        let jobs = self.files.iter().map(|file| {
            let worker = Worker {
                engine: self.method.engine,
                file,
                buffer: parts.next().unwrap_or_default(),
                mapped: mapped.as_ref(),
                race: &race,
            };
            || worker.work(pass)
        });
        run_pinned(&self.cpus, jobs.collect(), measure)?
            .into_iter()
            .reduce(|all, tally| Ok(all?.and(tally?)))
            .unwrap_or_else(|| Err(Failure::failed("nobody read")))
    }

    /// Have what is dirty of the file written before it is read past the page cache: the kernel would do it within the
    /// first read (`kiocb_write_and_wait`), behind all else that waits for the device.
    fn write_back(&self) -> Result<(), Failure> {
        if self.method.engine.is_direct() {
            nix::unistd::fdatasync(&self.source.file)
                .map_err(|error| Failure::system(&self.source.name, error))?;
        }
        Ok(())
    }

    /// Where nothing looks at the bytes, look at the last ones: a scratch file's are known. A mapping, which is taken
    /// down, has none left.
    fn check_content(&self) -> Result<(), Failure> {
        let last = self.tally.last;
        let is_checked = self.source.is_scratch() && self.method.engine != Engine::Auto;
        if let Some(buffers) = self.buffers.as_ref().filter(|_| is_checked) {
            if !content::matches(last.offset, &buffers[last.at..last.at + last.length]) {
                return Err(Failure::failed(format!(
                    "the {} bytes read at byte {} are not those of the file",
                    last.length, last.offset
                )));
            }
        }
        Ok(())
    }
}

/// What one thread works with.
struct Worker<'a> {
    engine: Engine,
    file: &'a File,
    buffer: &'a mut [u8],
    mapped: Option<&'a Mapped>,
    race: &'a Race,
}

impl Worker<'_> {
    fn work(self, pass: &Pass) -> Result<Tally, Failure> {
        match (self.engine, self.mapped) {
            (Engine::Auto, Some(mapped)) => {
                adaptive::read(pass, self.race, mapped, self.file, self.buffer)
            }
            (_, Some(mapped)) => mapped.read(pass, self.file),
            (Engine::Uring, _) => ring::read(pass, self.file, self.buffer),
            (Engine::Read, _) => blocks::read(pass, self.file, self.buffer),
            _ => blocks::pread(pass, self.file, self.buffer),
        }
    }
}

/// The file opened once for each thread, since read(2) goes by a position that belongs to the opening.
fn open(source: &Source, method: Method) -> Result<Vec<File>, Failure> {
    let flags = if method.engine.is_direct() {
        direct::aligned(&source.file, &source.name, method.block)?;
        libc::O_DIRECT
    } else {
        0
    };
    (0..method.threads)
        .map(|_| {
            source
                .reopen(flags)
                .map_err(|error| Failure::system(&source.name, error))
        })
        .collect()
}

/// Memory for the threads' blocks, there before the clock runs.
///
/// Huge pages where they can be had: a device's queue takes so many pieces of memory a request (`queue/max_segments`),
/// and in single pages a MiB is more than most take, so that each read would be split.
fn buffers(method: Method) -> Result<Option<MmapMut>, Failure> {
    let bytes = method.buffers().next_multiple_of(page_bytes()) as usize;
    if bytes == 0 {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Failure::system("making buffers", error);
    let mut all = MmapMut::map_anon(bytes).map_err(failed)?;
    // Refused by kernels without huge pages, which then give single ones.
    let _ = all.advise(Advice::HugePage);
    for page in all.chunks_mut(page_bytes() as usize) {
        page[0] = 1;
    }
    Ok(Some(all))
}

/// Have the region measure the work; the CPU time that this process spends meanwhile, user and system, in seconds.
fn measured(region: &mut Region, work: &mut dyn FnMut()) -> f64 {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    let now = || clock.now().expect("every process has this clock");
    let before = now();
    region.measure(work);
    Duration::from(now() - before).as_secs_f64()
}

#[cfg(test)]
mod tests;
