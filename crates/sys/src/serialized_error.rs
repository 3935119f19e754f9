//! Failures and texts that can be handed from one process to another by shared memory.

use nix::errno::Errno;

use crate::error::Failure;

/// Most bytes of a text that is handed over.
pub const LONGEST_TEXT: usize = 1000;

/// A failure without pointers into the memory of one process.
#[derive(Clone, Copy)]
pub struct SerializedError {
    kind: Kind,
    errno: Option<Errno>,
    /// Of a request.
    field: Option<Text>,
    message: Text,
    remedy: Option<Text>,
}

#[derive(Clone, Copy)]
enum Kind {
    Unavailable,
    Failed,
    Request,
}

/// A text without pointers into the memory of one process; cut at 1000 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    bytes: [u8; LONGEST_TEXT],
    length: usize,
}

impl Text {
    /// What is kept of a text.
    pub fn of(text: &str) -> Self {
        let length = text.floor_char_boundary_at(LONGEST_TEXT);
        let mut bytes = [0; LONGEST_TEXT];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { bytes, length }
    }

    /// The text again.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.length]).into_owned()
    }
}

/// `str::floor_char_boundary`, which is not stable yet.
trait Boundary {
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        (0..=most.min(self.len()))
            .rev()
            .find(|&place| self.is_char_boundary(place))
            .unwrap_or(0)
    }
}

impl SerializedError {
    /// Of a failure; texts are cut at 1000 bytes.
    pub fn of(failure: &Failure) -> Self {
        let (kind, field, message) = match failure {
            Failure::Unavailable { message, .. } => (Kind::Unavailable, None, message),
            Failure::Failed { message, .. } => (Kind::Failed, None, message),
            Failure::Request { field, message, .. } => (Kind::Request, Some(field), message),
        };
        Self {
            kind,
            errno: failure.errno(),
            field: field.map(|text| Text::of(text)),
            message: Text::of(message),
            remedy: failure.remedy().map(Text::of),
        }
    }

    /// The failure again.
    pub fn failure(&self) -> Failure {
        let message = self.message.text();
        let remedy = self.remedy.map(|text| text.text());
        match self.kind {
            Kind::Unavailable => Failure::Unavailable {
                message,
                errno: self.errno,
                remedy,
            },
            Kind::Failed => Failure::Failed {
                message,
                errno: self.errno,
                remedy,
            },
            Kind::Request => Failure::Request {
                field: self.field.map(|text| text.text()).unwrap_or_default(),
                message,
                remedy,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_on_the_other_side() {
        for failure in [
            Failure::system("madvise", Errno::ENOMEM),
            Failure::failed("a short read"),
            Failure::unavailable_system("swapon", Errno::EPERM, "be root"),
            Failure::unavailable("no huge pages", "get some"),
            Failure::request("size", "too large").with_remedy("give less"),
        ] {
            assert_eq!(SerializedError::of(&failure).failure(), failure);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "\u{e4}".repeat(LONGEST_TEXT);
        assert_eq!(Text::of(&long).text(), long[..LONGEST_TEXT]);
        let odd = format!("x{long}");
        assert_eq!(Text::of(&odd).text(), odd[..LONGEST_TEXT - 1]);
    }
}
