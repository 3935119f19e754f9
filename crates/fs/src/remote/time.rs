//! Times of files, as exactly as the server keeps and reports them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A time since the beginning of 1970.
///
/// SFTP version 3 has whole seconds from 0 to `u32::MAX`; a server that runs `oscope-fs serve` has all that its file
/// system has. It is written as a number where it is whole seconds, as it always was in the cache's records, else as
/// `[seconds, nanoseconds]`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(from = "Written", into = "Written")]
pub struct Time {
    /// Whole seconds; before 1970 they are negative.
    pub seconds: i64,
    /// Beyond those: less than 10^9.
    pub nanoseconds: u32,
}

/// How a time is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(i64),
    Exact(i64, u32),
}

impl From<Written> for Time {
    fn from(written: Written) -> Self {
        match written {
            Written::Whole(seconds) => Self::whole(seconds),
            Written::Exact(seconds, nanoseconds) => Self {
                seconds,
                nanoseconds,
            },
        }
    }
}

impl From<Time> for Written {
    fn from(time: Time) -> Self {
        match time.nanoseconds {
            0 => Self::Whole(time.seconds),
            nanoseconds => Self::Exact(time.seconds, nanoseconds),
        }
    }
}

impl Time {
    /// So many seconds.
    pub const fn whole(seconds: i64) -> Self {
        Self {
            seconds,
            nanoseconds: 0,
        }
    }

    /// Seconds and nanoseconds, as stat(2) gives them.
    pub fn new(seconds: i64, nanoseconds: i64) -> Self {
        Self {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        }
    }

    /// What SFTP version 3 can say of it: whole seconds, those outside its range at its ends.
    pub fn coarse(self) -> u32 {
        u32::try_from(self.seconds.max(0)).unwrap_or(u32::MAX)
    }

    /// The time as a server has it that keeps it exactly, or in whole seconds.
    pub fn kept(self, exact: bool) -> Self {
        match exact {
            true => self,
            false => Self::whole(i64::from(self.coarse())),
        }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                nanoseconds: since.subsec_nanos(),
            },
            Err(before) => {
                let before = before.duration();
                let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => Self::whole(-whole),
                    part => Self {
                        seconds: -whole - 1,
                        nanoseconds: 1_000_000_000 - part,
                    },
                }
            }
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let part = Duration::from_nanos(time.nanoseconds.into());
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        match time.seconds < 0 {
            true => UNIX_EPOCH - whole + part,
            false => UNIX_EPOCH + whole + part,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_always_was_where_it_is_whole() {
        for (time, text) in [
            (Time::whole(7), "7"),
            (Time::new(7, 5), "[7,5]"),
            (Time::new(-3, 999_999_999), "[-3,999999999]"),
        ] {
            assert_eq!(serde_json::to_string(&time).unwrap(), text);
            assert_eq!(serde_json::from_str::<Time>(text).unwrap(), time);
        }
    }

    #[test]
    fn a_time_is_the_same_for_the_system() {
        for time in [
            Time::whole(0),
            Time::whole(-4),
            Time::new(-4, 1),
            Time::new(1 << 33, 999_999_999),
        ] {
            assert_eq!(Time::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn what_sftp_cannot_say_is_at_the_end_of_what_it_can() {
        assert_eq!(Time::new(-1, 5).coarse(), 0);
        assert_eq!(Time::new(1 << 40, 0).coarse(), u32::MAX);
        assert_eq!(Time::new(9, 5).kept(false), Time::whole(9));
        assert_eq!(Time::new(9, 5).kept(true), Time::new(9, 5));
    }
}
