//! A program that serves until it is ended, with whatever it starts.

use std::time::{Duration, Instant};

use super::namespace::Stay;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::worker::program::{Run, Running};

/// Time between two looks at a program that is starting.
const PAUSE: Duration = Duration::from_millis(2);

/// A program that runs as the first process of a namespace. Dropping it kills it, and the kernel then everything that
/// it started: none of them outlives this, nor the probe if that is killed (pid_namespaces(7)).
#[derive(Debug)]
pub struct Service {
    running: Running,
    run: Run,
}

impl Service {
    /// Start it in the calling thread's namespaces of mounts and network.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there can be no such namespace; `Failure::Failed` if it cannot be started.
    pub fn start(mut run: Run) -> Result<Self, Failure> {
        let _stay = Stay::processes()?;
        Ok(Self {
            running: run.start()?,
            run,
        })
    }

    /// Wait until `ready` says so, at most until `latest`.
    ///
    /// # Errors
    /// `Failure::Failed` with the program's last words if it ends instead, if it is not ready in time, or after a
    /// signal.
    pub fn wait_until(
        &mut self,
        latest: Instant,
        what: &str,
        mut ready: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        loop {
            if let Some(ended) = self.running.ended()? {
                return Err(self.run.ended_badly(ended)?);
            }
            if ready()? {
                return Ok(());
            }
            if cancel::requested() {
                return Err(Failure::failed(format!("interrupted before {what}")));
            }
            if Instant::now() >= latest {
                return Err(Failure::failed(format!("it was not in time that {what}")));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// What it said last, if anything.
    ///
    /// # Errors
    /// `Failure::Failed` if that cannot be read.
    pub fn last_words(&self) -> Result<Option<String>, Failure> {
        self.run.last_words()
    }

    /// Wait until it has ended by itself.
    ///
    /// # Errors
    /// `Failure::Failed` with its last words if it ended with another status than 0, or not in time.
    pub fn finish(mut self, latest: Instant) -> Result<(), Failure> {
        let ended = self.running.wait(latest)?;
        match ended.success() {
            true => Ok(()),
            false => Err(self.run.ended_badly(ended)?),
        }
    }
}
