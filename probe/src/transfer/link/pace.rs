//! How slowly a sender may name its files, and take the answer: a receiver serves one after the other, and who waits is another sender.

use std::time::{Duration, Instant};

use super::Link;
use crate::transfer::stop::Stop;
use crate::transfer::wire::Frame;

/// Bytes a second: a line of 10 kbit/s has them, and 10,000 names of 50 bytes take eight minutes.
const LEAST: u64 = 1 << 10;

/// How far behind the least rate a peer is. Who is faster for a while gains nothing for later.
#[derive(Debug, Default)]
pub(super) struct Pace {
    behind: Duration,
}

impl Pace {
    /// After a wait that so many bytes came of: whether the peer is no further behind than so long.
    fn is_kept(&mut self, waited: Duration, bytes: usize, stall: Duration) -> bool {
        self.behind = (self.behind + waited).saturating_sub(needed(bytes));
        self.behind <= stall
    }

    /// So many of the bytes do not count.
    fn discount(&mut self, bytes: usize) {
        self.behind += needed(bytes);
    }
}

/// What so many bytes take at the least rate.
fn needed(bytes: usize) -> Duration {
    Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / LEAST)
}

/// What a frame says of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// The peer is alive.
    Working,
    /// None more, as yet.
    NoName,
    /// That was the last one.
    AllNames,
    /// Some, or something else.
    More,
}

impl Said {
    /// By a frame.
    pub fn by(frame: &Frame) -> Self {
        match frame {
            Frame::Working => Self::Working,
            Frame::Entries(entries) if entries.is_empty() => Self::NoName,
            Frame::EntriesEnd(_) => Self::AllNames,
            _ => Self::More,
        }
    }
}

impl Link {
    /// From now on the peer must name its files, and take what it is answered, at a pace. What comes after the names is at the peer's own,
    /// which may read first what both have.
    pub fn keep_pace(&mut self) {
        self.names = Some(Pace::default());
        self.answer = Some(Pace::default());
    }

    /// A frame of so many bytes came: who only says that it is alive is as slow as one that says nothing.
    pub(super) fn named(&mut self, said: Said, bytes: usize) {
        match (said, &mut self.names) {
            (Said::Working | Said::NoName, Some(pace)) => pace.discount(bytes),
            (Said::AllNames, names) => *names = None,
            _ => {}
        }
    }

    /// A call waited for a frame, and so many bytes came.
    ///
    /// # Errors
    /// The names come too slowly.
    pub(super) fn heard(&mut self, since: Instant, bytes: usize) -> Result<(), Stop> {
        let stall = self.stall;
        let pace = self.names.as_mut();
        match pace.is_none_or(|pace| pace.is_kept(since.elapsed(), bytes, stall)) {
            true => Ok(()),
            false => Err(self.slow("names its files")),
        }
    }

    /// A call waited for the peer to take bytes, and it took so many.
    ///
    /// # Errors
    /// It takes them too slowly.
    pub(super) fn taken(&mut self, since: Instant, bytes: usize) -> Result<(), Stop> {
        let stall = self.stall;
        let pace = self.answer.as_mut();
        match pace.is_none_or(|pace| pace.is_kept(since.elapsed(), bytes, stall)) {
            true => Ok(()),
            false => Err(self.slow("takes the answer")),
        }
    }

    fn slow(&self, does: &str) -> Stop {
        Stop::here(format!(
            "{} {does} too slowly: more than {} s behind {LEAST} B/s",
            self.peer,
            self.stall.as_secs_f64()
        ))
        .remedy("send again over a faster line, or receive with a longer --stall")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use super::*;
    use crate::transfer::wire;

    const STALL: Duration = Duration::from_secs(30);
    const SLICE: Duration = Duration::from_millis(250);

    #[test]
    fn ten_thousand_names_over_a_slow_line_are_in_time() {
        let mut pace = Pace::default();
        for _ in 0..10_000 * 60 / 1_100 {
            for part in 0..4 {
                assert!(pace.is_kept(SLICE, if part == 3 { 1_100 } else { 0 }, STALL));
            }
        }
    }

    #[test]
    fn a_byte_now_and_then_is_too_slow_however_fast_it_began() {
        for began in [0, 1 << 20] {
            let mut pace = Pace::default();
            assert!(pace.is_kept(SLICE, began, STALL));
            let kept = (0..1_000).take_while(|_| pace.is_kept(SLICE, 1, STALL));
            assert!((119..=121).contains(&kept.count()));
        }
    }

    #[test]
    fn a_frame_without_a_name_names_nothing() {
        assert_eq!(Said::by(&Frame::Working), Said::Working);
        assert_eq!(Said::by(&Frame::Entries(Vec::new())), Said::NoName);
        assert_eq!(Said::by(&Frame::EntriesEnd(0)), Said::AllNames);
    }

    #[test]
    fn what_says_nothing_gains_nothing() {
        let mut pace = Pace::default();
        let kept = (0..1_000).take_while(|_| {
            let kept = pace.is_kept(SLICE, 13, STALL);
            pace.discount(13);
            kept
        });
        assert!((119..=121).contains(&kept.count()));
    }

    #[test]
    fn who_takes_no_answer_is_given_up_though_it_says_that_it_is_alive() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut peer = TcpStream::connect(address).expect("a listener");
        let (stream, _) = listener.accept().expect("a peer");
        let done = AtomicBool::new(false);
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let mut alive = Vec::new();
                wire::encode(&Frame::Working, &mut alive);
                // The other side is given up for lost long after it should have ended.
                for _ in 0..400 {
                    if done.load(Relaxed) || peer.write_all(&alive).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                let _ = peer.shutdown(Shutdown::Both);
            });
            let mut link = Link::new(stream, Duration::from_millis(500)).expect("a link");
            link.keep_pace();
            let sent = link.send(&vec![0; 64 << 20], 0);
            done.store(true, Relaxed);
            sent.expect_err("nobody takes it").error.message
        });
        assert!(error.contains("takes the answer too slowly"), "{error}");
    }
}
