//! How far the time-stamp counters of the CPUs are apart.
//!
//! Two pinned threads hand a cache line to and fro. In each round the first reads its counter, hands over, the other
//! reads its own and hands back, and the first reads again. If the other's reading was taken at the middle of the round
//! trip, the offset is that reading less the mean of the two; it is wrong by half the round trip at most. The quickest
//! round is kept (as in NTP's clock filter, RFC 5905 section 10).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::counter;
use oscope_sys::affinity;
use oscope_sys::error::Failure;
use oscope_sys::serialized_error::SerializedError;
use oscope_sys::worker::{Answer, Child, describe_exit};

/// Rounds played with each CPU.
const ROUNDS: u64 = 2000;
/// The same, where only a skew is looked for (about 0.1 ms for each CPU).
const SKEW_ROUNDS: u64 = 200;
/// Longest time spent on one CPU: with both CPUs busy, a round waits for the scheduler.
const TIME_LIMIT: Duration = Duration::from_millis(500);
/// Longest search for a skew: on a machine whose CPUs are all busy, each comes late.
const SKEW_LIMIT: Duration = Duration::from_secs(2);
/// Longest wait for the first round, without which there is no offset at all: on a busy machine the other thread comes
/// late.
const FIRST_ROUND: Duration = Duration::from_secs(10);

/// Offsets of the TSC of each allowed CPU from that of the first. Serialises as `environment.tsc_offsets` of the wire.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Offsets {
    /// CPU numbers; the first is the reference.
    pub cpus: Vec<usize>,
    /// What that CPU's counter shows beyond the first's at the same moment, in ticks.
    pub ticks: Vec<f64>,
    /// Greatest possible error of `ticks`: half the quickest round trip, in ticks, and [`counter::TRUNCATION`].
    pub error_ticks: Vec<f64>,
}

impl Offsets {
    /// Measure the offset of each of `cpus` from the first (about 1 ms for each).
    ///
    /// # Errors
    /// `Failure::Failed` if a thread cannot be pinned or a CPU does not answer in time.
    pub fn measure(cpus: &[usize]) -> Result<Self, Failure> {
        Self::measure_in(cpus, ROUNDS)
    }

    fn measure_in(cpus: &[usize], rounds: u64) -> Result<Self, Failure> {
        let mut offsets = Self {
            cpus: cpus.to_vec(),
            ticks: vec![0.0],
            error_ticks: vec![0.0],
        };
        let Some((&first, others)) = cpus.split_first() else {
            return Err(Failure::failed("no CPU is allowed to this process"));
        };
        for &other in others {
            let round = quickest_round(first, other, rounds)?;
            offsets.ticks.push(round.offset());
            offsets.error_ticks.push(round.error());
        }
        Ok(offsets)
    }

    /// Whether any counter is apart from the first's by more than the error of the measurement.
    pub fn apart(&self) -> bool {
        self.skew().is_some()
    }

    /// The counter that is furthest apart from the first's, beyond the error of the measurement.
    pub fn skew(&self) -> Option<Skew> {
        let counters = self.cpus.iter().zip(&self.ticks).zip(&self.error_ticks);
        counters
            .map(|((&cpu, &ticks), &error_ticks)| Skew {
                cpu,
                reference: self.cpus[0],
                ticks,
                error_ticks,
            })
            .filter(|skew| skew.ticks.abs() > skew.error_ticks)
            .max_by(|one, other| one.ticks.abs().total_cmp(&other.ticks.abs()))
    }

    /// What to subtract from a reading on `cpu` to compare it with readings on the reference CPU, in ticks.
    pub fn of(&self, cpu: usize) -> Option<f64> {
        let place = self.cpus.iter().position(|&known| known == cpu)?;
        Some(self.ticks[place])
    }
}

impl std::fmt::Display for Offsets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            formatter,
            "{} offsets in ticks from CPU {}:",
            counter::NAME,
            self.cpus[0]
        )?;
        for (place, cpu) in self.cpus.iter().enumerate().skip(1) {
            let (ticks, error) = (self.ticks[place], self.error_ticks[place]);
            let comma = if place > 1 { "," } else { "" };
            write!(formatter, "{comma} CPU {cpu} {ticks:+} ± {error}")?;
        }
        Ok(())
    }
}

