//! A probe over pipes, with a time limit on every answer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for an answer: far beyond any sound one.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The program under test: `cargo build --release` puts it into the folder above that of its tests.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("this program");
    let built = tests
        .ancestors()
        .nth(2)
        .map(|folder| folder.join("oscope-probe"));
    built
        .filter(|path| path.exists())
        .expect("cargo build --release has built oscope-probe")
}

/// A running probe, in a process group and a working folder of its own.
pub struct Probe {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    folder: PathBuf,
    /// The first line it said.
    pub hello: Value,
}

impl Probe {
    /// Start `oscope-probe run`.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Start `oscope-probe run` with further arguments.
    pub fn start_with(arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.arg("run").args(arguments);
        Self::start_by(command)
    }

    /// Start `oscope-probe run` with SIGCHLD ignored and all else blocked, which a process inherits.
    pub fn start_with_signals_off() -> Self {
        let mut command = Command::new(program());
        command.arg("run");
        // SAFETY: all three calls are async-signal-safe, and the set lives here.
        unsafe {
            command.pre_exec(|| {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                Ok(())
            });
        }
        Self::start_by(command)
    }

    /// Start `oscope-probe run` as the child of a shell, which is what [`Probe::signal`] then reaches.
    pub fn start_below_a_parent() -> Self {
        let mut shell = Command::new("sh");
        // A background process would have no standard input of its own.
        let script = "exec 3<&0; \"$0\" run <&3 & wait";
        shell.args(["-c", script]).arg(program());
        Self::start_by(shell)
    }

    fn start_by(mut command: Command) -> Self {
        let folder = fresh_folder();
        let mut child = command
            .current_dir(&folder)
            .env("TMPDIR", &folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the probe starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut probe = Self {
            input: child.stdin.take(),
            child,
            lines,
            folder,
            hello: Value::Null,
        };
        probe.hello = probe.event().expect("a hello");
        probe
    }

    /// Write a line.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{line}").expect("the probe reads");
    }

    /// The next event, checked against the schema; `None` once the output has ended.
    pub fn event(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let event = serde_json::from_str(&line).expect("JSON");
                fits_the_wire(&event);
                Some(event)
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("no answer in {PATIENCE:?}"),
        }
    }

    /// All events of one request, the last of which ends it.
    pub fn ask(&mut self, request: &Value) -> Vec<Value> {
        self.say(&request.to_string());
        let mut events = Vec::new();
        loop {
            let event = self.event().expect("an answer");
            let last = event["event"] == "done" || event["event"] == "error";
            events.push(event);
            if last {
                return events;
            }
        }
    }

    /// Send a signal to the process that was started, and to it alone.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: the child was not waited for yet, so the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Close the input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Wait for the end, and check that nothing is left: no process of its group, and no file, which a process outside
    /// of it may still be removing.
    pub fn ends_clean(mut self) -> ExitStatus {
        while self.event().is_some() {}
        let status = self.child.wait().expect("a status");
        let latest = Instant::now() + PATIENCE;
        while !members_of_group(self.child.id()).is_empty() {
            assert!(
                Instant::now() < latest,
                "left: {:?}",
                members_of_group(self.child.id())
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        loop {
            let left: Vec<_> = std::fs::read_dir(&self.folder)
                .expect("the folder")
                .collect();
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < latest, "left: {left:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_dir(&self.folder).expect("an empty folder goes");
        status
    }
}

/// A test that fails leaves no probe either, nor one whose parent it has killed.
impl Drop for Probe {
    fn drop(&mut self) {
        let Ok(group) = i32::try_from(self.child.id()) else {
            return;
        };
        if std::thread::panicking() {
            // SAFETY: the group was made for this probe; at worst it is gone.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

/// The probe's description.
pub fn description() -> Value {
    let output = Command::new(program())
        .arg("describe")
        .output()
        .expect("the probe starts");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Every workload's description.
pub fn workloads() -> Vec<Value> {
    description()["workloads"]
        .as_array()
        .expect("a list")
        .clone()
}

/// Bytes in whatever a short request has made or filled.
const SMALL: u64 = 1 << 20;

/// A short request: one repetition, no warm-up, the least calibration, the least durations, a small size and total.
pub fn short_request(workload: &Value) -> Value {
    let params: serde_json::Map<String, Value> = parameters(workload)
        .iter()
        .filter_map(|parameter| {
            let name = text(&parameter["name"]);
            match parameter["type"].as_str() {
                Some("duration") => Some((name, parameter["minimum"].clone())),
                Some("bytes") if name == "size" || name == "total" => {
                    let most = parameter["maximum"].as_u64().unwrap_or(SMALL);
                    Some((name, json!(most.min(SMALL))))
                }
                _ => None,
            }
        })
        .collect();
    json!({"id": 1, "workload": workload["name"], "params": params, "warmup": 0, "min_time_ns": 1000})
}

/// The parameters of a workload.
pub fn parameters(workload: &Value) -> Vec<Value> {
    workload["parameters"].as_array().expect("a list").clone()
}

/// A JSON text as text.
pub fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Panics unless `value` fits `wire.schema.json`.
pub fn fits_the_wire(value: &Value) {
    static SCHEMA: std::sync::LazyLock<jsonschema::Validator> = std::sync::LazyLock::new(|| {
        let schema = serde_json::from_str(include_str!("../../wire.schema.json")).expect("JSON");
        jsonschema::validator_for(&schema).expect("a schema")
    });
    if let Err(error) = SCHEMA.validate(value) {
        panic!("{error}\n{value:#}");
    }
}

/// Living processes of a process group, as `/proc/PID/stat` has them (proc_pid_stat(5): state is field 3, pgrp field
/// 5).
fn members_of_group(group: u32) -> Vec<String> {
    std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            let after_name = stat.rsplit(')').next().unwrap_or_default();
            let fields: Vec<&str> = after_name.split_whitespace().collect();
            fields.first() != Some(&"Z") && fields.get(2) == Some(&group.to_string().as_str())
        })
        .collect()
}

fn fresh_folder() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "probe-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
