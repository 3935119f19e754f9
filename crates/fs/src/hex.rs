//! Paths as hexadecimal digits: they have any bytes, while JSON, lines and keys are text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Two digits for each byte of a path.
pub fn of_path(path: &Path) -> String {
    ::hex::encode(path.as_os_str().as_bytes())
}

/// The path of which [`of_path`] made this text; `None` where it did not.
pub fn to_path(text: &str) -> Option<PathBuf> {
    Some(OsString::from_vec(::hex::decode(text).ok()?).into())
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
