//! Small files that are verified in memory: written in batches, by a second thread where there are many.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{self, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use nix::sys::signal::SigSet;

use super::item::{Contents, Room, contents};
use super::{Item, Receiver};
use crate::dir_cache::DirCache;
use crate::names;
use crate::options::ReceiveMethod;
use crate::partial::{self, Partial};
use crate::receive_methods::{self, unwritten};
use crate::stop::Stop;

/// Files of a batch at most; for so many at once a second thread pays.
const FILES: usize = 64;

/// Bytes of a batch from which on it is written.
const BYTES: usize = 256 << 10;

/// Batches that wait for the second thread at most; the next is written by the first.
const QUEUE: usize = 2;

/// Files verified and not yet written.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    files: Vec<(usize, Range<usize>)>,
}

/// Writes files that are whole and verified.
pub struct Small<'scope, 'all> {
    scope: &'scope Scope<'scope, 'all>,
    /// What the second thread's is like.
    dirs: DirCache<'all>,
    items: &'all [Item],
    trouble: &'all Mutex<Option<Stop>>,
    batch: Batch,
    helper: Option<Helper<'scope>>,
}

struct Helper<'scope> {
    queue: SyncSender<Batch>,
    handle: ScopedJoinHandle<'scope, u64>,
}

impl Receiver<'_, '_> {
    /// A file that is received and verified in memory, then written; `None` if the sender leaves it out.
    pub(super) fn small(
        &mut self,
        item: &Item,
        index: usize,
        waiting: &mut Small,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let size = usize::try_from(item.size).unwrap_or(usize::MAX);
        if waiting.is_full() || !self.link.holds(size) {
            waiting.write(&mut self.dirs)?;
        }
        let (bytes, digest) = match contents(self.link, self.digest, item)? {
            Contents::Whole(bytes, digest) => (bytes, digest),
            Contents::Left(reason) => {
                self.leave(item, index, &reason);
                return Ok(None);
            }
        };
        waiting.add(index, bytes);
        self.meter.method(ReceiveMethod::ReadWrite.name());
        self.meter.moved(&item.name, item.size);
        Ok(Some(digest))
    }
}

impl<'scope, 'all> Small<'scope, 'all> {
    /// Nothing to write yet.
    pub fn new(
        scope: &'scope Scope<'scope, 'all>,
        dirs: DirCache<'all>,
        items: &'all [Item],
        trouble: &'all Mutex<Option<Stop>>,
    ) -> Self {
        Self {
            scope,
            dirs,
            items,
            trouble,
            batch: Batch::default(),
            helper: None,
        }
    }

    /// Take a file of the manifest, by its place there.
    pub fn add(&mut self, place: usize, bytes: &[u8]) {
        let from = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(bytes);
        self.batch.files.push((place, from..self.batch.bytes.len()));
    }

    /// Whether it is time to [`Self::write`].
    pub fn is_full(&self) -> bool {
        self.batch.files.len() >= FILES || self.batch.bytes.len() >= BYTES
    }

    /// Write what was taken, or have it written.
    ///
    /// # Errors
    /// [`Stop`]: one of the files could not be written, now or before.
    pub fn write(&mut self, dirs: &mut DirCache) -> Result<(), Stop> {
        if self.batch.files.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        if batch.files.len() < FILES {
            return batch.write(dirs, self.items);
        }
        if let Some(stop) = self
            .trouble
            .lock()
            .ok()
            .and_then(|mut stop_slot| stop_slot.take())
        {
            return Err(stop);
        }
        if self.helper.is_none() {
            self.helper = self.start_helper();
        }
        let left = match &self.helper {
            Some(helper) => helper.queue.try_send(batch),
            None => Err(TrySendError::Full(batch)),
        };
        match left {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                batch.write(dirs, self.items)
            }
        }
    }

    /// Write the rest, and wait until all is written.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn finish(mut self, dirs: &mut DirCache) -> Result<(), Stop> {
        let batch = std::mem::take(&mut self.batch);
        let own = batch.write(dirs, self.items);
        if let Some(helper) = self.helper.take() {
            drop(helper.queue);
            match helper.handle.join() {
                Ok(calls) => dirs.calls += calls,
                Err(_) => return Err(Stop::here("the thread that writes small files ended")),
            }
        }
        match self
            .trouble
            .lock()
            .ok()
            .and_then(|mut stop_slot| stop_slot.take())
        {
            Some(stop) => Err(stop),
            None => own,
        }
    }

    /// A second thread; none where none is to be had.
    fn start_helper(&self) -> Option<Helper<'scope>> {
        let (queue, batches) = sync_channel(QUEUE);
        let (dirs, items, trouble) = (self.dirs.alike(), self.items, self.trouble);
        let work = move || help(&batches, dirs, items, trouble);
        let thread = Builder::new().name("small files".into());
        let handle = thread.spawn_scoped(self.scope, work).ok()?;
        Some(Helper { queue, handle })
    }
}

/// Write every batch, until one fails: how many system calls that took.
fn help(
    batches: &mpsc::Receiver<Batch>,
    mut dirs: DirCache,
    items: &[Item],
    trouble: &Mutex<Option<Stop>>,
) -> u64 {
    // Signals are for the thread that waits on the connection; taking one here would only delay it.
    let _ = SigSet::all().thread_block();
    while let Ok(batch) = batches.recv() {
        if let Err(stop) = batch.write(&mut dirs, items) {
            if let Ok(mut stop_slot) = trouble.lock() {
                *stop_slot = Some(stop);
            }
            break;
        }
    }
    dirs.calls
}

impl Batch {
    fn write(&self, dirs: &mut DirCache, items: &[Item]) -> Result<(), Stop> {
        for (place, range) in &self.files {
            put(dirs, &items[*place], &self.bytes[range.clone()])?;
        }
        Ok(())
    }
}

/// Write a file and give it its name.
fn put(dirs: &mut DirCache, item: &Item, bytes: &[u8]) -> Result<(), Stop> {
    let entry = item.entry();
    let (folder, _) = names::split(&item.name);
    let (parent, granted) = dirs.place(folder).map_err(|reason| item.refused(reason))?;
    let mut calls = 0;
    if item.room == Room::Clear
        && partial::put_whole(parent, granted, &entry, bytes, &mut calls)
            .map_err(|error| unwritten(&item.name, &error))?
    {
        dirs.calls += calls;
        return Ok(());
    }
    let mut partial =
        Partial::open(parent, &entry, item.origin).map_err(|reason| item.refused(reason))?;
    if !partial.is_new {
        partial.keep(0).map_err(|reason| item.refused(reason))?;
    }
    if !bytes.is_empty() {
        receive_methods::write(&mut partial.calls, &partial.file, &item.name, bytes, 0)
            .inspect_err(|_| {
                // A small file is not kept in part; the error to report is that the disk is full.
                let _ = partial.remove(parent);
            })?;
    }
    if let Err(reason) = partial.finish(parent, &entry, item.replaces()) {
        let _ = partial.remove(parent);
        return Err(item.refused(reason));
    }
    dirs.calls += calls + partial.calls + 1;
    Ok(())
}
