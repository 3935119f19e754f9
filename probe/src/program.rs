//! Another program on this machine: found, asked for its version, run to its end.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::{AccessFlags, access};

use crate::cancel;
use crate::error::Failure;

/// Time allowed for saying a version.
const LONGEST_GREETING: Duration = Duration::from_secs(60);
/// Milliseconds after which a wait looks whether somebody asked to stop: a signal may come just before the wait begins.
const LOOK_MS: u16 = 100;

/// What names a program, and what its version begins with: others of the same name tell their times otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    /// The command.
    pub command: &'static str,
    /// The package that has it.
    pub package: &'static str,
    /// What asks it for its version.
    pub question: &'static str,
    /// How the answer begins.
    pub greeting: &'static str,
    /// What would make a run of it end in time.
    pub if_slow: &'static str,
}

/// A program that was found, and that is the one meant.
#[derive(Debug)]
pub struct Program {
    name: Name,
    path: PathBuf,
    search: OsString,
    /// What it said of its version: the first line.
    pub version: String,
}

impl Program {
    /// Find a program in the folders of `search`, which is written as PATH is, and ask for its version.
    ///
    /// # Errors
    /// `Failure::Unavailable` if it is missing or another one, with the remedy; `Failure::Failed` if no process can be made.
    pub fn find(name: Name, search: Option<&OsStr>) -> Result<Self, Failure> {
        // Where the parent ignored it, nobody could wait for a child.
        cancel::handle(Signal::SIGCHLD, SigHandler::SigDfl)?;
        let remedy = format!("apt-get install {}", name.package);
        let search = search.unwrap_or_default().to_owned();
        let path = locate(name.command, &search).ok_or_else(|| {
            Failure::unavailable(format!("{} is not installed", name.command), &remedy)
        })?;
        let mut program = Self {
            name,
            path,
            search,
            version: String::new(),
        };
        let mut run = program.run(&[name.question.to_owned()])?;
        let ended = run.finish(Instant::now() + LONGEST_GREETING)?;
        let answer = match run.said(ended) {
            Ok(said) => said.output.lines().next().unwrap_or_default().to_owned(),
            Err(failure) => failure.to_string(),
        };
        if !answer.starts_with(name.greeting) {
            let message = format!(
                "{} is another program: asked for its version, it does not begin with {:?} but with {answer:?}",
                program.path.display(),
                name.greeting
            );
            return Err(Failure::unavailable(message, remedy));
        }
        program.version = answer;
        Ok(program)
    }

    /// Bring the program file into the page cache: dropping all caches drops it as well, which this probe's own code is spared.
    ///
    /// # Errors
    /// `Failure::Failed` if it cannot be read.
    pub fn load(&self) -> Result<(), Failure> {
        File::open(&self.path)
            .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
            .map(drop)
            .map_err(|error| Failure::system(&self.path.display().to_string(), error))
    }

    /// Make ready a run with these arguments: nothing in the environment but the PATH and the language, nothing to read, output into memory.
    ///
    /// # Errors
    /// `Failure::Failed` if there is no memory for the output.
    pub fn run(&self, arguments: &[String]) -> Result<Run, Failure> {
        let doing = |error: io::Error| Failure::system("making room for a program's output", error);
        let (output, errors) = (memory_file()?, memory_file()?);
        let mut command = Command::new(&self.path);
        command
            .arg0(self.name.command)
            .args(arguments)
            .env_clear()
            .env("PATH", &self.search)
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(doing)?)
            .stderr(errors.try_clone().map_err(doing)?);
        dies_with_this_process(&mut command);
        Ok(Run {
            command,
            name: self.name,
            output,
            errors,
        })
    }
}

/// A run made ready. Its output goes to files in memory, so that it never waits for a reader.
#[derive(Debug)]
pub struct Run {
    command: Command,
    name: Name,
    output: File,
    errors: File,
}

/// What a program said.
#[derive(Debug)]
pub struct Said {
    /// On standard output.
    pub output: String,
    /// On standard error.
    pub errors: String,
}

impl Run {
    /// Start the program and wait until it has ended. It is killed at `latest`, and when the probe is asked to stop.
    ///
    /// # Errors
    /// `Failure::Failed` if it cannot be started or did not end by itself.
    pub fn finish(&mut self, latest: Instant) -> Result<ExitStatus, Failure> {
        let failed = |error| Failure::system(&format!("running {}", self.name.command), error);
        let mut running = Running(self.command.spawn().map_err(failed)?);
        let end = pidfd(&running.0).map_err(failed)?;
        loop {
            let now = Instant::now();
            if cancel::requested() {
                return Err(Failure::failed(format!(
                    "{} was interrupted",
                    self.name.command
                )));
            }
            if now >= latest {
                return Err(Failure::failed(format!(
                    "{} had not ended in time and was killed; {}",
                    self.name.command, self.name.if_slow
                )));
            }
            let left = PollTimeout::try_from(latest - now).unwrap_or(PollTimeout::MAX);
            let mut ends = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ends, left.min(PollTimeout::from(LOOK_MS))) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return running.0.wait().map_err(failed),
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// What the program said, if it ended well.
    ///
    /// # Errors
    /// `Failure::Failed` with its last words if it did not.
    pub fn said(self, ended: ExitStatus) -> Result<Said, Failure> {
        let said = Said {
            output: content(self.output)?,
            errors: content(self.errors)?,
        };
        if ended.success() {
            return Ok(said);
        }
        let words = complaint(self.name.command, &said).unwrap_or("without a word");
        Err(Failure::failed(format!(
            "{} ended with {ended}: {words}",
            self.name.command
        )))
    }
}

/// The last line that says something.
pub fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// What a program complains of: the last line that its name begins, on either output, or else its last words.
fn complaint<'a>(name: &str, said: &'a Said) -> Option<&'a str> {
    let complains = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(": "))
    };
    let mut all = said.errors.lines().chain(said.output.lines());
    all.rfind(complains).or_else(|| last_line(&said.errors))
}

