//! `disk.peers`: `dd` and `fio` reading the same file as Oscope does, under the same conditions.

mod dd;
mod fio;
mod peer;

use std::env;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::disk_read::DiskRead;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::disk::layers;
use crate::disk::residency::{make_cold, make_warm};
use crate::disk::source::{Place, Source};
use crate::parameters;
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::error::Failure;
use oscope_sys::worker::program::Program;
use peer::{Account, Peer, Reading};

/// A reading that lasts longer is given up.
const LONGEST: Duration = Duration::from_secs(3600);
/// Share of a time by which two clocks may differ: far more than the kernel ever slews one of them (500 ppm,
/// adjtimex(2)).
const CLOCKS_APART: f64 = 0.01;

/// State of the page cache before each repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Cache {
    Cold,
    Warm,
}

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Tool {
    Oscope,
    Dd,
    Fio,
}

/// Parameters of `disk.peers`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    #[serde(flatten)]
    place: Place,
    /// Bytes asked for by one call of read(2).
    #[parameter(bytes(128 << 10, 128..=32 << 20))]
    block_size: u64,
    /// Blocks to be read at most; 0: to the end of the file.
    #[parameter(integer(0, 0..=1 << 53))]
    count: u64,
    /// State of the page cache before each repetition, proved by looking: without a page of the file, or with all.
    #[parameter(choice("cold"))]
    cache: Cache,
    /// Who reads: Oscope itself, dd of the GNU coreutils, or fio (one thread, engine sync, no times of single blocks).
    /// fio leaves out a last block that is not whole.
    #[parameter(choice("oscope"))]
    tool: Tool,
}

/// The prepared workload.
#[derive(Debug)]
pub enum DiskPeers {
    /// Oscope's own reading: that of `disk.read`.
    Own(Box<DiskRead>),
    /// Another program's.
    Other(Box<Other>),
}

impl Workload for DiskPeers {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "disk.peers",
            version: 2,
            purpose: "dd and fio reading the same file as Oscope, by the same blocks, under the same conditions",
            timing_model: "throughput = bytes / 2^20 / time_s. time_s is the tool's own account: with oscope that of \
                disk.read (engine read, one thread, no work on the bytes); with dd from its start in main until the \
                file is closed, with a write to /dev/null after each read; with fio its runtime, from before the file \
                is opened until the last block, less half a millisecond, since fio rounds up to whole ones. dd and \
                fio touch their buffer for the first time within it, which is seen in blocks of MiB and short \
                readings. whole_s = raw - correction: from starting the process until it has been waited for. \
                Outside: emptying or filling the page cache and, with cache=cold, bringing the tool's program file \
                back into it, so that the tool's code does not come from the device while it reads; its libraries \
                may, before that, but for those that the probe has as well.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec![],
            programs: vec!["dd"],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let peer = match parameters.tool {
            Tool::Oscope => return Ok(Self::Own(Box::new(own(&parameters, context)?))),
            Tool::Dd => dd::DD,
            Tool::Fio => fio::FIO,
        };
        let search = env::var_os("PATH");
        let other = Other::prepare(peer, &parameters, context, search.as_deref())?;
        Ok(Self::Other(Box::new(other)))
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    // As in disk.read: a first reading differs from later ones, and is to be seen.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        match self {
            Self::Own(reader) => {
                let (work, read) = reader.read(region)?;
                let values = Values {
                    throughput: read.throughput,
                    time_s: read.time_s,
                    bytes: read.bytes,
                    whole_s: seconds(region)?,
                };
                Ok(Work {
                    metrics: values.values(),
                    ..work
                })
            }
            Self::Other(other) => other.run(region),
        }
    }

    fn verify(&mut self, work: &Work) -> Result<(), Failure> {
        match self {
            Self::Own(reader) => reader.verify(work),
            Self::Other(other) => other.verify(),
        }
    }
}

/// Oscope's own reading, as anybody can ask for it.
fn own(parameters: &Parameters, context: &Context) -> Result<DiskRead, Failure> {
    let place = &parameters.place;
    let given = [
        ("file", json!(place.file)),
        ("directory", json!(place.directory)),
        ("size", json!(place.size)),
        ("block_size", json!(parameters.block_size)),
        ("count", json!(parameters.count)),
        ("cache", json!(parameters.cache)),
        ("engine", json!("read")),
        ("threads", json!(1)),
        ("work", json!("none")),
        ("longest", json!(LONGEST.as_secs_f64())),
    ];
    let given = given.map(|(name, value)| (name.to_owned(), value));
    let values = parameters::complete(
        &given.into_iter().collect(),
        &DiskRead::describe().parameters,
    )?;
    let typed = serde_json::from_value(Value::Object(values))
        .map_err(|error| Failure::request("params", error.to_string()))?;
    DiskRead::prepare(typed, context)
}

