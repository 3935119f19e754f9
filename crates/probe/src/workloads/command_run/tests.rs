//! Truth of `command.run`: what programs are reported to use is what they used.

use std::io::Read;
use std::os::fd::AsRawFd;

use super::launch::Launcher;
use super::parameters::Parameters;
use super::program::Program;
use super::worker::Worker;
use crate::clock::{Clock, RequestedClock};
use crate::description::Describe;
use crate::parameters::complete;
use crate::region::Region;
use crate::workload::{Context, Shared, Workload};
use oscope_sys::error::Failure;
use serde_json::{Map, Value, json};

const MIB: f64 = (1 << 20) as f64;

fn parameters(given: Value) -> Parameters {
    let given: Map<String, Value> = serde_json::from_value(given).expect("it is an object");
    let all = complete(&given, &Parameters::parameters()).expect("they are right");
    serde_json::from_value(Value::Object(all)).expect("they are complete")
}

/// Run a shell's command line, and give what it used and said.
fn run(line: &str, given: Value) -> Result<(super::Ended, String), Failure> {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = oscope_sys::affinity::allowed().expect("they are known");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let launcher = Launcher::new(&parameters(given), &context)?;
    let program = Program::named("/bin/sh", &["sh".into(), "-c".into(), line.into()])?;
    let mut region = Region::new(&clock);
    let (ended, said, _) =
        Worker::fork(&launcher, &program, &region)?.run(&program, &mut region)?;
    Ok((ended, said))
}

#[test]
fn a_small_program_after_a_large_one_has_its_own_resident_set() {
    let (large, _) = run(
        "exec head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null",
        json!({}),
    )
    .expect("it runs");
    let (small, _) = run("exec true", json!({})).expect("it runs");
    assert!(large.usage.max_rss_bytes > 280.0 * MIB, "{large:?}");
    // The launcher is a fork of this test program, in which other tests may have memory at the same time.
    assert!(small.usage.max_rss_bytes < 150.0 * MIB, "{small:?}");
}

#[test]
fn a_program_that_is_no_larger_than_its_launcher_has_no_resident_set() {
    let (small, _) = run("exec true", json!({})).expect("it runs");
    assert!(small.launcher_rss_bytes > 0.0, "{small:?}");
    assert_eq!(small.max_rss_bytes(), None, "{small:?}");
    let (large, _) = run(
        "exec head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null",
        json!({}),
    )
    .expect("it runs");
    assert_eq!(large.max_rss_bytes(), Some(large.usage.max_rss_bytes));
}

#[test]
fn a_launcher_runs_a_program_again_and_again_and_keeps_nothing_of_a_run() {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = oscope_sys::affinity::allowed().expect("they are known");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let launcher = Launcher::new(&parameters(json!({})), &context).expect("it is made");
    let line = "echo $$ >&2; sleep 1000 & exit 2";
    let program = Program::named("/bin/sh", &["sh".into(), "-c".into(), line.into()])
        .expect("the path is absolute");
    let mut worker =
        Worker::fork(&launcher, &program, &Region::new(&clock)).expect("a process can be made");
    let mut processes = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let mut region = Region::new(&clock);
        let (ended, said, left) = worker.run(&program, &mut region).expect("it runs");
        assert!(region.raw().is_ok());
        assert_eq!(ended.exit_code(), 2.0);
        assert!(left.expect("it left one").contains("left processes behind"));
        processes.insert(said.parse::<u32>().expect("it said its number alone"));
    }
    assert_eq!(processes.len(), 3);
    let launcher = worker.process();
    drop(worker);
    assert!(!std::path::Path::new(&format!("/proc/{launcher}")).exists());
}

#[test]
fn time_bytes_and_exit_code_are_the_programs() {
    let (ended, _) =
        run("head -c 1000000 /dev/zero >/dev/null; exit 3", json!({})).expect("it runs");
    assert_eq!(ended.exit_code(), 3.0);
    let bytes = ended.accounts.bytes().expect("this kernel accounts them");
    assert!((1e6..1.2e6).contains(&bytes.read), "{bytes:?}");
    assert!((1e6..1.01e6).contains(&bytes.written), "{bytes:?}");
    let (busy, _) = run(
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done",
        json!({}),
    )
    .expect("it runs");
    assert!(busy.usage.user_ns > 5e6, "{busy:?}");
}

#[test]
fn how_it_failed_is_reported_with_its_last_lines() {
    let (ended, said) = run("echo one >&2; echo two >&2; exit 7", json!({})).expect("it runs");
    let failure = ended
        .judge(&said, false, 1.0)
        .expect_err("it failed")
        .to_string();
    assert_eq!(
        failure,
        "the command ended with exit code 7; it said: one | two"
    );
    assert!(ended.judge(&said, true, 1.0).is_ok());
    let (ended, said) = run("kill -SEGV $$", json!({})).expect("it runs");
    let failure = ended
        .judge(&said, false, 1.0)
        .expect_err("it failed")
        .to_string();
    assert!(failure.contains("killed by SIGSEGV"), "{failure}");
    assert_eq!(ended.exit_code(), 139.0);
}

#[test]
fn one_that_hangs_is_killed_with_its_children() {
    let (ended, said) =
        run("sleep 1000 & sleep 1000; true", json!({"timeout": 0.2})).expect("it runs");
    let failure = ended
        .judge(&said, true, 0.2)
        .expect_err("it timed out")
        .to_string();
    assert!(failure.contains("0.2 s"), "{failure}");
}

