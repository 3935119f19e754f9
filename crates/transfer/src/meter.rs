//! What one side counts while it transfers, and reports to its observer.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::names::shown;
use super::outcome::{LeftOut, Progress, Tally};
use super::stop::Stop;

/// Least time between two reports of progress.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counts files and bytes, and what they cost this process.
pub struct Meter<'a> {
    watch: &'a mut dyn FnMut(Progress),
    tally: Tally,
    /// Bytes of files that are whole, and of the one under way.
    reached: u64,
    of_files: u64,
    /// Files, folders and links that are done, or left out.
    done: u64,
    began: Instant,
    reported: Instant,
    before: Usage,
    methods: BTreeSet<&'static str>,
}

impl<'a> Meter<'a> {
    /// Time, CPU time and switches count from now.
    ///
    /// # Errors
    /// [`Stop`]: getrusage(2) fails.
    pub fn new(watch: &'a mut dyn FnMut(Progress)) -> Result<Self, Stop> {
        Ok(Self {
            watch,
            tally: Tally::default(),
            reached: 0,
            of_files: 0,
            done: 0,
            began: Instant::now(),
            reported: Instant::now(),
            before: usage()?,
            methods: BTreeSet::new(),
        })
    }

    /// What is to come.
    pub fn expect(&mut self, files: u64, bytes: u64) {
        self.of_files = files;
        self.tally.total_bytes = bytes;
    }

    /// Bytes of a file moved.
    pub fn moved(&mut self, name: &[u8], bytes: u64) {
        self.tally.bytes += bytes;
        self.passed(name, bytes);
    }

    /// Bytes of a file were there already.
    pub fn passed(&mut self, name: &[u8], bytes: u64) {
        self.reached += bytes;
        if self.reported.elapsed() >= INTERVAL {
            self.reported = Instant::now();
            self.report(name);
        }
    }

    /// Bytes of a file are a hole, which is not moved.
    pub fn hole(&mut self, name: &[u8], bytes: u64) {
        self.tally.holes += bytes;
        self.passed(name, bytes);
    }

    /// A file is whole; `skipped` if it was there already.
    pub fn file(&mut self, skipped: bool) {
        self.done += 1;
        self.tally.files += 1;
        self.tally.skipped += u64::from(skipped);
    }

    /// A folder is there.
    pub fn folder(&mut self) {
        self.done += 1;
        self.tally.folders += 1;
    }

    /// A symbolic link has come, or gone.
    pub fn link(&mut self) {
        self.done += 1;
        self.tally.links += 1;
    }

    /// A file of so many bytes is left out: nothing of it counts.
    pub fn left(&mut self, left: &LeftOut, bytes: u64) {
        self.done += 1;
        self.tally.total_bytes -= bytes;
        (self.watch)(Progress::Left(left));
    }

    /// Whether the other side counted the same.
    pub fn agrees(&self, other: &Tally) -> bool {
        let counts = |tally: &Tally| (tally.files, tally.folders, tally.links, tally.total_bytes);
        counts(&self.tally) == counts(other)
    }

    /// A method was used.
    pub fn method(&mut self, name: &'static str) {
        self.methods.insert(name);
    }

    /// `auto` chose this method.
    pub fn chose(&mut self, name: &str) {
        self.tally.chosen = Some(name.into());
    }

    /// Report a note.
    pub fn note(&mut self, text: &str) {
        (self.watch)(Progress::Note(text));
    }

    fn report(&mut self, name: &[u8]) {
        let file = shown(name);
        (self.watch)(Progress::Moved {
            file: &file,
            files: self.done,
            of_files: self.of_files,
            bytes: self.reached,
            of_bytes: self.tally.total_bytes,
        });
    }

    /// The tally of all that was done until now, with the system calls counted elsewhere.
    ///
    /// # Errors
    /// [`Stop`]: getrusage(2) fails.
    pub fn tally(&mut self, calls: u64) -> Result<Tally, Stop> {
        let time = self.began.elapsed();
        let after = usage()?;
        let cpu = |usage: &Usage| (usage.user_time() + usage.system_time()).num_nanoseconds();
        let difference = |now: i64, then: i64| u64::try_from(now - then).unwrap_or(0);
        self.tally.time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.tally.calls = calls;
        self.tally.cpu_ns = difference(cpu(&after), cpu(&self.before));
        self.tally.voluntary = difference(
            after.voluntary_context_switches(),
            self.before.voluntary_context_switches(),
        );
        self.tally.involuntary = difference(
            after.involuntary_context_switches(),
            self.before.involuntary_context_switches(),
        );
        self.tally.method = self.methods.iter().copied().collect::<Vec<_>>().join("+");
        Ok(self.tally.clone())
    }

    /// Report that all is done.
    pub fn finish(&mut self) {
        self.report(b"");
    }
}

fn usage() -> Result<Usage, Stop> {
    getrusage(UsageWho::RUSAGE_SELF)
        .map_err(|error| Stop::here(format!("reading the time used: {}", error.desc())))
}
