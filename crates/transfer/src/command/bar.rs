//! The bar on standard error: how far a transfer is, on a terminal, and only once it is long.

use std::time::{Duration, Instant};

use super::figures::amount;
use crate::outcome::Progress;

/// What takes no longer has no bar.
const SHORT: Duration = Duration::from_millis(500);
const CELLS: u64 = 16;
/// Takes the line away.
const CLEAR: &str = "\r\x1b[K";

/// The bar of one transfer after the other.
pub struct Bar {
    doing: &'static str,
    /// Whether there is a terminal to show it on.
    is_wanted: bool,
    begun: Instant,
    line: String,
}

impl Bar {
    /// A bar that is not shown yet.
    pub fn new(doing: &'static str, is_wanted: bool) -> Self {
        Self {
            doing,
            is_wanted,
            begun: Instant::now(),
            line: String::new(),
        }
    }

    /// A transfer begins.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// What draws it as far as the transfer is now.
    pub fn draw(&mut self, progress: Progress) -> String {
        let elapsed = self.begun.elapsed();
        if let (
            true,
            Progress::Moved {
                files,
                of_files,
                bytes,
                of_bytes,
                ..
            },
        ) = (self.is_wanted && elapsed >= SHORT, progress)
        {
            let full = bytes.min(of_bytes) * CELLS / of_bytes.max(1);
            let files = match of_files {
                2.. => format!("file {files} of {of_files}"),
                _ => String::new(),
            };
            let seconds = elapsed.as_secs();
            let parts = [
                self.doing.to_owned(),
                "━".repeat(full as usize) + &"─".repeat((CELLS - full) as usize),
                amount(bytes, of_bytes),
                files,
                format!(
                    "{}:{:02}:{:02}",
                    seconds / 3600,
                    seconds / 60 % 60,
                    seconds % 60
                ),
            ];
            let shown = parts.iter().filter(|part| !part.is_empty());
            self.line = shown.cloned().collect::<Vec<_>>().join(" ");
        }
        self.around("")
    }

    /// What prints `text`, of whole lines, above the bar.
    pub fn around(&self, text: &str) -> String {
        match self.line.as_str() {
            "" => text.to_owned(),
            // A terminal that is narrower cuts it, and does not break it.
            line => format!("{CLEAR}{text}\x1b[?7l{line}\x1b[?7h"),
        }
    }

    /// What takes it away.
    pub fn end(&mut self) -> &'static str {
        match std::mem::take(&mut self.line).is_empty() {
            true => "",
            false => CLEAR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_appears_once_a_transfer_is_long_and_goes_without_a_trace() {
        let half = Progress::Moved {
            file: "a",
            files: 1,
            of_files: 2,
            bytes: 512,
            of_bytes: 1024,
        };
        let mut bar = Bar::new("sending", true);
        assert_eq!(bar.draw(half), "");
        assert_eq!(
            (bar.around("a note\n").as_str(), bar.end()),
            ("a note\n", "")
        );
        bar.begun = Instant::now()
            .checked_sub(Duration::from_secs(61))
            .expect("a clock");
        let shown = "━━━━━━━━──────── 0.50 of 1.00 KiB file 1 of 2 0:01:01";
        assert_eq!(
            bar.draw(half),
            format!("{CLEAR}\x1b[?7lsending {shown}\x1b[?7h")
        );
        assert!(bar.around("a note\n").starts_with("\r\x1b[Ka note\n"));
        assert_eq!((bar.end(), bar.end()), (CLEAR, ""));
        bar.is_wanted = false;
        assert_eq!(bar.draw(half), "");
    }
}
