//! How the kernel's requests are dealt with: at once, or by a worker; and what is agreed with the kernel at the start.

use std::ffi::OsString;
use std::sync::Arc;

use fuser::{InitFlags, KernelConfig, ReplyEmpty, ReplyEntry};
use nix::errno::Errno;

use super::Shared;
use super::replies::{kernel_errno, reply_entry};
use super::workers::Workers;

/// The requests' way to the mount's parts.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    workers: Workers,
}

impl Session {
    /// A session over these parts; `workers` are closed by who made them.
    pub fn new(shared: Arc<Shared>, workers: Workers) -> Self {
        Self { shared, workers }
    }

    pub(super) fn count(&self, operation: &'static str) {
        self.shared.report_state.count(operation);
    }

    /// Does what may ask the server here, or has a worker do it if too many of the session's threads wait already.
    pub(super) fn later(&self, job: impl FnOnce(&Shared) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        self.workers.here_or_run(move || job(&shared));
    }

    /// Has small files fetched that will be opened next by who opened this one to read it.
    pub(super) fn fetch_ahead(&self, ino: u64) -> impl FnOnce() + Send + 'static {
        let (shared, workers) = (Arc::clone(&self.shared), self.workers.clone());
        move || {
            let Some((folder, names)) = shared.next_to_fetch(ino) else {
                return;
            };
            fetch(&shared, &workers, folder, names);
            let Some(next) = shared.tree().next_folder(ino) else {
                return;
            };
            let to_fetch = workers.clone();
            workers.run(move || {
                let names = shared.list_next(next);
                fetch(&shared, &to_fetch, next, names);
            });
        }
    }

    /// Has small files fetched that will be opened next by who looked this name up.
    pub(super) fn fetch_behind(
        &self,
        parent: u64,
        name: OsString,
    ) -> impl FnOnce() + Send + 'static {
        let (shared, workers) = (Arc::clone(&self.shared), self.workers.clone());
        move || {
            let names = shared.first_to_fetch(parent, &name);
            fetch(&shared, &workers, parent, names);
        }
    }

    pub(super) fn empty(
        &self,
        reply: ReplyEmpty,
        job: impl FnOnce(&Shared) -> Result<(), Errno> + Send + 'static,
    ) {
        self.later(move |shared| match job(shared) {
            Ok(()) => reply.ok(),
            Err(why) => reply.error(kernel_errno(why)),
        });
    }

    pub(super) fn entry(
        &self,
        reply: ReplyEntry,
        job: impl FnOnce(&Shared) -> Result<u64, Errno> + Send + 'static,
    ) {
        self.later(move |shared| reply_entry(shared, reply, job(shared)));
    }

    /// Agrees with the kernel on what both can, and records why there is no passthrough where there is none.
    pub(super) fn agree(&self, config: &mut KernelConfig) {
        // Each is a help alone: a kernel that lacks one sends other requests instead.
        let wanted = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
        ];
        for flag in wanted {
            let _ = config.add_capabilities(flag);
        }
        if !self.shared.options.passthrough {
            self.shared
                .report_state
                .no_passthrough("it is switched off");
        } else if self.shared.store.lies_in_memory() {
            // With the kernel's own pages each change of a mapping comes as a write.
            let why =
                "the cache lies in memory, where not every store through a mapping is reported";
            self.shared.report_state.no_passthrough(why);
        } else if config
            .add_capabilities(InitFlags::FUSE_PASSTHROUGH)
            .is_err()
        {
            self.shared
                .report_state
                .no_passthrough("this kernel has none (it needs Linux 6.9)");
        } else if config.set_max_stack_depth(1).is_err() {
            self.shared
                .report_state
                .no_passthrough("the kernel refused the stack depth");
        }
    }
}

/// Has workers fetch these names of a folder.
fn fetch(shared: &Arc<Shared>, workers: &Workers, parent: u64, names: Vec<OsString>) {
    for name in names {
        let shared = Arc::clone(shared);
        workers.run(move || shared.fetch_ahead(parent, &name));
    }
}
