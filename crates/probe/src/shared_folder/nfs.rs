//! NFS 4.2, by the kernel on both sides.

use std::fs::{self, File};
use std::io;
use std::rc::Rc;

use nix::mount::{MsFlags, mount};
use nix::unistd::syncfs;

use super::nfs_server::{IN_WORDS, NfsServer, PORT};
use super::{Client, Folders, mounts};
use crate::guest_init;
use oscope_sys::error::Failure;
use oscope_sys::net::Link;

/// What the kernel must have: the client and the server's own file system (proc_filesystems(5)).
const NEEDED: [&str; 2] = ["nfs4", "nfsd"];

/// A mount of the server's folder. Dropping it unmounts it; the server stops after it.
#[derive(Debug)]
pub struct NfsMount {
    folders: Folders,
    is_mounted: bool,
    _server: NfsServer,
    link: Rc<Link>,
}

/// See that NFS can be had here without touching a machine that is somebody's: its server is the kernel's.
///
/// # Errors
/// `Failure::Unavailable` elsewhere.
pub fn check() -> Result<(), Failure> {
    let known = fs::read_to_string("/proc/filesystems")
        .map_err(|error| Failure::system("/proc/filesystems", &error))?;
    let has = |kind: &str| {
        known
            .lines()
            .any(|line| line.split('\t').nth(1) == Some(kind))
    };
    match guest_init::is_around() && NEEDED.into_iter().all(has) {
        true => Ok(()),
        false => Err(Failure::unavailable(
            "NFS needs a kernel that serves and mounts it, and is measured in a guest alone",
            "measure in a guest (--on guest), or choose another system",
        )),
    }
}

impl NfsMount {
    /// Start a server; nothing is mounted yet.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn new(folders: Folders, link: Rc<Link>) -> Result<Self, Failure> {
        Ok(Self {
            _server: NfsServer::start(&folders, Rc::clone(&link))?,
            folders,
            is_mounted: false,
            link,
        })
    }
}

impl Client for NfsMount {
    fn mount(&mut self) -> Result<(), Failure> {
        // The connection belongs to the namespace in which the file system is mounted.
        let _visit = self.link.sender.enter()?;
        let (server, client) = (self.link.address(), self.link.sender_address());
        // See nfs(5). What is not said is as it is by default.
        let options =
            format!("vers=4.2,addr={server},clientaddr={client},proto=tcp,port={PORT},sec=sys");
        mount(
            Some(format!("{server}:/").as_str()),
            &self.folders.mounted,
            Some("nfs4"),
            MsFlags::empty(),
            Some(options.as_str()),
        )
        .map_err(|error| Failure::system("mounting nfs4", io::Error::from(error)))?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Failure> {
        if self.is_mounted {
            mounts::unmount(&self.folders.mounted)?;
            self.is_mounted = false;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let at = &self.folders.mounted;
        let folder =
            File::open(at).map_err(|error| Failure::system(&at.display().to_string(), &error))?;
        syncfs(folder)
            .map_err(|error| Failure::system("syncfs on a mount of NFS", io::Error::from(error)))
    }

    fn notes(&self) -> Result<Vec<String>, Failure> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_err(|error| Failure::system("/proc/sys/kernel/osrelease", &error))?;
        let mounted = mounts::mounted_on(&self.folders.mounted)?.unwrap_or_default();
        Ok(vec![
            format!("mounted by Linux {}: {mounted}", release.trim_end()),
            format!("the server is the kernel's (nfsd): {IN_WORDS}"),
        ])
    }
}

impl Drop for NfsMount {
    fn drop(&mut self) {
        if self.is_mounted {
            mounts::detach(&self.folders.mounted);
        }
    }
}