/// A child; dropping it kills it, if it is alive, and waits for it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let ended = self.0.kill().and_then(|()| self.0.wait());
            if let Err(error) = ended {
                eprintln!(
                    "oscope-probe: cannot end the process {}: {error}",
                    self.0.id()
                );
            }
        }
    }
}

/// Where `command` lies, by the absolute folders of `search`.
fn locate(command: &str, search: &OsStr) -> Option<PathBuf> {
    env::split_paths(search)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(|path| path.is_file() && is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    access(path, AccessFlags::X_OK).is_ok()
}

/// A file without a name, in memory.
fn memory_file() -> Result<File, Failure> {
    memfd_create(c"oscope", MFdFlags::MFD_CLOEXEC)
        .map(File::from)
        .map_err(|error| Failure::system("memfd_create", error))
}

/// All of a file, from its start.
fn content(mut file: File) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|error| Failure::system("reading a program's output", error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Have the kernel kill the child when this thread ends, and with it the probe (PR_SET_PDEATHSIG(2const)).
fn dies_with_this_process(command: &mut Command) {
    let parent = nix::unistd::getpid().as_raw();
    // SAFETY: both calls are async-signal-safe, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            let kill = libc::SIGKILL as libc::c_ulong;
            if libc::prctl(libc::PR_SET_PDEATHSIG, kill) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The probe may have ended before this was asked for.
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// A descriptor that becomes readable at the child's end (pidfd_open(2), Linux 5.3).
fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers; the child is not waited for yet, so the first is still its own.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let descriptor = Errno::result(answer)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEP: Name = Name {
        command: "sleep",
        package: "coreutils",
        greeting: "sleep (GNU coreutils) ",
        question: "--version",
        if_slow: "sleep less",
    };

    fn find(command: &'static str, greeting: &'static str) -> Program {
        let name = Name {
            command,
            greeting,
            ..SLEEP
        };
        Program::find(name, env::var_os("PATH").as_deref()).unwrap()
    }

    fn say(program: &Program, arguments: &[&str]) -> Result<Said, Failure> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let mut run = program.run(&arguments)?;
        let ended = run.finish(Instant::now() + LONGEST_GREETING)?;
        run.said(ended)
    }

    #[test]
    fn a_missing_program_has_a_remedy() {
        for search in [None, Some("/nowhere"), Some("bin:.:"), Some("/etc")] {
            match Program::find(SLEEP, search.map(OsStr::new)) {
                Err(Failure::Unavailable { message, remedy }) => {
                    assert_eq!(message, "sleep is not installed");
                    assert_eq!(remedy.unwrap(), "apt-get install coreutils");
                }
                other => panic!("{search:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn another_program_of_the_same_name_is_refused() {
        let name = Name {
            greeting: "sleep (another)",
            ..SLEEP
        };
        match Program::find(name, env::var_os("PATH").as_deref()) {
            Err(Failure::Unavailable { message, .. }) => {
                assert!(message.contains("sleep (GNU coreutils)"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_environment_is_the_path_and_the_language() {
        let said = say(&find("env", "env (GNU"), &[]).unwrap();
        let mut names: Vec<_> = said
            .output
            .lines()
            .map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        assert_eq!(names, [Some("LC_ALL"), Some("PATH")]);
    }

    #[test]
    fn much_output_is_taken_whole() {
        let said = say(&find("seq", "seq (GNU"), &["300000"]).unwrap();
        assert_eq!(said.output.lines().count(), 300_000);
        assert_eq!(last_line(&said.output), Some("300000"));
    }

    #[test]
    fn last_words_and_status_of_a_failure_are_told() {
        let sleep = find("sleep", SLEEP.greeting);
        let failure = say(&sleep, &["long"]).unwrap_err().to_string();
        let words = "sleep ended with exit status: 1: sleep: invalid time interval";
        assert!(failure.starts_with(words), "{failure}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_and_waited_for() {
        let sleep = find("sleep", SLEEP.greeting);
        let mut run = sleep.run(&["1000".to_owned()]).unwrap();
        let refused = run.finish(Instant::now() + Duration::from_millis(300));
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .contains("not ended in time")
        );
    }

    #[test]
    fn the_kernel_kills_the_child_at_the_end_of_the_thread_that_made_it() {
        let sleep = find("sleep", SLEEP.greeting);
        let orphan = std::thread::spawn(move || {
            let mut run = sleep.run(&["1000".to_owned()]).unwrap();
            run.command.spawn().unwrap()
        });
        let mut orphan = orphan.join().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(orphan.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
