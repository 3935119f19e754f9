//! Real pressure, and that nothing of it remains: after dropping it, and after a kill.

mod oom_guard;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;
use oscope_sys::affinity;
use oscope_sys::cleanup::{resource, swap_area};
use oscope_sys::mapping::{Mapping, Pages};
use oscope_sys::testing::{Folder, restored};

/// Plays the machine's memory.
const LIMIT: u64 = 32 << 20;
/// Longest wait for a process of the tests.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan(folder: &Folder, swap: SwapKind, swap_bytes: u64) -> Plan {
    Plan {
        scope: Scope::Group,
        limit: LIMIT,
        swap,
        swap_bytes,
        wait: Duration::ZERO,
        steps: 0,
        directory: folder.0.clone(),
        beside: 0,
    }
}

/// Pressure as planned; `None` where this machine cannot.
fn prepared(plan: Plan) -> Option<Pressure> {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, allowed.last().copied(), &allowed, &shared);
    match Pressure::prepare(plan, &context) {
        Err(Failure::Unavailable { message, .. }) => {
            eprintln!("skipped: {message}");
            None
        }
        other => Some(other.expect("it can be made")),
    }
}

/// A child that enters the group and touches `bytes` twice: its major faults, or `None` if it was killed.
fn measured(pressure: &Pressure, bytes: u64) -> Option<i64> {
    // SAFETY: the child ends by `_exit` or a signal.
    match unsafe { libc::fork() } {
        0 => {
            // It asks for room, of which the group has less.
            let mapping = Mapping::new(bytes, Pages::Base);
            if let (Ok(mapping), Ok(())) = (mapping, pressure.join()) {
                mapping.touch();
                mapping.touch();
                // SAFETY: it ends this process.
                unsafe { libc::_exit(0) }
            }
            // SAFETY: as above.
            unsafe { libc::_exit(1) }
        }
        child => {
            assert!(child > 0);
            // SAFETY: it is made of numbers.
            let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
            let mut status = 0;
            // SAFETY: both live here, and the child was made above.
            let waited = unsafe { libc::wait4(child, &raw mut status, 0, &raw mut usage) };
            assert_eq!(waited, child);
            libc::WIFEXITED(status).then(|| {
                assert_eq!(libc::WEXITSTATUS(status), 0);
                usage.ru_majflt
            })
        }
    }
}

/// The kernel rounds limits down to pages: of a limit and a quarter more (version 2), each by itself.
#[test]
fn a_limit_is_rounded_down_to_pages() {
    let folder = Folder::new();
    let limit = LIMIT + page_bytes() + 1;
    let plan = Plan {
        limit,
        ..plan(&folder, SwapKind::Auto, 64 << 20)
    };
    if let Some(pressure) = prepared(plan) {
        assert_eq!(pressure.bytes, limit - 1);
    }
}

#[test]
fn a_competitor_presses_and_nothing_is_left_of_it() {
    for kind in [SwapKind::File, SwapKind::Zram] {
        let folder = Folder::new();
        let Some(mut pressure) = prepared(plan(&folder, kind, 128 << 20)) else {
            continue;
        };
        let mut competition = pressure.compete().expect("it competes");
        assert!(competition.waited >= Duration::from_secs(1));
        // The limit holds for its page tables as well; the program's own pages are not charged to it.
        let kib = LIMIT / 1024;
        assert!(
            (kib / 2..kib * 2).contains(&competition.resident_kib),
            "{}",
            competition.resident_kib
        );
        assert!(
            measured(&pressure, 2 * LIMIT).expect("there is swap") > 0,
            "{kind:?}"
        );
        assert_eq!(competition.check(), Ok(()));
        assert_eq!(competition.oom_kills(), Ok(0));
        let process = competition.competitor.process();
        let group = pressure
            .group
            .as_ref()
            .expect("there is one")
            .path()
            .to_owned();
        // In the wrong order: the group is emptied all the same.
        drop(pressure);
        assert!(!group.exists());
        drop(competition);
        assert!(!Path::new(&format!("/proc/{process}")).exists());
        assert_eq!(
            std::fs::read_dir(&folder.0)
                .expect("the folder can be listed")
                .count(),
            0
        );
        assert!(!swaps().contains(&folder.0.display().to_string()));
    }
}

fn swaps() -> String {
    std::fs::read_to_string("/proc/swaps").expect("the file can be read")
}

/// Why a competitor ended that was killed: it is dead only after a while.
fn end_of(competition: &mut Competition) -> Failure {
    let latest = Instant::now() + PATIENCE;
    loop {
        match competition.check() {
            Ok(()) => assert!(Instant::now() < latest, "it lives"),
            Err(failure) => return failure,
        }
    }
}

