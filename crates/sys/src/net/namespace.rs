//! A network namespace without a name.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns, unshare};

use crate::diagnostics;
use crate::error::Failure;

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace that exists as long as this does, or a process or socket is in it.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// A new one, without any device but a loopback that is down. The calling thread stays where it is.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this process may make none, or the kernel has none.
    pub fn new() -> Result<Self, Failure> {
        // It brings the thread back when it is dropped.
        let _visit = Visit::begin()?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| refused(&error.into()))?;
        own().map(Self)
    }

    /// Take the calling thread into it until the visit is dropped. A socket stays in the namespace in which it was
    /// made, a child where its parent was.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn enter(&self) -> Result<Visit, Failure> {
        let visit = Visit::begin()?;
        self.settle()?;
        Ok(visit)
    }

    /// Take the calling thread into it for good.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn settle(&self) -> Result<(), Failure> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(|error| {
            Failure::system("entering a network namespace", io::Error::from(error))
        })
    }

    /// Where other programs find it while this process keeps it.
    pub fn path(&self) -> PathBuf {
        let process = std::process::id();
        PathBuf::from(format!("/proc/{process}/fd/{}", self.0.as_raw_fd()))
    }
}

/// The calling thread's stay in another namespace. Dropping it takes the thread back.
#[derive(Debug)]
pub struct Visit {
    home: File,
    /// A namespace is a thread's: this must not be dropped by another one.
    _of_this_thread: PhantomData<*const ()>,
}

impl Visit {
    fn begin() -> Result<Self, Failure> {
        Ok(Self {
            home: own()?,
            _of_this_thread: PhantomData,
        })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Err(error) = setns(&self.home, CloneFlags::CLONE_NEWNET) {
            diagnostics::warn(format_args!("cannot leave a network namespace: {error}"));
        }
    }
}

fn own() -> Result<File, Failure> {
    File::open(OWN).map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(),
        _ => Failure::system(OWN, &error),
    })
}

fn refused(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            Failure::unavailable("only root makes network namespaces", "run as root")
                .because_of(error)
        }
        ErrorKind::InvalidInput => missing(),
        _ => Failure::unavailable_system(
            "no network namespace can be made",
            error,
            "raise /proc/sys/user/max_net_namespaces",
        ),
    }
}

fn missing() -> Failure {
    Failure::unavailable(
        "this kernel has no network namespaces (CONFIG_NET_NS)",
        "boot one that has",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn here() -> PathBuf {
        fs::read_link(OWN).expect("the kernel reports it")
    }

    #[test]
    fn a_visit_ends_where_it_began_and_nothing_is_left() {
        let home = here();
        let made = match Namespace::new() {
            Err(Failure::Unavailable { message, .. }) => return eprintln!("skipped: {message}"),
            made => made.expect("root makes one"),
        };
        assert_eq!(here(), home);
        let visit = made.enter().expect("it is ours");
        let there = here();
        assert_ne!(there, home);
        let devices =
            fs::read_to_string("/proc/thread-self/net/dev").expect("the kernel reports it");
        assert_eq!(devices.matches(':').count(), 1, "{devices}");
        drop(visit);
        assert_eq!(here(), home);
        assert_eq!(fs::read_link(made.path()).expect("it is ours"), there);
    }

    #[test]
    fn two_are_not_the_same() {
        let one = match Namespace::new() {
            Err(Failure::Unavailable { message, .. }) => return eprintln!("skipped: {message}"),
            made => made.expect("root makes one"),
        };
        let other = Namespace::new().expect("root makes another");
        let of = |each: &Namespace| fs::read_link(each.path()).expect("it is ours");
        assert_ne!(of(&one), of(&other));
    }
}
