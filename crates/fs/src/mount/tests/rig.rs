//! A server, a cache and a mount, none of which outlives its test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use tempfile::TempDir;

use crate::mount::{Mounted, Options, Shared};
use crate::remote::{Limits, Remote};
use crate::store::Store;
use crate::testing::{LIMITS, Server};
use oscope_sys::error::Failure;

/// Longer than any wait of these tests; a wait that is this long has failed.
const LONG: Duration = Duration::from_secs(60);

/// What operations may take where the server is away in a test; what is to succeed meanwhile has to be as fast.
pub const IMPATIENT: Limits = Limits {
    operation: Duration::from_secs(3),
    connect: Duration::from_secs(10),
};

/// One mount of one folder of one server. Unmounted when dropped, lazily if a test left a file open.
pub struct Rig {
    pub server: Server,
    /// The server's folder, as the server sees it.
    pub there: PathBuf,
    /// The mount point.
    pub here: PathBuf,
    pub cache: PathBuf,
    pub options: Options,
    limits: Limits,
    running: Option<Running>,
    _scratch: TempDir,
}

struct Running {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<(), Failure>>,
}

/// Passthrough where it can be had, and attributes that are always asked for anew.
pub fn options() -> Options {
    Options {
        attribute_time: Duration::ZERO,
        fetch_ahead_from: Duration::MAX,
        passthrough: true,
        allow_other: false,
        read_only: false,
    }
}

/// The same without passthrough.
pub fn through_daemon() -> Options {
    Options {
        passthrough: false,
        ..options()
    }
}

impl Rig {
    pub fn new(options: Options) -> Self {
        Self::with(options, LIMITS)
    }

    /// One whose server goes away.
    pub fn impatient(options: Options) -> Self {
        Self::with(options, IMPATIENT)
    }

    fn with(options: Options, limits: Limits) -> Self {
        let server = Server::new();
        let there = server.folder("served");
        // A prefix of its own: it distinguishes what a killed test leaves mounted from others' work.
        let scratch = tempfile::Builder::new()
            .prefix("oscope-fs-mount-")
            .tempdir()
            .unwrap();
        let (here, cache) = (scratch.path().join("mount"), scratch.path().join("cache"));
        fs::create_dir(&here).unwrap();
        let mut rig = Self {
            server,
            there,
            here,
            cache,
            options,
            limits,
            running: None,
            _scratch: scratch,
        };
        rig.mount();
        rig
    }

    pub fn mount(&mut self) {
        let target = self.server.target(&self.there);
        let store = Store::open(&self.cache, &target.key(), 8 << 30).unwrap();
        self.mount_over(store);
    }

    /// Mounts over a store that is open already.
    pub fn mount_over(&mut self, store: Store) {
        let target = self.server.target(&self.there);
        let remote = Remote::connect(target, self.limits).unwrap();
        let mounted = Mounted::new(Arc::new(remote), Arc::new(store), self.options.clone());
        let (shared, here) = (mounted.shared(), self.here.clone());
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || mounted.run(&here, move || ready.send(()).unwrap()));
        self.running = Some(Running { shared, thread });
        is_ready.recv_timeout(LONG).expect("the mount is not ready");
    }

    /// Unmounts in order, and waits until all is copied back or written down.
    pub fn unmount(&mut self) {
        // Another test's child has this one's files open until it executes its program.
        let until = Instant::now() + LONG;
        while let Err(error) = umount2(&self.here, MntFlags::empty()) {
            assert!(error == Errno::EBUSY && Instant::now() < until, "{error}");
            thread::sleep(Duration::from_millis(5));
        }
        let running = self.running.take().unwrap();
        running.thread.join().unwrap().unwrap();
    }

    pub fn shared(&self) -> &Shared {
        &self.running.as_ref().unwrap().shared
    }

    /// A path in the mount.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.here.join(name)
    }

    /// The same path on the server.
    pub fn on(&self, name: impl AsRef<Path>) -> PathBuf {
        self.there.join(name)
    }

    /// The conflict copies at the top of the server's folder.
    pub fn conflicts(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(&self.there)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        all.filter(|path| path.to_string_lossy().contains(".conflict-"))
            .collect()
    }

    pub fn passthrough(&self) -> bool {
        self.shared().report().passthrough
    }

    /// A file on the server with a time that was long ago.
    pub fn serve(&self, name: impl AsRef<Path>, content: &[u8]) {
        let path = self.on(name);
        fs::write(&path, content).unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(1000);
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = umount2(&self.here, MntFlags::MNT_DETACH);
        if let Some(running) = self.running.take() {
            // A session whose thread hangs must fail the test, not hang it.
            until("the session ends", || running.thread.is_finished());
        }
    }
}

/// Waits until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !so() {
        assert!(
            Instant::now() < end || thread::panicking(),
            "in vain until {what}"
        );
        if Instant::now() >= end {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The error number of a failed operation.
pub fn number<T>(answer: std::io::Result<T>) -> i32 {
    answer
        .err()
        .and_then(|error| error.raw_os_error())
        .expect("it did not fail")
}
