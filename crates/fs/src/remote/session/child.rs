//! The child `ssh`: in a session of its own, with the daemon's life, its last words kept.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::cipher::preference;
use super::locked;
use super::own_session::{in_own_session, kill};
use crate::remote::target::Target;
use oscope_sys::error::Failure;

/// Lines of what ssh said that are kept.
const LINES: usize = 20;

/// Bytes of a line at most.
const LINE: u64 = 1000;

/// Bytes of a pipe, where the system lets us: four of the largest packets.
const PIPE: i32 = 1 << 20;

/// How long the last words may come after the end of the child itself: who it started may hold its stderr.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A child `ssh`.
pub struct Ssh {
    child: Mutex<Option<Child>>,
    lines: Arc<Mutex<VecDeque<String>>>,
    silent: Mutex<Receiver<()>>,
}

impl Ssh {
    /// Start it; what is sent to it never waits (`O_NONBLOCK`).
    ///
    /// It must not be called by a process that has changed files open on the very mount that needs this connection: the
    /// child has them too until it executes, where each is closed (`do_close_on_exec`, fs/exec.c), and that asks the
    /// mount to copy it back; this waits for the connection, up to its limit for each file. A mount's own process,
    /// which opens nothing there, has none.
    ///
    /// # Errors
    /// `Failure::Failed`: there is no program ssh, or no process, pipe or thread is to be had.
    pub fn start(target: &Target) -> Result<(Self, ChildStdin, ChildStdout), Failure> {
        let mut command = Command::new("ssh");
        if let Some(option) = preference(target) {
            command.args(["-o", &option]);
        }
        command.args(target.arguments());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        in_own_session(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::remediable("there is no program ssh", "install OpenSSH's client")
            }
            _ => Failure::system("starting ssh", error),
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (silent, waiting) = mpsc::channel();
        let ssh = Self {
            child: Mutex::new(Some(child)),
            lines: Arc::default(),
            silent: Mutex::new(waiting),
        };
        let made = match pipes {
            (Some(input), Some(output), Some(errors)) => {
                let lines = Arc::clone(&ssh.lines);
                let reader = thread::Builder::new().name("ssh-stderr".into());
                let started = reader.spawn(move || {
                    keep_lines(errors, &lines);
                    drop(silent);
                });
                started
                    .and_then(|_| prepare(&input, &output))
                    .map(|()| (input, output))
            }
            _ => Err(io::Error::other("it has no pipes")),
        };
        match made {
            Ok((input, output)) => Ok((ssh, input, output)),
            Err(error) => {
                ssh.kill();
                ssh.reap();
                Err(Failure::system("the pipes of ssh", error))
            }
        }
    }

    /// Kill it and what it started.
    pub fn kill(&self) {
        if let Some(child) = &*locked(&self.child) {
            kill(child);
        }
    }

    /// Kill it, wait for its end: the last thing that it said, if anything.
    pub fn reap(&self) -> Option<String> {
        self.kill();
        if let Some(mut child) = locked(&self.child).take() {
            // It was sent SIGKILL: this does not wait long, and cannot fail for a child that nobody else waits for.
            let _ = child.wait();
        }
        // Ends when the pipe is closed, or after the time set.
        let _ = locked(&self.silent).recv_timeout(LAST_WORDS);
        telling(&locked(&self.lines))
    }
}

fn prepare(input: &ChildStdin, output: &ChildStdout) -> io::Result<()> {
    // Smaller pipes are slower, nothing else: the system may refuse larger ones (pipe-user-pages-soft).
    let _ = fcntl(input.as_fd(), FcntlArg::F_SETPIPE_SZ(PIPE));
    let _ = fcntl(output.as_fd(), FcntlArg::F_SETPIPE_SZ(PIPE));
    fcntl(input.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Keep the last lines until the pipe is closed.
fn keep_lines(errors: ChildStderr, lines: &Mutex<VecDeque<String>>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    while matches!(
        errors.by_ref().take(LINE).read_until(b'\n', &mut line),
        Ok(1..)
    ) {
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        let mut lines = locked(lines);
        lines.extend((!text.is_empty()).then_some(text));
        while lines.len() > LINES {
            lines.pop_front();
        }
    }
}

/// The line that gives the reason: the last one, with the one before it where the last only says that it is so.
fn telling(lines: &VecDeque<String>) -> Option<String> {
    let last = lines.back()?;
    let before = lines.iter().rev().nth(1);
    match before {
        Some(before) if last.starts_with("Host key verification failed") => {
            Some(format!("{before} {last}"))
        }
        Some(before) if last.starts_with("Connection closed") && !before.starts_with("Warning") => {
            Some(format!("{before}; {last}"))
        }
        _ => Some(last.clone()),
    }
}
