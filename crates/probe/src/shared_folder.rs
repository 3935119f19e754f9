//! A folder of a server that a client works in through a file system: served and mounted for a request, and gone with
//! it.
//!
//! Server and client are two network namespaces of this machine (`oscope_sys::net`). The calling thread gets mounts of
//! its own, and each program that serves a namespace of processes: after a kill of the probe the kernel ends them, and
//! with the last the mounts. The scratch folder is in the journal of `oscope_sys::cleanup`. The thread's children, such
//! as programs that are to work in the folder, see its mounts.

mod fuse;
mod mounts;
mod namespace;
mod nfs;
mod nfs_server;
mod service;
mod ssh_server;
mod traffic;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;

use fuse::{FuseMount, Kind};
use namespace::Stay;
use nfs::NfsMount;
use oscope_sys::cleanup::{self, CleanupGuard};
use oscope_sys::error::{Failure, errno_message};
use oscope_sys::net::{DEVICE, Link, LinkFailure, Shape};
pub use traffic::Traffic;

/// Longest time that a program may take to start, to end or to bring what was changed to the server.
const PATIENCE: Duration = Duration::from_secs(180);
/// Programs that are run here, for a guest to have them.
pub const PROGRAMS: [&str; 8] = [
    "oscope-fs",
    "sshfs",
    "fusermount3",
    "ssh",
    "sshd",
    "ssh-keygen",
    "ip",
    "tc",
];

/// The file system between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// None: the client works in the server's folder.
    Local,
    /// oscope-fs, over SFTP.
    Oscope,
    /// sshfs, over SFTP, cached as it is by default.
    Sshfs,
    /// NFS 4.2 of the kernel.
    Nfs,
}

/// A file system's part of the client.
trait Client: fmt::Debug {
    /// Mount the server's folder.
    fn mount(&mut self) -> Result<(), Failure>;
    /// Unmount it, if it is mounted, and forget all that is cached on this side.
    fn unmount(&mut self) -> Result<(), Failure>;
    /// Have the server get whatever is still to be written by files that are closed.
    fn settle(&mut self) -> Result<(), Failure>;
    /// Versions and options of what mounts and serves.
    fn notes(&self) -> Result<Vec<String>, Failure>;
}

/// Where things lie.
#[derive(Debug, Clone)]
struct Folders {
    root: PathBuf,
    served: PathBuf,
    mounted: PathBuf,
}

/// A served and mounted folder. Dropping it unmounts and ends everything, and takes the thread that made it back to the
/// machine's mounts.
#[derive(Debug)]
pub struct SharedFolder {
    // Dropped in this order: what is mounted, the link, the thread's own mounts, the scratch folder.
    client: Option<Box<dyn Client>>,
    link: Option<Rc<Link>>,
    _stay: Option<Stay>,
    _made: CleanupGuard,
    folders: Folders,
    notes: Vec<String>,
    /// Whether the mount is the first one, and nobody asked yet for one with nothing cached.
    is_new: bool,
}

impl SharedFolder {
    /// Make server, link and mount, with a scratch folder in `directory` for all that they keep. The folder that is
    /// served is empty.
    ///
    /// # Errors
    /// `Failure::Unavailable` where this machine cannot, with the remedy; `Failure::Request` for a directory or shape
    /// that will not do. What was made so far is undone.
    pub fn make(system: System, directory: &Path, shape: &Shape) -> Result<Self, Failure> {
        if system == System::Local && !shape.is_none() {
            return Err(Failure::request(
                "delay",
                "there is no network with system=local; choose 0, or another system",
            ));
        }
        let directory = checked(directory, system)?;
        if system == System::Nfs {
            nfs::check()?;
        }
        if system != System::Local && !nix::unistd::geteuid().is_root() {
            return Err(Failure::unavailable(
                "only root mounts and makes networks",
                "run as root, or choose system=local",
            ));
        }
        let (root, made) =
            cleanup::folder::make(&directory, "choose another with --set directory=DIR")?;
        let folders = Folders::make(root, system)?;
        let mut shared = Self {
            client: None,
            link: None,
            _stay: None,
            _made: made,
            folders,
            notes: Vec::new(),
            is_new: true,
        };
        if system != System::Local {
            shared.join(system, shape)?;
        }
        Ok(shared)
    }

