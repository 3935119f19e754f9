//! Real readings by all three tools, and readings that cannot be.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;

/// Large enough that fio needs more than its 10 ms, by small blocks.
const LENGTH: u64 = (16 << 20) + 100;
const TOOLS: [Tool; 3] = [Tool::Oscope, Tool::Dd, Tool::Fio];
const PEERS: [Peer; 2] = [dd::DD, fio::FIO];

/// A named file of this process, gone when dropped.
struct Named(PathBuf);

impl Named {
    fn with(name: &str, length: u64) -> Self {
        let path = PathBuf::from(format!("/var/tmp/oscope-{}-{name}", std::process::id()));
        fs::write(&path, vec![7; length as usize]).unwrap();
        Self(path)
    }

    fn append(&self) {
        let mut file = OpenOptions::new().append(true).open(&self.0).unwrap();
        file.write_all(b"more").unwrap();
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

fn parameters_of(tool: Tool, file: PathBuf) -> Parameters {
    Parameters {
        place: Place {
            file,
            directory: PathBuf::from("/var/tmp"),
            size: LENGTH,
        },
        block_size: 256,
        count: 0,
        cache: Cache::Warm,
        tool,
    }
}

struct Laboratory {
    clock: Clock,
    shared: Shared,
}

impl Laboratory {
    fn new() -> Self {
        Self {
            clock: Clock::open(RequestedClock::Monotonic).unwrap(),
            shared: Shared::default(),
        }
    }

    fn context(&self) -> Context<'_> {
        Context::new(&self.clock, None, &[0], &self.shared)
    }

    fn prepare(&self, parameters: Parameters) -> Result<DiskPeers, Failure> {
        DiskPeers::prepare(parameters, &self.context())
    }

    /// A repetition; tried again where another test drops what this one has just read into the page cache.
    fn once(&self, workload: &mut DiskPeers) -> Result<Work, Failure> {
        let mut last = None;
        for _ in 0..10 {
            match workload.run(1, &mut Region::new(&self.clock)) {
                Err(failure @ Failure::Unavailable { .. }) => last = Some(failure),
                other => return other,
            }
        }
        Err(last.unwrap())
    }

    /// A repetition as the harness judges it.
    fn sound(&self, workload: &mut DiskPeers) -> Work {
        let work = self.once(workload).unwrap();
        assert_eq!(work.done, work.wanted);
        workload.verify(&work).unwrap();
        work
    }
}

fn metric(work: &Work, name: &str) -> f64 {
    let found = work.metrics.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn all_tools_read_the_same_file_and_report_how_long_it_took() {
    let laboratory = Laboratory::new();
    let named = Named::with("a file: with, blanks\\", LENGTH);
    for file in [PathBuf::new(), named.0.clone()] {
        for tool in TOOLS {
            let parameters = parameters_of(tool, file.clone());
            let mut workload = laboratory.prepare(parameters).unwrap();
            let work = laboratory.sound(&mut workload);
            let wanted = match tool {
                Tool::Fio => LENGTH - 100,
                _ => LENGTH,
            };
            assert_eq!(metric(&work, "bytes"), wanted as f64, "{tool:?}");
            let (time_s, whole_s) = (metric(&work, "time_s"), metric(&work, "whole_s"));
            let rate = wanted as f64 / time_s / f64::from(1 << 20);
            assert!((metric(&work, "throughput") - rate).abs() < 1e-6 * rate);
            assert!(
                time_s > 0.0 && time_s < whole_s * 1.02,
                "{time_s} of {whole_s}"
            );
            assert_eq!(work.metrics.len(), Values::described().len());
            assert!(
                work.notes.iter().any(|note| note.starts_with("warm: ")),
                "{:?}",
                work.notes
            );
        }
    }
}

#[test]
fn a_cold_file_is_proved_cold_before_it_is_read() {
    let laboratory = Laboratory::new();
    for tool in TOOLS {
        let parameters = Parameters {
            cache: Cache::Cold,
            ..parameters_of(tool, PathBuf::new())
        };
        let mut workload = laboratory.prepare(parameters).unwrap();
        match laboratory.once(&mut workload) {
            Ok(work) => assert!(
                work.notes.iter().any(|note| note.starts_with("cold: ")),
                "{:?}",
                work.notes
            ),
            // A file system in memory is never cold.
            Err(Failure::Unavailable { message, .. }) => {
                assert!(message.contains("stay in the page cache"), "{message}");
            }
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn a_number_of_blocks_is_kept_to() {
    let laboratory = Laboratory::new();
    let blocks = 60_000;
    for tool in TOOLS {
        let parameters = Parameters {
            count: blocks,
            ..parameters_of(tool, PathBuf::new())
        };
        let mut workload = laboratory.prepare(parameters).unwrap();
        let work = laboratory.sound(&mut workload);
        assert_eq!(metric(&work, "bytes"), (blocks * 256) as f64, "{tool:?}");
    }
}

#[test]
fn notes_name_the_version_and_what_is_left_out() {
    let laboratory = Laboratory::new();
    for (tool, words) in [
        (Tool::Dd, ["dd (coreutils) ", "on "]),
        (Tool::Fio, ["fio-", "without the last 100 bytes"]),
    ] {
        let parameters = parameters_of(tool, PathBuf::new());
        let mut workload = laboratory.prepare(parameters).unwrap();
        let notes = laboratory.sound(&mut workload).notes.join("\n");
        for word in words {
            assert!(notes.contains(word), "{notes}");
        }
    }
}

#[test]
fn a_missing_tool_is_reported_with_its_remedy() {
    let laboratory = Laboratory::new();
    for peer in PEERS {
        let parameters = parameters_of(Tool::Oscope, PathBuf::new());
        let nowhere = Some(OsStr::new("/var/empty:/nowhere"));
        match Other::prepare(peer, &parameters, &laboratory.context(), nowhere) {
            Err(Failure::Unavailable {
                message, remedy, ..
            }) => {
                assert!(message.ends_with(" is not installed"), "{message}");
                assert!(remedy.unwrap().starts_with("apt-get install "));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_tool_that_fails_is_a_failure_with_its_last_words() {
    let laboratory = Laboratory::new();
    for tool in [Tool::Dd, Tool::Fio] {
        let parameters = parameters_of(tool, PathBuf::new());
        let mut workload = laboratory.prepare(parameters).unwrap();
        let DiskPeers::Other(other) = &mut workload else {
            panic!("{workload:?}");
        };
        other.reading.path = PathBuf::from("/proc/self/no-such-file");
        let failure = laboratory.once(&mut workload).unwrap_err().to_string();
        assert!(failure.contains("ended with exit status: "), "{failure}");
        assert!(failure.contains("no-such-file"), "{failure}");
        assert!(!failure.contains('\n'), "{failure}");
        assert!(workload.verify(&Work::default()).is_err());
    }
}

#[test]
fn bytes_that_are_missing_are_seen() {
    let laboratory = Laboratory::new();
    let parameters = parameters_of(Tool::Dd, PathBuf::new());
    let mut workload = laboratory.prepare(parameters).unwrap();
    let DiskPeers::Other(other) = &mut workload else {
        panic!("{workload:?}");
    };
    other.reading.length += 256;
    let work = laboratory.once(&mut workload).unwrap();
    assert_eq!((work.done, work.wanted), (LENGTH, LENGTH + 256));
}

#[test]
fn a_file_that_changes_and_a_time_longer_than_the_process_are_refused() {
    let laboratory = Laboratory::new();
    let named = Named::with("grows", LENGTH);
    let parameters = parameters_of(Tool::Dd, named.0.clone());
    let mut workload = laboratory.prepare(parameters).unwrap();
    let work = laboratory.sound(&mut workload);
    if let DiskPeers::Other(other) = &mut workload {
        let last = other.last.as_mut().unwrap();
        last.whole_s = last.account.time_s / 2.0;
    }
    let refused = workload.verify(&work).unwrap_err().to_string();
    assert!(refused.starts_with("dd reports "), "{refused}");
    let work = laboratory.sound(&mut workload);
    named.append();
    let refused = workload.verify(&work).unwrap_err().to_string();
    assert!(refused.contains(" grew from "), "{refused}");
    assert!(laboratory.once(&mut workload).is_err());
}

#[test]
fn fio_refuses_blocks_larger_than_the_file() {
    let laboratory = Laboratory::new();
    let parameters = Parameters {
        block_size: 32 << 20,
        ..parameters_of(Tool::Fio, PathBuf::new())
    };
    match laboratory.prepare(parameters) {
        Err(Failure::Request { field, message, .. }) => {
            assert_eq!(field, "block_size");
            assert!(message.contains("must be 16777316 at most"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
