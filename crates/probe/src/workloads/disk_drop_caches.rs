//! `disk.drop-caches`: what writing 1, 2 or 3 to `/proc/sys/vm/drop_caches` frees.

mod figures;
mod file_set;
mod slabs;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::figures::Figures;
use self::file_set::FileSet;
use self::slabs::Objects;
use crate::description::{Describe, Description, Metrics, Quantity, SchedulingIsolation};
use crate::disk::content;
use crate::disk::residency::{DROP_CACHES, Residency, make_warm, take_turn};
use crate::disk::scratch::unnamed;
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};

/// Bytes written at once while the page cache's file is made; a multiple of 8.
const PIECE: usize = 1 << 20;
/// What the kernel keeps, whatever is written (`mapping_try_invalidate` in `mm/truncate.c`, `prune_dcache_sb` and
/// `prune_icache_sb` in `fs/`).
const KEPT: &str = "drop_caches frees only what is clean and unused: pages that are dirty, under write-back, locked, \
    mapped by a process or in tmpfs stay, and so do dentries and inodes in use; other programs fill the caches \
    meanwhile";

/// Parameters of `disk.drop-caches`.
#[derive(Debug, Deserialize, Describe)]
pub struct Parameters {
    /// What is written: 1 drops the page cache, 2 the slabs that can be reclaimed (dentries and inodes among them), 3
    /// both. It drops the caches of the whole machine: everything else runs slower until they are filled again.
    #[parameter(words("1", &["1", "2", "3"]))]
    value: String,
    /// Where the scratch file is made: it decides which file system and device are measured.
    #[parameter(path("/var/tmp"))]
    directory: PathBuf,
    /// Bytes of page cache filled before each write, with a scratch file of that length; less than the free memory.
    #[parameter(bytes(64 << 20, 4096..=1 << 40))]
    size: u64,
    /// Empty files made in a folder of their own and looked at before each write, each of which has a dentry and an
    /// inode in memory then.
    #[parameter(integer(2000, 0..=1_000_000))]
    files: u32,
}

/// The prepared workload.
#[derive(Debug)]
pub struct DropCaches {
    value: Value,
    /// The file without a name that fills the page cache, and its length.
    filler: File,
    size: u64,
    file_set: FileSet,
    seen: Option<Seen>,
}

/// What is written, a set of bits as `fs/drop_caches.c` takes it.
#[derive(Debug, Clone, Copy)]
struct Value(u8);

impl Value {
    fn drops_pages(self) -> bool {
        self.0 & 1 != 0
    }

    fn drops_slabs(self) -> bool {
        self.0 & 2 != 0
    }
}

/// What `verify` judges by.
#[derive(Debug, Clone, Copy)]
struct Seen {
    before: Figures,
    after: Figures,
    /// Pages of our own file after the write; all were there before.
    pages: Residency,
}

