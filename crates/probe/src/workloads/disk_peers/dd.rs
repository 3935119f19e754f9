//! `dd` of the GNU coreutils (dd(1)).

use super::peer::{Account, Peer, Reading};
use oscope_sys::error::Failure;
use oscope_sys::worker::program::{Name, ProgramOutput, last_line};

/// `dd` prints six digits (`src/dd.c`, `print_xfer_stats`), so its error is no more than this share of it.
const SHARE_OF_ERROR: f64 = 1e-5;

/// GNU dd.
pub const DD: Peer = Peer {
    name: Name {
        command: "dd",
        package: "coreutils",
        greeting: "dd (coreutils) ",
        question: "--version",
        if_slow: "read fewer blocks or larger ones",
    },
    reach: |length, _block_size| length,
    arguments,
    account,
    remark: None,
};

fn arguments(reading: &Reading) -> Vec<String> {
    vec![
        format!("if={}", reading.path.display()),
        "of=/dev/null".to_owned(),
        format!("bs={}", reading.block_size),
        format!("count={}", reading.length.div_ceil(reading.block_size)),
    ]
}

/// The account is the last line on standard error.
fn account(said: &ProgramOutput) -> Result<Account, Failure> {
    let line = last_line(&said.errors).unwrap_or_default();
    parse(line).ok_or_else(|| Failure::failed(format!("dd gave no account of its time: {line:?}")))
}

/// A line such as `10000001 bytes (10 MB, 9.5 MiB) copied, 0.0145888 s, 685 MB/s`; small numbers stand without the
/// brackets.
fn parse(line: &str) -> Option<Account> {
    let (amount, times) = line.split_once(" copied, ")?;
    let (number, unit) = amount.split_once(' ')?;
    let (seconds, rate) = times.split_once(" s, ")?;
    let known =
        matches!(unit, "byte" | "bytes") || unit.starts_with("bytes (") && unit.ends_with(')');
    let time_s: f64 = seconds.parse().ok()?;
    let sound = known && rate.ends_with("B/s") && time_s.is_finite() && time_s > 0.0;
    sound.then_some(Account {
        bytes: number.parse().ok()?,
        time_s,
        error_s: time_s * SHARE_OF_ERROR,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(errors: &str) -> ProgramOutput {
        ProgramOutput {
            output: String::new(),
            errors: errors.to_owned(),
        }
    }

    #[test]
    fn real_accounts_are_read() {
        for (errors, bytes, time_s) in [
            (
                "2441+1 records in\n\
                 2441+1 records out\n\
                 10000001 bytes (10 MB, 9.5 MiB) copied, 0.0145888 s, 685 MB/s\n",
                10_000_001,
                0.014_588_8,
            ),
            (
                "3+0 records in\n3+0 records out\n12288 bytes (12 kB, 12 KiB) copied, 4.7629e-05 s, 258 MB/s\n",
                12_288,
                4.7629e-5,
            ),
            (
                "1+0 records in\n1+0 records out\n128 bytes copied, 2.6119e-05 s, 4.9 MB/s\n",
                128,
                2.6119e-5,
            ),
            (
                "0+1 records in\n0+1 records out\n1 byte copied, 3.7e-05 s, 27.0 kB/s\n",
                1,
                3.7e-5,
            ),
        ] {
            let account = account(&said(errors)).unwrap();
            assert_eq!((account.bytes, account.time_s), (bytes, time_s));
            assert!(account.error_s < time_s / 1000.0);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for errors in [
            "",
            "3+0 records in\n3+0 records out\n",
            "dd: failed to open '/nonexist': No such file or directory\n",
            "0 bytes copied, 0 s, Infinity B/s\n",
            "1 byte copied, inf s, 0.0 B/s\n",
            "-1 bytes copied, 1 s, 1 B/s\n",
            "4096 bytes (4.1 kB, 4.0 KiB) copied, 1.5 s\n",
            "4096 bytes (4.0KB) copied, 0.000012 seconds, 325.5MB/s\n",
            "4096 octets (4,1 kB, 4,0 KiB) copied, 1 s, 4 kB/s\n",
            "4096 bytes (4.1 kB, 4.0 KiB) copied, 0,5 s, 8 kB/s\n",
            "4096 bytes (4.1 kB, 4.0 KiB) copied, 1 s, 4 kB/s\ndd: error writing\n",
        ] {
            assert!(account(&said(errors)).is_err(), "{errors:?}");
        }
    }
}
