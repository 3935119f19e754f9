//! The measured region: two marks, two readings of the clock, and the work between them.

use std::hint::black_box;

use crate::clock::{Clock, ClockKind, counter, reading};
use crate::description::Metric;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Opens the measured region: a place for tracers to attach to, outside the clock. The token names the request that the
/// region belongs to.
// The bodies of the two marks differ, so that the compiler cannot fold them into one symbol.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn oscope_region_begin(token: u64) {
    black_box(token);
}

/// Closes the measured region: a place for tracers to attach to, outside the clock.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn oscope_region_end(token: u64) {
    black_box(!token);
}

/// The two marks of a region, for a process that does a share of its work: tracers know a process by the marks that it
/// passed.
///
/// Threads of the probe, and children made within the region, need none of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

/// Beside the number of a request, which is below it.
const LAUNCHING: u64 = 1 << 32;

impl Mark {
    /// No request's: where a region is measured and not reported (calibration, warm-up).
    pub const NONE: Self = Self(0);

    /// The marks of the request with this id.
    pub fn of(request: u64) -> Self {
        Self(request)
    }

    /// The same for a process that launches a program in the region: what is executed there is traced, and not this
    /// process.
    #[must_use]
    pub fn launching(self) -> Self {
        match self {
            Self::NONE => self,
            Self(request) => Self(request | LAUNCHING),
        }
    }

    /// Open the region in this process.
    pub fn begin(self) {
        oscope_region_begin(self.0);
    }

    /// Close the region in this process.
    pub fn end(self) {
        oscope_region_end(self.0);
    }
}

/// The measured region of one repetition. A workload must measure once.
#[derive(Debug)]
pub struct Region<'a> {
    clock: &'a Clock,
    mark: Mark,
    /// The two readings of the last measurement, in ticks.
    readings: Option<(u64, u64)>,
    measurements: u32,
    /// Ticks to wait on purpose behind the work; `None` where nothing is injected, which is another path than waiting
    /// for 0.
    delay: Option<u64>,
    /// Ticks that were waited for on purpose.
    injected: u64,
}

/// What a region has measured, to be handed from a child process to its parent.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    readings: Option<(u64, u64)>,
    measurements: u32,
    injected: u64,
}

impl<'a> Region<'a> {
    /// A region that is measured and not reported.
    pub fn new(clock: &'a Clock) -> Self {
        Self::marked(clock, Mark::NONE)
    }

    /// A region between these marks.
    pub fn marked(clock: &'a Clock, mark: Mark) -> Self {
        Self {
            clock,
            mark,
            readings: None,
            measurements: 0,
            delay: None,
            injected: 0,
        }
    }

    /// Wait for so many ticks behind the work, before the clock is read for the second time.
    pub fn delay(&mut self, ticks: u64) {
        self.delay = Some(ticks);
    }

    /// Ticks to wait for behind the work; `None` where nothing is injected.
    pub fn delayed(&self) -> Option<u64> {
        self.delay
    }

    /// Ticks that the work was followed by on purpose; `None` where nothing is injected.
    pub fn injected(&self) -> Option<u64> {
        self.delay.map(|_| self.injected)
    }

