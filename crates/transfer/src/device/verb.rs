//! `--device` of the verbs `send` and `receive`.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::node;
use super::session::{self, Done, Options};
use super::uapi::{ALLOCATED, Descriptor, MAPPED, PTE};
use crate::dir_cache::Folder;
use crate::observer::{Event, Observer};
use crate::sender;
use crate::source::Source;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Between a transfer that failed and the next try to meet a sender.
const PAUSE: Duration = Duration::from_secs(1);

/// What the verbs lend to it.
pub struct Verb<'a> {
    /// How both sides go about it.
    pub options: Options,
    /// Whether every file is reported at the end.
    pub list: bool,
    /// Hears what happens.
    pub observer: &'a dyn Observer,
}

impl Verb<'_> {
    /// Send files to the one receiver that comes.
    ///
    /// # Errors
    /// Names that cannot all be had at once; what `session::check` refuses; nobody came in time; the connection broke;
    /// a file could not be read.
    pub fn send(&self, address: SocketAddr, files: &[Source]) -> Result<(), Failure> {
        sender::check(files).map_err(|stop| stop.error)?;
        session::check(node::SENDER, &self.options)?;
        let done = session::send(address, files, &self.options, &mut |event| {
            self.observer.hear(event)
        })?;
        self.conclude(&done);
        Ok(())
    }

    /// Receive what one sender sends or, unless `once`, from further senders until asked to stop: then each failure of
    /// one is reported.
    ///
    /// # Errors
    /// `Failure::Unavailable` without the device; `Failure::Failed` if the first sender cannot be met, or the one
    /// transfer failed.
    pub fn receive(&self, address: SocketAddr, folder: &Folder, once: bool) -> Result<(), Failure> {
        session::check(node::RECEIVER, &self.options)?;
        self.observer
            .note(&format!("waiting for a sender at {address}"));
        let mut met = false;
        loop {
            let received = session::receive(address, folder, &self.options, &mut |event| {
                met |= matches!(event, Event::Peer(_));
                self.observer.hear(event);
            });
            match received {
                Ok(Some(done)) => {
                    self.conclude(&done);
                    if once {
                        return Ok(());
                    }
                }
                Ok(None) if once => return Err(Failure::failed("interrupted")),
                Ok(None) => return Ok(()),
                Err(error) if once || !met || cancel::requested() => return Err(error),
                Err(error) => {
                    self.observer.hear(Event::Failed(&error));
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn conclude(&self, done: &Done) {
        for page in &done.pages {
            self.observer.hear(Event::Page(&fields(page)));
        }
        self.observer
            .conclude(self.list, &done.files, &done.here, None);
    }
}

/// A page's descriptor; bits in hexadecimal, the entry and flags as the kernel has them.
fn fields(page: &Descriptor) -> [(&'static str, Value); 7] {
    let hex = |number: u64| json!(format!("{number:#x}"));
    let pte = (page.flags & PTE != 0).then(|| hex(page.pte));
    [
        ("offset", json!(page.offset)),
        ("address", hex(page.address)),
        ("pfn", hex(page.pfn)),
        ("pte", pte.unwrap_or_default()),
        ("page_flags", hex(page.page_flags)),
        ("refcount", json!(page.refcount)),
        ("mapcount", json!(page.mapcount)),
    ]
}

impl Descriptor {
    /// Whether the page is there, in the range of a mapping of the caller, and in a page table.
    pub fn is_mapped(&self) -> bool {
        self.flags & (ALLOCATED | MAPPED) == ALLOCATED | MAPPED && self.mapcount > 0
    }
}
