//! Truth of `disk.write`: what it says was written is there, and what is not as written is refused.

mod refusals;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;

/// Bytes of most files here.
const TOTAL: u64 = 300_000;

/// A folder of its own for each test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new("/var/tmp").join(format!("oscope-write-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("file")
    }

    pub fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn parameters_for(file: PathBuf) -> Parameters {
    Parameters {
        file,
        directory: "/var/tmp".into(),
        size: TOTAL,
        block_size: 65536,
        count: 0,
        sync: Sync::None,
        existing: Existing::Refuse,
        on_failure: OnFailure::Remove,
    }
}

fn prepare(parameters: Parameters) -> Result<DiskWrite, Failure> {
    let clock = Clock::open(RequestedClock::Auto).unwrap();
    DiskWrite::prepare(
        parameters,
        &Context::new(&clock, None, &[], &Shared::default()),
    )
}

fn run(workload: &mut DiskWrite) -> Result<Work, Failure> {
    let clock = Clock::open(RequestedClock::Auto).unwrap();
    workload.run(1, &mut Region::new(&clock))
}

/// A whole repetition, as the harness does it.
fn repeat(workload: &mut DiskWrite) -> Result<Work, Failure> {
    let work = run(workload)?;
    workload.verify(&work)?;
    Ok(work)
}

fn metric(work: &Work, name: &str) -> f64 {
    work.metrics
        .iter()
        .find(|(each, _)| *each == name)
        .unwrap()
        .1
}

#[test]
fn a_scratch_file_is_written_in_every_way_and_gone() {
    for (sync, block_size) in [
        (Sync::None, 100_001),
        (Sync::Fdatasync, 4096),
        (Sync::Direct, 8192),
    ] {
        let folder = Folder::new();
        let mut workload = prepare(Parameters {
            directory: folder.0.clone(),
            sync,
            block_size,
            count: 7,
            ..parameters_for(PathBuf::new())
        })
        .unwrap();
        for repetition in 0..3 {
            let work = repeat(&mut workload).unwrap();
            assert_eq!((work.done, work.wanted), (7 * block_size, 7 * block_size));
            assert_eq!(metric(&work, "calls"), 7.0);
            assert_eq!(metric(&work, "bytes"), (7 * block_size) as f64);
            assert!(metric(&work, "throughput") > 0.0);
            assert_eq!(work.metrics.len(), Values::described().len());
            assert_eq!(work.notes.len(), usize::from(repetition == 0));
            assert!(folder.names().is_empty());
        }
    }
}

#[test]
fn a_named_file_has_its_size_and_stays_and_each_repetition_replaces_the_one_before() {
    let folder = Folder::new();
    let mut workload = prepare(parameters_for(folder.file())).unwrap();
    let mut before = Vec::new();
    for _ in 0..3 {
        repeat(&mut workload).unwrap();
        let now = fs::read(folder.file()).unwrap();
        assert_eq!(now.len() as u64, TOTAL);
        assert!(now != before, "a repetition has data of its own");
        before = now;
    }
    drop(workload);
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_file_that_appears_meanwhile_is_left_alone() {
    let folder = Folder::new();
    let mut workload = prepare(parameters_for(folder.file())).unwrap();
    let work = run(&mut workload).unwrap();
    fs::write(folder.file(), "precious").unwrap();
    let refused = workload.verify(&work).unwrap_err().to_string();
    assert!(refused.contains("File exists"), "{refused}");
    assert_eq!(fs::read(folder.file()).unwrap(), b"precious");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn an_old_file_stays_until_the_new_one_is_whole_and_its_permissions_stay_after() {
    let folder = Folder::new();
    fs::write(folder.file(), "precious").unwrap();
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o604)).unwrap();
    let mut workload = prepare(Parameters {
        existing: Existing::Replace,
        ..parameters_for(folder.file())
    })
    .unwrap();
    let work = run(&mut workload).unwrap();
    assert_eq!(fs::read(folder.file()).unwrap(), b"precious");
    workload.verify(&work).unwrap();
    let metadata = fs::metadata(folder.file()).unwrap();
    assert_eq!(
        (metadata.len(), metadata.permissions().mode() & 0o777),
        (TOTAL, 0o604)
    );
    repeat(&mut workload).unwrap();
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_file_that_was_cut_or_changed_before_it_is_verified_is_refused_and_removed() {
    for (change, word) in [
        (
            (|file: &File| file.set_len(TOTAL - 1)) as fn(&File) -> _,
            "has 299999 bytes, not 300000",
        ),
        (
            |file| file.write_all_at(b"x", TOTAL - 1),
            "from byte 262144 on",
        ),
        (
            |file| file.write_all_at(b"wrong", 70_000),
            "from byte 65536 on",
        ),
    ] {
        let folder = Folder::new();
        let mut workload = prepare(parameters_for(folder.file())).unwrap();
        let work = run(&mut workload).unwrap();
        change(&workload.target.as_ref().unwrap().file).unwrap();
        let refused = workload.verify(&work).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
        assert!(
            refused.ends_with("what was written is removed"),
            "{refused}"
        );
        assert!(folder.names().is_empty());
    }
    let mut workload = prepare(parameters_for(PathBuf::new())).unwrap();
    assert!(
        workload.verify(&Work::default()).is_err(),
        "nothing was written"
    );
}

#[test]
fn direct_writing_takes_aligned_blocks_only() {
    for (block_size, count, field) in [(1000, 0, "block_size"), (4096, 0, "size"), (4096, 3, "")] {
        let folder = Folder::new();
        let mut workload = prepare(Parameters {
            sync: Sync::Direct,
            block_size,
            count,
            ..parameters_for(folder.file())
        })
        .unwrap();
        match run(&mut workload) {
            Ok(work) => {
                assert_eq!(field, "");
                workload.verify(&work).unwrap();
            }
            Err(Failure::Request {
                field: named,
                message,
                ..
            }) => {
                assert_eq!(named, field);
                assert!(message.contains("multiples of"), "{message}");
                assert!(folder.names().is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn pieces_begin_at_the_first_and_end_with_the_last(length in 1_u64..1 << 50) {
        let pieces = pieces(length);
        prop_assert_eq!(pieces[0], 0);
        prop_assert!(pieces.windows(2).all(|pair| pair[0] < pair[1]));
        let last = *pieces.last().unwrap();
        prop_assert!(last < length && last + PIECE >= length);
        prop_assert!(pieces.len() as u64 == length.div_ceil(PIECE).min(PIECES));
    }
}
