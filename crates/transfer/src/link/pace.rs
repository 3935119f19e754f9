//! How slowly a peer may send and take what it has begun with. That something comes now and then is no progress to wait
//! for: a byte in each stall limit would keep a receiver busy for days, with its port, what it has of the file, and all
//! senders that wait behind.

use std::io;
use std::time::{Duration, Instant};

use super::Link;
use crate::stop::Stop;
use crate::wire::Frame;
use oscope_sys::cancel;

/// Stall limits that contents may be behind: a line that fails again and again, each time for almost one, is slow and
/// yet honest, and a socket takes and gives many kilobytes at once where the line carries one a second. Over ten limits
/// it is the average that counts.
const LENIENCE: u32 = 10;

/// How far behind the least rate a peer is. Who is faster for a while gains nothing for later.
#[derive(Debug)]
pub(super) struct Pace {
    of: Of,
    does: &'static str,
    /// Bytes a second.
    least: u64,
    behind: Duration,
}

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// What both sides say before any contents are moved: for nothing yet, other senders wait.
    Words,
    /// Files.
    Contents,
}

impl Pace {
    /// What the peer `does` is to be done at so many bytes a second.
    pub fn new(of: Of, does: &'static str, least: u64) -> Self {
        Self {
            of,
            does,
            least,
            behind: Duration::ZERO,
        }
    }

    /// A wait is over that so many bytes came of: how far behind is too far, if the peer is.
    fn late(&mut self, waited: Duration, bytes: usize, stall: Duration) -> Option<Duration> {
        self.behind = (self.behind + waited).saturating_sub(self.needed(bytes));
        let most = match self.of {
            Of::Words => stall,
            Of::Contents => stall * LENIENCE,
        };
        (self.behind > most).then_some(most)
    }

    /// So many of the bytes do not count.
    fn discount(&mut self, bytes: usize) {
        self.behind += self.needed(bytes);
    }

    /// The peer says that it is alive. A receiver that verifies one file takes nothing of the next for as long as that
    /// takes.
    pub fn excuse(&mut self) {
        if self.of == Of::Contents {
            self.behind = Duration::ZERO;
        }
    }

    /// What so many bytes take at the least rate.
    fn needed(&self, bytes: usize) -> Duration {
        Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / self.least)
    }
}

/// What a frame says of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamesFrame {
    /// The peer is alive.
    Working,
    /// None more, as yet.
    NoName,
    /// That was the last one.
    AllNames,
    /// Some, or something else.
    More,
}

impl NamesFrame {
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
    /// The peer is a sender that must name its files, and take what it is answered, without delay. After the names only
    /// what it has begun to send has a pace: before it may have to read what both have, and says that it is alive.
    pub fn keep_pace(&mut self) {
        let least = self.coming.least;
        self.names = Some(Pace::new(Of::Words, "names its files", least));
        self.going = Pace::new(Of::Words, "takes the answer", least);
    }

    /// A frame of so many bytes came: who only says that it is alive is as slow as one that says nothing.
    pub(super) fn named(&mut self, frame_kind: NamesFrame, bytes: usize) {
        match (frame_kind, &mut self.names) {
            (NamesFrame::Working | NamesFrame::NoName, Some(pace)) => pace.discount(bytes),
            (NamesFrame::AllNames, names) => *names = None,
            _ => {}
        }
    }

    /// A call waited for the bytes of frames, or for such and those behind them, and got so many; whether it had
    /// `begun` with them before.
    ///
    /// # Errors
    /// [`Stop`]: the peer sends fewer bytes than the limit of a stalled transfer allows.
    pub(super) fn heard(&mut self, since: Instant, got: usize, begun: bool) -> Result<(), Stop> {
        let waited = match begun || self.names.is_some() {
            true => since.elapsed(),
            false => Duration::ZERO,
        };
        let pace = self.names.as_mut().unwrap_or(&mut self.coming);
        kept(pace, waited, got, self.stall, &self.peer)
    }

    /// What a call answered that waited for raw bytes: how many there are, `None` to try again.
    ///
    /// # Errors
    /// [`Stop`]: they come too slowly or no more, a signal asked to stop, or the connection fails.
    pub fn came(
        &mut self,
        since: Instant,
        answer: io::Result<usize>,
    ) -> Result<Option<usize>, Stop> {
        let got = match answer {
            Ok(0) => return Err(self.closed()),
            Ok(got) => {
                self.progress();
                got
            }
            Err(error) => {
                self.failed(&error)?;
                self.retry();
                0
            }
        };
        kept(
            &mut self.coming,
            since.elapsed(),
            got,
            self.stall,
            &self.peer,
        )?;
        Ok((got > 0).then_some(got))
    }

