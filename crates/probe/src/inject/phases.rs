//! Lengths of phases, drawn from a seed.

use std::time::Duration;

use twox_hash::XxHash3_128;

/// Shorter phases would be over before the machine follows.
const SHORTEST: Duration = Duration::from_millis(5);
/// A phase that never ends.
const FOREVER: Duration = Duration::from_secs(1 << 31);

/// Random numbers: SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Those of `seed`, and of `name` among them.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(XxHash3_128::oneshot_with_seed(seed, name.as_bytes()) as u64)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number above 0 whose distribution is exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }
}

/// The phases of one cause.
#[derive(Debug)]
pub struct Phases {
    random: Random,
    means: Option<(Duration, Duration)>,
}

impl Phases {
    /// Phases with and without the disturbance of these mean lengths, exponentially distributed, the shortest
    /// lengthened to 5 ms; `None`: it never pauses. The first is one without.
    pub fn new(seed: u64, cause: &str, means: Option<(Duration, Duration)>) -> Self {
        Self {
            random: Random::new(seed, cause),
            means,
        }
    }

    /// Length of the next phase with the disturbance.
    pub fn on(&mut self) -> Duration {
        self.means
            .map_or(FOREVER, |(on, _)| draw(&mut self.random, on))
    }

    /// Length of the next phase without.
    pub fn off(&mut self) -> Duration {
        self.means
            .map_or(Duration::ZERO, |(_, off)| draw(&mut self.random, off))
    }
}

fn draw(random: &mut Random, mean: Duration) -> Duration {
    let drawn = random.exponential(mean.as_secs_f64());
    Duration::try_from_secs_f64(drawn).map_or(FOREVER, |time| time.max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567 that the reference implementation of S. Vigna gives.
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut random = Random(1_234_567);
        let first = [random.draw(), random.draw()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn equal_seeds_give_equal_phases_and_causes_differ() {
        let means = Some((Duration::from_millis(200), Duration::from_millis(300)));
        let lengths = |seed, cause| {
            let mut phases = Phases::new(seed, cause, means);
            (0..5)
                .map(|_| (phases.off(), phases.on()))
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(7, "hog"), lengths(7, "hog"));
        assert_ne!(lengths(7, "hog"), lengths(8, "hog"));
        assert_ne!(lengths(7, "hog"), lengths(7, "memory"));
    }

    #[test]
    fn the_mean_is_as_asked() {
        let mut random = Random::new(1, "hog");
        let sum: f64 = (0..20_000).map(|_| random.exponential(0.2)).sum();
        // The standard error is 0.2 / sqrt(20000) = 0.0014.
        assert!((sum / 20_000.0 - 0.2).abs() < 0.007);
    }

    #[test]
    fn without_means_it_never_pauses() {
        let mut phases = Phases::new(1, "hog", None);
        assert_eq!((phases.off(), phases.on()), (Duration::ZERO, FOREVER));
    }
}
