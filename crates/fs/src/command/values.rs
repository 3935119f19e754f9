//! Sizes and durations as people write them, like everywhere in Oscope: `128K`, `1GiB`, `500ms`, `10s`.

use std::time::Duration;

const SIZES: &[(&str, u128)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("M", 1 << 20),
    ("m", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("g", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("t", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// Units of time in nanoseconds.
const DURATIONS: &[(&str, u128)] = &[
    ("", 1_000_000_000),
    ("ns", 1),
    ("us", 1000),
    ("µs", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nobody waits longer; what is added to the clock by it does not overflow.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// The bytes that `text` stands for. Units with an i, and bare letters, are powers of 1024, others of 1000. The error
/// names what is wrong and an example.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = scaled(text, SIZES).ok_or_else(|| {
        format!("{text:?} is not a size in whole bytes: write it like 4096, 512M, 10GiB or 10GB")
    })?;
    u64::try_from(bytes).map_err(|_| format!("{text:?} is more than any disk holds"))
}

/// The time that `text` stands for, more than none and at most a year; a bare number is seconds.
///
/// Not by `humantime`, which takes no bare number, but years, months and sums such as `1h 30min`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: write it like 500ms, 10s, 2m or 1h");
    let nanoseconds = scaled(text, DURATIONS).ok_or_else(wrong)?;
    let found = u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos);
    if found > LONGEST {
        return Err(format!("{text:?} is longer than a year"));
    }
    Ok(found)
}

/// Like `duration`, but none at all is refused.
pub fn waiting_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("{text:?} leaves no time: write it like 30s")),
        found => Ok(found),
    }
}

/// A decimal number times its unit; None where it is malformed, has an unknown unit or leaves a fraction.
fn scaled(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let text = text.trim();
    let end = text
        .find(|each: char| !each.is_ascii_digit() && each != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = u32::try_from(fraction.len()).ok()?;
    let number: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (product, parts) = (number.checked_mul(*factor)?, 10_u128.checked_pow(digits)?);
    (product % parts == 0).then_some(product / parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_like_elsewhere_in_oscope() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("128K", 131_072),
            ("1.5 KiB", 1536),
            ("2kB", 2000),
            ("10G", 10 << 30),
            (".5M", 1 << 19),
            ("1T", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            ".",
            "1.2.3",
            "-1",
            "1X",
            "0.3",
            "1e3",
            "99999999999T",
            "٣",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_like_elsewhere_in_oscope() {
        for (text, milliseconds) in [
            ("0", 0),
            ("1", 1000),
            ("500ms", 500),
            ("1.5s", 1500),
            ("2m", 120_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "s", "-1s", "3parsecs", "1 year", "999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(waiting_time("0s").is_err());
    }
}
