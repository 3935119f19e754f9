//! Reading real files, whole and broken.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;

use nix::sys::wait::WaitStatus;

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::disk::scratch::Files;
use crate::disk::source::Place;
use crate::workload::Shared;
use crate::xor;
use oscope_sys::worker::{Child, POLL_INTERVAL};

/// A named file of this process, gone when dropped.
struct Named(PathBuf);

impl Named {
    fn with(name: &str, content: &[u8]) -> Self {
        let path = PathBuf::from(format!("/var/tmp/oscope-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn parameters_for(file: &Named, engine: Engine) -> Parameters {
    Parameters {
        place: Place {
            file: file.0.clone(),
            directory: PathBuf::from("/var/tmp"),
            size: 1 << 20,
        },
        block_size: 4096,
        count: 0,
        cache: Cache::Found,
        engine,
        threads: 1,
        queue_depth: 4,
        work: Use::Xor,
        longest: 60.0,
    }
}

fn random(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    content::fill(0, &mut bytes);
    bytes
}

const ENGINES: [Engine; 5] = [
    Engine::Read,
    Engine::Pread,
    Engine::Mmap,
    Engine::Direct,
    Engine::Uring,
];

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

    fn prepare(&self, parameters: Parameters) -> Result<DiskRead, Failure> {
        let allowed = oscope_sys::affinity::allowed().unwrap();
        DiskRead::prepare(
            parameters,
            &Context::new(&self.clock, None, &allowed, &self.shared),
        )
    }

    fn once(&self, workload: &mut DiskRead) -> Result<Work, Failure> {
        let mut region = Region::new(&self.clock);
        let work = workload.run(1, &mut region)?;
        if work.done != work.wanted {
            return Err(Failure::failed("not all was read"));
        }
        workload.verify(&work)?;
        Ok(work)
    }
}

fn metric(work: &Work, name: &str) -> Option<f64> {
    let found = work.metrics.iter().find(|(metric, _)| *metric == name);
    found.map(|(_, value)| *value)
}

#[test]
fn every_engine_reads_the_same_from_any_state_with_any_number_of_threads() {
    let laboratory = Laboratory::new();
    let content = random(3 * 1024 * 1024 + 4097);
    let file = Named::with("whole", &content);
    let expected = f64::from(xor::fold(&content));
    for engine in ENGINES.into_iter().chain([Engine::Auto]) {
        for cache in [Cache::Found, Cache::Cold, Cache::Warm] {
            for threads in [0, 1, 3] {
                let mut parameters = parameters_for(&file, engine);
                (parameters.cache, parameters.threads) = (cache, threads);
                let mut workload = match laboratory.prepare(parameters) {
                    Err(Failure::Request { field, .. }) if field == "cache" => continue,
                    other => other.unwrap(),
                };
                let work = laboratory.once(&mut workload).unwrap();
                assert_eq!(metric(&work, "xor"), Some(expected), "{engine:?} {cache:?}");
                assert_eq!(work.done, content.len() as u64);
                match cache {
                    Cache::Cold => assert_eq!(metric(&work, "resident"), Some(0.0)),
                    Cache::Warm => assert_eq!(metric(&work, "resident"), Some(1.0)),
                    Cache::Found => {}
                }
            }
        }
    }
}

/// In a process of its own, whose CPU time is no other test's. Making the threads, and their wait for the last of them,
/// takes more of it than reading.
#[test]
fn the_cpu_time_is_no_more_than_the_cpus_had_while_the_clock_ran() {
    let file = Named::with("cpu", &random(4096));
    let mut child = Child::fork(|| {
        // Before this thread has a seat on one of them.
        let cpus = oscope_sys::affinity::allowed().unwrap().len() as f64;
        let laboratory = Laboratory::new();
        let mut parameters = parameters_for(&file, Engine::Read);
        parameters.threads = 64;
        let mut workload = laboratory.prepare(parameters).unwrap();
        let (mut cpu_s, mut time_s) = (0.0, 0.0);
        for _ in 0..8 {
            let work = laboratory.once(&mut workload).unwrap();
            cpu_s += metric(&work, "cpu_s").unwrap();
            time_s += metric(&work, "time_s").unwrap();
        }
        assert!(
            cpu_s > 0.0 && cpu_s < 1.2 * cpus * time_s,
            "{cpu_s} s of {cpus} CPUs in {time_s} s"
        );
    })
    .unwrap();
    let status = loop {
        if let Some(status) = child.ended().unwrap() {
            break status;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    assert_eq!(status, WaitStatus::Exited(child.process(), 0));
}

#[test]
fn a_count_ends_the_reading_and_each_reading_is_counted() {
    let laboratory = Laboratory::new();
    let content = random(100_001);
    let file = Named::with("count", &content);
    let mut parameters = parameters_for(&file, Engine::Read);
    (parameters.block_size, parameters.count) = (1001, 7);
    let mut workload = laboratory.prepare(parameters).unwrap();
    for earlier in 0..3 {
        let work = laboratory.once(&mut workload).unwrap();
        assert_eq!(metric(&work, "calls"), Some(7.0));
        assert_eq!(metric(&work, "bytes"), Some(7007.0));
        assert_eq!(
            metric(&work, "xor"),
            Some(f64::from(xor::fold(&content[..7007])))
        );
        assert_eq!(metric(&work, "earlier_reads"), Some(f64::from(earlier)));
    }
}

#[test]
fn the_time_given_ends_the_reading_and_no_xor_is_reported() {
    let laboratory = Laboratory::new();
    let file = Named::with("longest", &random(64 << 20));
    let mut parameters = parameters_for(&file, Engine::Read);
    (parameters.block_size, parameters.longest) = (1, 0.001);
    let mut workload = laboratory.prepare(parameters).unwrap();
    let work = laboratory.once(&mut workload).unwrap();
    assert!(work.done > 0 && work.done < 64 << 20);
    assert_eq!(metric(&work, "xor"), None);
}

#[test]
fn a_file_that_changes_is_never_read_as_right() {
    let laboratory = Laboratory::new();
    for (length, word) in [(50_000, "shrank"), (200_000, "grew")] {
        let file = Named::with(word, &random(100_000));
        let mut workload = laboratory
            .prepare(parameters_for(&file, Engine::Read))
            .unwrap();
        let open = OpenOptions::new().write(true).open(&file.0).unwrap();
        open.set_len(length).unwrap();
        let failure = laboratory.once(&mut workload).unwrap_err().to_string();
        assert!(failure.contains(word), "{failure}");
    }
    let file = Named::with("written", &random(100_000));
    let mut workload = laboratory
        .prepare(parameters_for(&file, Engine::Read))
        .unwrap();
    laboratory.once(&mut workload).unwrap();
    let mut open = OpenOptions::new().write(true).open(&file.0).unwrap();
    open.write_all(b"x").unwrap();
    let failure = laboratory.once(&mut workload).unwrap_err().to_string();
    assert!(failure.contains("written to"), "{failure}");
}

#[test]
fn every_engine_notices_that_the_file_ends_early() {
    let file = Named::with("early", &random(100_000));
    let laboratory = Laboratory::new();
    for engine in ENGINES {
        let mut workload = laboratory.prepare(parameters_for(&file, engine)).unwrap();
        // As if it had shrunk after it was looked at.
        workload.length = 200_000;
        let pass = Pass::new(200_000, workload.method.block, Use::Xor, None);
        let failure = workload.go(&pass, |work| work()).unwrap_err();
        let failure = failure.to_string();
        assert!(failure.contains("shrank"), "{engine:?}: {failure}");
    }
}

#[test]
fn a_page_that_goes_while_it_is_mapped_is_reported_and_kills_nobody() {
    let file = Named::with("gone", &random(1 << 20));
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&file.0)
        .unwrap();
    let pass = Pass::new(1 << 20, 1 << 20, Use::Xor, None);
    let mapped = Mapped::new(&open, 1 << 20).unwrap();
    mapped.read(&pass, &open).unwrap();
    open.set_len(4096).unwrap();
    mapped.look_at(1 << 19);
    assert!(mapped::is_gone());
}

#[test]
fn a_wrong_xor_is_refused() {
    let laboratory = Laboratory::new();
    let file = Named::with("xor", &random(10_000));
    let mut workload = laboratory
        .prepare(parameters_for(&file, Engine::Read))
        .unwrap();
    laboratory.once(&mut workload).unwrap();
    workload.tally.xor ^= 1;
    let failure = workload.verify(&Work::default()).unwrap_err().to_string();
    assert!(failure.contains("the XOR is"), "{failure}");
}

#[test]
fn a_scratch_file_is_shared_and_its_last_bytes_are_looked_at() {
    let laboratory = Laboratory::new();
    let file = Named(PathBuf::from("/var/tmp"));
    let mut parameters = parameters_for(&file, Engine::Uring);
    std::mem::forget(file);
    (parameters.place.file, parameters.work) = (PathBuf::new(), Use::None);
    let mut workload = laboratory.prepare(parameters).unwrap();
    laboratory.once(&mut workload).unwrap();
    let first = Rc::clone(&laboratory.shared.files);
    let again = Files::scratch(&first, &PathBuf::from("/var/tmp"), 1 << 20).unwrap();
    let place = |path: PathBuf| std::fs::read_link(path).unwrap();
    assert_eq!(place(again.path()), place(workload.source.path()));
    let at = workload.tally.last.at;
    workload.buffers.as_mut().unwrap()[at] ^= 1;
    let failure = workload.verify(&Work::default()).unwrap_err().to_string();
    assert!(failure.contains("not those of the file"), "{failure}");
}

/// Its inode number is mostly that of the one given up before.
#[test]
fn a_new_scratch_file_has_never_been_read() {
    let laboratory = Laboratory::new();
    let file = Named::with("scratch", b"x");
    for pages in 1..5 {
        let mut parameters = parameters_for(&file, Engine::Read);
        (parameters.place.file, parameters.place.size) = (PathBuf::new(), pages * 4096);
        let mut workload = laboratory.prepare(parameters).unwrap();
        let work = laboratory.once(&mut workload).unwrap();
        assert_eq!(metric(&work, "earlier_reads"), Some(0.0));
    }
}

#[test]
fn a_file_renamed_over_is_not_taken_for_the_one_that_was_opened() {
    let laboratory = Laboratory::new();
    let file = Named::with("renamed", &random(10_000));
    let place = parameters_for(&file, Engine::Read).place;
    let source = Source::open(&place, &laboratory.shared.files).unwrap();
    let mut other = file.0.clone().into_os_string();
    other.push("-other");
    std::fs::write(&other, b"other").unwrap();
    std::fs::rename(&other, &file.0).unwrap();
    let again = source.reopen(0).unwrap();
    assert_eq!(again.metadata().unwrap().len(), 10_000);
}

#[test]
fn a_method_that_is_chosen_keeps_to_the_memory_for_buffers_too() {
    let laboratory = Laboratory::new();
    let file = Named::with("chosen", b"");
    let long = OpenOptions::new().write(true).open(&file.0).unwrap();
    long.set_len(1 << 40).unwrap();
    let source = Source::open(
        &parameters_for(&file, Engine::Auto).place,
        &laboratory.shared.files,
    )
    .unwrap();
    let asked = |threads, block| Asked {
        engine: Engine::Auto,
        threads,
        block,
        depth: 1,
        cpus: 256,
        cached: Some(0.0),
    };
    for block in [0, 4096, 32 << 20] {
        let (method, _) = asked(0, block).method(&source).unwrap();
        assert!(method.engine.is_direct() && method.buffers() <= 48 << 20);
    }
    match asked(64, 32 << 20).method(&source) {
        Err(Failure::Request { field, .. }) => assert_eq!(field, "block_size"),
        other => panic!("{other:?}"),
    }
    let unknown = Asked {
        cached: None,
        ..asked(0, 0)
    };
    let (method, note) = unknown.method(&source).unwrap();
    assert_eq!(method.engine, Engine::Auto);
    assert!(method.buffers() <= 48 << 20);
    assert!(note.unwrap().contains("does not report"));
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    let laboratory = Laboratory::new();
    let empty = Named::with("empty", b"");
    let refused = |path: &str, reason: &str| {
        let mut parameters = parameters_for(&empty, Engine::Read);
        if !path.is_empty() {
            parameters.place.file = PathBuf::from(path);
        }
        match laboratory.prepare(parameters) {
            Err(Failure::Request { field, message, .. }) => {
                assert_eq!(field, "file");
                assert!(message.contains(reason), "{message}");
            }
            other => panic!("{path}: {:?}", other.map(|_| ())),
        }
    };
    refused("", "is empty");
    refused("/proc/self/status", "has no length");
    refused("/var/tmp", "a directory");
    refused("/dev/null", "a character device");
    refused("/no/such/file", "No such file");
}

#[test]
fn block_sizes_that_cannot_be_are_refused() {
    let laboratory = Laboratory::new();
    let file = Named::with("blocks", &random(10_000));
    for (engine, block, depth, reason) in [
        (Engine::Direct, 1000, 1, "multiples of"),
        (Engine::Uring, 32 << 20, 256, "buffers"),
    ] {
        let mut parameters = parameters_for(&file, engine);
        (parameters.block_size, parameters.queue_depth) = (block, depth);
        match laboratory.prepare(parameters) {
            Err(Failure::Request { field, message, .. }) => {
                assert_eq!(field, "block_size");
                assert!(message.contains(reason), "{message}");
            }
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
}

/// A loop device over a file, given back when dropped.
struct Loop(PathBuf);

impl Loop {
    /// `None` where there are none to be had: not root, or no such driver.
    fn over(file: &Named) -> Option<Self> {
        let made = std::process::Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&file.0)
            .output()
            .ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        made.status
            .success()
            .then(|| Self(PathBuf::from(name.trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let mut detach = std::process::Command::new("losetup");
        assert!(
            detach
                .arg("--detach")
                .arg(&self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// The file below a loop device is cut in half: the device keeps its length, and its second half cannot be read.
#[test]
fn a_read_error_names_its_offset() {
    let backing = Named::with("loop", &random(4 << 20));
    let Some(device) = Loop::over(&backing) else {
        eprintln!("skipped: a loop device takes root and losetup");
        return;
    };
    let open = OpenOptions::new().write(true).open(&backing.0).unwrap();
    open.set_len(2 << 20).unwrap();
    let laboratory = Laboratory::new();
    for engine in ENGINES {
        let mut parameters = parameters_for(&backing, engine);
        (parameters.place.file, parameters.cache) = (device.0.clone(), Cache::Cold);
        let mut workload = laboratory.prepare(parameters).unwrap();
        let failure = laboratory.once(&mut workload).unwrap_err().to_string();
        // Reads that are in flight together come back in any order.
        let reads = if engine == Engine::Uring { 4 } else { 1 };
        let named = (0..reads).any(|read| {
            failure.starts_with(&format!(
                "{}: reading at byte {} of 4194304: I/O error",
                device.0.display(),
                (2 << 20) + read * 4096
            ))
        });
        assert!(named, "{engine:?}: {failure}");
    }
}
