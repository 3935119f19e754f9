//! Another program on this machine: found, asked for its version, run to its end.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::{AccessFlags, access};

use super::pidfd;
use crate::cancel;
use crate::diagnostics;
use crate::error::Failure;

/// Time allowed for saying a version.
const LONGEST_GREETING: Duration = Duration::from_secs(60);
/// Milliseconds after which a wait looks whether somebody asked to stop: a signal may come just before the wait begins.
const LOOK_MS: u16 = 100;

/// What names a program, and what its version begins with: others of the same name print their times otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    /// The command.
    pub command: &'static str,
    /// The package that has it.
    pub package: &'static str,
    /// The arguments that print its version; empty for a program that cannot.
    pub question: &'static str,
    /// How a line of the answer begins.
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
    /// What it said of its version: the line that begins as it should.
    pub version: String,
}

impl Program {
    /// Find a program in the folders of `search`, which is written as PATH is, and ask for its version.
    ///
    /// # Errors
    /// `Failure::Unavailable` if it is missing or another one, with the remedy; `Failure::Failed` if no process can be
    /// made.
    pub fn find(name: Name, search: Option<&OsStr>) -> Result<Self, Failure> {
        let path = locate(name.command, search.unwrap_or_default());
        let path = path.ok_or_else(|| {
            Failure::unavailable(format!("{} is not installed", name.command), remedy(name))
        })?;
        Self::at(path, name, search)
    }

    /// Take the program at `path`, and ask for its version. The folders of `search` are the PATH that it gets.
    ///
    /// # Errors
    /// `Failure::Unavailable` if it is another one, with the remedy; `Failure::Failed` if no process can be made.
    pub fn at(path: PathBuf, name: Name, search: Option<&OsStr>) -> Result<Self, Failure> {
        // Where the parent ignored it, nobody could wait for a child.
        cancel::handle(Signal::SIGCHLD, SigHandler::SigDfl)?;
        let mut program = Self {
            name,
            path,
            search: search.unwrap_or_default().to_owned(),
            version: String::new(),
        };
        if name.question.is_empty() {
            return Ok(program);
        }
        let mut run = program.run(&[name.question.to_owned()])?;
        let ended = run.finish(Instant::now() + LONGEST_GREETING)?;
        let answer = match run.checked_output(ended) {
            Ok(said) => said.output + &said.errors,
            Err(failure) => failure.to_string(),
        };
        let greets = |line: &&str| line.starts_with(name.greeting);
        let Some(version) = answer.lines().find(greets) else {
            let message = format!(
                "{} is another program: asked for its version, it does not begin with {:?} but with {:?}",
                program.path.display(),
                name.greeting,
                answer.lines().next().unwrap_or_default()
            );
            return Err(Failure::unavailable(message, remedy(name)));
        };
        program.version = version.to_owned();
        Ok(program)
    }

    /// Bring the program file into the page cache: dropping all caches drops it as well, which this probe's own code is
    /// spared.
    ///
    /// # Errors
    /// `Failure::Failed` if it cannot be read.
    pub fn load(&self) -> Result<(), Failure> {
        File::open(&self.path)
            .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
            .map(drop)
            .map_err(|error| Failure::system(&self.path.display().to_string(), error))
    }

    /// Make ready a run with these arguments: nothing in the environment but the PATH and the language, nothing to
    /// read, output into memory.
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
        dies_with_this_process(&mut command).map_err(doing)?;
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

/// What a program wrote.
#[derive(Debug)]
pub struct ProgramOutput {
    /// On standard output.
    pub output: String,
    /// On standard error.
    pub errors: String,
}

impl Run {
    /// Set a variable of its environment.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.command.env(name, value);
    }

    /// Have the program be called by its whole path, by which some start themselves again.
    pub fn call_by_path(&mut self) {
        let path = self.command.get_program().to_owned();
        self.command.arg0(path);
    }

    /// Start the program.
    ///
    /// # Errors
    /// `Failure::Failed` if it cannot be started.
    pub fn start(&mut self) -> Result<Running, Failure> {
        let failed = |error| failed(self.name, error);
        let child = Killed(self.command.spawn().map_err(failed)?);
        let end = pidfd(child.0.id()).map_err(failed)?;
        Ok(Running {
            child,
            end,
            name: self.name,
        })
    }

    /// Start the program and wait until it has ended. It is killed at `latest`, and when the probe is asked to stop.
    ///
    /// # Errors
    /// `Failure::Failed` if it cannot be started or did not end by itself.
    pub fn finish(&mut self, latest: Instant) -> Result<ExitStatus, Failure> {
        self.start()?.wait(latest)
    }