#[test]
fn a_competitor_that_the_kernel_killed_is_reported_and_another_can_follow() {
    let folder = Folder::new();
    let Some(mut pressure) = prepared(plan(&folder, SwapKind::File, 1 << 20)) else {
        return;
    };
    for _ in 0..2 {
        let mut competition = match pressure.compete() {
            Ok(competition) => competition,
            // Its page tables may have been too much already.
            Err(failure) => {
                assert!(
                    failure.to_string().contains("for want of memory"),
                    "{failure}"
                );
                continue;
            }
        };
        measured(&pressure, 4 * LIMIT);
        let failure = end_of(&mut competition);
        assert!(
            failure.to_string().contains("for want of memory"),
            "{failure}"
        );
        assert!(competition.oom_kills().expect("the kernel reports it") > 0);
    }
}

#[test]
fn a_competitor_killed_by_somebody_is_not_the_kernels() {
    let folder = Folder::new();
    let Some(mut pressure) = prepared(plan(&folder, SwapKind::Auto, 64 << 20)) else {
        return;
    };
    let mut competition = pressure.compete().expect("it competes");
    nix::sys::signal::kill(competition.competitor.process(), Signal::SIGKILL).expect("it lives");
    let failure = end_of(&mut competition);
    assert!(
        failure.to_string().contains("not for want of memory"),
        "{failure}"
    );
}

#[test]
fn swap_that_cannot_be_is_refused_with_a_remedy_and_nothing_left() {
    let shared = Path::new("/dev/shm");
    for (kind, bytes, directory) in [
        (SwapKind::File, 1 << 20, shared),
        (SwapKind::File, 1 << 50, Path::new("/var/tmp")),
        (SwapKind::Zram, 1 << 50, Path::new("/var/tmp")),
        (SwapKind::File, 1 << 20, Path::new("/nowhere")),
    ] {
        let failure = swap_for(kind, bytes, directory).expect_err("it cannot be");
        assert!(
            matches!(
                failure,
                Failure::Unavailable {
                    remedy: Some(_),
                    ..
                }
            ),
            "{failure}"
        );
    }
    let ours = format!("{}{}-", resource::FILE_PREFIX, std::process::id());
    for entry in std::fs::read_dir(shared).expect("the folder can be listed") {
        let name = entry.expect("the kernel reports it").file_name();
        assert!(!name.to_string_lossy().starts_with(&ours), "{name:?}");
    }
    assert!(matches!(
        swap_for(SwapKind::File, 4096, Path::new("/var/tmp")),
        Err(Failure::Request { .. })
    ));
}

#[test]
fn a_file_of_that_name_that_another_made_stays() {
    let folder = Folder::new();
    // Other tests of this process may take numbers as well.
    for number in 0..64 {
        let name = format!("{}{}-{number}", resource::FILE_PREFIX, std::process::id());
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        options.open(folder.0.join(name)).expect("a new file");
    }
    let failure = swap_for(SwapKind::File, 1 << 20, &folder.0).expect_err("the file is there");
    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
    let left = std::fs::read_dir(&folder.0).expect("a folder of ours");
    assert_eq!(left.count(), 64);
}

#[test]
fn memory_takes_no_swap_file_so_that_auto_is_zram_and_says_why() {
    match swap_for(SwapKind::Auto, 1 << 20, Path::new("/dev/shm")) {
        Err(Failure::Unavailable { message, .. }) => eprintln!("skipped: {message}"),
        other => {
            let swap = other.expect("there is zram");
            assert!(!swap.is_file());
            assert!(swap.note().contains("since"), "{}", swap.note());
            assert!(swap.note().contains("/dev/shm"), "{}", swap.note());
        }
    }
}

#[test]
fn the_competitor_leaves_the_measured_cpu_where_it_can() {
    assert_eq!(competitor_cpus(Some(3), &[1, 3, 5]), (vec![1, 5], None));
    assert_eq!(competitor_cpus(None, &[1, 3]).0, [1, 3]);
    let (cpus, note) = competitor_cpus(Some(3), &[3]);
    assert_eq!(cpus, [3]);
    assert!(note.is_some());
}

