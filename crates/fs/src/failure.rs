//! One clear line for the person: what failed, on what, and what would fix it.

use std::fmt;

/// Why something was not done, for the person who asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed, on what, and why; one line.
    pub message: String,
    /// What would fix it; empty if nothing is known that would.
    pub remedy: String,
}

impl Failure {
    /// What failed and what would fix it; line breaks and other control characters become spaces.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            message: one_line(&message.into()),
            remedy: one_line(&remedy.into()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remedy.is_empty() {
            true => write!(to, "{}", self.message),
            false => write!(to, "{}; {}", self.message, self.remedy),
        }
    }
}

impl std::error::Error for Failure {}

/// The text without line breaks: what a server or another program said may hold any characters.
fn one_line(text: &str) -> String {
    let words = text.replace(|letter: char| letter.is_control(), " ");
    words.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::new("cannot open\n\x1b[31ma\n", "make it first");
        assert_eq!(failure.to_string(), "cannot open  [31ma; make it first");
        assert_eq!(Failure::new("no", "").to_string(), "no");
    }
}
