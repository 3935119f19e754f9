//! A session: hello, then requests until the input ends or a signal comes.

use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crate::clock::ClockKind;
use crate::clock::offsets::Offsets;
use crate::covariates;
use crate::environment;
use crate::harness::{Instrument, Outcome};
use crate::input::Lines;
use crate::protocol::{self, Asked, Event, Probe, Request, SCHEMA};
use crate::registry;
use crate::self_check::SelfCheck;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The input ended, or a signal came.
    Over,
    /// A fresh process was asked for, which is to resume the input, and to execute this build of the probe; `None` is
    /// the same build.
    Renewal(Option<PathBuf>),
}

/// Greet with what is known of this machine, and serve requests from `lines`, answering on `output`.
///
/// # Errors
/// The error of [`Lines::next_line`], or that of writing to `output`, such as `EPIPE`.
pub fn serve(
    instrument: &Instrument,
    environment: &serde_json::Value,
    lines: &mut Lines,
    output: &mut impl Write,
) -> io::Result<End> {
    let mut sink = Sink {
        output,
        // Output makes the console interrupt the guest later, in the middle of a repetition.
        holds: instrument.clock.kind == ClockKind::Instructions,
        held: Vec::new(),
        broken: None,
    };
    sink.emit(Event::Hello {
        schema: SCHEMA,
        probe: Probe::this(),
        pid: std::process::id(),
        renews: instrument.clock.kind != ClockKind::Instructions,
        renews_into: instrument.clock.kind != ClockKind::Instructions,
        environment: environment.clone(),
    });
    while sink.broken.is_none() {
        let Some(line) = lines.next_line()? else {
            break;
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match protocol::parse(&line) {
            Ok(Asked::Request(request)) => answer(&request, instrument, &mut sink),
            Ok(Asked::Renewal(program)) => return Ok(End::Renewal(program)),
            Err(refused) => sink.emit(refused.into()),
        }
    }
    sink.broken.map_or(Ok(End::Over), Err)
}

/// The environment record of this machine, with the TSC offsets if there was an attempt to measure them.
pub fn environment(
    instrument: &Instrument,
    offsets: Option<Result<Offsets, Failure>>,
) -> serde_json::Value {
    let check = serde_json::json!(SelfCheck::of(&instrument.clock));
    let offsets = offsets.map(|measured| {
        measured
            .map(|offsets| serde_json::json!(offsets))
            .map_err(|failure| failure.to_string())
    });
    environment::record(
        &instrument.clock,
        &instrument.counters,
        check,
        offsets,
        covariates::unavailable(),
    )
}

/// Do one request; whatever happens, it ends with one `done` or one `error`.
fn answer<W: Write>(request: &Request, instrument: &Instrument, sink: &mut Sink<W>) {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let entry = registry::find(&request.workload)?;
        (entry.run)(request, instrument, &mut |event| sink.emit(event))
    }));
    let outcome = attempt.unwrap_or_else(|panic| Err(Failure::failed(words_of(&*panic))));
    sink.emit(match outcome {
        Ok(Outcome {
            samples,
            iterations,
            interrupted,
        }) => Event::Done {
            request: request.id,
            samples,
            iterations,
            interrupted,
        },
        Err(failure) => Event::of_failure(request.id, failure),
    });
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "the probe panicked: {}",
        words.unwrap_or("without a message")
    )
}

/// Writes events. Once the reader is gone there is nobody to measure for, so the request under way is given up.
struct Sink<W> {
    output: W,
    /// Whether samples and notes wait for the end of their request.
    holds: bool,
    /// Lines that wait.
    held: Vec<u8>,
    broken: Option<io::Error>,
}

impl<W: Write> Sink<W> {
    fn emit(&mut self, event: Event) {
        if self.broken.is_some() {
            return;
        }
        let waits = self.holds && matches!(event, Event::Sample(_) | Event::Note { .. });
        let written = serde_json::to_vec(&event).map_err(io::Error::from);
        let sent = written.and_then(|line| {
            self.held.extend_from_slice(&line);
            self.held.push(b'\n');
            if waits {
                return Ok(());
            }
            self.output.write_all(&self.held)?;
            self.held.clear();
            self.output.flush()
        });
        if let Err(error) = sent {
            cancel::request();
            self.broken = Some(error);
        }
    }
}