/// Not a test: the process that the next one kills. It says when it competes, and waits for its end.
#[test]
#[ignore = "it is run by another test, which kills it"]
fn victim() {
    let Some(folder) = std::env::var_os("OSCOPE_TEST_FOLDER") else {
        return;
    };
    let kind = match std::env::var("OSCOPE_TEST_SWAP").as_deref() {
        Ok("zram") => SwapKind::Zram,
        _ => SwapKind::File,
    };
    let folder = Folder(folder.into());
    let _setting = without_readahead().expect("it can be set");
    let mut pressure = prepared(plan(&folder, kind, 64 << 20)).expect("it could be before");
    let competition = pressure.compete().expect("it competes");
    measured(&pressure, 2 * LIMIT).expect("there is swap");
    let mut output = std::io::stdout();
    writeln!(output, "\ncompetes {}", competition.competitor.process()).expect("it is read");
    output.flush().expect("it is read");
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_kill_leaves_nothing_once_restored() {
    for (kind, name) in [(SwapKind::File, "file"), (SwapKind::Zram, "zram")] {
        let folder = Folder::new();
        let state = Folder::new();
        if prepared(plan(&folder, kind, 64 << 20)).is_none() {
            continue;
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("the file can be read");
        let (mut child, competitor) = start_victim(&folder, &state, name);
        let directory = state.0.join("made");
        let things = entries(&directory);
        assert!(things.len() >= 3, "{things:?}");
        assert_eq!(restored(&directory), (vec![], true), "it lives");
        child.kill().expect("it lives");
        child.wait().expect("it ended");
        restores(&directory);
        gone(&things);
        let ended = |process| nix::sys::signal::kill(Pid::from_raw(process), None).is_err();
        let latest = Instant::now() + PATIENCE;
        while !ended(competitor) {
            assert!(Instant::now() < latest, "the competitor lives");
            std::thread::sleep(Duration::from_millis(10));
        }
        for left in [&directory, &folder.0] {
            assert_eq!(
                std::fs::read_dir(left)
                    .expect("the folder can be listed")
                    .count(),
                0
            );
        }
        assert_eq!(restored(&directory), (vec![], true));
        assert_eq!(
            std::fs::read_to_string("/proc/self/mountinfo").expect("the file can be read"),
            mounts
        );
    }
}

/// Start the victim, and wait until it competes: it, and its competitor's number.
fn start_victim(folder: &Folder, state: &Folder, kind: &str) -> (Child, i32) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "pressure::tests::victim",
            "--ignored",
            "--nocapture",
        ])
        .env("OSCOPE_STATE", &state.0)
        .env("OSCOPE_TEST_FOLDER", &folder.0)
        .env("OSCOPE_TEST_SWAP", kind)
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it starts");
    let output = child.stdout.take().expect("piped");
    let competitor = std::io::BufRead::lines(std::io::BufReader::new(output))
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("competes ")?.parse::<i32>().ok())
        .expect("it competes");
    (child, competitor)
}

/// Panics unless all that a dead process left is undone and reported.
fn restores(directory: &Path) {
    let (reported, clean) = restored(directory);
    assert!(clean, "{reported:?}");
    let reported: Vec<_> = reported
        .iter()
        .map(|line| line["restored"].as_str().expect("all went well"))
        .collect();
    for kind in ["control group", "swap on"] {
        assert!(
            reported.iter().any(|line| line.starts_with(kind)),
            "{reported:?}"
        );
    }
}

/// What the one journal in a directory names.
fn entries(directory: &Path) -> Vec<resource::Resource> {
    let journal = std::fs::read_dir(directory)
        .expect("the folder can be listed")
        .next();
    let text =
        std::fs::read_to_string(journal.expect("one").expect("the kernel reports it").path());
    let text = text.expect("it can be read");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .filter_map(|line| serde_json::from_value(line["made"][1].clone()).ok())
        .collect()
}

/// Panics if any of these is still there.
fn gone(things: &[resource::Resource]) {
    for thing in things {
        match thing {
            resource::Resource::File { path }
            | resource::Resource::Folder { path }
            | resource::Resource::Group { path } => {
                assert!(!path.exists(), "{thing}");
            }
            resource::Resource::Swap { path, .. } => {
                let used = swap_area::used_kib(path).expect("the kernel reports it");
                // A later device may have the number, by another test.
                assert!(used.is_none() || path.starts_with("/dev"), "{thing}");
            }
            resource::Resource::Zram { device, .. } => {
                let Some(device) = device else { continue };
                let now = resource::sequence(device.number).expect("the kernel reports it");
                assert_ne!(now, Some(device.sequence), "{thing}");
            }
            // Other tests set it as well: the journal's end shows whether this one's remains.
            resource::Resource::Setting { .. }
            | resource::Resource::Module { .. }
            | resource::Resource::Affinity { .. } => {}
        }
    }
}
