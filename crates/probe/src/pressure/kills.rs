//! Which processes the kernel kills for lack of memory, and how many it killed.

use std::fs;
use std::path::PathBuf;

use nix::unistd::Pid;

use oscope_sys::error::Failure;

/// How willingly the kernel kills a process for want of memory (proc_pid_oom_score_adj(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomScoreAdj {
    /// Before all others.
    First,
    /// Not at all.
    Never,
}

impl OomScoreAdj {
    /// Have the kernel treat the process so.
    ///
    /// # Errors
    /// `Failure::Unavailable` where it must not be asked.
    pub fn mark(self, process: Pid) -> Result<(), Failure> {
        let path = format!("/proc/{process}/oom_score_adj");
        let score = match self {
            Self::First => "1000",
            Self::Never => "-1000",
        };
        fs::write(&path, score).map_err(|error| {
            Failure::unavailable_system(
                &format!("writing {score} to {path}"),
                error,
                "run as root with CAP_SYS_RESOURCE",
            )
        })
    }
}

/// A counter of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kills(PathBuf);

impl Kills {
    /// Those of the whole machine (Linux 4.13 and later).
    pub fn of_machine() -> Self {
        Self::in_file("/proc/vmstat".into())
    }

    /// The number of `oom_kill` in a file of lines `name number`.
    pub fn in_file(path: PathBuf) -> Self {
        Self(path)
    }

    /// How many by now.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn count(&self) -> Result<u64, Failure> {
        let text = fs::read_to_string(&self.0)
            .map_err(|error| Failure::system(&self.0.display().to_string(), &error))?;
        parse(&text).ok_or_else(|| Failure::failed(format!("{} has no oom_kill", self.0.display())))
    }
}

fn parse(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_report_it() {
        assert_eq!(
            parse("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            Some(3)
        );
        assert_eq!(
            parse("low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"),
            Some(1)
        );
        assert_eq!(parse("oom_kill_disable 0\n"), None);
    }

    #[test]
    fn the_machine_reports_it() {
        assert!(Kills::of_machine().count().is_ok());
    }
}
