//! Answers the requests of one process.

use crate::declared::{Levels, SCHEMA, Trouble, build};
use crate::machine::{
    Clock, Pinned, counters, difference, ended, heed_signals, now_ns, oscope_region_begin, oscope_region_end,
    set_idle,
};
use crate::Workload;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, FromRawFd};

const MOST_ITERATIONS: u64 = 1 << 40;

/// Why a request is not carried out.
struct Refused {
    kind: &'static str,
    field: Option<String>,
    message: String,
    remedy: Option<String>,
}

impl Refused {
    fn request(field: &str, message: String) -> Self {
        Self { kind: "request", field: Some(field.to_owned()), message, remedy: None }
    }
}

impl From<Trouble> for Refused {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unavailable { reason, remedy } => {
                Self { kind: "unavailable", field: None, message: reason, remedy }
            }
            Trouble::Failed(message) => Self { kind: "failed", field: None, message, remedy: None },
        }
    }
}

struct Server {
    out: File,
    clock: Clock,
}

/// Answers requests until standard input ends, or a signal comes.
pub fn serve(workloads: &mut [&mut dyn Workload]) -> io::Result<()> {
    // What a workload prints must not get among the answers.
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // SAFETY: both numbers are open descriptors of this process.
    if unsafe { libc::dup2(2, 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    heed_signals();
    let mut server = Server { out, clock: Clock::calibrate() };
    server.greet()?;
    // SAFETY: standard input is open, and nothing else reads or closes it.
    let mut input = Lines { file: unsafe { File::from_raw_fd(0) }, unread: Vec::new() };
    loop {
        set_idle(true);
        let line = input.next()?;
        set_idle(false);
        let Some(line) = line else { break };
        let request: Value = serde_json::from_slice(&line)?;
        let id = request["id"].clone();
        if let Err(refused) = server.answer(&id, &request, workloads)? {
            server.say(&json!({"event": "error", "request": id, "kind": refused.kind, "field": refused.field,
                               "message": refused.message, "remedy": refused.remedy}))?;
        }
    }
    Ok(())
}

/// Lines of a file; they end once a signal has come.
struct Lines {
    file: File,
    unread: Vec<u8>,
}

impl Lines {
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while !ended() {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            let mut chunk = [0; 4096];
            match self.file.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Server {
    fn say(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(format!("{event}\n").as_bytes())
    }

    fn greet(&mut self) -> io::Result<()> {
        let clock = json!({
            "kind": "monotonic_raw", "hz": 1e9, "overhead": self.clock.overhead,
            "overhead_mad": self.clock.deviation, "why": "a workload program of the Rust kit reads it",
        });
        self.say(&json!({"event": "hello", "schema": SCHEMA, "probe": build(), "pid": std::process::id(),
                         "environment": {"clock": clock}}))
    }

    fn answer(
        &mut self,
        id: &Value,
        request: &Value,
        workloads: &mut [&mut dyn Workload],
    ) -> io::Result<Result<(), Refused>> {
        let name = request["workload"].as_str().unwrap_or_default();
        let Some(workload) = workloads.iter_mut().find(|each| each.name() == name) else {
            return Ok(Err(Refused::request("workload", format!("there is no workload {name}"))));
        };
        if !request["inject"].is_null() {
            return Ok(Err(Refused::request("inject", "the Rust kit injects no delay".to_owned())));
        }
        let levels = match Levels::new(&**workload, request.get("params")) {
            Ok(levels) => levels,
            Err(unknown) => {
                let message = format!("{name} has no parameter {unknown}");
                return Ok(Err(Refused::request(&unknown, message)));
            }
        };
        let _pinned = match Pinned::to(request["cpu"].as_i64()) {
            Ok(pinned) => pinned,
            Err(error) => return Ok(Err(Refused::request("cpu", format!("the CPU is not allowed: {error}")))),
        };
        let answer = match workload.prepare(&levels) {
            Ok(()) => self.measure(id, request, &mut **workload).map(Ok),
            Err(trouble) => Ok(Err(trouble.into())),
        };
        workload.cleanup();
        answer
    }

    /// Calibrates, warms up and takes the samples.
    fn measure(&mut self, id: &Value, request: &Value, workload: &mut dyn Workload) -> io::Result<()> {
        let least_ns = request["min_time_ns"].as_u64().unwrap_or(1_000_000);
        let iterations = request["iterations"].as_u64().unwrap_or_else(|| calibrate(workload, least_ns));
        let limit_s = request["time_limit_s"].as_f64();
        let begun = std::time::Instant::now();
        for _ in 0..request["warmup"].as_u64().unwrap_or(1) {
            let _ = repeat(workload, iterations, 0);
        }
        let reps = request["reps"].as_u64().unwrap_or(1);
        let mut taken = 0;
        while taken < reps && !ended() && limit_s.is_none_or(|limit| begun.elapsed().as_secs_f64() <= limit) {
            self.sample(id, taken, workload, iterations)?;
            taken += 1;
        }
        self.say(&json!({"event": "done", "request": id, "samples": taken, "iterations": iterations,
                         "interrupted": ended()}))
    }

    fn sample(&mut self, id: &Value, rep: u64, workload: &mut dyn Workload, iterations: u64) -> io::Result<()> {
        let started = now_ns(libc::CLOCK_REALTIME);
        let before = counters();
        let (raw, done) = repeat(workload, iterations, id.as_u64().unwrap_or(0));
        let covariates = difference(&before, &counters());
        let mut metrics = Map::new();
        let failed = match done {
            Ok(given) => {
                let time = (raw as f64 - self.clock.overhead) / iterations as f64;
                metrics.insert("time_ns".to_owned(), json!(time));
                for each in workload.metrics() {
                    let value = given.iter().find(|(name, _)| *name == each.name).map(|&(_, value)| value);
                    metrics.insert(each.name.to_owned(), json!(value));
                }
                None
            }
            Err(reason) => Some(reason),
        };
        self.say(&json!({"event": "sample", "request": id, "rep": rep, "started_ns": started, "raw": raw,
                         "iterations": iterations, "correction": self.clock.overhead, "metrics": metrics,
                         "covariates": covariates, "failed": failed}))
    }
}

type Checked = Result<Vec<(&'static str, f64)>, String>;

/// Takes one repetition; returns its time in ns, and what the check gave.
fn repeat(workload: &mut dyn Workload, iterations: u64, token: u64) -> (u64, Checked) {
    oscope_region_begin(token);
    let begun = now_ns(libc::CLOCK_MONOTONIC_RAW);
    let done = workload.iterate(iterations);
    let ended = now_ns(libc::CLOCK_MONOTONIC_RAW);
    oscope_region_end(token);
    (ended - begun, done.and_then(|()| workload.check()))
}

/// Returns how many iterations take `least_ns` in each of two trials, or much longer in one; at least one.
fn calibrate(workload: &mut dyn Workload, least_ns: u64) -> u64 {
    let mut iterations = 1;
    while iterations < MOST_ITERATIONS {
        let (mut raw, mut done) = repeat(workload, iterations, 0);
        // One trial may be long because something interrupted it; nothing does for a hundred times as long.
        if done.is_ok() && (least_ns..least_ns.saturating_mul(100)).contains(&raw) {
            let (again, checked) = repeat(workload, iterations, 0);
            (raw, done) = (raw.min(again), checked);
        }
        if raw >= least_ns || done.is_err() {
            break;
        }
        // Never more than tenfold: the first iterations may be slower than all others.
        let wanted = 1.0 + iterations as f64 * least_ns as f64 / raw.max(1) as f64;
        iterations = (wanted.min(10.0 * iterations as f64) as u64).max(iterations + 1);
    }
    iterations
}
