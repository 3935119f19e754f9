//! `oscope-fs status`: what is mounted, what is not yet copied back, and what went wrong.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::arguments::Status;
use super::record::{self, Record};
use super::{Ending, failed, mountinfo, mountpoint, place, print, socket};
use crate::hex;
use crate::log;
use crate::mount::Report;
use oscope_sys::error::Failure;

/// How many files that are left are named.
const MOST_NAMED: usize = 5;

const MIB: f64 = 1_048_576.0;

/// Tell of one mount, or of all.
pub fn run(arguments: &Status) -> Result<ExitCode, Ending> {
    if let Some(at) = &arguments.mountpoint {
        let answer = named(&place::absolute(at)?)?;
        return if arguments.json {
            print(format_args!("{answer}\n"))
        } else {
            print(text(&answer))
        };
    }
    let answers: Vec<_> = record::listed()?
        .iter()
        .filter_map(|cache| of(cache))
        .collect();
    if arguments.json {
        return print(format_args!("{}\n", Value::from(answers)));
    }
    if answers.is_empty() {
        log::note("nothing is mounted");
    }
    print(answers.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// What never changes of a mount, as JSON. Bytes that are no UTF-8 are shown as U+FFFD; `mountpoint_hex` has them all.
pub fn about(record: &Record, cache: &Path) -> Value {
    json!({
        "mountpoint": record.mountpoint.to_string_lossy(),
        "mountpoint_hex": hex::of_path(&record.mountpoint),
        "target": record.target.shown(),
        "helper": record.target.helper,
        "cache": cache.to_string_lossy(),
        "pid": record.pid,
        "started": log::stamp(record.started),
    })
}

/// The answer of a mount's process: what it is about, and its report.
pub fn answer(about: &Value, report: &Report) -> Value {
    let mut whole = about.clone();
    if let (Value::Object(whole), Ok(Value::Object(report))) =
        (&mut whole, serde_json::to_value(report))
    {
        whole.extend(report);
    }
    whole
}

/// The names of files that are not copied back.
pub fn left(answer: &Value) -> Vec<String> {
    list(answer, "dirty")
        .filter_map(|path| Some(path.as_str()?.to_owned()))
        .collect()
}

/// The first of them.
pub fn some_of(left: &[String]) -> String {
    let mut names = left
        .iter()
        .take(MOST_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if left.len() > MOST_NAMED {
        names.push_str(&format!(" and {} more", left.len() - MOST_NAMED));
    }
    names
}

/// Where the mount is, or was.
pub fn place_of(answer: &Value) -> Option<PathBuf> {
    hex::to_path(answer["mountpoint_hex"].as_str()?)
}

/// A line on each file of which both sides had changed.
pub fn conflicts(answer: &Value) -> Vec<String> {
    list(answer, "conflicts")
        .map(|each| {
            format!(
                "{}: changed on both sides; the local one is {}",
                word(each, "path"),
                word(each, "kept_as")
            )
        })
        .collect()
}

/// Why something is not copied back, if that is known.
pub fn reason(answer: &Value) -> Option<String> {
    list(answer, "failures")
        .next()
        .map(|each| word(each, "why").to_owned())
}

/// The processes, one for each other mount namespace that has the mount.
pub fn others(answer: &Value) -> Vec<String> {
    answer["device"]
        .as_str()
        .map_or_else(Vec::new, mountinfo::elsewhere)
}

fn named(at: &Path) -> Result<Value, Failure> {
    let Some(cache) = record::cache_of(at)? else {
        return Err(unknown(at)?);
    };
    socket::status(&cache)
        .map(|answer| with_state(answer, at))
        .map_err(|error| match Record::read(&cache) {
            Some(record) if process_is_there(record.pid) => failed(
                format!(
                    "{}: its process {} does not answer ({error})",
                    at.display(),
                    record.pid
                ),
                format!("see {}", cache.join("log").display()),
            ),
            _ => failed(
                format!(
                    "{}: its process was killed; what it had not copied back is in {}",
                    at.display(),
                    cache.display()
                ),
                "mount it again, or: oscope-fs recover",
            ),
        })
}

fn unknown(at: &Path) -> Result<Failure, Failure> {
    Ok(match mountpoint::look(at)? {
        Some(mount) if mount.is_ours() => failed(
            format!(
                "{} is a mount of oscope-fs, but not one that this user's cache folder knows",
                at.display()
            ),
            "run it as the user who mounted it, with the same XDG_CACHE_HOME",
        ),
        Some(mount) => failed(
            format!(
                "{} is a mount of {}, not of oscope-fs",
                at.display(),
                mount.kind
            ),
            "name one of oscope-fs: oscope-fs status",
        ),
        None => failed(
            format!("{} is not mounted", at.display()),
            "see what is: oscope-fs status",
        ),
    })
}

/// A mount of the list: its process's answer, or that there is none.
fn of(cache: &Path) -> Option<Value> {
    let record = Record::read(cache)?;
    if let Ok(answer) = socket::status(cache) {
        return Some(with_state(answer, &record.mountpoint));
    }
    let mut answer = about(&record, cache);
    answer["state"] = if process_is_there(record.pid) {
        "silent"
    } else {
        "killed"
    }
    .into();
    Some(answer)
}

fn with_state(mut answer: Value, at: &Path) -> Value {
    let stands = mountpoint::look(at).is_ok_and(|mount| mount.is_some_and(|mount| mount.is_ours()));
    answer["state"] = if stands { "mounted" } else { "ending" }.into();
    if !stands {
        answer["held_by"] = others(&answer).into();
    }
    answer
}

/// Whether the process runs: one that has ended and is not yet waited for has no command line any more (proc(5)).
fn process_is_there(pid: u32) -> bool {
    let file = |name: &str| std::fs::read(format!("/proc/{pid}/{name}"));
    file("comm").is_ok_and(|name| name.starts_with(b"oscope-fs"))
        && file("cmdline").is_ok_and(|words| !words.is_empty())
}

fn text(answer: &Value) -> String {
    let mut text = format!(
        "{} at {}\n",
        word(answer, "target"),
        word(answer, "mountpoint")
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:12} {value}");
    };
    let served = answer["helper"]
        .as_str()
        .map_or_else(|| "SFTP".to_owned(), |program| format!("{program} serve"));
    line("served by", &served);
    line(
        "state",
        &format!(
            "{}, process {}, since {}",
            word(answer, "state"),
            answer["pid"],
            word(answer, "started")
        ),
    );
    line("cache", &cache(answer));
    if answer.get("dirty").is_none() {
        line(
            "remedy",
            "mount it again, or: oscope-fs umount, and recover where that says so",
        );
        return text;
    }
    line("server", &server(answer));
    line("passthrough", &passthrough(answer));
    let left = left(answer);
    line(
        "to copy back",
        &if left.is_empty() {
            "nothing".to_owned()
        } else {
            format!("{}: {}", left.len(), left.join(", "))
        },
    );
    for other in list(answer, "held_by").filter_map(Value::as_str) {
        line(
            "held by",
            &format!("another mount namespace, that of process {other}"),
        );
    }
    for conflict in conflicts(answer) {
        line("conflict", &conflict);
    }
    for (name, files) in [("failed", "failures"), ("no room", "no_room")] {
        for file in list(answer, files) {
            line(
                name,
                &format!("{}: {}", word(file, "path"), word(file, "why")),
            );
        }
    }
    text
}

fn list<'a>(answer: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    answer[name].as_array().into_iter().flatten()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("?")
}

fn cache(answer: &Value) -> String {
    let used = answer["cached_bytes"]
        .as_f64()
        .map_or_else(String::new, |bytes| {
            format!(", {:.1} MiB used", bytes / MIB)
        });
    format!("{}{used}", word(answer, "cache"))
}

fn server(answer: &Value) -> String {
    answer["remote"]
        .as_str()
        .map_or_else(|| answer["remote"].to_string(), ToOwned::to_owned)
}

fn passthrough(answer: &Value) -> String {
    if answer["passthrough"] == true {
        "yes".to_owned()
    } else {
        format!("no: {}", word(answer, "why_not"))
    }
}
