//! The thread or process that a worker is.

use std::thread::{Builder, JoinHandle};

use super::child::{Child, describe_exit};
use super::refused;
use crate::error::Failure;

/// What a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A thread of this process.
    Thread,
    /// A forked process, which the kernel kills at the end of the thread that made it.
    Process,
}

/// A worker that was started. A process ends with its value; a thread must be asked to end before it is joined.
#[derive(Debug)]
pub enum WorkerHandle {
    /// A thread, until it is joined.
    Thread(Option<JoinHandle<()>>),
    /// A forked process.
    Process(Child),
}

impl WorkerHandle {
    /// Starts a worker that lives `life`. Of a process, this side's copy of `life` is dropped, with the descriptors
    /// that it owns.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a limit forbids one more thread or process.
    pub fn start(kind: Kind, life: impl FnOnce() + Send + 'static) -> Result<Self, Failure> {
        match kind {
            Kind::Thread => match Builder::new().spawn(life) {
                Ok(thread) => Ok(Self::Thread(Some(thread))),
                Err(error) => Err(refused("thread", &error)),
            },
            Kind::Process => Child::fork(life).map(Self::Process),
        }
    }

    /// Returns how it ended, in words, if it did.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn death(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::Thread(thread) => {
                let ended = thread.as_ref().is_none_or(JoinHandle::is_finished);
                Ok(ended.then(|| "the other thread ended before its time".to_owned()))
            }
            Self::Process(child) => {
                let ended = child.ended()?;
                Ok(ended.map(|status| describe_exit("the other process", status)))
            }
        }
    }
}
