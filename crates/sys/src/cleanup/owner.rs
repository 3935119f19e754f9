//! Which process a journal belongs to, and whether it lives.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::Failure;

/// A process: its start time distinguishes it from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Process number.
    pub process: u32,
    /// When it started, in clock ticks after boot.
    start_time: u64,
    /// Where the number means something.
    place: Place,
}

/// A boot of a machine, and a PID namespace there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The first 8 digits of the boot's name.
    boot: u32,
    /// The inode of the namespace (namespaces(7)).
    namespace: u64,
}

impl Place {
    /// Of this process.
    fn here() -> Result<Self, Failure> {
        let boot = boot()?;
        let digits = boot
            .get(..8)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let namespace = fs::metadata("/proc/self/ns/pid")
            .map_err(|error| Failure::system("looking at /proc/self/ns/pid", error))?;
        Ok(Self {
            boot: digits.ok_or_else(|| Failure::failed(format!("the boot's name is {boot:?}")))?,
            namespace: namespace.ino(),
        })
    }
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// `Failure::Failed` if `/proc` does not show it.
    pub fn this() -> Result<Self, Failure> {
        let process = std::process::id();
        let stat = fs::read_to_string("/proc/self/stat")
            .map_err(|error| Failure::system("reading /proc/self/stat", error))?;
        let (_, start_time) =
            parse(&stat).ok_or_else(|| Failure::failed("/proc/self/stat has no start time"))?;
        Ok(Self {
            process,
            start_time,
            place: Place::here()?,
        })
    }

    /// The owner in the name of a journal; `None` if it is not the name of one.
    pub fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
        let parts: Vec<&str> = name.split('-').collect();
        let [process, start_time, boot, namespace] = parts[..] else {
            return None;
        };
        Some(Self {
            process: process.parse().ok()?,
            start_time: start_time.parse().ok()?,
            place: Place {
                boot: u32::from_str_radix(boot, 16).ok()?,
                namespace: namespace.parse().ok()?,
            },
        })
    }

    /// The name of its journal.
    pub fn file_name(self) -> String {
        let Place { boot, namespace } = self.place;
        format!(
            "{}-{}-{boot:08x}-{namespace}.json",
            self.process, self.start_time
        )
    }

    /// Whether it runs, as far as can be known: of another PID namespace the numbers mean nothing here, so that its
    /// processes may. One that has ended and was not yet waited for does not.
    ///
    /// # Errors
    /// `Failure::Failed` if `/proc` does not show where this process is.
    pub fn may_live(self) -> Result<bool, Failure> {
        let here = Place::here()?;
        if self.place.boot != here.boot {
            return Ok(false);
        }
        if self.place.namespace != here.namespace {
            return Ok(true);
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process));
        Ok(match stat.ok().as_deref().and_then(parse) {
            Some((state, start_time)) => start_time == self.start_time && !"ZXx".contains(state),
            None => false,
        })
    }
}

/// State and start time: fields 3 and 22 of proc_pid_stat(5). The name, field 2, stands in parentheses and may hold
/// anything.
fn parse(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// What names this boot of the machine (random(4)).
///
/// # Errors
/// `Failure::Failed` if `/proc` does not show it.
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
    fn this_process_lives_and_others_only_where_they_can() {
        let this = Owner::this().expect("the kernel reports it");
        assert_eq!(this.may_live(), Ok(true));
        let path = Path::new("/x").join(this.file_name());
        assert_eq!(Owner::of_file(&path), Some(this));
        let earlier = Owner {
            start_time: this.start_time - 1,
            ..this
        };
        assert_eq!(earlier.may_live(), Ok(false));
        let elsewhere = |boot, namespace| Owner {
            place: Place {
                boot: this.place.boot ^ boot,
                namespace: this.place.namespace ^ namespace,
            },
            ..earlier
        };
        assert_eq!(elsewhere(0, 1).may_live(), Ok(true));
        assert_eq!(elsewhere(1, 0).may_live(), Ok(false));
        assert_eq!(elsewhere(1, 1).may_live(), Ok(false));
        for none in ["notes.json", "7-77.json", "7-77-0a-x.json"] {
            assert_eq!(Owner::of_file(Path::new(none)), None);
        }
    }

    #[test]
    fn a_process_that_was_not_waited_for_is_dead() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("it starts");
        let stat = format!("/proc/{}/stat", child.id());
        let stat = || {
            parse(&fs::read_to_string(&stat).expect("the file can be read"))
                .expect("the kernel reports it")
        };
        while stat().0 != 'Z' {
            std::thread::yield_now();
        }
        let owner = Owner {
            process: child.id(),
            start_time: stat().1,
            place: Place::here().expect("the kernel reports it"),
        };
        assert_eq!(owner.may_live(), Ok(false));
        child.wait().expect("it ended");
    }
}