/// A reading by another program.
#[derive(Debug)]
pub struct Other {
    peer: Peer,
    program: Program,
    source: Source,
    cache: Cache,
    /// Bytes that are to be in the state asked for: all that may be read.
    length: u64,
    reading: Reading,
    notes: Vec<String>,
    last: Option<Last>,
}

/// What the last repetition gave.
#[derive(Debug, Clone, Copy)]
struct Last {
    account: Account,
    whole_s: f64,
}

impl Other {
    /// Find the program by the folders of `search`, and make ready what it is to read.
    fn prepare(
        peer: Peer,
        parameters: &Parameters,
        context: &Context,
        search: Option<&OsStr>,
    ) -> Result<Self, Failure> {
        let program = Program::find(peer.name, search)?;
        let source = Source::open(&parameters.place, context.files())?;
        let block_size = parameters.block_size;
        let length = match parameters.count {
            0 => source.length,
            count => source.length.min(count.saturating_mul(block_size)),
        };
        let within_reach = (peer.reach)(length, block_size);
        if within_reach == 0 {
            return Err(Failure::request(
                "block_size",
                format!(
                    "{} reads whole blocks only: it must be {length} at most for {}, not {block_size}",
                    peer.name.command, source.name
                ),
            ));
        }
        let mut notes = vec![
            layers::below(&source.file, &source.name)?,
            program.version.clone(),
        ];
        notes.extend(peer.remark.map(str::to_owned));
        if within_reach < length {
            notes.push(format!(
                "{} reads whole blocks only, without the last {} bytes",
                peer.name.command,
                length - within_reach
            ));
        }
        Ok(Self {
            reading: Reading {
                path: source.path(),
                block_size,
                length: within_reach,
            },
            peer,
            program,
            source,
            cache: parameters.cache,
            length,
            notes,
            last: None,
        })
    }

    fn run(&mut self, region: &mut Region) -> Result<Work, Failure> {
        self.last = None;
        self.source.check_unchanged()?;
        let state = match self.cache {
            Cache::Cold => {
                let state = make_cold(&self.source.file, self.length)?;
                self.program.load()?;
                state
            }
            Cache::Warm => make_warm(&self.source.file, self.length)?,
        };
        let mut run = self.program.run(&(self.peer.arguments)(&self.reading))?;
        let latest = Instant::now() + LONGEST;
        let ended = region.measure(|| run.finish(latest))?;
        let account = (self.peer.account)(&run.checked_output(ended)?)?;
        let whole_s = seconds(region)?;
        self.last = Some(Last { account, whole_s });
        let bytes = account.bytes as f64;
        let values = Values {
            throughput: bytes / f64::from(1 << 20) / account.time_s,
            time_s: account.time_s,
            bytes,
            whole_s,
        };
        Ok(Work {
            metrics: values.values(),
            done: account.bytes,
            wanted: self.reading.length,
            notes: self.notes.iter().cloned().chain([state]).collect(),
        })
    }

    fn verify(&mut self) -> Result<(), Failure> {
        let Last { account, whole_s } = self
            .last
            .ok_or_else(|| Failure::failed("nothing was read"))?;
        if account.time_s - account.error_s > whole_s * (1.0 + CLOCKS_APART) {
            return Err(Failure::failed(format!(
                "{} reports {} s of reading, though it ran for {whole_s} s",
                self.peer.name.command, account.time_s
            )));
        }
        self.source.check_unchanged()?;
        self.source.remember_reading(None);
        Ok(())
    }
}

/// What the region lasted, in seconds.
fn seconds(region: &Region) -> Result<f64, Failure> {
    Ok(region.clock().nanoseconds(region.corrected()?) / 1e9)
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(rate("MiB/s", "bytes read").note("As the tool reports it."))]
    throughput: f64,
    #[metric(time("s", Quantity::Time)
        .of("the reading")
        .note("As the tool reports it: dd to six digits, fio to 0.5 ms."))]
    time_s: f64,
    #[metric(found("B", "bytes read"))]
    bytes: f64,
    #[metric(time("s", Quantity::Time)
        .of("the tool's process from its start to its end")
        .note("With oscope, which starts none, that of the reading."))]
    whole_s: f64,
}

#[cfg(test)]
mod tests;
