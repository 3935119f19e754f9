//! `memory.access`: the walk over memory of CS380L lab 2 (docs/sources.md), by pattern, footprint and mapping, each
//! time in a fresh process.

mod area;
mod expected;
mod parameters;
mod patience;
mod policy;
mod preparation;
mod presence;
mod reclaim;
mod repetition;
mod simulation;
mod usage;
mod walk;

use std::path::PathBuf;

use super::fresh_process::in_fresh_process;
use crate::cache_model::Geometry;
use crate::counters::Counters;
use crate::description::{Describe, Description, Metrics, SchedulingIsolation};
use crate::pressure::{Competition, Pressure};
use crate::region::Region;
use crate::workload::{Context, Iterations, Work, Workload};
use area::Backing;
use oscope_sys::cancel;
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::mapping::Pages;
pub use parameters::Parameters;
use parameters::{CounterValues, MappingValues, PressureValues, WalkValues};
use presence::Presence;
use repetition::{Found, Lent, Plan};
use simulation::{Addresses, Simulated};
use walk::{Accesses, Bases};

/// The prepared workload.
pub struct MemoryAccess {
    plan: Plan,
    directory: PathBuf,
    /// Base pages that must be there after the walk, where that is known.
    touched: Option<u64>,
    pressure: Option<Pressure>,
    /// The kernel's settings, restored when the pressure is over.
    _policy: Vec<CleanupGuard>,
    counters: Option<Counters>,
    geometry: Option<Geometry>,
    /// What the model counted, and for what.
    simulated: Option<(Addresses, Simulated)>,
    /// What the last repetition found.
    found: Option<Found>,
    notes: Vec<String>,
}

impl Workload for MemoryAccess {
    type Parameters = Parameters;

    fn describe() -> Description {
        Description {
            name: "memory.access",
            version: 1,
            purpose: "The walk over memory of CS380L lab 2: what pattern, footprint and mapping cost",
            timing_model: "time_s = (raw - correction) in seconds; set_ns = time_s / sets. Inside the clock: for each \
                set a random number, and 16 walks over 512 lines of 64 B, of which the first of each 8 is written and \
                the others read, a byte each (volatile), with the page faults that they meet; some 10 instructions a \
                line, as gcc -O2 makes them. Each repetition runs in a forked process of its own: its page tables are \
                new, and pages of the program that it writes to for the first time fault a few times as well. In it, \
                outside the clock: mapping, populating and initialising the memory, then writing over 16 MiB \
                (together the init_ figures); getrusage and /proc/vmstat just before and after the walk, beside the \
                marks of the region; reading smaps and pagemap. A file is made for each repetition, with its room \
                reserved, and nothing of it is in memory at first: a fault on a page that is not in the page cache \
                counts as major although no device is read. With pressure=compete the walk waits for memory inside \
                the clock: in a group of version 1 asleep, until a helper process raises the limit for a moment \
                (milliseconds each time), in one of version 2 slowed down by the kernel beyond memory.high (up to 2 s \
                each time), so that time_s shows this regime as well as swapping. With steps, the competitor's turns, \
                two rests of 50 us and the switches between them are inside the clock too, for each set; cpu_s has \
                only what the walk's own process spends on passing the turn. Covariates are those of the waiting \
                parent, not of the measured process. Simulated counts are a model's, made once a request.",
            parameters: Parameters::parameters(),
            metrics: parameters::metrics(),
            needs: vec![],
            programs: vec![],
            alone: SchedulingIsolation::Never,
        }
    }

    fn prepare(parameters: Parameters, context: &Context) -> Result<Self, Failure> {
        let wanted = preparation::area_spec(&parameters)?;
        let more_swap = if wanted.pressed {
            parameters.swap_size
        } else {
            0
        };
        area::check_room(wanted.bytes(), more_swap)?;
        let mut notes = Vec::new();
        let geometry = preparation::geometry(&parameters, &mut notes)?;
        notes.extend(geometry.map(|geometry| format!("simulated: {geometry}")));
        let counters = preparation::hardware(parameters.counters, &mut notes)?;
        let bases = Bases::new(parameters.pattern, parameters.footprint, parameters.size);
        let plan = Plan {
            wanted,
            bases,
            sets: parameters.sets,
        };
        let policy = parameters.policy.set()?;
        let pressure = wanted
            .pressed
            .then(|| Pressure::prepare(preparation::pressing(&parameters, &plan), context))
            .transpose()?;
        Ok(Self {
            touched: preparation::touched(&plan),
            plan,
            directory: parameters.directory,
            pressure,
            _policy: policy,
            counters,
            geometry,
            simulated: None,
            found: None,
            notes,
        })
    }

    fn iterations(&self) -> Iterations {
        Iterations::Fixed(1)
    }

    /// Each repetition has a process of its own, in which nothing is warm.
    fn warmup(&self) -> u64 {
        0
    }

    fn run(&mut self, _iterations: u64, region: &mut Region) -> Result<Work, Failure> {
        self.found = None;
        let file = match self.plan.wanted.backing {
            Backing::Anonymous => None,
            Backing::Private | Backing::Shared => {
                Some(area::file(&self.directory, self.plan.wanted.bytes())?)
            }
        };
        let mut competition = self.pressure.as_mut().map(Pressure::compete).transpose()?;
        let turns = competition.as_ref().and_then(Competition::turns);
        let lent = Lent {
            file: file.as_ref(),
            pressure: self.pressure.as_ref(),
            turns: turns.as_deref(),
            counters: self.counters.as_ref(),
        };
        let plan = &self.plan;
        let watch = || competition.as_mut().map_or(Ok(()), Competition::check);
        let found = in_fresh_process(region, watch, |region| plan.carry_out(lent, region))
            .map_err(|failure| blame(failure, competition.as_mut()))?;
        if let Some(competition) = &mut competition {
            competition.check()?;
        }
        let pressed = pressed(competition.as_ref());
        // It presses no longer than is measured: not while the walk is simulated.
        drop(competition);
        self.found = Some(found);
        let simulated = self.simulate(found.at)?;
        let seconds = region.clock().nanoseconds(region.corrected()?) / 1e9;
        Ok(Work {
            metrics: figures(seconds, &found)
                .into_iter()
                .chain(simulated.iter().flat_map(Simulated::metrics))
                .chain(pressed)
                .collect(),
            done: found.done,
            wanted: self.plan.sets,
            notes: self.notes(),
        })
    }

