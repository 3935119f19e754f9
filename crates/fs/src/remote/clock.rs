//! The server's clock, as far as it is known: SFTP shows it only by the time of what was made just now.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use super::time::Time;

/// A change within this many seconds of when a version was read may have left the same version (SFTP has whole
/// seconds).
const YOUNG_S: i64 = 2;

/// What is settled for sure is so many seconds old: by a clock of the server that is known, and by this machine's
/// alone.
const SETTLED_S: i64 = YOUNG_S + 1;
const SETTLED_UNKNOWN_S: i64 = 60;

/// Two tellings differ by so much at most, unless a clock was set or an answer was held up.
const SPREAD_NS: i64 = 2 * SECOND_NS;

const SECOND_NS: i64 = 1_000_000_000;

/// How far the server's clock is ahead of [`Clock::now`]; never more than it really is.
pub struct Clock(Mutex<Ahead>);

#[derive(Clone, Copy)]
struct Ahead {
    nanoseconds: i64,
    /// A time of the server's shows it; else it is that of this machine's own calendar.
    observed: bool,
}

impl Default for Clock {
    fn default() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let calendar = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        Self(Mutex::new(Ahead {
            nanoseconds: calendar.saturating_sub(now()),
            observed: false,
        }))
    }
}

impl Clock {
    /// The server gave a file this time when it made it just now.
    ///
    /// It was made at or after `asked` (see [`Clock::now`]). The time is rounded down to a second by the server, and
    /// older by the way here: the true difference is the same or greater. So of several answers the greatest is the
    /// best; one that is far less, even if the file was made as it was asked for, shows that a clock was set. An answer
    /// that was held up shows nothing.
    pub fn observe(&self, mtime: Time, asked: i64) {
        let mtime = mtime.seconds.saturating_mul(SECOND_NS);
        let nanoseconds = mtime - now();
        let mut ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_set = mtime - asked < ahead.nanoseconds - SPREAD_NS;
        if !ahead.observed || nanoseconds > ahead.nanoseconds || was_set {
            *ahead = Ahead {
                nanoseconds,
                observed: true,
            };
        }
    }

    /// Whether a version with this time, read at or after `read` (see [`Clock::now`]), differs from any later one.
    pub fn can_trust(&self, mtime: Time, read: i64) -> bool {
        self.age(mtime, read).0 >= YOUNG_S
    }

    /// Whether [`Clock::can_trust`] will say so whatever the server shows of its clock later.
    pub fn is_settled(&self, mtime: Time, read: i64) -> bool {
        match self.age(mtime, read) {
            (age, true) => age >= SETTLED_S,
            (age, false) => age >= SETTLED_UNKNOWN_S,
        }
    }

    /// Seconds by the server's clock, and whether a time of the server's shows it.
    fn age(&self, mtime: Time, read: i64) -> (i64, bool) {
        let ahead = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let server = read.saturating_add(ahead.nanoseconds).div_euclid(SECOND_NS);
        (server - mtime.seconds, ahead.observed)
    }

    /// The time, for [`Clock::can_trust`]: nanoseconds of a clock of this machine that nobody sets.
    pub fn now(&self) -> i64 {
        now()
    }
}

fn now() -> i64 {
    // It cannot fail for a clock that Linux has.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |now| now.tv_sec() * SECOND_NS + now.tv_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(seconds: u32) -> Time {
        Time::whole(seconds.into())
    }

    fn calendar() -> u32 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u32::try_from(since.as_secs()).unwrap()
    }

    #[test]
    fn a_version_is_trusted_only_when_two_seconds_old_by_the_servers_clock() {
        let (clock, read, here) = (Clock::default(), now(), calendar());
        assert!(clock.can_trust(whole(here - 3), read));
        assert!(!clock.can_trust(whole(here), read));
        assert!(!clock.can_trust(whole(here + 40_000), read));
        assert!(clock.is_settled(whole(here - 62), read));
        assert!(
            !clock.is_settled(whole(here - 50), read),
            "the server may be behind"
        );
        // The server is an hour behind: what it dates now is an hour old by our clock.
        clock.observe(whole(here - 3_600), now());
        assert!(!clock.can_trust(whole(here - 3_601), read));
        assert!(clock.can_trust(whole(here - 3_604), read));
        assert!(!clock.is_settled(whole(here - 3_602), read));
        assert!(clock.is_settled(whole(here - 3_605), read));
    }

    #[test]
    fn of_several_tellings_the_best_holds_until_a_clock_is_set() {
        let (clock, read, here) = (Clock::default(), now(), calendar());
        clock.observe(whole(here - 100), now());
        clock.observe(whole(here - 101), now());
        assert!(
            clock.can_trust(whole(here - 103), read),
            "a second of rounding"
        );
        clock.observe(whole(here - 200), now());
        assert!(!clock.can_trust(whole(here - 201), read), "it was set back");
        clock.observe(whole(here), now());
        assert!(clock.can_trust(whole(here - 3), read), "it was set on");
    }

    #[test]
    fn an_answer_that_was_held_up_does_not_set_a_clock_back() {
        let (clock, read, here) = (Clock::default(), now(), calendar());
        clock.observe(whole(here), read);
        assert!(clock.is_settled(whole(here - 5), read));
        clock.observe(whole(here - 8), read - 9 * SECOND_NS);
        assert!(clock.can_trust(whole(here - 5), read));
        clock.observe(whole(here - 8), read);
        assert!(!clock.can_trust(whole(here - 8), read), "it was set back");
    }
}