impl Workload for DropCaches {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "disk.drop-caches",
            version: 1,
            purpose: "What writing 1, 2 or 3 to /proc/sys/vm/drop_caches frees",
            timing_model: "time_s = (raw - correction) in seconds, with raw = one write(2) of the value to the open \
                file. Outside the clock: reading a file of size bytes, looking at the small files, syncfs of their \
                file system (drop_caches frees only what is clean), and the figures. Those after the write are read \
                at once, save slab_after_bytes, which is read when the slabs have stood still for 0.2 s (2 s at \
                most): their memory comes free after an RCU grace period. All figures are of the whole machine, so \
                that what other programs do in between is in them.",
            parameters: Parameters::parameters(),
            metrics: Values::described(),
            needs: vec!["root"],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, _context: &Context) -> Result<Self, Failure> {
        open_knob()?;
        let digit = parameters.value.parse();
        Ok(Self {
            value: Value(digit.map_err(|error| Failure::request("value", format!("{error}")))?),
            filler: filler(&parameters.directory, parameters.size)?,
            size: parameters.size,
            file_set: FileSet::make(&parameters.directory, parameters.files)?,
            seen: None,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    // Each repetition fills what it drops, and everybody pays for a drop.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.seen = None;
        // Held until the figures are read, so that none of ours drops what is filled here.
        let mut knob = take_turn(open_knob()?)?;
        self.fill()?;
        let objects_before = Objects::read();
        let before = Figures::read()?;
        let digit = [b'0' + self.value.0];
        let written = region.measure(|| knob.write(&digit));
        let after = Figures::read()?;
        // Asked for before the wait: somebody may read the machine's files meanwhile, but nobody can read this one.
        let pages = Residency::of(&self.filler, self.size)?;
        drop(knob);
        let slab_after = figures::settled_slab()?;
        let objects_after = Objects::read();
        let written = written.map_err(|error| {
            Failure::system(&format!("writing {} to {DROP_CACHES}", self.value.0), error)
        })?;
        let after = Figures {
            slab_bytes: slab_after,
            ..after
        };
        self.seen = Some(Seen {
            before,
            after,
            pages,
        });
        let time_s = region.clock().nanoseconds(region.corrected()?) / 1e9;
        let values = Values::of([before, after], [objects_before, objects_after], time_s);
        Ok(Work {
            metrics: values.values(),
            done: written as u64,
            wanted: digit.len() as u64,
            notes: vec![KEPT.to_owned()],
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        let seen = self
            .seen
            .as_ref()
            .ok_or_else(|| Failure::failed("nothing was looked at"))?;
        judge(self.value, self.file_set.count(), seen)
    }
}

impl DropCaches {
    /// Fill the caches: the page cache with our file, those of dentries and inodes with our small files; all of it
    /// clean.
    fn fill(&self) -> Result<(), Failure> {
        // What fails now may succeed in the next repetition: others use the memory too.
        make_warm(&self.filler, self.size)
            .map_err(|failure| Failure::failed(failure.to_string()))?;
        self.file_set.look()?;
        self.file_set.sync()
    }
}

/// Proves by a trial that the caches may be dropped.
fn open_knob() -> Result<File, Failure> {
    let opened = OpenOptions::new().write(true).open(DROP_CACHES);
    opened.map_err(|error| {
        Failure::unavailable_system(
            &format!("cannot write to {DROP_CACHES}"),
            error,
            "run as root, in a container with /proc/sys writable",
        )
    })
}

/// Our own file's pages are gone where the value means pages, and there are fewer dentries where it means slabs.
fn judge(value: Value, files: u32, seen: &Seen) -> Result<(), Failure> {
    let Seen {
        before,
        after,
        pages,
    } = seen;
    if value.drops_pages() && pages.resident > 0 {
        return Err(Failure::failed(format!(
            "{} of {} pages of a clean file stayed in the page cache (found by {})",
            pages.resident, pages.pages, pages.source
        )));
    }
    if value.drops_slabs() && files > 0 && after.dentries >= before.dentries {
        return Err(Failure::failed(format!(
            "there were {} dentries before and {} after, although {files} of our own could go; measure when the \
             machine is quieter",
            before.dentries, after.dentries
        )));
    }
    Ok(())
}

/// A file without a name, of `size` bytes, that the device has.
fn filler(directory: &Path, size: u64) -> Result<File, Failure> {
    let doing = |written: u64| {
        let place = directory.display().to_string();
        move |error: std::io::Error| {
            Failure::failed(format!(
                "writing a file of {size} bytes in {place}: {}, after {written} bytes",
                errno_message(&error)
            ))
            .because_of(error)
        }
    };
    let mut file = unnamed(directory)?;
    let mut piece = vec![0; PIECE];
    let mut written = 0;
    while written < size {
        if cancel::requested() {
            return Err(Failure::failed("interrupted while filling the page cache"));
        }
        let length = (size - written).min(PIECE as u64) as usize;
        content::fill(written, &mut piece[..length]);
        file.write_all(&piece[..length]).map_err(doing(written))?;
        written += length as u64;
    }
    file.sync_all().map_err(doing(written))?;
    Ok(file)
}

/// The metrics of a repetition.
#[derive(Metrics)]
struct Values {
    #[metric(found("B", "page cache of files and devices before the write")
        .note("Cached + Buffers - Shmem of /proc/meminfo."))]
    page_cache_before_bytes: f64,
    #[metric(spent("B", "page cache of files and devices after the write"))]
    page_cache_after_bytes: f64,
    #[metric(found("1", "dentries in memory before the write").note("nr_dentry of /proc/sys/fs/dentry-state."))]
    dentries_before: f64,
    #[metric(spent("1", "dentries in memory after the write"))]
    dentries_after: f64,
    #[metric(found("1", "inodes in memory before the write")
        .note("Of all file systems: nr_inodes of /proc/sys/fs/inode-nr, which is exact at once, as slabs are not."))]
    inodes_before: f64,
    #[metric(spent("1", "inodes in memory after the write"))]
    inodes_after: f64,
    #[metric(found("B", "memory of reclaimable slabs before the write").note("SReclaimable of /proc/meminfo."))]
    slab_before_bytes: f64,
    #[metric(spent("B", "memory of reclaimable slabs after the write")
        .note("Read once it has not changed for 0.2 s, at most 2 s after the write."))]
    slab_after_bytes: f64,
    #[metric(found("1", "dentries in use before the write").note("As /proc/slabinfo counts them."))]
    slab_dentries_before: Option<f64>,
    #[metric(spent("1", "dentries in use after the write").note("Read once the slabs no longer change."))]
    slab_dentries_after: Option<f64>,
    #[metric(found("1", "inodes in use before the write")
        .note("In all slabs *inode_cache of /proc/slabinfo, except that of the security modules, which keep an object \
               for each inode."))]
    slab_inodes_before: Option<f64>,
    #[metric(spent("1", "inodes in use after the write").note("Read once the slabs no longer change."))]
    slab_inodes_after: Option<f64>,
    #[metric(time("s", Quantity::Time).of("the write").note("The cost of reading the clock is subtracted."))]
    time_s: f64,
}

impl Values {
    /// Of what was before the write and after it.
    fn of([before, after]: [Figures; 2], objects: [Option<Objects>; 2], time_s: f64) -> Self {
        let dentries = objects.map(|all| all.map(|objects| objects.dentries as f64));
        let inodes = objects.map(|all| all.map(|objects| objects.inodes as f64));
        Self {
            page_cache_before_bytes: before.page_cache_bytes as f64,
            page_cache_after_bytes: after.page_cache_bytes as f64,
            dentries_before: before.dentries as f64,
            dentries_after: after.dentries as f64,
            inodes_before: before.inodes as f64,
            inodes_after: after.inodes as f64,
            slab_before_bytes: before.slab_bytes as f64,
            slab_after_bytes: after.slab_bytes as f64,
            slab_dentries_before: dentries[0],
            slab_dentries_after: dentries[1],
            slab_inodes_before: inodes[0],
            slab_inodes_after: inodes[1],
            time_s,
        }
    }
}

#[cfg(test)]
mod tests;
