//! A mount from its making to its end.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use fuser::{Config, MountOption, SessionACL};
use nix::unistd::{AccessFlags, access};

use crate::log;
use crate::remote::{Attributes, Kind, Remote, Time};
use crate::store::{Store, Temporaries};
use oscope_sys::error::Failure;

use super::maintenance::MaintenanceThread;
use super::session::Session;
use super::tree::Tree;
use super::workers::Workers;
use super::{Options, Shared, locked};

/// Threads that read requests of the kernel: each may be busy with a read or write of a copy.
const READERS: usize = 4;
const _: () = assert!(
    READERS > super::workers::HERE,
    "nobody would hear the kernel"
);

/// A mount that is ready to run.
pub struct Mounted {
    shared: Arc<Shared>,
}

impl Mounted {
    /// A mount of the server's folder over this cache.
    pub fn new(remote: Arc<Remote>, store: Arc<Store>, options: Options) -> Self {
        remote.journal(Arc::<Temporaries>::clone(store.temporaries()));
        let root = remote.lstat(Path::new("")).unwrap_or(UNKNOWN);
        let left: HashSet<_> = store.dirty_paths().into_iter().collect();
        let left_renames = store.unresolved_renames();
        let shared = Shared {
            remote,
            store,
            tree: Mutex::new(Tree::new(root, options.attribute_time)),
            options,
            handles: Mutex::new(HashMap::new()),
            folders: Mutex::new(HashMap::new()),
            names: RwLock::new(()),
            next: AtomicU64::new(1),
            report_state: super::report::ReportState::default(),
            following: Mutex::default(),
            spare: Mutex::new(None),
            left: Mutex::new(left),
            unresolved_renames: Mutex::new(Vec::new()),
            left_renames: Mutex::new(left_renames),
            kernel: OnceLock::new(),
        };
        let shared = Arc::new(shared);
        let tree = Arc::downgrade(&shared);
        shared.remote.watch_folders(move |path, now| {
            if let Some(shared) = tree.upgrade() {
                shared.tree().folder_became(path, now);
            }
        });
        Self { shared }
    }

    /// What other threads may ask meanwhile.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Mounts, calls `ready` when the kernel has been answered, and serves until it is unmounted; then copies back what
    /// is left. What cannot be copied back stays dirty in the cache, and the report says so.
    ///
    /// # Errors
    /// `Failure::Failed` with a remedy: it cannot be mounted there, or the session ended by an error.
    pub fn run(self, mountpoint: &Path, ready: impl FnOnce()) -> Result<(), Failure> {
        let workers = Workers::default();
        let session = Session::new(Arc::clone(&self.shared), workers.clone());
        let config = config(&self.shared.options, &self.shared.remote.name());
        let session = fuser::Session::new(session, mountpoint, &config)
            .map_err(|error| refused(mountpoint, &error))?;
        // Set once: a mount is run once.
        let _ = self.shared.kernel.set(session.notifier());
        let maintenance = MaintenanceThread::start(&self.shared);
        ready();
        let ended = session.run();
        workers.close();
        drop(maintenance);
        self.shared.end();
        ended.map_err(|error| {
            let message = format!(
                "the mount on {} ended by an error: {error}",
                mountpoint.display()
            );
            Failure::remediable(
                message,
                "what was not copied back is kept: run `oscope-fs recover`",
            )
        })
    }
}

impl Shared {
    /// Whether nothing is open here, and nothing is left to copy back.
    pub fn is_unused(&self) -> bool {
        let open = !locked(&self.handles).is_empty() || !locked(&self.folders).is_empty();
        let files = self.tree().files();
        !open
            && locked(&self.unresolved_renames).is_empty()
            && !files.iter().any(|(_, file)| file.in_use())
            && self.store.dirty().is_empty()
    }

    /// After the last request: all that is left goes back, or is forced to disk for the next mount. A server that is
    /// away is waited for a few times, not once for each file.
    pub fn end(&self) {
        locked(&self.handles).clear();
        // Before anything goes back under a name of an unresolved rename.
        self.resolve_renames();
        let files = self.tree().files();
        let mut may_come_back = true;
        for (ino, file) in files {
            let _gate = file.gate();
            {
                let mut state = file.state();
                (state.handles, state.writers) = (0, 0);
            }
            self.retry(ino, &file);
            let left = || file.state().failed && self.is_down();
            if left() && std::mem::take(&mut may_come_back) {
                self.retry(ino, &file);
            }
            if left() {
                // All that is left would wait for as long: it fails at once from now on, and is forced to disk.
                self.remote.close();
            }
        }
        self.store.trim_last();
        if let Err(error) = self.store.checkpoint() {
            log::note(&format!("cannot force the cache to disk: {}", error.desc()));
        }
    }
}

/// Shown of the root until the server has said what it is.
const UNKNOWN: Attributes = Attributes {
    kind: Kind::Folder,
    size: 0,
    mode: 0o755,
    uid: 0,
    gid: 0,
    atime: Time::whole(0),
    mtime: Time::whole(0),
    more: None,
};

/// What `df` and `findmnt` show as the source of the mount: two mounts differ by it.
fn source(target: &str) -> String {
    // Commas and backslashes end or change an option of fusermount3; what else is no plain letter is of no use in a
    // table.
    let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, ',' | '\\');
    let shown: String = target
        .chars()
        .map(|letter| if plain(letter) { letter } else { '?' })
        .collect();
    format!("oscope-fs:{shown}")
}

fn config(options: &Options, target: &str) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source(target)),
        MountOption::Subtype("oscope".into()),
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    if options.allow_other {
        // Others than the one whose key was used: the kernel has to compare them with the server's owners.
        config.mount_options.push(MountOption::DefaultPermissions);
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(READERS);
    config.clone_fd = true;
    config
}

fn refused(mountpoint: &Path, error: &io::Error) -> Failure {
    let at = mountpoint.display();
    let why = error.raw_os_error();
    let said = error.to_string();
    let remedy = match why {
        Some(libc::ENOENT) if !Path::new("/dev/fuse").exists() => {
            "load the kernel's module: modprobe fuse"
        }
        Some(libc::ENOENT) => "make the mount point first: mkdir -p",
        Some(libc::ENOTDIR) => "choose a folder",
        Some(libc::EBUSY) => "choose another folder, or unmount what is there",
        Some(libc::EACCES)
            if access("/dev/fuse", AccessFlags::R_OK | AccessFlags::W_OK).is_err() =>
        {
            "let users open /dev/fuse, as root: chmod 666 /dev/fuse"
        }
        Some(libc::EACCES | libc::EPERM) => "choose a folder of your own",
        Some(libc::ENOTCONN) => "unmount the dead mount there: oscope-fs umount",
        Some(libc::ENODEV) => "load the kernel's module: modprobe fuse",
        _ if said.contains("user_allow_other") => {
            "put user_allow_other in /etc/fuse.conf, or leave out --allow-other"
        }
        _ => "see that fusermount3 is installed and the folder is yours",
    };
    Failure::remediable(format!("cannot mount on {at}: {said}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_has_no_letter_that_an_option_of_a_mount_cannot_have() {
        assert_eq!(source("me@host:a/b-1"), "oscope-fs:me@host:a/b-1");
        assert_eq!(source("host:a,b c\\\u{e9}\n"), "oscope-fs:host:a?b?c???");
    }
}