    fn verify(&mut self, _work: &Work) -> Result<(), Failure> {
        let found = self.found.as_ref();
        let found = found.ok_or_else(|| Failure::failed("nothing was walked"))?;
        if found.wrong > 0 {
            return Err(Failure::failed(format!(
                "{} lines do not hold what was written to them",
                found.wrong
            )));
        }
        self.judge(found.presence)
    }
}

impl MemoryAccess {
    /// Judge what was there after the walk: pages of the kind wanted first, since of others another number is touched.
    fn judge(&self, presence: Presence) -> Result<(), Failure> {
        let Presence {
            resident_kib,
            huge_kib,
            touched,
        } = presence;
        match self.plan.wanted.pages {
            Pages::Base if huge_kib > 0 => Err(Failure::failed(format!(
                "{huge_kib} KiB are in huge pages, and none was to be"
            ))),
            // What is swapped out is split before, and may come back in base pages.
            Pages::Huge if self.pressure.is_some() => Ok(()),
            Pages::Huge if huge_kib < resident_kib => Err(Failure::unavailable(
                format!(
                    "of {resident_kib} KiB resident, {huge_kib} KiB are in huge pages: memory is fragmented, or huge \
                     pages are held back"
                ),
                "as root: sysctl vm.compact_memory=1; or choose pages=4K",
            )),
            _ => match self.touched.filter(|&wanted| wanted != touched) {
                Some(wanted) => Err(Failure::failed(format!(
                    "{touched} pages are there, and {wanted} must have been touched"
                ))),
                None => Ok(()),
            },
        }
    }

    /// What the model counts for these addresses, if it is asked; it is fed once for the same ones.
    fn simulate(&mut self, at: Addresses) -> Result<Option<Simulated>, Failure> {
        let Some(geometry) = &self.geometry else {
            return Ok(None);
        };
        if let Some((_, known)) = self.simulated.filter(|(known, _)| *known == at) {
            return Ok(Some(known));
        }
        let wanted = &self.plan.wanted;
        let page = match wanted.pages {
            Pages::Base => page_bytes(),
            Pages::Huge => wanted.granule,
        };
        let bases = self.plan.bases.clone();
        let simulated = Simulated::of(geometry, page, at, bases, self.plan.sets)?;
        self.simulated = Some((at, simulated));
        Ok(Some(simulated))
    }

    fn notes(&self) -> Vec<String> {
        let pressure = self.pressure.as_ref().map(Pressure::notes);
        let notes = self.notes.iter().cloned();
        notes.chain(pressure.into_iter().flatten()).collect()
    }
}

/// Why the measured process failed: if the competitor has ended, or the kernel killed somebody for want of memory
/// meanwhile, that is why.
fn blame(failure: Failure, competition: Option<&mut Competition>) -> Failure {
    let Some(competition) = competition.filter(|_| !cancel::requested()) else {
        return failure;
    };
    match (competition.check(), competition.oom_kills()) {
        (Err(why), _) => why,
        (Ok(()), Ok(kills)) if kills > 0 => Failure::failed(format!(
            "{failure}; the kernel killed {kills} processes for want of memory: give more limit or swap_size"
        )),
        _ => failure,
    }
}

/// The figures that every repetition gives, and those of the hardware where it gave some.
fn figures(seconds: f64, found: &Found) -> Vec<(&'static str, f64)> {
    let accesses = Accesses::of(found.done);
    let walk = WalkValues {
        time_s: seconds,
        set_ns: seconds * 1e9 / found.done as f64,
        cpu_s: found.function.utime_s + found.function.stime_s,
        init_time_s: found.init_time_s,
    };
    let mapping = MappingValues {
        resident_kib: found.presence.resident_kib as f64,
        touched_pages: found.presence.touched as f64,
        accesses: accesses.all() as f64,
        reads: accesses.reads as f64,
        writes: accesses.writes as f64,
    };
    // In the order of `counters::MEMORY_NAMES`.
    let [
        l1d_read_access,
        l1d_write_access,
        l1d_read_miss,
        dtlb_read_miss,
        dtlb_write_miss,
    ] = found.counted;
    let counters = CounterValues {
        l1d_read_access,
        l1d_write_access,
        l1d_read_miss,
        dtlb_read_miss,
        dtlb_write_miss,
    };
    let mut figures = walk.values();
    figures.extend(found.function.metrics(&usage::NAMES));
    figures.extend(found.init.metrics(&usage::INIT_NAMES));
    figures.extend(found.reclaimed.metrics());
    figures.extend(mapping.values());
    figures.extend(counters.values());
    figures
}

fn pressed(competition: Option<&Competition>) -> Vec<(&'static str, f64)> {
    let values = competition.map(|competition| PressureValues {
        pressure_resident_kib: competition.resident_kib as f64,
        pressure_wait_s: competition.waited.as_secs_f64(),
    });
    values.map_or_else(Vec::new, |values| values.values())
}

#[cfg(test)]
mod tests;
