//! A thread's own view of the mounts, and processes that have a view of their own of processes.

use std::fs::File;
use std::io;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{chroot, fchdir};

use oscope_sys::error::Failure;

/// The calling thread's stay in a namespace of its own. Dropping it takes the thread back to where it was.
///
/// Children are made in the namespace, other threads of the process are not in it. Stays within each other end in
/// reverse order.
#[derive(Debug)]
pub struct Stay {
    home: File,
    kind: CloneFlags,
    /// The root and the current folder, which setns(2) changes with the mounts.
    folders: Option<(File, File)>,
    /// A namespace is a thread's: this must not be dropped by another one.
    _of_this_thread: PhantomData<*const ()>,
}

impl Stay {
    /// Give the thread mounts of its own: what it mounts nobody else sees, and it is gone with the last process in
    /// there, also after a kill. What others mount and unmount goes on to be seen (MS_SLAVE, mount_namespaces(7)), so
    /// that nothing of theirs is kept in use.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this process may not; `Failure::Failed` with the kernel's reason.
    pub fn mounts() -> Result<Self, Failure> {
        let folder = |path| File::open(path).map_err(|error| failed(path, &error));
        let folders = Some((folder("/")?, folder(".")?));
        let stay = Self::begin("/proc/thread-self/ns/mnt", CloneFlags::CLONE_NEWNS, folders)?;
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| refused("mounts", error))?;
        let slave = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(None::<&str>, "/", None::<&str>, slave, None::<&str>).map_err(|error| {
            Failure::system("keeping mounts to this process", io::Error::from(error))
        })?;
        Ok(stay)
    }

    /// Have the next child be the first process of a namespace: whatever it starts is killed when it ends
    /// (pid_namespaces(7)). There may be one such child, and no thread can be made meanwhile.
    ///
    /// # Errors
    /// As for [`Stay::mounts`].
    pub fn processes() -> Result<Self, Failure> {
        let stay = Self::begin("/proc/thread-self/ns/pid", CloneFlags::CLONE_NEWPID, None)?;
        unshare(CloneFlags::CLONE_NEWPID).map_err(|error| refused("processes", error))?;
        Ok(stay)
    }

    fn begin(own: &str, kind: CloneFlags, folders: Option<(File, File)>) -> Result<Self, Failure> {
        Ok(Self {
            home: File::open(own).map_err(|error| failed(own, &error))?,
            kind,
            folders,
            _of_this_thread: PhantomData,
        })
    }

    fn leave(&self) -> nix::Result<()> {
        let Some((root, current)) = &self.folders else {
            return setns(&self.home, self.kind);
        };
        // Refused while another thread, made meanwhile, has the same root and current folder (`mntns_install`,
        // fs/namespace.c).
        unshare(CloneFlags::CLONE_FS)?;
        setns(&self.home, self.kind)?;
        fchdir(root)?;
        chroot(".")?;
        fchdir(current)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            eprintln!(
                "oscope-probe: cannot leave a namespace ({:?}): {error}",
                self.kind
            );
        }
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::system(what, error)
}

fn refused(what: &str, error: Errno) -> Failure {
    match error {
        Errno::EPERM => Failure::unavailable(
            format!("only root makes a namespace of {what}"),
            "run as root, or choose system=local",
        )
        .because_of(error),
        _ => Failure::unavailable_system(
            &format!("no namespace of {what} can be made"),
            io::Error::from(error),
            "measure in a guest (--on guest), or choose system=local",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn here() -> [PathBuf; 4] {
        ["ns/mnt", "ns/pid_for_children", "root", "cwd"].map(|name| {
            fs::read_link(format!("/proc/thread-self/{name}")).expect("the kernel reports it")
        })
    }

    #[test]
    fn a_stay_ends_where_it_began_though_a_thread_was_made_meanwhile() {
        let home = here();
        let stay = match Stay::mounts() {
            Err(Failure::Unavailable { message, .. }) => return eprintln!("skipped: {message}"),
            made => made.expect("root makes one"),
        };
        let there = here();
        assert_ne!(there[0], home[0]);
        assert_eq!(there[1..], home[1..]);
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        drop(stay);
        assert_eq!(here(), home);
        drop(end);
        assert!(other.join().expect("it ends").is_err());
        let stay = Stay::processes().expect("root makes one");
        // Not visible before there is a process in it.
        assert!(fs::read_link("/proc/thread-self/ns/pid_for_children").is_err());
        drop(stay);
        assert_eq!(here(), home);
    }
}
