//! `oscope transfer` at a terminal: its command line, its errors, and its description. Standard output is data,
//! standard error is for people. Exit status: 0 done, 1 failed, 2 usage.

mod bar;
mod figures;
mod output;
mod screen;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};

use super::arguments::{ReceiveArguments, SendArguments, address};
use super::verbs::{EngineArguments, Receiving, Sending};
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use output::Output;
use screen::{Screen, Side, Streams};

const NAME: &str = "oscope transfer";
const FILES: &str = "Files, and folders whole";
const ADDRESS: &str = "Where the receiver listens; with --device, where to listen for it";
const FILES_THEN_ADDRESS: &str = "Files, and folders whole; last, where the receiver listens (with --device, where to \
    listen for it)";
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Send files to a host where `oscope transfer receive` runs, each verified before it has its name.
///
/// Both sides have a key, and every byte is authenticated and encrypted with it:
/// Noise NNpsk0, AES-256-GCM. With --trusted-network there is no key, and nothing
/// is encrypted.
#[derive(Parser)]
#[command(name = NAME, bin_name = NAME, disable_help_subcommand = true, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Receive files into a folder.
    ///
    /// One transfer after the other. A file has its name only once it is whole and
    /// verified; nothing is written outside the folder. What an interrupted transfer
    /// has left is resumed when the sender tries again.
    ///
    /// Only who has the key may send, and everything is encrypted. With a key --once
    /// waits for a transfer that succeeds. By default only this machine can connect
    /// (127.0.0.1).
    ///
    /// With --trusted-network nothing is encrypted: from this machine the user who
    /// receives and root may send, from another one whoever connects. With --device
    /// nobody is looked up, nothing is encrypted, and nothing is resumed.
    #[command(verbatim_doc_comment)]
    Receive(ReceiveCommand),
    /// Send files and folders.
    ///
    /// They go over one connection; the time that it took on both sides is printed.
    ///
    /// Names, sizes, modes, times, holes and hard links are kept. A folder's files go
    /// below its name; the folder has its mode and time at the end, also one that was
    /// there. What cannot be sent, such as a socket or a file that may not be read, is
    /// named and left out, and the exit code is 1 unless --skip names it. To resume an
    /// interrupted transfer, send the same files again. With --device it starts again,
    /// nothing is encrypted, links and empty folders are left out, folders have new
    /// modes and times, hard links become files of their own, holes are filled, and the
    /// receiver's counts are not printed here.
    #[command(
        verbatim_doc_comment,
        override_usage = "oscope transfer send [OPTIONS] FILE... ADDR:PORT"
    )]
    Send(SendCommand),
    /// Print these commands and their options as a JSON object.
    #[command(hide = true)]
    Describe,
}

#[derive(Args)]
struct ReceiveCommand {
    /// The folder that files go into, made with those above it if need be.
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(output::folder))]
    into: PathBuf,
    #[command(flatten)]
    arguments: ReceiveArguments,
}

#[derive(Args)]
struct SendCommand {
    #[arg(value_names = ["FILE", "ADDR:PORT"], required = true, num_args = 1.., help = FILES_THEN_ADDRESS)]
    words: Vec<OsString>,
    #[command(flatten)]
    arguments: SendArguments,
    /// Write the figures of both sides as a JSON object; - is standard output, without the table.
    #[arg(long, value_name = "FILE|-", value_parser = OsStringValueParser::new().try_map(output::json))]
    json: Option<Output>,
}

/// Carry out the command with these words.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let mut command = command();
    let asked = words.first().cloned();
    let matches = command.try_get_matches_from_mut([OsString::from(NAME)].into_iter().chain(words));
    let streams = Streams::new();
    let verb = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli.verb,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            streams.print(&error.render().to_string());
            return streams.end(0);
        }
        Err(error) => {
            let help = asked
                .and_then(|verb| command.find_subcommand(verb))
                .map_or_else(
                    || NAME.to_owned(),
                    |verb| format!("{NAME} {}", verb.get_name()),
                );
            streams.tell(&wrong(&error, &help));
            return streams.end(2);
        }
    };
    match verb {
        Some(Verb::Send(send)) => send.run(streams),
        Some(Verb::Receive(receive)) => receive.run(streams),
        Some(Verb::Describe) => {
            streams.print(&format!("{}\n", describe(&command)));
            streams.end(0)
        }
        None => {
            streams.print(&command.render_long_help().to_string());
            streams.end(0)
        }
    }
}

impl SendCommand {
    fn run(&self, streams: Streams) -> ExitCode {
        let tables = !matches!(self.json, Some(Output::Standard));
        let screen = Screen::new(streams, Side::Sender, tables);
        let (files, address) = match self.split() {
            Ok(parts) => parts,
            Err(error) => return screen.end(Err(error)),
        };
        let sending = Sending {
            files: &files,
            address: &address,
            arguments: &self.arguments,
            engine: &EngineArguments::default(),
            connect_limit: CONNECT_LIMIT,
            observer: &screen,
        };
        let sent = prepare().and_then(|()| sending.run()).and_then(|complete| {
            let content = format!("{}\n", screen.report());
            match &self.json {
                None => {}
                Some(Output::Standard) => screen.streams.print(&content),
                Some(Output::File(path)) => output::write(path, content.as_bytes())?,
            }
            Ok(complete)
        });
        screen.end(sent)
    }
}

