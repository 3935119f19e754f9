//! The times of single round trips, in a histogram.

use hdrhistogram::Histogram;

use crate::clock::Clock;
use oscope_sys::error::Failure;

/// Significant digits kept.
const DIGITS: u8 = 3;
/// Seconds that no round trip can last: twice what ends a wait.
const LONGEST_S: f64 = 3600.0;
/// Entries made to learn what one costs.
const TRIALS: u32 = 4001;

/// Enters the time since the last entry, in ticks.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    histogram: Histogram<u64>,
    least: u64,
    most: u64,
    last: u64,
    cost: f64,
}

impl Recorder {
    /// An empty one, its own cost measured.
    ///
    /// # Errors
    /// `Failure::Failed` if the clock goes backwards.
    pub fn new(clock: &Clock) -> Result<Self, Failure> {
        let longest = clock.ticks(LONGEST_S * 1e9) as u64;
        let histogram = Histogram::new_with_bounds(1, longest, DIGITS)
            .map_err(|error| Failure::system("making a histogram", error.to_string()))?;
        let mut recorder = Self {
            clock: clock.clone(),
            histogram,
            least: u64::MAX,
            most: 0,
            last: 0,
            cost: 0.0,
        };
        recorder.begin();
        for _ in 0..TRIALS {
            recorder.enter()?;
        }
        recorder.cost = recorder.quantile(0.5);
        Ok(recorder)
    }

    /// Forget all entries. It goes over the whole histogram, some 300 KB: outside the clock.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.least, self.most) = (u64::MAX, 0);
    }

    /// The first entry will be the time from now on.
    #[inline]
    pub fn begin(&mut self) {
        self.last = self.clock.end();
    }

    /// Enter the time since the last entry.
    ///
    /// # Errors
    /// `Failure::Failed` if it is below zero, or an hour and more.
    #[inline]
    pub fn enter(&mut self) -> Result<(), Failure> {
        let now = self.clock.end();
        // A clock that went backwards gives a time of centuries.
        let ticks = now.wrapping_sub(self.last);
        self.last = now;
        self.least = self.least.min(ticks);
        self.most = self.most.max(ticks);
        self.histogram
            .record(ticks)
            .map_err(|_| out_of_range(ticks))
    }

    /// What one entry adds to the time entered, in ticks: the median of many in a row.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// The ticks that this share of the entries did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let highest = self.histogram.value_at_quantile(share);
        let middle = self.histogram.median_equivalent(highest);
        middle.clamp(self.least, self.most) as f64
    }

    /// The ticks of the shortest entry.
    pub fn least(&self) -> f64 {
        self.least as f64
    }

    /// The ticks of the longest entry.
    pub fn most(&self) -> f64 {
        self.most as f64
    }
}

#[cold]
fn out_of_range(ticks: u64) -> Failure {
    Failure::failed(format!(
        "a round trip of {} ticks: the clock went backwards (moved to a CPU whose counter lags?), or the machine \
         stood still",
        ticks as i64
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::RequestedClock;

    #[test]
    fn entries_are_the_times_between_them() {
        let clock = Clock::open(RequestedClock::Auto).expect("there is a clock");
        let mut recorder = Recorder::new(&clock).expect("the clock goes forwards");
        assert!(recorder.cost() > 0.0);
        recorder.clear();
        recorder.begin();
        for _ in 0..9 {
            recorder.enter().expect("the clock goes forwards");
        }
        std::thread::sleep(Duration::from_millis(20));
        recorder.enter().expect("the clock goes forwards");
        assert!(recorder.most() >= clock.ticks(19.9e6));
        assert!(
            recorder.least() <= recorder.quantile(0.5) && recorder.quantile(0.5) < recorder.most()
        );
        assert_eq!(recorder.histogram.len(), 10);
    }

    #[test]
    fn a_clock_that_goes_backwards_is_an_error() {
        let clock = Clock::open(RequestedClock::Auto).expect("there is a clock");
        let mut recorder = Recorder::new(&clock).expect("the clock goes forwards");
        recorder.last = u64::MAX / 2;
        let failure = recorder.enter().expect_err("it is behind").to_string();
        assert!(failure.contains("backwards"), "{failure}");
    }
}
