//! Messages of a mount to people: a line each in the cache folder's file `log`, in the foreground on standard error as
//! well.
//!
//! Before `open`, and in commands that have no log, a line goes to standard error. Any thread may call `note`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oscope_sys::error::one_line;

/// A log that is longer than this when a mount begins becomes `log.1`, and what that was is gone.
const MOST_BYTES: u64 = 1 << 20;

static LOG: Mutex<Option<Log>> = Mutex::new(None);

struct Log {
    file: File,
    on_standard_error: bool,
}

/// Have `note` write to `log` in `folder` from now on, which only the user can read; with `on_standard_error` there
/// too.
///
/// Without it, standard error becomes the log itself, so that the last words of a panic are kept.
pub fn open(folder: &Path, on_standard_error: bool) -> io::Result<()> {
    let path = folder.join("log");
    if path.metadata().is_ok_and(|found| found.len() > MOST_BYTES) {
        std::fs::rename(&path, folder.join("log.1"))?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    if !on_standard_error {
        nix::unistd::dup2_stderr(&file)?;
    }
    let log = Log {
        file,
        on_standard_error,
    };
    *held() = Some(log);
    Ok(())
}

/// Have `note` write to standard error alone again, where it wrote there too.
pub fn close() {
    *held() = None;
}

/// Tell one thing in one line: line breaks in it become spaces.
pub fn note(text: &str) {
    let text = one_line(text);
    let mut held = held();
    // What cannot be logged (a full disk) must not stop the file system.
    if let Some(log) = held.as_mut() {
        let _ = log
            .file
            .write_all(format!("{} [{}] {text}\n", stamp(now()), std::process::id()).as_bytes());
    }
    if held.as_ref().is_none_or(|log| log.on_standard_error) {
        let _ = writeln!(io::stderr(), "oscope-fs: {text}");
    }
}

/// The last second of the year 9999, the last that has such a stamp.
const LAST_SECOND: u64 = 253_402_300_799;

/// Seconds since 1970 as `2026-11-22T08:45:00Z`.
pub fn stamp(seconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Seconds since 1970, 0 on a machine whose clock is before that.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn held() -> std::sync::MutexGuard<'static, Option<Log>> {
    // A thread that panicked while it wrote a line leaves nothing half-done here.
    LOG.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_the_time_in_utc() {
        // From `date -u -d @N +%FT%TZ`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_337_100, "2026-11-22T08:45:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST_SECOND, "9999-12-31T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(stamp(seconds), expected);
        }
    }

    #[test]
    fn a_log_has_a_line_for_each_note() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), true).unwrap();
        note("first\nof two lines");
        note("second");
        let text = std::fs::read_to_string(folder.path().join("log")).unwrap();
        *held() = None;
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].ends_with("] first of two lines"), "{text}");
        assert!(
            lines.iter().any(|line| line.ends_with("] second")),
            "{text}"
        );
    }
}