    fn join(&mut self, system: System, shape: &Shape) -> Result<(), Failure> {
        let link = Rc::new(Link::make(shape).map_err(no_link)?);
        keep_quiet(&link)?;
        self.link = Some(Rc::clone(&link));
        self._stay = Some(Stay::mounts()?);
        let folders = self.folders.clone();
        let to = Rc::clone(&link);
        let client: Box<dyn Client> = match system {
            System::Local => return Ok(()),
            System::Oscope => Box::new(FuseMount::new(Kind::Oscope, folders, to)?),
            System::Sshfs => Box::new(FuseMount::new(Kind::Sshfs, folders, to)?),
            System::Nfs => Box::new(NfsMount::new(folders, to)?),
        };
        let client = self.client.insert(client);
        client.mount()?;
        self.notes = client.notes()?;
        self.notes.push(link.note.clone());
        Ok(())
    }

    /// The server's folder, seen without the file system.
    pub fn served(&self) -> &Path {
        &self.folders.served
    }

    /// Where the client works; with `System::Local` the same folder as [`SharedFolder::served`].
    pub fn mounted(&self) -> &Path {
        &self.folders.mounted
    }

    /// Unmount, forget every byte and attribute that is cached on the client's side, and mount again. With
    /// `System::Local` nothing is done: the page cache is the only one. Whatever was opened in the folder must be
    /// closed.
    ///
    /// # Errors
    /// `Failure::Failed` if something in it is open, or with the reason of what mounts.
    pub fn renew(&mut self) -> Result<(), Failure> {
        self.is_new = false;
        match &mut self.client {
            None => Ok(()),
            Some(client) => client.unmount().and_then(|()| client.mount()),
        }
    }

    /// As [`SharedFolder::renew`], but keep the mount the first time: a connection takes some tenths of a second. Who
    /// calls this must not have looked into [`SharedFolder::mounted`] before.
    ///
    /// # Errors
    /// As for [`SharedFolder::renew`].
    pub fn renew_unless_new(&mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_new) {
            true => Ok(()),
            false => self.renew(),
        }
    }

    /// Wait until all that was changed in files that are closed is with the server, so that [`SharedFolder::served`]
    /// shows it. It need not be on the server's disk.
    ///
    /// # Errors
    /// `Failure::Failed` if it cannot be brought there.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.client
            .as_mut()
            .map_or(Ok(()), |client| client.settle())
    }

    /// Counters of the client's network device; `None` with `System::Local`.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn traffic(&self) -> Result<Option<Traffic>, Failure> {
        self.link.as_deref().map(Traffic::of).transpose()
    }

    /// Versions and options of what mounts and serves, and of the link.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Folders {
    fn make(root: PathBuf, system: System) -> Result<Self, Failure> {
        let served = root.join("served");
        let mounted = match system {
            System::Local => served.clone(),
            System::Oscope | System::Sshfs | System::Nfs => root.join("mounted"),
        };
        for folder in [&served, &mounted] {
            match fs::create_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => {
                    done.map_err(|error| Failure::system(&folder.display().to_string(), &error))?
                }
            }
        }
        Ok(Self {
            root,
            served,
            mounted,
        })
    }
}

/// The directory's path without links. The settings of ssh and the kernel's tables take no blanks, quotes, escapes and
/// tokens in names.
fn checked(directory: &Path, system: System) -> Result<PathBuf, Failure> {
    let shown = directory.display();
    let refused = |why: &str| Failure::request("directory", format!("{shown}: {why}"));
    let path = directory
        .canonicalize()
        .map_err(|error| refused(&errno_message(&error)))?;
    if !path.is_dir() {
        return Err(refused("it is no folder"));
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=@~^".contains(letter);
    match path.to_str() {
        _ if system == System::Local => Ok(path),
        Some(name) if name.chars().all(plain) => Ok(path),
        _ => Err(refused(
            "only letters of ASCII, digits and /._-+=@~^ may be in its name; choose another folder",
        )),
    }
}

/// Packets of IPv6 that nobody asked for (RFC 4861, 3810) would be counted as the file system's.
fn keep_quiet(link: &Link) -> Result<(), Failure> {
    let setting = format!("/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6");
    for namespace in [&link.sender, &link.receiver] {
        let _visit = namespace.enter()?;
        match fs::write(&setting, "1") {
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|error| Failure::system(&setting, &error))?,
        }
    }
    Ok(())
}

/// Why there is no network, and what to do instead.
fn no_link(reason: LinkFailure) -> Failure {
    let remedy = "measure in a guest (--on guest), or choose delay=0 or system=local";
    match reason {
        LinkFailure::NoNetwork(failure) => failure.with_remedy(remedy),
        LinkFailure::NoDelay | LinkFailure::NoRate => {
            Failure::unavailable(reason.to_string(), remedy)
        }
        LinkFailure::Other(failure) => failure,
    }
}

#[cfg(test)]
mod tests;
