//! Bytes as hexadecimal digits: a path has any bytes, while JSON, lines and keys are text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Two digits a byte.
pub fn of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// [`of`] the bytes of a path.
pub fn of_path(path: &Path) -> String {
    of(path.as_os_str().as_bytes())
}

/// The path of which [`of_path`] made this text; `None` where it did not.
pub fn to_path(text: &str) -> Option<PathBuf> {
    let digit = |digit: char| {
        digit
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    });
    Some(OsString::from_vec(bytes.collect::<Option<_>>()?).into())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn any_bytes_go_through_hexadecimal_digits() {
        let path = Path::new(OsStr::from_bytes(b"a\xff\n/b"));
        assert_eq!(of_path(path), "61ff0a2f62");
        assert_eq!(to_path(&of_path(path)), Some(path.into()));
        assert_eq!(to_path("6"), None);
        assert_eq!(to_path("6x"), None);
        assert_eq!(to_path("+1"), None);
    }
}
