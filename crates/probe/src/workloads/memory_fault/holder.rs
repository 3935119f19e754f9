//! A child that does nothing but hold the memory it was given by fork.

use oscope_sys::error::Failure;
use oscope_sys::worker::{Child, describe_exit};

/// The child. It ends with this process, or when dropped, and is reaped.
#[derive(Debug)]
pub struct Holder(Child);

impl Holder {
    /// Fork. From now on a write to any private page of this process copies it.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel makes no child.
    pub fn fork() -> Result<Self, Failure> {
        let child = Child::fork(|| {
            loop {
                nix::unistd::pause();
            }
        });
        child.map(Self).map_err(|failure| match failure {
            Failure::Unavailable { .. } => failure.with_remedy(
                "ask for less size, raise ulimit -u or the control group's pids.max, or as root: sysctl \
                 vm.overcommit_memory=1",
            ),
            other => other,
        })
    }

    /// Make sure that the child still holds its memory: a page that it gave up would have been written to without being
    /// copied.
    ///
    /// # Errors
    /// `Failure::Failed` that says how it ended.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.0.ended()?.map_or(Ok(()), |status| {
            Err(Failure::failed(describe_exit(
                "the child that held the memory",
                status,
            )))
        })
    }
}

#[cfg(test)]
impl Holder {
    /// The child's number.
    pub fn process(&self) -> nix::unistd::Pid {
        self.0.process()
    }
}