/// A counter that shows another time than that of the reference CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    cpu: usize,
    reference: usize,
    ticks: f64,
    error_ticks: f64,
}

impl Skew {
    /// Look for a skew between the counters of `cpus`, in a process of its own: the threads leave their stacks in the
    /// memory of the process that had them.
    ///
    /// # Errors
    /// Those of [`Offsets::measure`]; `Failure::Unavailable` where no process can be made; `Failure::Failed` if it
    /// dies or takes too long, or after a signal.
    pub fn between(cpus: &[usize]) -> Result<Option<Self>, Failure> {
        if cpus.len() < 2 {
            return Ok(None);
        }
        let answer = Answer::new()?;
        let mut child = Child::fork(|| {
            let offsets = Offsets::measure_in(cpus, SKEW_ROUNDS);
            answer.put(
                offsets
                    .map(|offsets| offsets.skew())
                    .map_err(|failure| SerializedError::of(&failure)),
            );
        })?;
        let who = "the process that compares the CPUs' counters";
        let latest = Instant::now() + SKEW_LIMIT;
        let in_time = || match Instant::now() < latest {
            true => Ok(()),
            false => Err(Failure::failed(format!("{who} took over {SKEW_LIMIT:?}"))),
        };
        let skew = answer.wait(&mut child, in_time, |status| describe_exit(who, status))?;
        skew.map_err(|error| error.failure())
    }
}

impl std::fmt::Display for Skew {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            formatter,
            "the {} of CPU {} differs from that of CPU {} by {:+} ticks (error at most {})",
            counter::NAME,
            self.cpu,
            self.reference,
            self.ticks,
            self.error_ticks
        )
    }
}

/// The three readings of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    sent: u64,
    seen: u64,
    returned: u64,
}

impl Round {
    fn trip(&self) -> u64 {
        self.returned.wrapping_sub(self.sent)
    }

    fn half_trip(&self) -> f64 {
        self.trip() as f64 / 2.0
    }

    fn error(&self) -> f64 {
        self.half_trip() + counter::TRUNCATION
    }

    fn offset(&self) -> f64 {
        // Differences first: the counters themselves may exceed the 53 bits of a double.
        self.seen.wrapping_sub(self.sent) as i64 as f64 - self.half_trip()
    }
}

/// The line that goes to and fro: odd turns belong to the second thread.
#[repr(align(128))]
#[derive(Default)]
struct Line {
    turn: AtomicU64,
    seen: AtomicU64,
    over: AtomicBool,
}

fn quickest_round(first: usize, other: usize, rounds: u64) -> Result<Round, Failure> {
    let line = Line::default();
    std::thread::scope(|scope| {
        // Not `scope.spawn`, which panics where the limit of processes is reached.
        let doing = format!("{} offsets: starting a thread", counter::NAME);
        let spawned = |error| Failure::system(&doing, error);
        let answerer = Builder::new()
            .spawn_scoped(scope, || answer(&line, other))
            .map_err(spawned)?;
        let asker = Builder::new().spawn_scoped(scope, || ask(&line, first, rounds));
        let asked = asker
            .map_err(spawned)
            .and_then(|asker| asker.join().map_err(|_| panicked()));
        line.over.store(true, Ordering::Release);
        answerer.join().map_err(|_| panicked())??;
        asked?
    })?
    .ok_or_else(|| {
        Failure::failed(format!(
            "{} offsets: CPU {other} did not answer CPU {first}",
            counter::NAME
        ))
    })
}

fn panicked() -> Failure {
    Failure::failed(format!("{} offsets: a thread panicked", counter::NAME))
}

