//! Which threads are to be moved.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::unistd::Pid;

/// Threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// This one.
    Thread(Pid),
    /// The main threads of the probes that this process started. A laboratory starts them sequentially.
    ProbesOf(Pid),
}

impl Target {
    /// What was named, if anything.
    pub fn of(thread: Option<i32>, probes_of: Option<i32>) -> Option<Self> {
        let thread = thread.map(|number| Self::Thread(Pid::from_raw(number)));
        thread.or(probes_of.map(|number| Self::ProbesOf(Pid::from_raw(number))))
    }

    /// The threads that there are now. Looking for a process's children takes some milliseconds: not every kernel has a
    /// list of them.
    pub fn threads(self) -> Vec<Pid> {
        match self {
            Self::Thread(thread) => vec![thread],
            Self::ProbesOf(parent) => {
                let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
                numbers
                    .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                    .filter(|&process| is_probe_of(process, parent.as_raw()))
                    .map(Pid::from_raw)
                    .collect()
            }
        }
    }
}

/// Whether the process is a child of `parent`, runs this very program, and measures.
fn is_probe_of(process: i32, parent: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let own = |path: &str| {
        fs::metadata(path)
            .map(|found| (found.dev(), found.ino()))
            .ok()
    };
    parse(&stat).is_some_and(|found| found.parent == parent)
        && own(&format!("/proc/{process}/exe")) == own("/proc/self/exe")
        && fs::read(format!("/proc/{process}/cmdline"))
            .is_ok_and(|words| words.split(|&byte| byte == 0).nth(1) == Some(b"run"))
}

/// The CPU that a thread runs on, or ran on last; `None` if there is no such thread.
pub fn cpu_of(thread: Pid) -> Option<usize> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    parse(&stat).map(|found| found.cpu)
}

struct Stat {
    parent: i32,
    cpu: usize,
}

/// Fields 4 and 39 of proc_pid_stat(5); the name, field 2, stands in parentheses and may hold anything.
fn parse(stat: &str) -> Option<Stat> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some(Stat {
        parent: fields.nth(1)?.parse().ok()?,
        cpu: fields.nth(34)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_and_cpu_are_found_behind_any_name() {
        let rest: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let found =
            parse(&format!("7 (a) b (x) S {}", rest.join(" "))).expect("the line has every field");
        assert_eq!((found.parent, found.cpu), (4, 39));
        assert!(parse("7 (a").is_none());
    }

    #[test]
    fn this_thread_runs_on_an_allowed_cpu_and_has_no_probes() {
        let this = nix::unistd::gettid();
        let cpu = cpu_of(this).expect("the thread runs");
        assert!(
            oscope_sys::affinity::allowed()
                .expect("the kernel reports it")
                .contains(&cpu)
        );
        assert_eq!(Target::ProbesOf(this).threads(), []);
        assert_eq!(
            Target::of(Some(7), None).expect("named").threads(),
            [Pid::from_raw(7)]
        );
    }
}
