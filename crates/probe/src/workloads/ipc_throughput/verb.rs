//! The verb `ipc`: one transfer with the options and the output of the original benchmark, and nothing beside it that a
//! tracer would show.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::transfer::{Check, Job};
use super::{IpcThroughput, Mode, Parameters, Preparation, SocketBuffer};
use crate::clock::{Clock, RequestedClock};
use crate::region::Region;
use crate::workload::{Context, Shared, Work, Workload};
use crate::workloads::ipc::channel::Kind;
use crate::workloads::ipc::placement::Placement;
use oscope_sys::affinity;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::machine::cpu::parse_size;

/// How long the machine is left alone after the sync.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a pause looks for a signal.
const LOOK: Duration = Duration::from_millis(100);
const BUFFERS: RangeInclusive<u64> = 1..=1 << 30;
const TOTALS: RangeInclusive<u64> = 1..=1 << 40;

/// Options of the verb `ipc`, named as the original's.
#[derive(Args)]
pub struct Arguments {
    /// One thread is both ends, or two threads of one process, or two processes.
    #[arg(value_enum, default_value = "1thread")]
    mode: Mode,
    /// Bare: no preparatory activities (sync, a second's pause), and the data are not checked.
    #[arg(short = 'B')]
    bare: bool,
    /// Quiet: print nothing but errors, also with -v.
    #[arg(short = 'q')]
    quiet: bool,
    /// Set the sockets' send and receive buffers to the buffer size.
    #[arg(short = 's')]
    sockbuf: bool,
    /// Print the configuration and the time as well.
    #[arg(short = 'v')]
    verbose: bool,
    /// Bytes of a block, such as 131072 or 128K.
    #[arg(
        short = 'b',
        value_name = "buffersize",
        default_value = "131072",
        value_parser = |text: &str| size(text, BUFFERS)
    )]
    buffer: u64,
    /// A pipe, or a pair of local sockets; the others are beyond the original.
    #[arg(
        short = 'i',
        value_name = "ipctype",
        value_enum,
        default_value = "pipe"
    )]
    channel: Kind,
    /// Bytes to transfer, such as 16777216 or 16M.
    #[arg(
        short = 't',
        value_name = "totalsize",
        default_value = "16777216",
        value_parser = |text: &str| size(text, TOTALS)
    )]
    total: u64,
}

fn size(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    parse_size(text)
        .filter(|bytes| range.contains(bytes))
        .ok_or_else(|| {
            format!(
                "bytes, {} to {}, such as 4096, 128K or 16M",
                range.start(),
                range.end()
            )
        })
}

/// Transfer once, and print as much as was asked for.
///
/// # Errors
/// Those of the workload's `prepare`, `run` and `verify`; `Failure::Failed` after a signal, or if standard output
/// cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    cancel::install()?;
    if !arguments.bare {
        come_to_rest()?;
    }
    let (time_s, notes) = transfer(arguments)?;
    if arguments.quiet {
        return Ok(());
    }
    for note in notes {
        eprintln!("oscope-probe: {note}");
    }
    io::stdout()
        .write_all(report(arguments, time_s).as_bytes())
        .map_err(|error| Failure::system("cannot write", error))
}

/// Have what is dirty written to the disks, and wait a second.
fn come_to_rest() -> Result<(), Failure> {
    nix::unistd::sync();
    for _ in 0..PAUSE.as_millis() / LOOK.as_millis() {
        if cancel::requested() {
            return Err(Failure::failed("interrupted by a signal"));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// The seconds that the transfer took, and notes on it.
fn transfer(arguments: &Arguments) -> Result<(f64, Vec<String>), Failure> {
    let clock = Clock::open(RequestedClock::Auto)?;
    let (allowed, shared) = (affinity::allowed()?, Shared::default());
    let context = Context::new(&clock, None, &allowed, &shared);
    let parameters = Parameters {
        channel: arguments.channel,
        mode: arguments.mode,
        buffer: arguments.buffer,
        total: arguments.total,
        sockbuf: match arguments.sockbuf {
            true => SocketBuffer::Buffer,
            false => SocketBuffer::Default,
        },
        placement: Placement::Free,
        check: match arguments.bare {
            true => Check::None,
            false => Check::Ends,
        },
    };
    let mut prepared = IpcThroughput::connect(parameters, &context, Preparation::None, |_| ())?;
    let mut region = Region::new(&clock);
    let job: Job = prepared.job;
    prepared.transfer(job, &mut region)?;
    prepared.verify(&Work::default())?;
    let time_s = clock.nanoseconds(region.corrected()?) / 1e9;
    match time_s > 0.0 {
        true => Ok((time_s, prepared.notes.clone())),
        false => Err(Failure::failed(
            "the transfer took no longer than reading the clock: ask for a larger total",
        )),
    }
}

/// What the original prints; its KByte has 1024 bytes.
fn report(arguments: &Arguments, time_s: f64) -> String {
    let Arguments {
        buffer,
        total,
        mode,
        channel,
        ..
    } = arguments;
    let rate = format!("{:.2} KBytes/sec\n", *total as f64 / 1024.0 / time_s);
    if !arguments.verbose {
        return rate;
    }
    format!(
        "Benchmark configuration:\n  \
            buffersize: {buffer}\n  \
            totalsize: {total}\n  \
            blockcount: {}\n  \
            mode: {}\n  \
            ipctype: {}\n  \
            time: {time_s:.9}\n\
            {rate}",
        total.div_ceil(*buffer),
        name(mode),
        name(channel),
    )
}

/// A choice as it is written on the command line.
fn name(choice: &impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(words: &[&str]) -> Result<Arguments, clap::Error> {
        Command::try_parse_from([&["ipc"], words].concat()).map(|command| command.arguments)
    }

    #[test]
    fn defaults_and_output_are_the_originals() {
        let arguments = parsed(&["-v"]).expect("they are right");
        assert_eq!(
            report(&arguments, 0.033_753_791),
            "Benchmark configuration:\n  \
                buffersize: 131072\n  \
                totalsize: 16777216\n  \
                blockcount: 128\n  \
                mode: 1thread\n  \
                ipctype: pipe\n  \
                time: 0.033753791\n\
                485397.33 KBytes/sec\n"
        );
    }

    #[test]
    fn options_are_combined_as_the_originals() {
        let arguments = parsed(&["-Bqsv", "-b", "4K", "-i", "local", "-t", "10000", "2proc"])
            .expect("they are right");
        assert!(arguments.bare && arguments.quiet && arguments.sockbuf && arguments.verbose);
        assert!(
            report(&arguments, 1.0).contains("  blockcount: 3\n  mode: 2proc\n  ipctype: local\n")
        );
    }

    #[test]
    fn wrong_values_are_refused() {
        for words in [
            &["-b", "0"][..],
            &["-b", "2G"],
            &["-t", "x"],
            &["-i", "fifo"],
            &["3thread"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_transfer_moves_everything_in_every_mode() {
        for mode in ["1thread", "2thread", "2proc"] {
            for words in [&["-B"][..], &["-s", "-i", "local"]] {
                let words = [words, &["-t", "1M", mode]].concat();
                let (time_s, _) =
                    transfer(&parsed(&words).expect("they are right")).expect("it runs");
                assert!(time_s > 0.0);
            }
        }
    }
}
