//! The verbs `send` and `receive`: the engine behind `oscope transfer`, one JSON object a line on standard output.

mod receiving;
mod sending;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::arguments::{ReceiveArguments, SendArguments};
use super::observer::{Event, JsonLines, Observer};
use super::options::{DEFAULT_CHUNK, chunk, limit};
use crate::device::session::Options as DeviceOptions;
use crate::device::verb::Verb as DeviceVerb;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
pub use receiving::Receiving;
pub use sending::Sending;

/// What only the verbs take, not `oscope transfer`.
#[derive(Args)]
pub struct EngineArguments {
    /// Bytes moved by one call at most; four times as many where it needs no buffer.
    #[arg(long, default_value_t = DEFAULT_CHUNK, value_parser = chunk)]
    chunk: usize,
    /// Report every file at the end.
    #[arg(long)]
    list: bool,
}

impl Default for EngineArguments {
    fn default() -> Self {
        Self {
            chunk: DEFAULT_CHUNK,
            list: false,
        }
    }
}

/// The verb `send`.
#[derive(Args)]
pub struct SendVerb {
    #[command(flatten)]
    arguments: SendArguments,
    #[command(flatten)]
    engine: EngineArguments,
    /// How long connecting may take.
    #[arg(long, value_name = "T", default_value = "10s", value_parser = |text: &str| limit("--connect-limit", text))]
    connect_limit: Duration,
    /// Where a receiver listens; with --device, where to listen for it.
    #[arg(value_name = "ADDR:PORT")]
    address: String,
    /// Files, and folders with all that is below them.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// The verb `receive`.
#[derive(Args)]
pub struct ReceiveVerb {
    #[command(flatten)]
    arguments: ReceiveArguments,
    #[command(flatten)]
    engine: EngineArguments,
    /// The folder that the files go to.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// Run the verb `send`.
pub fn run_send(verb: &SendVerb) -> ExitCode {
    let sending = Sending {
        files: &verb.files,
        address: &verb.address,
        arguments: &verb.arguments,
        engine: &verb.engine,
        connect_limit: verb.connect_limit,
        observer: &JsonLines,
    };
    ended(cancel::install().and_then(|()| sending.run()))
}

/// Run the verb `receive`.
pub fn run_receive(verb: &ReceiveVerb) -> ExitCode {
    let receiving = Receiving {
        into: &verb.into,
        // The verb takes one that is there.
        make_folder: |_| Ok(()),
        arguments: &verb.arguments,
        engine: &verb.engine,
        observer: &JsonLines,
    };
    ended(cancel::install().and_then(|()| receiving.run().map(|()| true)))
}

/// The exit status, by whether all is done.
fn ended(result: Result<bool, Failure>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            JsonLines.hear(Event::Failed(&error));
            ExitCode::from(if error.is_request() { 2 } else { 1 })
        }
    }
}

/// What only the engine can do is refused beside a device, not passed over.
fn device_verb<'a>(
    options: DeviceOptions,
    engine: &EngineArguments,
    observer: &'a dyn Observer,
) -> Result<DeviceVerb<'a>, Failure> {
    match engine.chunk {
        DEFAULT_CHUNK => Ok(DeviceVerb {
            options,
            list: engine.list,
            observer,
        }),
        _ => Err(
            Failure::usage("--chunk is not for a transfer by --device as it is given")
                .with_remedy("leave it out"),
        ),
    }
}
