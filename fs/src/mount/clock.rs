//! The server's clock, as far as it is known.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A change within this many seconds of when a version was read may have left the same version (SFTP tells whole seconds).
const YOUNG: i64 = 2;

/// How far the server's clock is ahead of this machine's, in nanoseconds; never more than it really is.
#[derive(Default)]
pub struct Clock(AtomicI64);

impl Clock {
    /// The server gave a file this time when it made it just now.
    ///
    /// Rounded down to a second by the server, and older by the way here: the true difference is the same or greater.
    pub fn told(&self, mtime: u32) {
        let ahead = i64::from(mtime) * 1_000_000_000 - now();
        self.0.store(ahead, Ordering::Relaxed);
    }

    /// Whether a version with this time, read at or after `read` (see [`Clock::now`]), can be told from any later one.
    pub fn can_trust(&self, mtime: u32, read: i64) -> bool {
        let server = (read + self.0.load(Ordering::Relaxed)).div_euclid(1_000_000_000);
        server - i64::from(mtime) >= YOUNG
    }

    /// The time, for [`Clock::can_trust`].
    pub fn now(&self) -> i64 {
        now()
    }
}

/// Nanoseconds since 1970 by this machine's clock.
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_trusted_only_when_two_seconds_old_by_the_servers_clock() {
        let clock = Clock::default();
        let read = 10_000 * 1_000_000_000;
        assert!(clock.can_trust(9_998, read));
        assert!(!clock.can_trust(9_999, read));
        assert!(!clock.can_trust(50_000, read));
        // The server is an hour behind: what it dates now is an hour old by our clock.
        clock.told(u32::try_from(now() / 1_000_000_000).unwrap() - 3_600);
        assert!(!clock.can_trust(10_000 - 3_601, read));
        assert!(clock.can_trust(10_000 - 3_604, read));
    }
}