    /// A call that only waited is made again, and counts as one.
    fn retry(&mut self) {
        self.calls -= 1;
    }

    /// What a call answered that waited for the peer to take bytes: how many it took, `None` to try again.
    ///
    /// # Errors
    /// [`Stop`]: it takes them too slowly or no more, has refused, a signal asked to stop, or the connection fails.
    pub fn taken(
        &mut self,
        since: Instant,
        answer: io::Result<usize>,
    ) -> Result<Option<usize>, Stop> {
        let taken = match answer {
            Ok(taken) => {
                self.progress();
                if cancel::requested() {
                    self.grace()?;
                }
                Some(taken)
            }
            Err(error) => {
                self.again(&error)?;
                self.retry();
                None
            }
        };
        kept(
            &mut self.going,
            since.elapsed(),
            taken.unwrap_or(0),
            self.stall,
            &self.peer,
        )?;
        Ok(taken)
    }
}

/// A peer keeps its pace, or the transfer ends.
fn kept(
    pace: &mut Pace,
    waited: Duration,
    bytes: usize,
    stall: Duration,
    peer: &str,
) -> Result<(), Stop> {
    match pace.late(waited, bytes, stall) {
        None => Ok(()),
        Some(most) => {
            let reason = format!(
                "{peer} {} too slowly: more than {} s behind {} B/s",
                pace.does,
                most.as_secs_f64(),
                pace.least
            );
            Err(Stop::here(reason).with_remedy(
                "send again over a faster line, or with a longer --stall at the side that gave up",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use super::*;
    use crate::options::LEAST_PACE;
    use crate::wire;

    const STALL: Duration = Duration::from_secs(30);
    const SLICE: Duration = Duration::from_millis(250);

    fn pace_of_words() -> Pace {
        Pace::new(Of::Words, "", LEAST_PACE)
    }

    #[test]
    fn ten_thousand_names_over_a_slow_line_are_in_time() {
        let mut pace = pace_of_words();
        for _ in 0..10_000 * 60 / 1_100 {
            for part in 0..4 {
                let got = if part == 3 { 1_100 } else { 0 };
                assert_eq!(pace.late(SLICE, got, STALL), None);
            }
        }
    }

    #[test]
    fn a_byte_now_and_then_is_too_slow_however_fast_it_began() {
        for began in [0, 1 << 20] {
            for (mut pace, stalls) in [
                (pace_of_words(), 1),
                (Pace::new(Of::Contents, "", LEAST_PACE), LENIENCE),
            ] {
                assert_eq!(pace.late(SLICE, began, STALL), None);
                let kept = (0..10_000).take_while(|_| pace.late(SLICE, 1, STALL).is_none());
                let slices = STALL.as_secs() as usize * 4 * stalls as usize;
                assert!((slices - 1..=slices + 5).contains(&kept.count()));
            }
        }
    }

    #[test]
    fn a_frame_without_a_name_names_nothing() {
        assert_eq!(NamesFrame::by(&Frame::Working), NamesFrame::Working);
        assert_eq!(
            NamesFrame::by(&Frame::Entries(Vec::new())),
            NamesFrame::NoName
        );
        assert_eq!(NamesFrame::by(&Frame::EntriesEnd(0)), NamesFrame::AllNames);
    }

    #[test]
    fn what_says_nothing_gains_nothing() {
        let mut pace = pace_of_words();
        let kept = (0..1_000).take_while(|_| {
            let kept = pace.late(SLICE, 13, STALL).is_none();
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
            let mut link =
                Link::new(stream, Duration::from_millis(500), LEAST_PACE).expect("a link");
            link.keep_pace();
            let sent = link.send(&vec![0; 64 << 20], 0);
            done.store(true, Relaxed);
            sent.expect_err("nobody takes it").error.to_string()
        });
        assert!(error.contains("takes the answer too slowly"), "{error}");
    }
    #[test]
    fn a_call_that_waited_in_vain_and_was_repeated_counts_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut peer = TcpStream::connect(address).expect("a listener");
        let (stream, _) = listener.accept().expect("a peer");
        let mut link = Link::new(stream, STALL, LEAST_PACE).expect("a link");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(4 * SLICE);
                peer.write_all(b"late").expect("a reader");
            });
            let mut got = [0; 8];
            assert_eq!(link.receive(&mut got).expect("four bytes"), 4);
        });
        assert_eq!(link.calls, 1);
    }
}
