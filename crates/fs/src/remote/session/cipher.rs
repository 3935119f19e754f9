//! Which cipher is asked for first, where the user's settings leave that to ssh.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::own_session::{in_own_session, kill};
use crate::remote::target::Target;

/// The cipher that takes the least time where both processors compute AES themselves (RFC 5647).
const FAST: &str = "aes128-gcm@openssh.com";

/// How long `ssh` may take to tell its settings; a `Match exec` may run for any time.
const LIMIT: Duration = Duration::from_secs(5);

/// Bytes of its answer at most.
const MOST: usize = 1 << 20;

/// An option of `ssh` that puts the fast cipher before those that the settings allow; None where they order the ciphers
/// themselves, do not have it, or this processor does not compute AES. Nothing is allowed that was not, so a server
/// that lacks it is reached as ever.
pub fn preference(target: &Target) -> Option<String> {
    if !has_aes() {
        return None;
    }
    let settings = ciphers(target.arguments().iter().map(|word| word.as_ref()))?;
    put_first(&settings, untouched()?)
}

/// What ssh offers without any settings, asked once.
fn untouched() -> Option<&'static str> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Some(known);
    }
    let answer = ciphers(["-F", "none", "--", "localhost"].map(OsStr::new))?;
    Some(KNOWN.get_or_init(|| answer))
}

/// The list with the fast cipher first, as an option, if nobody has changed the list.
fn put_first(settings: &str, untouched: &str) -> Option<String> {
    let all = || settings.split(',');
    if settings != untouched || !all().any(|one| one == FAST) {
        return None;
    }
    let others: Vec<&str> = all().filter(|one| *one != FAST).collect();
    Some(format!("Ciphers={FAST},{}", others.join(",")))
}

/// The ciphers that `ssh` would offer with these arguments (`ssh -G`); None if it does not list them.
fn ciphers<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Option<String> {
    let mut command = Command::new("ssh");
    command.arg("-G").args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    in_own_session(&mut command);
    let mut child = command.spawn().ok()?;
    let answer = child.stdout.take().and_then(read);
    // Where it has ended this does nothing; its group is its own, so that a program of `Match exec` goes with it.
    kill(&child);
    let _ = child.wait();
    answer?
        .lines()
        .find_map(|line| line.strip_prefix("ciphers "))
        .map(str::to_owned)
}

/// The whole answer; None if that does not come in time.
fn read(mut output: ChildStdout) -> Option<String> {
    let deadline = Instant::now() + LIMIT;
    let mut answer = Vec::new();
    let mut block = [0; 4096];
    while answer.len() < MOST {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::try_from(left).ok()?) {
            Ok(1) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            _ => return None,
        }
        match output.read(&mut block).ok()? {
            0 => return String::from_utf8(answer).ok(),
            count => answer.extend(&block[..count]),
        }
    }
    None
}

/// Whether this processor has instructions for AES and for its authentication.
#[cfg(target_arch = "x86_64")]
pub fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

/// Whether this processor has instructions for AES and for its authentication.
#[cfg(target_arch = "aarch64")]
pub fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
}

/// Of other processors that is not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn has_aes() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com";

    #[test]
    fn the_fast_cipher_comes_first_and_all_others_stay() {
        assert_eq!(
            put_first(LIST, LIST).unwrap(),
            "Ciphers=aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr"
        );
    }

    #[test]
    fn a_list_that_somebody_chose_or_that_lacks_it_is_left_alone() {
        assert_eq!(put_first("aes128-gcm@openssh.com", LIST), None);
        assert_eq!(
            put_first("aes128-ctr,aes256-ctr", "aes128-ctr,aes256-ctr"),
            None
        );
    }

    #[test]
    fn the_settings_of_a_target_are_asked_of_ssh() {
        let mut target = Target::parse(OsStr::new("nobody@localhost:")).unwrap();
        let none = tempfile::NamedTempFile::new().unwrap();
        target.config = Some(none.path().to_owned());
        assert_eq!(preference(&target).is_some(), has_aes());
        std::fs::write(none.path(), "Host local*\n  Ciphers aes256-ctr\n").unwrap();
        assert_eq!(preference(&target), None);
        std::fs::write(none.path(), "Nonsense yes\n").unwrap();
        assert_eq!(preference(&target), None);
        target.config = None;
        target.options = vec!["Ciphers=-chacha*".to_owned()];
        assert_eq!(preference(&target), None);
    }

    #[test]
    fn settings_that_take_too_long_are_given_up() {
        let mut target = Target::parse(OsStr::new("localhost:")).unwrap();
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(config.path(), "Match exec \"sleep 60\"\n  User other\n").unwrap();
        target.config = Some(config.path().to_owned());
        assert_eq!(preference(&target), None);
    }
}
