//! Which process a journal belongs to, and whether it lives.

use std::fs;
use std::path::Path;

use crate::error::Failure;

/// A process, told by its start time from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Process number.
    pub process: u32,
    /// When it started, in clock ticks after boot.
    start_time: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// `Failure::Failed` if `/proc` does not tell.
    pub fn this() -> Result<Self, Failure> {
        let process = std::process::id();
        let stat = fs::read_to_string("/proc/self/stat")
            .map_err(|error| Failure::system("reading /proc/self/stat", error))?;
        let (_, start_time) = parse(&stat)
            .ok_or_else(|| Failure::failed("/proc/self/stat does not tell the start time"))?;
        Ok(Self {
            process,
            start_time,
        })
    }

    /// The owner that the name of a journal tells; `None` if it is none of a journal.
    pub fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
        let (process, start_time) = name.split_once('-')?;
        Some(Self {
            process: process.parse().ok()?,
            start_time: start_time.parse().ok()?,
        })
    }

    /// The name of its journal.
    pub fn file_name(self) -> String {
        format!("{}-{}.json", self.process, self.start_time)
    }

    /// Whether it runs. One that has ended and was not yet waited for does not.
    pub fn is_alive(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process));
        match stat.ok().as_deref().and_then(parse) {
            Some((state, start_time)) => start_time == self.start_time && !"ZXx".contains(state),
            None => false,
        }
    }
}

/// State and start time: fields 3 and 22 of proc_pid_stat(5). The name, field 2, stands in parentheses and may hold anything.
fn parse(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// What names this boot of the machine (random(4)).
///
/// # Errors
/// `Failure::Failed` if `/proc` does not tell.
pub fn boot() -> Result<String, Failure> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .map_err(|error| Failure::system("reading /proc/sys/kernel/random/boot_id", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let rest = (4..=30).map(|field| field.to_string()).collect::<Vec<_>>();
        let stat = format!("7 (a) b (x) S {}", rest.join(" "));
        assert_eq!(parse(&stat), Some(('S', 22)));
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn this_process_lives_and_an_earlier_one_of_its_number_does_not() {
        let this = Owner::this().expect("it is told");
        assert!(this.is_alive());
        let path = Path::new("/x").join(this.file_name());
        assert_eq!(Owner::of_file(&path), Some(this));
        let earlier = Owner {
            start_time: this.start_time - 1,
            ..this
        };
        assert!(!earlier.is_alive());
        assert_eq!(Owner::of_file(Path::new("/x/notes.json")), None);
    }

    #[test]
    fn a_process_that_was_not_waited_for_is_dead() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("it starts");
        let stat = format!("/proc/{}/stat", child.id());
        let stat = || parse(&fs::read_to_string(&stat).expect("it is there")).expect("it is told");
        while stat().0 != 'Z' {
            std::thread::yield_now();
        }
        let owner = Owner {
            process: child.id(),
            start_time: stat().1,
        };
        assert!(!owner.is_alive());
        child.wait().expect("it ended");
    }
}