    /// Do `work` between the marks and the clock's two readings, and give back what it gave.
    ///
    /// Inside the clock: `work`, and the readings' own cost, which [`Region::corrected`] takes off. Outside: the marks.
    #[inline(always)]
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        if let Some(ticks) = self.delay {
            return self.measure_delayed(ticks, work);
        }
        self.measurements += 1;
        self.mark.begin();
        // The kind of clock is decided out here, so that nothing but the work lies between the two readings.
        let (begin, result, end) = match self.clock.kind {
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => {
                let begin = counter::begin();
                let result = work();
                (begin, result, counter::end())
            }
            ClockKind::MonotonicRaw => {
                let begin = reading::monotonic_raw();
                let result = work();
                (begin, result, reading::monotonic_raw())
            }
        };
        self.mark.end();
        self.readings = Some((begin, end));
        result
    }

    /// As [`Region::measure`], with a wait behind the work. It is a function of its own, so that what is between the
    /// two readings elsewhere is the same with it and without.
    #[cold]
    #[inline(never)]
    fn measure_delayed<T>(&mut self, ticks: u64, work: impl FnOnce() -> T) -> T {
        self.measurements += 1;
        self.mark.begin();
        let (begin, result, end) = match self.clock.kind {
            ClockKind::Tsc | ClockKind::Cntvct | ClockKind::Instructions => {
                let begin = counter::begin();
                let result = work();
                wait(ticks, counter::begin);
                (begin, result, counter::end())
            }
            ClockKind::MonotonicRaw => {
                let begin = reading::monotonic_raw();
                let result = work();
                wait(ticks, reading::monotonic_raw);
                (begin, result, reading::monotonic_raw())
            }
        };
        self.mark.end();
        self.readings = Some((begin, end));
        self.injected += ticks;
        result
    }

    /// What was measured so far.
    pub fn measured(&self) -> Measured {
        Measured {
            readings: self.readings,
            measurements: self.measurements,
            injected: self.injected,
        }
    }

    /// Hold what a child's copy of this region has measured for what this one did.
    pub fn take_over(&mut self, measured: Measured) {
        self.readings = measured.readings;
        self.measurements = measured.measurements;
        self.injected = measured.injected;
    }

    /// The marks of this region.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The clock of this region.
    pub fn clock(&self) -> &'a Clock {
        self.clock
    }

    /// What the clock said, in ticks: the difference of the two readings, nothing taken off.
    ///
    /// # Errors
    /// `Failure::Failed` unless the workload measured exactly once and the clock went forwards.
    pub fn raw(&self) -> Result<u64, Failure> {
        match (self.measurements, self.readings) {
            (1, Some((begin, end))) if end >= begin => Ok(end - begin),
            (1, Some(_)) => Err(Failure::failed(
                "the clock went backwards during the repetition (moved to a CPU whose counter lags?)",
            )),
            (0, _) => Err(Failure::failed("the workload measured nothing")),
            (times, _) => Err(Failure::failed(format!(
                "the workload measured {times} times in one repetition"
            ))),
        }
    }

    /// What reading the clock adds to [`Region::raw`], in ticks.
    pub fn correction(&self) -> f64 {
        self.clock.overhead
    }

    /// The raw reading less the correction, in ticks. It may be below zero, and is kept so.
    ///
    /// # Errors
    /// As for [`Region::raw`].
    pub fn corrected(&self) -> Result<f64, Failure> {
        Ok(self.raw()? as f64 - self.correction())
    }

    /// The usual metrics: `time_ns` and, where the clock is the TSC, `cycles`, both for one of `iterations`.
    ///
    /// # Errors
    /// As for [`Region::raw`], and if `iterations` is 0.
    pub fn time_and_cycles(&self, iterations: u64) -> Result<Vec<(&'static str, f64)>, Failure> {
        if iterations == 0 {
            return Err(Failure::failed(
                "a time for each of 0 iterations has no meaning",
            ));
        }
        let each = self.corrected()? / iterations as f64;
        let cycles = self.clock.cycles(each);
        let cycles = cycles.map(|cycles| (Metric::CYCLES.name, cycles));
        let time = (Metric::TIME_NS.name, self.clock.nanoseconds(each));
        Ok([time].into_iter().chain(cycles).collect())
    }
}

/// Wait busily for so many ticks of this clock, or until a signal comes; not at all for 0.
#[inline(always)]
fn wait(ticks: u64, now: impl Fn() -> u64) {
    if ticks == 0 {
        return;
    }
    let began = now();
    while now().wrapping_sub(began) < ticks && !cancel::requested() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock {
            kind: ClockKind::MonotonicRaw,
            hz: 1e9,
            overhead: 1e15,
            overhead_mad: 0.0,
            resolution: 1,
            why: None,
        }
    }

    #[test]
    fn nothing_measured_is_an_error() {
        let clock = clock();
        let region = Region::new(&clock);
        assert!(region.raw().unwrap_err().to_string().contains("nothing"));
    }

    #[test]
    fn measuring_twice_is_an_error() {
        let clock = clock();
        let mut region = Region::new(&clock);
        region.measure(|| ());
        assert!(region.raw().is_ok());
        region.measure(|| ());
        assert!(region.raw().unwrap_err().to_string().contains("2 times"));
    }

    #[test]
    fn a_clock_that_goes_backwards_is_an_error() {
        let clock = clock();
        let mut region = Region::new(&clock);
        region.measurements = 1;
        region.readings = Some((5, 4));
        assert!(region.raw().unwrap_err().to_string().contains("backwards"));
    }

    #[test]
    fn corrected_values_below_zero_are_kept() {
        let clock = clock();
        let mut region = Region::new(&clock);
        assert_eq!(region.measure(|| 7), 7);
        assert!(region.corrected().unwrap() < 0.0);
        let metrics = region.time_and_cycles(10).unwrap();
        assert_eq!(metrics.len(), 1);
        assert!(metrics[0].1 < 0.0);
        assert!(region.time_and_cycles(0).is_err());
    }

    #[test]
    fn what_another_copy_measured_is_taken_over_as_it_is() {
        let clock = clock();
        let (mut region, mut copy) = (Region::new(&clock), Region::new(&clock));
        region.take_over(copy.measured());
        assert!(region.raw().unwrap_err().to_string().contains("nothing"));
        copy.measure(|| ());
        region.take_over(copy.measured());
        assert_eq!(region.raw(), copy.raw());
        copy.measure(|| ());
        region.take_over(copy.measured());
        assert!(region.raw().unwrap_err().to_string().contains("2 times"));
    }

    #[test]
    fn a_delay_is_inside_the_clock_and_reported() {
        let clock = clock();
        let mut region = Region::new(&clock);
        assert_eq!(region.injected(), None);
        region.delay(2_000_000);
        assert_eq!(region.measure(|| 7), 7);
        // The test's clock has ticks of a nanosecond.
        assert!(region.raw().unwrap() >= 2_000_000);
        assert_eq!(region.injected(), Some(2_000_000));
        let mut parent = Region::new(&clock);
        parent.delay(2_000_000);
        parent.take_over(region.measured());
        assert_eq!(parent.injected(), Some(2_000_000));
    }

    #[test]
    fn the_marks_are_two_symbols() {
        assert_ne!(
            oscope_region_begin as *const (),
            oscope_region_end as *const ()
        );
    }
}