#[test]
fn a_preparation_that_closes_its_standard_error_and_hangs_is_killed_with_its_children() {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = oscope_sys::affinity::allowed().expect("they are known");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let launcher = Launcher::new(&parameters(json!({"timeout": 2})), &context);
    let (mut reader, writer) = oscope_sys::testing::pipe();
    // Whoever lives of it holds the pipe open.
    let path = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
    let line = format!("exec 2>/dev/null 9>{path}; echo >&9; sleep 1000; true");
    let program =
        Program::named("/bin/sh", &["sh".into(), "-c".into(), line]).expect("the path is absolute");
    let failure = launcher
        .expect("it is made")
        .run_aside("--prepare", &program, || false)
        .expect_err("it timed out")
        .to_string();
    assert!(
        failure.contains("--prepare /bin/sh: the command did not end within 2 s"),
        "{failure}"
    );
    drop(writer);
    let mut said = String::new();
    reader
        .read_to_string(&mut said)
        .expect("nobody writes any more");
    assert_eq!(said, "\n");
}

#[test]
fn what_a_program_left_behind_does_not_make_the_launcher_larger() {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = oscope_sys::affinity::allowed().expect("they are known");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let launcher = Launcher::new(&parameters(json!({})), &context).expect("it is made");
    let line = "sleep 1000 & exec true";
    let program = Program::named("/bin/sh", &["sh".into(), "-c".into(), line.into()])
        .expect("the path is absolute");
    let mut worker =
        Worker::fork(&launcher, &program, &Region::new(&clock)).expect("a process can be made");
    let mut size_b = || {
        let (ended, _, left) = worker
            .run(&program, &mut Region::new(&clock))
            .expect("it runs");
        assert!(left.is_some());
        ended.usage.max_rss_bytes
    };
    let sizes_b = [size_b(), size_b(), size_b(), size_b()];
    let largest_b = sizes_b.into_iter().fold(0.0, f64::max);
    assert!(largest_b < sizes_b[0] + 0.25 * MIB, "{sizes_b:?}");
}

#[test]
fn a_fifo_for_the_output_is_opened_once_a_run() {
    let fifo = std::env::temp_dir().join(format!("oscope-output-{}", std::process::id()));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO can be made");
    let path = fifo.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(path));
    let ended = run("echo all", json!({"timeout": 5, "output": fifo}));
    let said = reader.join().expect("it does not panic");
    std::fs::remove_file(&fifo).expect("the file can be removed");
    assert_eq!(said.expect("it can be read"), "all\n");
    ended.expect("it runs");
}

#[test]
fn a_run_whose_input_cannot_be_opened_in_time_is_given_up() {
    let fifo = std::env::temp_dir().join(format!("oscope-fifo-{}", std::process::id()));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO can be made");
    let ended = run("true", json!({"timeout": 0.1, "input": fifo}));
    std::fs::remove_file(&fifo).expect("the file can be removed");
    let failure = ended.expect_err("nobody writes to it").to_string();
    assert!(
        failure.contains("was not started in time: opening its --input"),
        "{failure}"
    );
}

#[test]
fn much_on_standard_error_does_not_stop_it() {
    let (ended, said) = run(
        "head -c 50000000 /dev/zero | tr '\\0' x >&2; echo end >&2",
        json!({}),
    )
    .expect("it runs");
    assert_eq!(ended.exit_code(), 0.0);
    assert!(said.ends_with("xend"), "{said}");
}

#[test]
fn arguments_folder_and_variables_arrive_as_they_are() {
    let given = json!({"folder": "/usr", "environment": ["ODD= a'b\"$c ", "PATH=/bin:/usr/bin"]});
    let line = "[ \"$(pwd)\" = /usr ] && [ \"$ODD\" = \" a'b\\\"\\$c \" ] && [ \"$PATH\" = /bin:/usr/bin ] && read -r \
        x; [ $? = 1 ]";
    let (ended, said) = run(line, given).expect("it runs");
    assert_eq!((ended.exit_code(), said.as_str()), (0.0, ""));
}

#[test]
fn what_cannot_be_executed_is_reported_in_a_line() {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = oscope_sys::affinity::allowed().expect("they are known");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let launcher = Launcher::new(&parameters(json!({})), &context).expect("it is made");
    for (path, word) in [
        ("/nonexistent", "No such file"),
        ("/etc/passwd", "ermission denied"),
        ("/etc", "ermission denied"),
    ] {
        let program = Program::named(path, &["x".to_owned()]).expect("the path is absolute");
        let mut region = Region::new(&clock);
        let failure = Worker::fork(&launcher, &program, &region)
            .expect("a process can be made")
            .run(&program, &mut region)
            .expect_err("it is no program");
        assert!(failure.to_string().contains(word), "{failure}");
    }
    for (parameter, value) in [("environment", json!(["=x"])), ("cpu", json!("cpu:9999"))] {
        let refused = Launcher::new(&parameters(json!({ parameter: value })), &context);
        assert!(
            matches!(refused.err(), Some(Failure::Request { field, .. }) if field == parameter)
        );
    }
}

#[test]
fn every_metric_is_described_once() {
    let names: std::collections::BTreeSet<_> = super::CommandRun::describe()
        .metrics
        .iter()
        .map(|metric| metric.name)
        .collect();
    assert_eq!(names.len(), super::CommandRun::describe().metrics.len());
}