/// Play the rounds from this side; `None` if there was no answer at all in time.
fn ask(line: &Line, cpu: usize, rounds: u64) -> Result<Option<Round>, Failure> {
    affinity::pin(cpu)?;
    let started = Instant::now();
    let mut best: Option<Round> = None;
    for round in 0..rounds {
        let sent = counter::begin();
        line.turn.store(2 * round + 1, Ordering::Release);
        while line.turn.load(Ordering::Acquire) != 2 * round + 2 {
            let limit = best.map_or(FIRST_ROUND, |_| TIME_LIMIT);
            if line.over.load(Ordering::Relaxed) || started.elapsed() > limit {
                return Ok(best);
            }
        }
        let returned = counter::end();
        let this = Round {
            sent,
            seen: line.seen.load(Ordering::Relaxed),
            returned,
        };
        if best.is_none_or(|best| this.trip() < best.trip()) {
            best = Some(this);
        }
    }
    Ok(best)
}

/// Answer each round until the other side says that it is over.
fn answer(line: &Line, cpu: usize) -> Result<(), Failure> {
    if let Err(failure) = affinity::pin(cpu) {
        line.over.store(true, Ordering::Release);
        return Err(failure);
    }
    loop {
        let turn = line.turn.load(Ordering::Acquire);
        if turn % 2 == 1 {
            line.seen.store(counter::end(), Ordering::Relaxed);
            line.turn.store(turn + 1, Ordering::Release);
        } else if line.over.load(Ordering::Acquire) {
            return Ok(());
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_gives_offset_and_error() {
        let round = Round {
            sent: u64::MAX - 9,
            seen: 1040,
            returned: 90,
        };
        assert_eq!(round.trip(), 100);
        assert_eq!(round.error(), 50.0 + counter::TRUNCATION);
        assert_eq!(round.offset(), 1000.0);
    }

    #[test]
    fn one_cpu_is_its_own_reference() {
        let offsets = Offsets::measure(&[3]).unwrap();
        assert_eq!(offsets.of(3), Some(0.0));
        assert_eq!(offsets.of(4), None);
    }

    #[test]
    fn counters_are_apart_only_beyond_the_error() {
        let mut offsets = Offsets {
            cpus: vec![0, 1],
            ticks: vec![0.0, -30.0],
            error_ticks: vec![0.0, 30.0],
        };
        assert!(!offsets.apart());
        offsets.ticks[1] = -31.0;
        assert!(offsets.apart());
    }

    #[test]
    fn the_greatest_skew_is_reported() {
        let offsets = Offsets {
            cpus: vec![2, 3, 5, 7],
            ticks: vec![0.0, 70.0, -900.0, 1000.0],
            error_ticks: vec![0.0, 60.0, 50.0, 2000.0],
        };
        let skew = offsets.skew().expect("two counters are apart");
        let text = "of CPU 5 differs from that of CPU 2 by -900 ticks (error at most 50)";
        assert_eq!(skew.to_string(), format!("the {} {text}", counter::NAME));
    }

    #[test]
    fn a_single_cpu_has_no_skew_and_one_that_is_not_there_is_an_error() {
        assert_eq!(Skew::between(&[usize::MAX]), Ok(None));
        assert!(Skew::between(&[0, usize::MAX]).is_err());
    }

    #[test]
    fn offsets_are_reported_in_one_line() {
        let offsets = Offsets {
            cpus: vec![0, 1, 3],
            ticks: vec![0.0, 12.0, -3.5],
            error_ticks: vec![0.0, 30.0, 41.0],
        };
        let expected = "offsets in ticks from CPU 0: CPU 1 +12 ± 30, CPU 3 -3.5 ± 41";
        assert_eq!(offsets.to_string(), format!("{} {expected}", counter::NAME));
    }

    #[test]
    fn no_cpu_is_an_error() {
        assert!(Offsets::measure(&[]).is_err());
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_cpus_of_this_machine_answer() {
        let cpus = affinity::allowed().unwrap();
        let offsets = Offsets::measure(&cpus).unwrap();
        assert_eq!(offsets.ticks.len(), cpus.len());
        assert!(
            offsets
                .error_ticks
                .iter()
                .all(|error| error.is_finite() && *error >= 0.0)
        );
        assert!(Skew::between(&cpus).is_ok());
    }
}
