//! `drift`: a delay of the measured region that grows with time.

use super::{Cause, Kind};

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "drift",
    purpose: "A busy wait in the measured region that grows by so much with each second of the run",
    raises: &["injected_ns"],
    kind: Kind::Region("duration"),
};

/// A delay that grows.
#[derive(Debug, Clone, Copy)]
pub struct Drift {
    /// By so many ns with each second.
    pub ns_per_s: f64,
    /// From this moment on, of `CLOCK_REALTIME`.
    pub since_ns: u64,
}

impl Drift {
    /// The delay at `at_ns` in ns; none before it began.
    pub fn delay_ns(self, at_ns: u64) -> f64 {
        self.ns_per_s * (at_ns.saturating_sub(self.since_ns) as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_each_second() {
        let drift = Drift {
            ns_per_s: 3.0,
            since_ns: 10_000_000_000,
        };
        let at = |seconds: u64| drift.delay_ns(seconds * 1_000_000_000);
        assert_eq!([at(9), at(10), at(11), at(20)], [0.0, 0.0, 3.0, 30.0]);
    }
}
