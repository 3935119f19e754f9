//! How the server is reached, from the options of a command.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::arguments::Ssh;
use crate::remote::{Limits, Target};
use oscope_sys::error::Failure;

/// Options of ssh whose value is a file (ssh_config(5)).
const FILES: [&str; 5] = [
    "identityfile",
    "certificatefile",
    "userknownhostsfile",
    "globalknownhostsfile",
    "identityagent",
];

/// The target as the command line has it; an error is one of the request.
///
/// Files that are named relative to the current folder are made absolute, since the mount's process leaves that folder.
pub fn target(text: &OsStr, ssh: &Ssh) -> Result<Target, Failure> {
    let mut target = Target::parse(text)?;
    target.port = ssh.port;
    target.helper.clone_from(&ssh.helper);
    target.config = ssh
        .config
        .as_deref()
        .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    target.options = ssh
        .options
        .iter()
        .map(|option| with_absolute_file(option))
        .collect();
    Ok(target)
}

/// How long things may take. A connection is what the first operation waits for.
pub fn limits(timeout: Duration) -> Limits {
    Limits {
        operation: timeout,
        connect: timeout,
    }
}

fn with_absolute_file(option: &str) -> String {
    let Some(end) = option.find(|letter: char| letter == '=' || letter.is_whitespace()) else {
        return option.to_owned();
    };
    let (name, value) = (
        &option[..end],
        option[end + 1..].trim_start_matches(['=', ' ', '\t']),
    );
    // What begins otherwise (~, %, $, a quote, several files) is ssh's to read.
    let is_file = FILES.contains(&name.to_ascii_lowercase().as_str());
    if !is_file || value.starts_with('/') || !Path::new(value).exists() {
        return option.to_owned();
    }
    std::path::absolute(value)
        .ok()
        .and_then(|path| Some(format!("{name}={}", path.to_str()?)))
        .filter(|made| !made.contains(char::is_whitespace))
        .unwrap_or_else(|| option.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_this_folder_is_named_by_its_whole_path() {
        // The tests run in the crate's folder.
        let here = std::env::current_dir().unwrap();
        let wanted = format!("IdentityFile={}/Cargo.toml", here.display());
        for option in [
            "IdentityFile=Cargo.toml",
            "IdentityFile Cargo.toml",
            "IdentityFile = Cargo.toml",
        ] {
            assert_eq!(with_absolute_file(option), wanted);
        }
        for option in [
            "IdentityFile=/k",
            "IdentityFile=~/k",
            "IdentityFile=none",
            "User=Cargo.toml",
            "Compression",
            "IdentityAgent SSH_AUTH_SOCK",
        ] {
            assert_eq!(with_absolute_file(option), option);
        }
    }

    #[test]
    fn a_target_is_shown_as_it_was_written() {
        for text in ["me@host:/a b", "[::1]:", "me@[fe80::1%eth0]:x", "host:~"] {
            let target = target(OsStr::new(text), &Ssh::default()).unwrap();
            assert_eq!(target.shown(), text.trim_end_matches('~'));
        }
    }
}
