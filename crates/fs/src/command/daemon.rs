//! Becomes a process of its own, and reports the progress of the mount to the process that the person started.
//!
//! The child is forked before any thread exists. It reports by lines of JSON in a pipe, which ends with the mount
//! standing, or with its failure.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use nix::fcntl::OFlag;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, setsid};
use serde::{Deserialize, Serialize};

use super::failed;
use crate::log;
use oscope_sys::error::Failure;
use oscope_sys::worker::describe_exit;

/// What the child reports.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// How it goes.
    Note(String),
    /// The mount answers.
    Ready,
    /// It came to nothing.
    Failed { message: String, remedy: String },
}

/// Where this process goes on.
pub enum Side {
    /// In the process that the person started; the child has mounted.
    Parent(Pid),
    /// In the child.
    Child(ProgressReporter),
}

/// Reports the progress of the mount to the person.
pub struct ProgressReporter(Mutex<Option<File>>);

impl ProgressReporter {
    /// In the foreground: `log::note` has standard error.
    pub fn foreground() -> Self {
        Self(Mutex::new(None))
    }

    /// Report how it goes, in the log as well.
    pub fn note(&self, text: &str) {
        log::note(text);
        self.send(&Message::Note(text.to_owned()));
    }

    /// The mount answers: the process that the person started ends.
    pub fn ready(&self) {
        self.send(&Message::Ready);
        *self.held() = None;
    }

    /// It came to nothing.
    pub fn failed(&self, failure: &Failure) {
        self.send(&Message::Failed {
            message: failure.to_string(),
            remedy: failure.remedy().unwrap_or_default().to_owned(),
        });
    }

    /// A descriptor that shows when the process that the person started is gone; None in the foreground.
    pub fn watched(&self) -> Option<OwnedFd> {
        self.held()
            .as_ref()
            .and_then(|pipe| pipe.try_clone().ok())
            .map(OwnedFd::from)
    }

    fn send(&self, message: &Message) {
        // Where nobody reads any more, the watch on `watched` knows.
        if let (Some(pipe), Ok(text)) = (self.held().as_mut(), serde_json::to_string(message)) {
            let _ = writeln!(pipe, "{text}");
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Go on as a process of its own in a session of its own. Only while there is one thread.
///
/// The parent waits for the mount, prints the child's notes, and returns its failure as its own.
pub fn part() -> Result<Side, Failure> {
    let cannot = |error: nix::Error| {
        failed(
            format!("no process can be made ({error})"),
            "add -f to stay in the foreground",
        )
    };
    let (reading, writing) = pipe2(OFlag::O_CLOEXEC).map_err(cannot)?;
    // SAFETY: no thread has been made yet, so that no lock is held by one which the child would not have.
    match unsafe { fork() }.map_err(cannot)? {
        ForkResult::Parent { child } => {
            drop(writing);
            attend(reading, child)
        }
        ForkResult::Child => {
            drop(reading);
            let reporter = ProgressReporter(Mutex::new(Some(writing.into())));
            setsid()
                .map_err(cannot)
                .and_then(|_| leave())
                .inspect_err(|failure| reporter.failed(failure))?;
            Ok(Side::Child(reporter))
        }
    }
}

/// Let go of the folder, the terminal and the pipes of whoever called: they would wait for this process to end.
fn leave() -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| failed(format!("/dev/null does not open ({error})"), "repair /dev");
    std::env::set_current_dir("/").map_err(cannot)?;
    let nowhere = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(cannot)?;
    dup2_stdin(&nowhere)
        .and_then(|()| dup2_stdout(&nowhere))
        .and_then(|()| dup2_stderr(&nowhere))
        .map_err(|error| cannot(error.into()))
}

fn attend(reading: OwnedFd, child: Pid) -> Result<Side, Failure> {
    for line in BufReader::new(File::from(reading)).lines() {
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(Message::Note(text)) => log::note(&text),
            Some(Message::Ready) => return Ok(Side::Parent(child)),
            Some(Message::Failed { message, remedy }) => {
                // Its last message: when the failure is reported, nothing of the mount runs any more.
                let _ = waitpid(child, None);
                return Err(failed(message, remedy));
            }
            None => break,
        }
    }
    let who = format!("the process of the mount (PID {child})");
    let ended = match waitpid(child, None) {
        Ok(status) => describe_exit(&who, status),
        Err(_) => format!("{who} ended"),
    };
    Err(failed(
        format!("{ended} before it answered"),
        "add -f to see what it says",
    ))
}