impl SendCommand {
    /// The files, and where they go. Options may stand anywhere between them, which clap takes for the end of the
    /// files.
    fn split(&self) -> Result<(Vec<PathBuf>, String), Failure> {
        match self.words.split_last() {
            Some((last, files)) if !files.is_empty() => {
                let text = last.to_string_lossy();
                let files = files.iter().map(PathBuf::from).collect();
                Ok((files, address("the last argument", &text)?))
            }
            last => {
                let place = last.is_some_and(|(last, _)| {
                    address("the last argument", &last.to_string_lossy()).is_ok()
                });
                let missing = if place { "FILE" } else { "ADDR:PORT" };
                Err(Failure::usage(format!("missing argument '{missing}'"))
                    .with_remedy("see oscope transfer send --help"))
            }
        }
    }
}

impl ReceiveCommand {
    fn run(&self, streams: Streams) -> ExitCode {
        let screen = Screen::new(streams, Side::Receiver, true);
        let receiving = Receiving {
            into: &self.into,
            make_folder: output::make_folder,
            arguments: &self.arguments,
            engine: &EngineArguments::default(),
            observer: &screen,
        };
        let received = self
            .arguments
            .check()
            .and_then(|()| prepare())
            .and_then(|()| receiving.run());
        screen.end(received.map(|()| true))
    }
}

fn prepare() -> Result<(), Failure> {
    cancel::install_for_command()?;
    cancel::survive_size_limit()
}

/// The parser. As in all of Oscope's commands, the last of several values counts, and a value may begin with a dash.
fn command() -> Command {
    let lenient = |argument: Arg| match argument.is_positional() {
        true => argument,
        false => {
            let takes_values = argument.get_action().takes_values();
            argument.allow_hyphen_values(takes_values)
        }
    };
    Cli::command().mut_subcommands(|verb| verb.args_override_self(true).mut_args(lenient))
}

/// What is wrong with a command line, in Oscope's words.
fn wrong(error: &clap::Error, command: &str) -> String {
    if let Some(failure) = error.source().and_then(|source| source.downcast_ref()) {
        return screen::explained(failure);
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let first = |kind| context(kind).first().cloned().unwrap_or_default();
    // Such as `--method <METHOD>`, `<FILE>...` or `<ADDR:PORT>`.
    let argument = first(ContextKind::InvalidArg);
    let option = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let value = first(ContextKind::InvalidValue);
    let message = match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("option '{option}' requires an argument")
        }
        ErrorKind::InvalidValue => {
            let valid: Vec<_> = context(ContextKind::ValidValue)
                .iter()
                .map(|each| format!("'{each}'"))
                .collect();
            format!(
                "invalid value for '{option}': '{value}' is not one of {}",
                valid.join(", ")
            )
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') && argument.len() > 1 => {
            match first(ContextKind::SuggestedArg) {
                similar if similar.is_empty() => format!("no such option: {argument}"),
                similar => format!("no such option: {argument} (Possible options: {similar})"),
            }
        }
        ErrorKind::UnknownArgument => format!("got unexpected extra argument ({argument})"),
        ErrorKind::MissingRequiredArgument if option.starts_with('-') => {
            format!("missing option '{option}'")
        }
        ErrorKind::MissingRequiredArgument => "missing argument 'FILE...'".to_owned(),
        ErrorKind::TooManyValues => format!("option '{option}' does not take a value"),
        ErrorKind::InvalidSubcommand => {
            format!(
                "no such command '{}'",
                first(ContextKind::InvalidSubcommand)
            )
        }
        _ => {
            let text = error.render().to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    };
    format!("{message}: see {command} --help")
}

/// The commands with their options, for the help, the completion and the documentation of `oscope`.
fn describe(command: &Command) -> Value {
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
    let verbs: Vec<_> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| {
            json!({
                "name": verb.get_name(),
                "purpose": text(verb.get_about()),
                "help": text(verb.get_long_about()),
                "parameters": verb.get_arguments().flat_map(describe_argument).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"help": text(command.get_long_about()), "commands": verbs})
}

/// An option, or the arguments; `value` is what one takes, none for a flag.
fn describe_argument(argument: &Arg) -> Vec<Value> {
    let takes_values = argument.get_action().takes_values();
    let values = argument.get_possible_values();
    let choices: Vec<_> = values
        .iter()
        .filter(|value| takes_values && !value.is_hide_set())
        .map(|value| value.get_name())
        .collect();
    let default = argument.get_default_values().first();
    let describe = |value: Option<&str>, help: Option<&str>, is_multiple: bool| {
        json!({
            "option": argument.get_long().map(|name| format!("--{name}")),
            "value": value,
            "help": help,
            "choices": choices,
            "default": default.map(|value| value.to_string_lossy()),
            "is_required": argument.is_required_set(),
            "is_multiple": is_multiple,
        })
    };
    if argument.is_positional() {
        return vec![
            describe(Some("FILE..."), Some(FILES), true),
            describe(Some("ADDR:PORT"), Some(ADDRESS), false),
        ];
    }
    let value = argument.get_value_names().and_then(|names| names.first());
    let help = argument.get_help().map(ToString::to_string);
    let is_multiple = matches!(argument.get_action(), ArgAction::Append);
    vec![describe(
        value.map(|value| value.as_str()).filter(|_| takes_values),
        help.as_deref(),
        is_multiple,
    )]
}

#[cfg(test)]
mod tests;
