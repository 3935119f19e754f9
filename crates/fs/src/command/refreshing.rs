//! `oscope-fs refresh`: what a mount knows of files is believed no more.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::errno::Errno;
use serde_json::{Value, json};

use super::arguments::Refresh;
use super::record::{self, Record};
use super::{Ending, failed, place, socket};
use crate::log;
use crate::mount::Refreshed;
use oscope_sys::error::Failure;

/// Refresh each path.
pub fn run(arguments: &Refresh) -> Result<ExitCode, Ending> {
    for path in &arguments.paths {
        let path = place::absolute(path)?;
        let Some((cache, below)) = mount_of(&path)? else {
            return Err(Ending::Wrong(failed(
                format!(
                    "{}: in no folder that this user has mounted",
                    path.display()
                ),
                "see oscope-fs status",
            )));
        };
        let answer = socket::refresh(&cache, &below).map_err(|error| {
            failed(
                format!(
                    "{}: the mount's process does not answer ({error})",
                    path.display()
                ),
                format!("see {}", cache.join("log").display()),
            )
        })?;
        log::note(&words(&path, &answer)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The cache folder of the mount that a path lies in, and the path relative to what is mounted there.
fn mount_of(path: &Path) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let found = record::listed()?.into_iter().filter_map(|cache| {
        let mountpoint = Record::read(&cache)?.mountpoint;
        let below = path.strip_prefix(&mountpoint).ok()?.to_owned();
        Some((mountpoint.as_os_str().len(), cache, below))
    });
    // Of mounts in one another the inner one has it.
    let innermost = found.max_by_key(|(length, _, _)| *length);
    Ok(innermost.map(|(_, cache, below)| (cache, below)))
}

/// The mount's answer.
pub fn answer(done: Result<Refreshed, Errno>) -> Value {
    match done {
        Ok(done) => json!(done),
        Err(why) => json!({ "why": why.desc() }),
    }
}

fn words(path: &Path, answer: &Value) -> Result<String, Failure> {
    let count = |key: &str| answer.get(key).and_then(Value::as_u64);
    let (Some(compared), Some(in_use)) = (count("compared"), count("in_use")) else {
        let why = answer.get("why").and_then(Value::as_str);
        return Err(failed(
            format!(
                "{}: {}",
                path.display(),
                why.unwrap_or("the mount is ending")
            ),
            "make room on the disk of the cache folder, or mount again",
        ));
    };
    let stays = match in_use {
        0 => String::new(),
        in_use => format!("; {in_use} in use stay as they are"),
    };
    let compared = match compared {
        1 => "1 cached file is compared with the server's when it is opened next".to_owned(),
        many => {
            format!("{many} cached files are compared with the server's when they are opened next")
        }
    };
    Ok(format!("{}: {compared}{stays}", path.display()))
}