    /// What the program wrote, if it ended well.
    ///
    /// # Errors
    /// `Failure::Failed` with its last words if it did not.
    pub fn checked_output(self, ended: ExitStatus) -> Result<ProgramOutput, Failure> {
        if !ended.success() {
            return Err(self.ended_badly(ended)?);
        }
        Ok(ProgramOutput {
            output: content(&self.output)?,
            errors: content(&self.errors)?,
        })
    }

    /// That the program ended like that, with its last words.
    ///
    /// # Errors
    /// `Failure::Failed` if its output cannot be read.
    pub fn ended_badly(&self, ended: ExitStatus) -> Result<Failure, Failure> {
        let words = self.last_words()?;
        Ok(Failure::failed(format!(
            "{} ended with {ended}: {}",
            self.name.command,
            words.as_deref().unwrap_or("without a word")
        )))
    }

    /// What the program complained of last, or said last of all on standard error, if anything; it may still run.
    ///
    /// # Errors
    /// `Failure::Failed` if its output cannot be read.
    pub fn last_words(&self) -> Result<Option<String>, Failure> {
        let said = ProgramOutput {
            output: content(&self.output)?,
            errors: content(&self.errors)?,
        };
        Ok(complaint(self.name.command, &said).map(str::to_owned))
    }
}

/// A program that runs; dropping it kills it, if it is alive, and waits for it.
#[derive(Debug)]
pub struct Running {
    child: Killed,
    /// Readable once it has ended.
    end: OwnedFd,
    name: Name,
}

impl Running {
    /// How it ended, if it did.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let ended = self.child.0.try_wait();
        ended.map_err(|error| failed(self.name, error))
    }

    /// Wait until it has ended, at most until `latest`, or until the probe is asked to stop.
    ///
    /// # Errors
    /// `Failure::Failed` if it did not end by itself; it is killed when this is dropped.
    pub fn wait(&mut self, latest: Instant) -> Result<ExitStatus, Failure> {
        let command = self.name.command;
        loop {
            let now = Instant::now();
            if cancel::requested() {
                return Err(Failure::failed(format!("{command} was interrupted")));
            }
            if now >= latest {
                return Err(Failure::failed(format!(
                    "{command} had not ended in time and was killed; {}",
                    self.name.if_slow
                )));
            }
            let left = PollTimeout::try_from(latest - now).unwrap_or(PollTimeout::MAX);
            let mut ends = [PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ends, left.min(PollTimeout::from(LOOK_MS))) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    let ended = self.child.0.wait();
                    return ended.map_err(|error| failed(self.name, error));
                }
                Err(error) => return Err(failed(self.name, error.into())),
            }
        }
    }
}

fn failed(name: Name, error: io::Error) -> Failure {
    Failure::system(&format!("running {}", name.command), error)
}

/// The last line that says something.
pub fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// What a program complains of: the last line that its name begins, on either output, or else its last words.
fn complaint<'a>(name: &str, said: &'a ProgramOutput) -> Option<&'a str> {
    let complains = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(": "))
    };
    let mut all = said.errors.lines().chain(said.output.lines());
    all.rfind(complains).or_else(|| last_line(&said.errors))
}

/// A child; dropping it kills it, if it is alive, and waits for it.
#[derive(Debug)]
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let ended = self.0.kill().and_then(|()| self.0.wait());
            if let Err(error) = ended {
                diagnostics::warn(format_args!(
                    "cannot end the process {}: {error}",
                    self.0.id()
                ));
            }
        }
    }
}

/// The folders of PATH and those of programs for root, which are not on every PATH.
pub fn search_for_root() -> OsString {
    let mut search = env::var_os("PATH").unwrap_or_default();
    search.push(":/usr/sbin:/sbin");
    search
}

fn remedy(name: Name) -> String {
    format!("apt-get install {}", name.package)
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

/// All of a file, from its start. The place where a program that runs writes next is left alone.
fn content(file: &File) -> Result<String, Failure> {
    let read = || {
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().map_err(|error: io::Error| Failure::system("reading a program's output", error))
}

/// Have the kernel kill the child when this thread ends, and with it the probe (PR_SET_PDEATHSIG(2const)).
fn dies_with_this_process(command: &mut Command) -> io::Result<()> {
    // Not by its number, which is 0 for a child in a process namespace of its own (getppid(2)).
    let parent = pidfd(std::process::id())?;
    // SAFETY: both calls are async-signal-safe, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            let kill = libc::SIGKILL as libc::c_ulong;
            if libc::prctl(libc::PR_SET_PDEATHSIG, kill) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut end = libc::pollfd {
                fd: parent.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // The probe may have ended before this was asked for.
            match libc::poll(&mut end, 1, 0) {
                0 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
